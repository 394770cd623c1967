"""`check` from outside: the screen, its data, manifests, files, explanations, and what plugins may refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from kubectl_nrl.script import decode
from kubectl_nrl.testing import Project

RECIPE = "cluster: {num_nodes: 2, gpus_per_node: 4}\npolicy: {lr: 1.0e-4}\n"
INFRA = """
profile: gb300
image: reg.example/nemo-rl:v1
scheduler: {kind: kai, queue: rl}
launch:
  codeSource: image
  codePath: /opt/nemo-rl
  env: {RATE: 1e-4, SURE: y}
  entrypoint: |
    set -x
    python -u examples/run_grpo.py --config recipe.yaml
"""
CHECK = "check recipe.yaml --infra infra.yaml"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project({"recipe.yaml": RECIPE, "infra.yaml": INFRA}, path=tmp_path)


def test_the_screen_says_what_will_run(project: Project) -> None:
    out = project.run(CHECK).ok().out
    for words in (
        "RayJob rl-user-recipe-",
        "namespace  default (unless the kubeconfig context names another)",
        "scheduler  kai, queue rl",
        "dra        computedomain, roce",
        "3 pods, 8 GPUs",
        "workers  2 x 4 GPUs, reg.example/nemo-rl:v1",
        "head     1 x CPU",
        "code       image, runs in /opt/nemo-rl",
        "submitter  rayjob HTTPMode",
        "workers and their GPUs go the moment the job ends",
        "3600 s after the end",
        '  python -u examples/run_grpo.py --config "$NRL_RECIPE"',
        "offline: made for Kubernetes",
    ):
        assert words in out


def test_the_same_answer_every_time(project: Project) -> None:
    project.time = project.time.replace(year=2027)
    first = project.run(CHECK + " -o json").ok().out
    project.suffix = "othr"
    assert project.run(CHECK + " -o json").ok().out == first


@pytest.mark.parametrize("flags", ["", "--explain", "--raycluster", "-n rl"])
def test_its_data_is_as_its_schema_says(flags: str, project: Project) -> None:
    data = project.run(f"{CHECK} {flags} -o json").ok().result("check")
    assert data["gpus"] == 8
    assert data["kind"] == ("RayCluster" if flags == "--raycluster" else "RayJob")
    assert data["namespace"]["from"] == ("flag" if flags == "-n rl" else "default")
    assert ("explain" in data) is (flags == "--explain")
    assert project.run(f"{CHECK} {flags} -o yaml").ok().documents == [data]


def test_overrides_reach_both_files(project: Project) -> None:
    data = project.run(CHECK + " cluster.num_nodes=4 infra.namespace=team infra.scheduler.queue=x").ok().out
    assert "4 x 4 GPUs" in data
    assert "namespace  team (from the infra file)" in data


def test_segments_stand_in_one_line(project: Project) -> None:
    project.write("infra.yaml", INFRA + "kuberay: {training: {segmentSize: 2}}\n")
    out = project.run(CHECK + " cluster.num_nodes=8").ok().out
    assert re.search(r"workers  4 segments of 2 x 4 GPUs, \S+ \(worker-segment-0 to worker-segment-3\)", out)
    assert "9 pods, 32 GPUs" in out


def test_manifests_are_what_kubernetes_reads(project: Project) -> None:
    outcome = project.run(CHECK + " --manifests-only").ok()
    kinds = [d["kind"] for d in outcome.documents]
    assert kinds == ["ComputeDomain", "ResourceClaimTemplate", "RayJob"]
    job = outcome.documents[-1]
    script = decode(job["spec"]["entrypoint"])
    assert script
    assert "run_grpo.py" in script
    lines = outcome.out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("  entrypoint: "))
    assert lines[at + 1 : at + 4] == [
        "  # which runs:",
        "  #   set -x",
        '  #   python -u examples/run_grpo.py --config "$NRL_RECIPE"',
    ]
    listed = project.run(CHECK + " --manifests-only -o json").ok().json
    assert listed["kind"] == "List"
    assert listed["items"] == outcome.documents


def test_a_file_named_by_o(project: Project) -> None:
    screen = project.run(CHECK + " -o out.json").ok()
    assert screen.out == ""
    assert "wrote" in screen.err
    assert json.loads(project.read("out.json"))["gpus"] == 8
    project.run(CHECK + " --manifests-only -o out.txt").ok()
    assert [d["kind"] for d in yaml.safe_load_all(project.read("out.txt"))][-1] == "RayJob"
    project.run(CHECK + " --manifests-only -o out.yaml --format json").ok()
    assert json.loads(project.read("out.yaml"))["kind"] == "List"
    for place in ("absent/out.yaml", "."):
        outcome = project.run(f"{CHECK} -o {place}")
        assert (outcome.exit, outcome.out) == (2, "")


def test_explain_names_who_set_a_field(project: Project) -> None:
    out = project.run(CHECK + " --explain").ok().out
    assert "schedulerName: kai-scheduler  <- scheduler:kai" in out
    assert "<- profile:gb300" in out
    assert "image: reg.example/nemo-rl:v1  <- infra.yaml:2" in out


def test_the_schema_accepts_the_example_and_refuses_a_typo(project: Project) -> None:
    schema = project.run("check --schema").ok()
    assert project.run("check --schema -o yaml").ok().documents == [schema.json]
    jsonschema.Draft202012Validator.check_schema(schema.json)
    assert schema.json["properties"]["networking"]
    assert "networking" not in project.run("check --schema -p no:section_networking").ok().json["properties"]


def test_every_problem_at_once_with_its_place(project: Project) -> None:
    project.write("infra.yaml", INFRA.replace("queue: rl", "queue: 7, kueue: 1").replace("codePath", "codepath"))
    outcome = project.run(CHECK)
    assert outcome.exit == 2
    places = [line for line in outcome.err.splitlines() if line.startswith("infra.yaml:")]
    assert len(places) >= 3, outcome
    assert all(": error: " in line for line in places)
    data = project.run(CHECK + " -o json").result("error")
    assert {p["line"] for p in data["problems"]} >= {3, 6}


def test_validate_is_another_word_for_it(project: Project) -> None:
    assert project.run(CHECK.replace("check", "validate")).out == project.run(CHECK).out
    assert "validate" not in project.run("--help").out


REFUSES = """
from kubectl_nrl import hookimpl
from kubectl_nrl.api import Origin, Problem

