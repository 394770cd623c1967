"""What a Plan says of daemons: their rendezvous, what makes one another, and where the other roles' heads are watched."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_case import SHORT, Case

from kubectl_nrl.plan import Options
from kubectl_nrl.plan.daemons import rendezvous_id


@pytest.mark.parametrize(
    ("entrypoint", "env", "found"),
    [
        ("gym --job-id a-1 --port 9", {}, "a-1"),
        ("gym --job-id=a-1", {}, "a-1"),
        ("gym --job-id 'a-1'; true", {}, "a-1"),
        ("export DISAGG_JOB_ID=a-1\ngym", {}, "a-1"),
        ("gym", {"DISAGG_JOB_ID": "a-1"}, "a-1"),
        ("gym --job-id $DISAGG_JOB_ID", {"DISAGG_JOB_ID": "a-1"}, "a-1"),
        ('gym --job-id "${DISAGG_JOB_ID}"', {"DISAGG_JOB_ID": "a-1"}, "a-1"),
        ("gym --job-id $(hostname)", {}, ""),
        ("gym --job-id A_1", {}, ""),
        ("gym", {}, ""),
    ],
)
def test_the_id_under_which_the_roles_meet(entrypoint: str, env: dict[str, str], found: str) -> None:
    assert rendezvous_id(entrypoint, env) == found


ROLES = (
    SHORT
    + """
namespace: ns
kuberay:
  training: {name: t}
  gym:
    name: g
    daemon: {entrypoint: gym --job-id $(hostname)}
"""
)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_an_id_that_cannot_be_known_here_is_said(case: Case) -> None:
    assert any("--job-id of kuberay.gym.daemon" in problem.message for problem in case.plan(ROLES).problems)


def test_the_heads_of_the_other_roles_are_watched_declared_or_attached(case: Case) -> None:
    script = case.plan(ROLES.replace("launch: {", "launch: {attach: {generation: shared}, ")).launch.script
    assert "gym=g-head-svc.ns.svc:6379,8265" in script
    assert "generation=shared-head-svc.ns.svc:6379,8265" in script
    assert "training=" not in script


def test_a_head_with_a_service_and_ports_of_its_own_is_watched_there(case: Case) -> None:
    head = """
    spec:
      headGroupSpec:
        headService: {metadata: {name: mine}}
        rayStartParams: {port: "7000", dashboard-port: "9000"}
        template: {spec: {containers: [{name: head}]}}
"""
    assert "gym=mine.ns.svc:7000,9000" in case.plan(ROLES.rstrip() + head).launch.script


@pytest.mark.parametrize(
    "infra",
    [
        SHORT,  # one role
        ROLES.replace("launch: {", "launch: {peerWatcher: false, "),
        ROLES.replace("profile: generic", "profile: local"),  # a supervisor sees to it
    ],
)
def test_without_other_roles_or_where_it_is_switched_off_nothing_is_watched(case: Case, infra: str) -> None:
    script = case.plan(infra, options=Options(mode="raycluster")).launch.script
    assert script
    assert "peer_watch" not in script
