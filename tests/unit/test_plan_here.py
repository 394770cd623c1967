"""Plans for this machine: when one is made, what it holds, and what it says of keys that only a cluster has use for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plan_case import SHORT, Case

from kubectl_nrl.plan import Options

HERE = "profile: local\nlaunch: {entrypoint: python run.py --config recipe.yaml}\n"


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def has(lines: list[str], *words: str) -> bool:
    return any(all(w in line for w in words) for line in lines)


@pytest.mark.parametrize(
    ("infra", "options"),
    [
        (HERE, Options()),
        (HERE, Options(mode="raycluster")),
        (SHORT, Options(local=True)),
        (SHORT, Options(local=True, mode="rayjob")),
    ],
)
def test_it_is_for_this_machine_by_flag_or_by_profile(case: Case, infra: str, options: Options) -> None:
    plan = case.plan(infra, options=options)
    assert (plan.kind, plan.launch.submitter, plan.objects) == ("local", "local", ())
    assert [(role.name, role.cluster, role.kind) for role in plan.roles] == [("training", "jdoe-grpo", "local")]
    assert "python run.py --config" in plan.launch.script


def test_the_code_is_where_it_lies(case: Case) -> None:
    assert case.plan(HERE, options=Options(repo_root="/src")).launch.working_dir == "/src"
    assert case.plan(HERE).launch.working_dir is None
    lines = case.problems(SHORT, options=Options(local=True, repo_root="/src"))
    assert has(lines, "note: codeSource image has no meaning on this machine", "runs in /src")


def test_roles_and_daemons_are_those_of_the_infra_file(case: Case) -> None:
    more = "kuberay:\n  training: {name: t}\n  generation: {daemon: {entrypoint: serve, healthCheckUrl: 'http://x'}}\n"
    plan = case.plan(HERE + more)
    assert [(role.name, role.cluster) for role in plan.roles] == [("training", "t"), ("generation", "t-generation")]
    assert [(d.role, d.entrypoint, d.health.url) for d in plan.daemons] == [("generation", "serve", "http://x")]


def test_waiting_is_the_default_whatever_the_file_says_of_its_mode(case: Case) -> None:
    batch = HERE.replace("launch: {", "launch: {runMode: batch, ")
    assert case.plan(batch).wait
    assert not case.plan(HERE, options=Options(run_mode="batch")).wait


def test_keys_for_pods_are_named_in_one_note(case: Case) -> None:
    more = "workspace: {kind: pvc, pvcName: w}\nscheduler: {kind: kai, queue: q}\n"
    lines = case.problems(HERE + more)
    assert [line for line in lines if "do nothing" in line] == [
        "note: on this machine these keys of the infra file do nothing: scheduler, workspace"
    ]
    assert not has(lines, "error")


def test_a_cluster_that_exists_elsewhere_cannot_be_attached_to(case: Case) -> None:
    lines = case.problems(HERE.replace("launch: {", "launch: {attach: {gym: there}, "))
    assert has(lines, "i.yaml:2", "error: launch.attach.gym: there is on a cluster")


def test_a_script_of_any_length_fits(case: Case) -> None:
    import base64
    import random

    text = base64.b64encode(random.Random(1).randbytes(400_000)).decode()
    infra: Any = f"profile: local\nlaunch: {{entrypoint: 'python run.py --config r.yaml # {text}'}}\n"
    assert text in case.plan(infra).launch.script


def test_gpu_arithmetic_is_left_to_ray(case: Case) -> None:
    assert not has(case.problems(HERE, "cluster: {num_nodes: 4, gpus_per_node: 8}\n"), "error")
