"""The KAI provider's look at a live cluster: queues, topologies, priority classes."""

from __future__ import annotations

import pytest
from context import FakeCluster, context, thing
from nrl_plugins.scheduler_kai import KaiScheduler

from kubectl_nrl.errors import ClusterError

KAI = KaiScheduler()
QUEUED = {"scheduler": {"kind": "kai", "queue": "rl"}}
GB300 = {"topology": {"label": "nvidia.com/gpu.clique", "rackSize": 18, "name": "gb300-topology"}}
CLIQUE = "nvidia.com/gpu.clique"


LIMITS = {"gpu": {"limit": 8}, "cpu": {"limit": -1}, "memory": {"limit": -1}}


def queue(name: str, parent: str | None = None, **resources: dict) -> dict:
    spec = {"resources": {**LIMITS, **resources}, **({"parentQueue": parent} if parent else {})}
    return thing("Queue", name, spec=spec)


def checks(*objects: dict, **cluster: object) -> list:
    return list(KAI.checks(context(QUEUED), FakeCluster(list(objects), **cluster)))


def test_a_leaf_queue_with_its_parents_is_right() -> None:
    (check,) = checks(queue("root"), queue("rl", "root"))
    assert check.ok is True


def test_a_missing_queue_names_the_leaves() -> None:
    (check,) = checks(queue("root"), queue("team-c", "root"), queue("team-b", "root"))
    assert check.ok is False
    assert "leaf queues here: team-b, team-c" in check.detail
    assert "root" not in check.detail


def test_a_parent_queue_cannot_be_used() -> None:
    (check,) = checks(queue("rl"), queue("child", "rl"))
    assert check.ok is False
    assert "parent queue" in check.detail
    assert "child" in check.detail


def test_an_orphan_is_dropped_by_kai() -> None:
    (check,) = checks(queue("rl", "gone"))
    assert check.ok is False
    assert '"gone" does not exist' in check.detail


def test_a_grandparent_that_is_gone_counts() -> None:
    (check,) = checks(queue("rl", "dept"), queue("dept", "gone"))
    assert check.ok is False


def test_queues_in_a_circle_end() -> None:
    (check,) = checks(queue("rl", "a"), queue("a", "b"), queue("b", "a"))
    assert check.ok is False


@pytest.mark.parametrize("limit", [{}, {"limit": 0}, {"quota": 4}])
def test_a_queue_with_no_limit_set_runs_nothing(limit: dict) -> None:
    (check,) = checks(queue("rl", gpu=limit))
    assert check.ok is False
    assert "gpu limit of 0" in check.detail


def test_a_gpu_limit_of_zero_does_not_matter_to_cpu_pods() -> None:
    ctx = context({**QUEUED, "kuberay": {"training": {"gpus": 0}}})
    (check,) = KAI.checks(ctx, FakeCluster([queue("rl", gpu={"limit": 0})]))
    assert check.ok is True


def test_a_parents_limit_counts() -> None:
    (check,) = checks(queue("root", cpu={"limit": 0}), queue("rl", "root"))
    assert check.ok is False
    assert 'queue "root"' in check.detail


def test_forbidden_queues_are_a_note() -> None:
    (check,) = checks(forbidden=frozenset({"Queue"}))
    assert check.ok is None


def test_when_only_listing_is_forbidden_the_queue_is_asked_for() -> None:
    (check,) = checks(queue("rl"), no_lists=frozenset({"Queue"}))
    assert check.ok is True
    (check,) = checks(queue("other"), no_lists=frozenset({"Queue"}))
    assert check.ok is False


def test_no_kai_at_all() -> None:
    (check,) = checks(absent=frozenset({"Queue"}))
    assert check.ok is False
    assert "no KAI" in check.detail


def test_another_failure_of_the_cluster_is_not_swallowed() -> None:
    with pytest.raises(ClusterError):
        checks(broken=frozenset({"Queue"}))


def topology_check(*objects: dict, **cluster: object):
    found = KAI.checks(context(QUEUED, profile=GB300), FakeCluster([queue("rl"), *objects], **cluster))
    return list(found)[1]


def test_the_topology_must_exist_with_the_level() -> None:
    levels = [{"nodeLabel": CLIQUE}, {"nodeLabel": "kubernetes.io/hostname"}]
    assert topology_check(thing("Topology", "gb300-topology", spec={"levels": levels})).ok is True
    assert topology_check(thing("Topology", "gb300-topology", spec={"levels": levels[1:]})).ok is False
    assert topology_check().ok is False
    assert topology_check(forbidden=frozenset({"Topology"})).ok is None
    assert topology_check(absent=frozenset({"Topology"})).ok is False


def test_a_topology_that_no_group_uses_is_not_looked_for() -> None:
    ctx = context({**QUEUED, "kuberay": {"training": {"gpus": 0}}}, profile=GB300)
    assert [check.title for check in KAI.checks(ctx, FakeCluster([queue("rl")]))] == ['KAI queue "rl"']


def test_a_priority_class_that_kai_would_ignore_fails_and_blocks_nothing() -> None:
    ctx = context({"scheduler": {"kind": "kai", "queue": "rl", "priority": "trian"}})

    def found(*objects: dict, **cluster: object) -> tuple:
        check = list(KAI.checks(ctx, FakeCluster([queue("rl"), *objects], **cluster)))[-1]
        return check.ok, check.blocks

    assert found() == (False, False)
    assert found(thing("PriorityClass", "trian")) == (True, True)
    assert found(forbidden=frozenset({"PriorityClass"})) == (None, True)
