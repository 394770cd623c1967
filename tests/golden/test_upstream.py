"""Files of the upstream tool keep working unchanged: what each of them renders, word for word.

The files in upstream/ use every key of that format and none that is only this program's; both are checked here, so that
a key which is added to the schema has to be put on one side or the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packed import last_applied, launch_script, masked

from kubectl_nrl.schema import builtin_fragments, infra_schema, property_paths
from kubectl_nrl.testing import RUN_ID, Outcome, Project, golden

HERE = Path(__file__).parent
FILES = HERE / "upstream"
EXPECTED = HERE / "expected" / "upstream"

GB300 = "grpo-4n4g.gb300"
CASES = {
    "4n": f"grpo-4n4g.yaml --infra {GB300}.infra.yaml",
    "4n-long-lived": f"grpo-4n4g.yaml --infra {GB300}.infra.yaml --raycluster",
    "4n-prod": f"grpo-4n4g.yaml --infra {GB300}.prod.infra.yaml",
    "4n-prod-long-lived": f"grpo-4n4g.yaml --infra {GB300}.prod.infra.yaml --raycluster",
    "48n": "grpo-48n4g.yaml --infra grpo-48n4g.gb300.infra.yaml",
    "48n-long-lived": "grpo-48n4g.yaml --infra grpo-48n4g.gb300.infra.yaml --raycluster",
    "64n-prod": "grpo-64n4g.yaml --infra grpo-64n4g.gb300.prod.infra.yaml",
    "disagg": "disagg.yaml --infra disagg.infra.yaml --raycluster",
    "gym-disagg": "disagg.yaml --infra gym-disagg.prod.infra.yaml --raycluster",
    "sections": "disagg.yaml --infra sections.infra.yaml --raycluster",
    "bundled": "bundled.yaml",
    "bundled-with-defaults": "bundled.yaml",
}

#: Keys of the schema that upstream does not have (design of the files: what is marked *new* there).
NEW = {
    "profile", "dra", "secrets", "policies", "policies.nemorl",
    "scheduler.topology", "scheduler.requiredPlacement", "scheduler.preferredPlacement", "scheduler.priority",
    "workspace.codeSubPath", "submit.submissionMode",
    "launch.recipeSource", "launch.logDir", "launch.deadlineSeconds", "launch.preRunningDeadlineSeconds",
    "launch.backoffLimit",
    "kuberay.training.workers", "kuberay.generation.workers", "kuberay.gym.workers",
}  # fmt: skip


#: What the files list to be uploaded, of the checkout in which these commands are meant to be run.
UPLOADED = {
    "nemo_rl/__init__.py": "x = 1\n", "examples/run_grpo.py": "import nemo_rl\n", "tests/check_metrics.py": "y = 2\n",
    "3rdparty/Gym-workspace/Gym/nemo_gym/__init__.py": "",
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    files = {path.name: path.read_text() for path in FILES.glob("*.yaml")}
    return Project({**files, **UPLOADED}, path=tmp_path_factory.mktemp("upstream"))


def _check(project: Project, case: str, *flags: str) -> Outcome:
    defaults = {"NRL_K8S_DEFAULTS": "defaults.yaml"} if case.endswith("-with-defaults") else {}
    return project.run(f"check {CASES[case]} {' '.join(flags)}", env=defaults).ok()


@pytest.mark.parametrize("case", CASES)
def test_what_check_says(project: Project, case: str) -> None:
    outcome = _check(project, case)
    said = f"$ {outcome.command}\n{outcome.err}\n{outcome.out}".replace(str(project.path), "/the/checkout")
    golden(EXPECTED / f"{case}.txt", said)


@pytest.mark.parametrize("case", CASES)
def test_what_is_rendered(project: Project, case: str) -> None:
    golden(EXPECTED / f"{case}.yaml", masked(_check(project, case, "--manifests-only").out))


@pytest.mark.parametrize("case", CASES)
def test_what_is_packed_is_what_was_rendered(project: Project, case: str) -> None:
    for manifest in _check(project, case, "--manifests-only").documents:
        if "kubectl-nrl/last-applied" in manifest["metadata"]["annotations"]:
            packed = last_applied(manifest)
            assert _without_run(packed) == packed
            assert packed == _without_run(manifest)
        if "entrypoint" in manifest["spec"]:
            assert f"NRL_K8S_RUN_ID={manifest['spec']['jobId']}" in launch_script(manifest)


def _without_run(value: Any) -> Any:
    if isinstance(value, dict):
        dropped = ("kubectl-nrl/run", "kubectl-nrl/last-applied", "kubectl-nrl/submission", "jobId")
        return {key: _without_run(item) for key, item in value.items() if key not in dropped}
    return [_without_run(item) for item in value] if isinstance(value, list) else value


def test_two_runs_of_one_file_share_no_name(project: Project) -> None:
    line = f"run {CASES['48n']} --dry-run"
    first, second = project.run(line).ok(), project.run(f"{line} --run-id 20260102-030405-twos").ok()
    names = [{(d["kind"], d["metadata"]["name"]) for d in outcome.documents} for outcome in (first, second)]
    shared = {kind for kind, _ in names[0] & names[1]}
    # A Deployment and its Service are named by the person, since others look them up by that name.
    assert shared == {"Deployment", "Service"}
    assert RUN_ID[-4:] in first.out


def _used(value: Any, at: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            here = f"{at}.{key}" if at else str(key)
            yield here
            yield from _used(item, here)


def _all_used() -> set[str]:
    found: set[str] = set()
    for path in FILES.glob("*.yaml"):
        data = yaml.safe_load(path.read_text())
        wrapped = path.name.endswith(".infra.yaml") or path.name == "defaults.yaml"
        for key in _used(data.get("infra", data if wrapped else {})):
            parts = key.split(".")
            found.add(key)
            if parts[0] == "deployments" and len(parts) > 1:
                found.add(".".join(["deployments", "*", *parts[2:]]))
    return found


def _schema_keys() -> set[str]:
    return {path for path, _ in property_paths(infra_schema(builtin_fragments()))}


def _family(path: str) -> str:
    """The roles and their pods have one schema: a key used for one of them is shown."""
    parts = path.split(".")
    return ".".join([parts[0], "*", *parts[2:]]) if parts[0] in ("kuberay", "resources") and len(parts) > 2 else path


def test_each_key_of_that_format_is_used() -> None:
    used = {_family(path) for path in _all_used()}
    assert {path for path in _schema_keys() - NEW if _family(path) not in used} == set()


def test_none_is_used_that_is_only_ours() -> None:
    assert _schema_keys() >= NEW
    assert _all_used() & NEW == set()