@hookimpl
def nrl_{hook}:
    yield Problem("not on fridays", Origin("site.yaml", 3), severity="{severity}")
"""


@pytest.mark.parametrize("hook", ["config_loaded(config)", "plan_built(plan)"])
def test_a_plugin_may_refuse_or_warn(hook: str, tmp_path: Path) -> None:
    files = {"recipe.yaml": RECIPE, "infra.yaml": INFRA}
    refused = Project(files, path=tmp_path / "a", plugin=REFUSES.format(hook=hook, severity="error")).run(CHECK)
    assert (refused.exit, refused.out) == (2, "")
    assert "site.yaml:3: error: not on fridays" in refused.err
    warned = Project(files, path=tmp_path / "b", plugin=REFUSES.format(hook=hook, severity="warning")).run(CHECK).ok()
    assert "site.yaml:3: warning: not on fridays" in warned.err


def test_rubbish_from_such_a_hook_names_the_plugin(tmp_path: Path) -> None:
    plugin = "from kubectl_nrl import hookimpl\n@hookimpl\ndef nrl_plan_built(plan):\n    return ['no']\n"
    outcome = Project({"recipe.yaml": RECIPE, "infra.yaml": INFRA}, path=tmp_path, plugin=plugin).run(CHECK)
    assert outcome.exit == 2
    assert "test_plugin.py\": nrl_plan_built answered str 'no', not a Problem" in outcome.err


SECRET = "hf_Xy0123456789"


@pytest.mark.parametrize("form", ["text", "json", "yaml"])
@pytest.mark.parametrize("verb", ["check", "check --manifests-only", "check --explain", "run --dry-run"])
@pytest.mark.parametrize(
    "way",
    [
        "infra.launch.env.HF_TOKEN=" + SECRET,
        "infra.launch.env={HF_TOKEN: " + SECRET + "}",
        "infra.launch.env.HF_TOKEN=${oc.env:MY_TOKEN}",
        "infra.launch.entrypoint='HF_TOKEN=" + SECRET + " python x.py --config recipe.yaml'",
    ],
)
def test_a_literal_secret_is_refused_and_never_printed(verb: str, form: str, way: str, project: Project) -> None:
    words = [*verb.split(), "recipe.yaml", "--infra", "infra.yaml", "-v", "-o", form, way]
    outcome = project.run(words, env={"MY_TOKEN": SECRET})
    assert outcome.exit == 2, outcome
    assert SECRET not in outcome.out + outcome.err


def test_a_secret_in_a_file_is_refused_by_its_line(project: Project) -> None:
    project.write("infra.yaml", INFRA.replace("SURE: y", f"WANDB_API_KEY: {SECRET}"))
    outcome = project.run(CHECK)
    assert outcome.exit == 2
    assert "infra.yaml:7:" in outcome.err
    assert "secretKeyRef" in outcome.err
    assert SECRET not in outcome.err
