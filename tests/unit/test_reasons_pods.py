"""The lines that say why pods are not ready: grouped, once each, and silent about a normal end."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from waiting_pods import at, event, head, pod, stamp, waiting

from kubectl_nrl.manifests.amounts import gpus_held, requests_of
from kubectl_nrl.reasons import Situation, snapshot, troubles
from kubectl_nrl.reasons.pod_judge import cause_of


def causes(
    pods: list[dict[str, Any]], now: datetime | None = None, events: tuple[dict[str, Any], ...] = ()
) -> dict[tuple[str, ...], str]:
    """The lines, by what makes them the same line again."""
    return {found.key: found.line for found in troubles(Situation(pods=tuple(pods), events=events), now)}


def only(*pods: dict[str, Any], now: float = 1000.0, events: tuple[dict[str, Any], ...] = ()) -> str:
    """The one line that these pods make."""
    [line] = causes(list(pods), at(now), events).values()
    return line


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


def test_one_cause_is_one_line_for_all_groups_that_share_it() -> None:
    bad = waiting("CreateContainerError", "boom")
    pods = [pod("a", group="a", containerStatuses=bad), pod("b", group="b", containerStatuses=bad)]
    pods += [pod("c", group="b", ready=True)]
    assert list(causes(pods).values()) == ["1/1 workers of a and 1/2 workers of b: CreateContainerError, boom"]
    pods += [pod("d", group="d", containerStatuses=bad)]
    assert list(causes(pods).values()) == ["3/4 pods: CreateContainerError, boom"]


def test_two_causes_are_two_lines() -> None:
    pods = [
        pod("a", group="a", containerStatuses=waiting("CreateContainerError", "boom")),
        pod("b", group="b", containerStatuses=waiting("CreateContainerError", "bang")),
    ]
    assert sorted(causes(pods).values()) == [
        "1/1 workers of a: CreateContainerError, boom",
        "1/1 workers of b: CreateContainerError, bang",
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
    assert gpus_held(asked) == 0  # it has no node yet
    assert gpus_held({**asked, "spec": {**spec, "nodeName": "n1"}}) == 4


# What no container says


BOUND = {"nodeName": "n1", "containers": []}
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(1)}


def creating(name: str = "w0", **status: Any) -> dict[str, Any]:
    """A pod with a node, whose containers have not begun."""
    conditions = [SCHEDULED, *status.pop("conditions", ())]
    found = waiting("ContainerCreating")
    return pod(name, spec=BOUND, conditions=conditions, startTime=stamp(1), containerStatuses=found, **status)


@pytest.mark.parametrize(
    ("reason", "message", "line"),
    [
        (
            "FailedMount",
            'MountVolume.SetUp failed for volume "v" : secret "tls" not found',
            'SecretNotFound, secret "tls" does not exist',
        ),
        ("FailedMount", "mount failed: exit status 32", "FailedMount, mount failed: exit status 32"),
        ("FailedAttachVolume", "Multi-Attach error", "FailedAttachVolume, Multi-Attach error"),
        ("FailedCreatePodSandBox", "no IP addresses available", "FailedCreatePodSandBox, no IP addresses available"),
        ("FailedPrepareDynamicResources", "domain not ready", "FailedPrepareDynamicResources, domain not ready"),
    ],
)
def test_what_only_an_event_says_of_a_pod_that_cannot_begin(reason: str, message: str, line: str) -> None:
    stuck = creating()
    assert only(stuck, events=(event(stuck, reason, message),)) == f"1/1 workers of w: {line}"


def test_an_event_from_before_the_containers_began_is_no_cause_any_more() -> None:
    past = {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": stamp(50)}
    begun = creating(conditions=[past])
    assert causes([begun], at(60), (event(begun, "FailedMount", 'secret "s" not found'),)) == {}


def test_an_event_of_another_pod_of_the_same_name_is_none_of_this_one() -> None:
    before = {**creating(), "metadata": {**creating()["metadata"], "uid": "earlier"}}
    assert causes([creating()], at(60), (event(before, "FailedMount", "boom"),)) == {}


def test_the_newest_of_two_messages_of_one_kind_counts() -> None:
    stuck = creating()
    events = (event(stuck, "FailedMount", "new", 20), event(stuck, "FailedMount", "old", 3))
    assert only(stuck, events=events).endswith("FailedMount, new")


def test_an_image_that_is_still_being_pulled_is_named_after_a_while() -> None:
    past = {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": stamp(10)}
    pulling = creating(conditions=[past])
    assert causes([pulling], at(30)) == {}
    assert only(pulling, now=45).startswith('1/1 workers of w: Pulling, image "reg.example/rl:typo"')


def test_a_pull_secret_that_does_not_exist_is_named_with_the_image() -> None:
    stuck = pod("w0", spec=BOUND, containerStatuses=waiting("ErrImagePull", "401 Unauthorized"))
    lost = "Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed."
    line = only(stuck, events=(event(stuck, "FailedToRetrieveImagePullSecret", lost),))
    assert line.endswith("may not be pulled (imagePullSecrets?); pull secret regcred does not exist")


def test_a_claim_template_that_does_not_exist_is_named() -> None:
    """Such a pod has no condition at all: the scheduler does not even look at it."""
    stuck = pod("w0")
    message = 'PodResourceClaim c: resource claim template "x": resourceclaimtemplate.resource.k8s.io "x" not found'
    line = only(stuck, now=5, events=(event(stuck, "FailedResourceClaimCreation", message),))
    assert line == '1/1 workers of w: ClaimTemplateNotFound, resource claim template "x" does not exist'


def test_a_scheduler_that_is_not_there_is_named_after_a_while() -> None:
    unseen = pod("w0", spec={"schedulerName": "kai-scheduler"})
    assert causes([unseen], at(20)) == {}
    assert 'NotScheduled, scheduler "kai-scheduler" has not looked at it' in only(unseen, now=31)


def test_a_kubelet_that_does_nothing_is_named_after_a_while() -> None:
    idle = pod("w0", spec=BOUND, conditions=[SCHEDULED])
    assert causes([idle], at(50)) == {}
    assert only(idle, now=70).endswith("NotStarted, node n1 has not started it")


def test_a_node_that_fell_silent_is_named() -> None:
    """The node controller takes away Ready alone; kubelet would have taken ContainersReady with it."""
    conditions = [SCHEDULED, {"type": "ContainersReady", "status": "True"}]
    running = [{"name": "ray", "ready": True, "state": {"running": {"startedAt": stamp()}}}]
    lost = pod("w0", spec=BOUND, conditions=conditions, phase="Running", containerStatuses=running)
    lost["status"]["phase"] = "Running"
    assert only(lost) == "1/1 workers of w: NodeLost, node n1 does not answer"


def test_a_preempted_worker_is_named_although_it_goes() -> None:
    found = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "by rl/other"}
    going = pod("w0", conditions=[found])
    going["metadata"]["deletionTimestamp"] = stamp(5)
    assert only(going, now=6) == "1/1 workers of w: PreemptionByScheduler, by rl/other"


def test_a_pod_that_does_not_go_is_named_with_what_holds_it() -> None:
    going = pod("w0", spec=BOUND)
    going["metadata"] |= {"deletionTimestamp": stamp(30), "finalizers": ["example.com/hold"]}
    assert causes([going], at(80)) == {}
    assert only(going, now=91).endswith("Terminating, deleted and not gone: held by finalizers example.com/hold")
    del going["metadata"]["finalizers"]
    assert only(going, now=91).endswith("node n1 does not say that it ended")


def init(seconds: float, name: str = "wait-gcs-ready") -> dict[str, Any]:
    status = [{"name": name, "state": {"running": {"startedAt": stamp(seconds)}}}]
    later = waiting("PodInitializing")
    return pod(
        "w0",
        spec=BOUND,
        conditions=[SCHEDULED],
        startTime=stamp(),
        initContainerStatuses=status,
        containerStatuses=later,
    )


def test_workers_that_wait_for_the_head_say_so() -> None:
    assert causes([head(conditions=[SCHEDULED]), init(0)], at(50)) == {}
    assert (
        only(head(conditions=[SCHEDULED]), init(0), now=61)
        == "1/1 workers of w: WaitsForHead, Ray's head does not answer yet"
    )


def test_workers_that_wait_for_a_head_in_trouble_leave_it_the_word() -> None:
    assert only(head(containerStatuses=waiting("ErrImagePull", "x: not found")), init(0)).startswith(
        "head: ImagePullBackOff"
    )


def test_a_head_that_is_ready_and_not_reached_is_named() -> None:
    assert causes([head(ready=True), init(0)], at(100)) == {}
    line = only(head(ready=True), init(0), now=121)
    assert "HeadNotReached" in line
    assert "6379" in line


def test_another_init_container_that_takes_long_is_named() -> None:
    assert only(init(0, "fetch"), now=100).endswith("InitContainer, init container fetch has not ended yet")


def crashed(restarts: int, reason: str = "OOMKilled", code: int = 137, *, ready: bool = False) -> list[dict[str, Any]]:
    last = {"terminated": {"reason": reason, "exitCode": code, "finishedAt": stamp(60)}}
    state = {"running": {"startedAt": stamp(61)}}
    return [{"name": "ray", "ready": ready, "restartCount": restarts, "state": state, "lastState": last}]


def test_a_container_that_crashes_again_and_again_is_the_same_trouble_while_it_runs_in_between() -> None:
    loop = [{**crashed(2)[0], "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}}]
    between, backing_off = (causes([head(containerStatuses=c)], at(70)) for c in (crashed(3), loop))
    assert between.keys() == backing_off.keys()
    assert (
        next(iter(between.values())) == "head: OOMKilled, container ray ends again and again, last exit 137, 3 restarts"
    )


def test_a_head_that_came_back_lost_its_history() -> None:
    line = only(head(ready=True, containerStatuses=crashed(1, ready=True)), now=90000)
    assert (
        line == "head: Restarted, container ray was restarted at 2026-11-30 12:01:00 UTC after OOMKilled (exit 137): "
        "Ray's jobs and their history are lost"
    )


def test_a_worker_that_came_back_is_told_for_ten_minutes() -> None:
    back = pod("w0", ready=True, containerStatuses=crashed(1, ready=True))
    assert only(back, now=300).endswith("was restarted at 2026-11-30 12:01:00 UTC after OOMKilled (exit 137)")
    assert causes([back], at(700)) == {}
