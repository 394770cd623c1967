"""Permissions: exactly the verbs of this Plan and these flags are asked for, and what a missing one costs is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_cluster import FakeCluster
from plan_case import SHORT, WRITTEN, Case

from kubectl_nrl.plan import Options
from kubectl_nrl.preflight import Need, Wanted, permission_checks, role_rules
from kubectl_nrl.preflight.permissions import plan_needs, rayjob_needs

RECIPE = "cluster: {num_nodes: 2, gpus_per_node: 4}\n"
NVLINK = WRITTEN.replace(
    "          spec:\n            containers:\n            - name: ray",
    "          spec:\n            resourceClaims: [{name: compute-domain-channel}]\n            containers:\n            - name: ray",
)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


WAITING = Wanted()


def needs(plan: object, wanted: Wanted = WAITING) -> dict[str, bool]:
    found = plan_needs(plan, wanted, FakeCluster().plural)  # type: ignore[arg-type]
    return {f"{need.verb} {need.what}": need.required for need in found}


def test_a_plain_run_needs_to_make_and_watch_its_rayjob_alone(case: Case) -> None:
    found = needs(case.plan())
    required = {name for name, needed in found.items() if needed}
    assert required == {f"{verb} rayjobs.ray.io" for verb in ("create", "get", "list", "watch")}
    assert {"create pods/portforward", "delete rayclusters.ray.io", "list events"} <= set(found) - required
    assert not any("computedomains" in name or "exec" in name for name in found)


@pytest.mark.parametrize(
    ("wanted", "required", "comfort"),
    [
        (Wanted(wait=False), set(), {"watch rayjobs.ray.io"}),
        (
            Wanted(uploads=True),
            {"create pods/portforward", "patch rayjobs.ray.io", "get rayclusters.ray.io", "list pods"},
            set(),
        ),
        (Wanted(replace=True), {"delete rayjobs.ray.io"}, set()),
    ],
)
def test_flags_decide_what_a_run_is_refused_without(
    case: Case, wanted: Wanted, required: set[str], comfort: set[str]
) -> None:
    found = needs(case.plan(), wanted)
    assert all(found[name] for name in required)
    assert not any(found[name] for name in comfort)


def test_children_need_to_be_made_owned_and_what_a_controller_makes_of_them_to_be_seen(case: Case) -> None:
    found = needs(case.plan(NVLINK, RECIPE))
    assert found["create computedomains.resource.nvidia.com"] is True
    assert found["get resourceclaimtemplates.resource.k8s.io"] is True
    assert found["patch computedomains.resource.nvidia.com"] is False
    assert "create resourceclaimtemplates.resource.k8s.io" not in found


def test_long_lived_clusters_need_other_verbs(case: Case) -> None:
    found = needs(case.plan(SHORT, options=Options(mode="raycluster")))
    assert found["create rayclusters.ray.io"] is True
    assert found["create pods/portforward"] is True
    executing = needs(case.plan(SHORT, options=Options(mode="raycluster", submitter="exec", code_source="image")))
    assert executing["create pods/exec"] is True
    assert executing["create pods/portforward"] is True, "Ray is asked what runs there"


def test_a_missing_permission_says_what_it_is_for_and_whom_to_ask() -> None:
    cluster = FakeCluster(denied={("watch", "rayjobs")})
    watch, *others = sorted(permission_checks(cluster, "rl", list(rayjob_needs(Wanted()))), key=lambda c: c.ok is True)
    assert all(check.ok for check in others)
    assert (watch.ok, watch.title) == (False, 'permission to watch rayjobs.ray.io in namespace "rl"')
    assert watch.detail == 'user "tester" lacks it (needed to wait for the run\'s end)'
    assert 'ask an admin for verb "watch" on rayjobs.ray.io in namespace "rl"' in watch.fix
    assert "kubectl nrl doctor --rbac -n rl" in watch.fix


def test_permissions_that_cost_only_comfort_are_one_note_together() -> None:
    denied = {("create", "pods/portforward"), ("list", "events"), ("delete", "rayclusters")}
    checks = permission_checks(FakeCluster(denied=denied), "rl", list(rayjob_needs(Wanted())))
    (note,) = (check for check in checks if not check.ok)
    assert note.ok is None
    assert "may not delete rayclusters.ray.io; create pods/portforward; list events" in note.detail
    assert "to show the driver's log" in note.detail and "to say why pods wait" in note.detail
    assert note.fix


def test_a_cluster_that_does_not_say_is_no_refusal() -> None:
    cluster = FakeCluster()
    cluster.can_i = lambda *words, **_: None  # type: ignore[method-assign,assignment]
    (check,) = permission_checks(cluster, "rl", [Need("get", "", "pods", "to see")])
    assert (check.ok, check.fix) == (None, "")


def test_rules_of_a_role_grant_each_need_once_and_nothing_else() -> None:
    asked = [Need("get", "", "pods", ""), Need("list", "", "pods", ""), Need("get", "", "pods", "again"),
             Need("get", "", "events", ""), Need("list", "", "events", ""), Need("get", "ray.io", "rayjobs", "")]  # fmt: skip
    assert role_rules(asked) == [
        {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]},
        {"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": ["get"]},
    ]
