"""The lines that say why pods are not ready: grouped, once each, and silent about a normal end."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from kubectl_nrl.reasons import Situation, gpus_of, requests_of, snapshot, troubles
from kubectl_nrl.reasons.pod_judge import cause_of
from kubectl_nrl.reasons.quantities import quantity


def pod(
    name: str, *, node_type: str = "worker", group: str = "w", ready: bool = False, **status: Any
) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}, *status.pop("conditions", ())]
    return {
        "metadata": {"name": name, "uid": name, "labels": {"ray.io/node-type": node_type, "ray.io/group": group}},
        "spec": {"containers": []},
        "status": {"phase": "Running" if ready else "Pending", "conditions": conditions, **status},
    }


def causes(pods: list[dict[str, Any]], now: datetime | None = None) -> dict[tuple[str, ...], str]:
    """The lines, by what makes them the same line again."""
    return {found.key: found.line for found in troubles(Situation(pods=tuple(pods)), now)}


def waiting(reason: str, message: str = "", image: str = "reg.example/rl:typo") -> list[dict[str, Any]]:
    return [{"name": "ray", "image": image, "state": {"waiting": {"reason": reason, "message": message}}}]


def test_workers_with_one_cause_make_one_line() -> None:
    pods = [pod(f"w{i}", containerStatuses=waiting("ImagePullBackOff", "... not found")) for i in range(4)]
    assert list(causes(pods).values()) == ['4/4 workers of w: ImagePullBackOff, image "reg.example/rl:typo" not found']


def test_kubelet_switching_between_its_two_words_for_a_bad_image_is_the_same_cause() -> None:
    first = causes([pod("w0", containerStatuses=waiting("ErrImagePull", "failed: reg.example/rl:typo: not found"))])
    second = causes([pod("w0", containerStatuses=waiting("ImagePullBackOff", 'Back-off pulling image "..."'))])
    assert first.keys() == second.keys()
    assert "not found" in next(iter(first.values()))


def test_a_pull_that_is_forbidden_points_at_the_pull_secrets() -> None:
    lines = causes([pod("w0", containerStatuses=waiting("ErrImagePull", "pull access denied, unauthorized"))])
    assert "imagePullSecrets" in next(iter(lines.values()))


def test_an_unschedulable_head_is_named_with_the_schedulers_words() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/9 nodes:\n cpu"}
    assert list(causes([pod("h", node_type="head", conditions=[condition])]).values()) == [
        "head: Unschedulable, 0/9 nodes: cpu"
    ]


def test_a_missing_secret_is_named() -> None:
    lines = causes([pod("w0", containerStatuses=waiting("CreateContainerConfigError", 'secret "s" not found'))])
    assert list(lines.values()) == ['1/1 workers of w: SecretNotFound, secret "s" does not exist']


def test_init_containers_count() -> None:
    status = [{"name": "wait-gcs-ready", "state": {"terminated": {"exitCode": 7}}}]
    assert list(causes([pod("w0", initContainerStatuses=status)]).values()) == [
        "1/1 workers of w: Error, container wait-gcs-ready ended with 7"
    ]


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", ""])
def test_a_pod_on_its_way_has_no_cause(reason: str) -> None:
    assert cause_of(pod("w0", containerStatuses=waiting(reason))) is None


def test_a_ready_pod_and_a_dying_pod_have_no_cause() -> None:
    assert cause_of(pod("w0", ready=True)) is None
    dying = pod("w1", containerStatuses=waiting("CrashLoopBackOff"))
    dying["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"
    assert cause_of(dying) is None
    assert causes([dying]) == {}


def test_an_oom_kill_and_an_eviction_are_causes() -> None:
    killed = [{"name": "ray", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]
    assert list(causes([pod("w0", containerStatuses=killed)]).values()) == [
        "1/1 workers of w: OOMKilled, container ray ended with 137"
    ]
    evicted = pod("w1", reason="Evicted", message="low on memory")
    cause = cause_of(evicted)
    assert cause is not None
    assert (cause.reason, cause.message) == ("Evicted", "low on memory")


def test_a_container_that_never_gets_ready_is_named_after_a_while() -> None:
    started = datetime(2026, 11, 30, 12, tzinfo=timezone.utc)
    running = [{"name": "ray-head", "ready": False, "state": {"running": {"startedAt": "2026-11-30T12:00:00Z"}}}]
    head = pod("h", node_type="head", containerStatuses=running)
    assert causes([head], started + timedelta(seconds=60)) == {}
    [line] = causes([head], started + timedelta(seconds=100)).values()
    assert line == "head: NotReady, container ray-head has run for over 90 s and fails its readiness probe"


def test_groups_are_told_apart() -> None:
    bad = waiting("CreateContainerError", "boom")
    pods = [
        pod("a", group="a", containerStatuses=bad),
        pod("b", group="b", containerStatuses=bad),
        pod("c", group="b", ready=True),
    ]
    assert sorted(causes(pods).values()) == [
        "1/1 workers of a: CreateContainerError, boom",
        "1/2 workers of b: CreateContainerError, boom",
    ]


def test_readiness_leaves_out_the_dying() -> None:
    dying = pod("w1", ready=True)
    dying["metadata"]["deletionTimestamp"] = "now"
    [group] = snapshot(Situation(pods=(pod("w0", ready=True), pod("w2"), dying)), None).groups
    assert (group.ready, group.total, group.states) == (1, 2, {"Ready": 1, "Pending": 1, "Terminating": 1})


def test_requests_are_summed_and_limits_stand_in() -> None:
    spec = {
        "containers": [
            {"resources": {"requests": {"cpu": "200m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "4"}}},
            {"resources": {"limits": {"cpu": "1", "memory": "512Mi"}}},
            {},
        ]
    }
    asked = {**pod("w0"), "spec": spec}
    assert requests_of(asked) == {"cpu": "1200m", "memory": "1.5Gi", "nvidia.com/gpu": "4"}
    assert gpus_of(asked) == 4


@pytest.mark.parametrize(
    ("text", "value"), [("1Ki", 1024), ("5e3", 5000), ("0.5", 0.5), ("2E", 2e18), ("x", 0), ("1Zz", 0)]
)
def test_quantities(text: str, value: float) -> None:
    assert quantity(text) == value
