"""Following a run to its end: every way it can end, every state on the way, and what is said meanwhile."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_cluster import FakeCluster
from waiting import wait_until

from kubectl_nrl.api import Reason
from kubectl_nrl.errors import ClusterError, ExitCode
from kubectl_nrl.reasons import Snapshot
from kubectl_nrl.watch import End, Follow, RunTarget


class Watching:
    """A Follow on a fake cluster, with what it said."""

    def __init__(self, cluster: FakeCluster, **words: Any) -> None:
        self.cluster, self.said, self.warned, self.events = cluster, [], [], []  # type: ignore[var-annotated]
        job = cluster.put({"kind": "RayJob", "metadata": {"name": "r"}})
        target = RunTarget("default", "r", job["metadata"]["uid"], "id-1")
        self.follow = Follow(
            cluster, target, say=self.said.append, warn=self.warned.append, event=self.events.append, **words
        )

    def status(self, deployment: str, job: str = "", **more: Any) -> None:
        self.cluster.set_status("RayJob", "r", jobDeploymentStatus=deployment, jobStatus=job, **more)

    def end(self, timeout: float = 60.0) -> End:
        return self.follow.until_final(timeout)

    def take(self, until: Callable[[], bool]) -> None:
        """Handle what arrives until that holds."""
        wait_until(lambda: self.follow._take(0.05) or until())

    def pod(self, name: str, node_type: str = "worker", **status: Any) -> None:
        labels = {"ray.io/cluster": "r-abc", "ray.io/node-type": node_type, "ray.io/group": "w"}
        self.cluster.put({"kind": "Pod", "metadata": {"name": name, "labels": labels}, "status": status})


@pytest.fixture
def run() -> Iterator[Callable[..., Watching]]:
    made: list[Watching] = []

    def make(**words: Any) -> Watching:
        made.append(Watching(FakeCluster(), **words))
        return made[-1]

    yield make
    for watching in made:
        watching.follow.close()
    wait_until(lambda: not any(t.name.startswith("watch-") for t in threading.enumerate()))


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([("Initializing", ""), ("Running", "RUNNING"), ("Complete", "SUCCEEDED")], ExitCode.OK),
        (
            [("Running", "RUNNING"), ("Retrying", "FAILED"), ("Initializing", ""), ("Complete", "SUCCEEDED")],
            ExitCode.OK,
        ),
        ([("Suspending", ""), ("Suspended", ""), ("Initializing", ""), ("Complete", "FAILED")], ExitCode.FAILED),
        ([("", ""), ("ValidationFailed", "")], ExitCode.CLUSTER),
        ([("Running", "RUNNING"), ("Complete", "STOPPED")], ExitCode.STOPPED),
        ([("Unheard", "OF"), ("Failed", "RUNNING")], ExitCode.FAILED),
    ],
)
def test_the_end_is_that_of_the_status(run: Any, states: list[tuple[str, str]], code: ExitCode) -> None:
    watching = run()
    for state in states:
        watching.status(*state)
    end = watching.end()
    assert end.how == "final"
    assert end.outcome is not None
    assert end.outcome.exit_code is code


def test_a_clock_that_jumps_ends_nothing(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Days forward and back at every look: only the clock that nobody sets counts for waiting and giving up."""
    jumps = itertools.cycle((0.0, 9e5, -9e5))
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + next(jumps))
    watching = run(patience=30.0)
    watching.status("Running", "RUNNING", rayClusterStatus={"state": "ready"})
    watching.take(lambda: bool(watching.said))
    for _ in range(20):
        watching.follow._consider_time()
    watching.status("Complete", "SUCCEEDED")
    assert watching.end().how == "final"
    assert watching.warned == []


def test_a_final_state_that_comes_while_waiting_is_noticed_by_the_watch(run: Any) -> None:
    watching = run()
    watching.follow._reread_at = math.inf
    watching.status("Running", "RUNNING")
    watching.take(lambda: "Running, driver RUNNING" in watching.said)
    timer = threading.Timer(0.3, lambda: watching.status("Complete", "SUCCEEDED"))
    timer.start()
    assert watching.end().how == "final"
    timer.join()
    assert ("get", "RayJob", "r") not in watching.cluster.calls


def test_every_change_of_state_is_said_once(run: Any) -> None:
    watching = run()
    watching.take(lambda: bool(watching.said))
    for number in range(3):
        watching.status("Running", "RUNNING", rayClusterStatus={"state": "ready"}, failed=number)
        watching.take(lambda: watching.follow.rayjob.get("status", {}).get("failed") == number)  # noqa: B023
    watching.status("Complete", "SUCCEEDED")
    watching.end()
    assert watching.said == [
        "Created: accepted, KubeRay has not looked at it yet",
        "Running, driver RUNNING",
        "Complete, driver SUCCEEDED",
    ]
    assert [e["deploymentStatus"] for e in watching.events if e["event"] == "state"] == ["", "Running", "Complete"]


def test_deletion_on_the_way_is_no_result(run: Any) -> None:
    watching = run()
    watching.status("Running", "RUNNING")
    watching.take(lambda: bool(watching.follow.rayjob))
    watching.cluster.remove("RayJob", "r")
    end = watching.end()
    assert (end.how, end.message) == ("deleted", "rayjob/r was deleted before it ended")


def test_a_deletion_that_is_held_up_is_said_once_and_is_no_end(run: Any) -> None:
    watching = run()
    going = {"name": "r", "uid": watching.follow._target.uid, "deletionTimestamp": "2026-11-30T12:00:00Z"}
    for state in ("Running", "Suspended"):
        watching.cluster.put({"kind": "RayJob", "metadata": going, "status": {"jobDeploymentStatus": state}})
    watching.status("Complete", "SUCCEEDED")
    assert watching.end().how == "final"
    assert watching.said.count("rayjob/r is being deleted") == 1


def test_another_object_of_the_same_name_is_not_this_run(run: Any) -> None:
    watching = run()
    watching.take(lambda: bool(watching.follow.rayjob))
    watching.cluster.put(
        {
            "kind": "RayJob",
            "metadata": {"name": "r", "uid": "other"},
            "status": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"},
        }
    )
    end = watching.end()
    assert (end.how, "another of its name made" in end.message) == ("deleted", True)


def test_giving_up_says_the_state(run: Any) -> None:
    watching = run()
    watching.status("Initializing")
    watching.take(lambda: any("Initializing" in line for line in watching.said))
    end = watching.end(timeout=0.3)
    assert end.how == "timeout"
    assert "Initializing" in end.message


def test_giving_up_before_the_watch_has_told_anything_says_the_state_all_the_same(run: Any) -> None:
    begins, cluster = threading.Event(), FakeCluster()
    watch = cluster.watch

    def late(*words: Any, **more: Any) -> Any:
        begins.wait(60)
        yield from watch(*words, **more)

    cluster.watch = late  # type: ignore[method-assign]
    watching = Watching(cluster)
    watching.status("Initializing")
    end = watching.end(timeout=0.0)
    watching.follow.close()
    begins.set()
    assert (end.how, "Initializing" in end.message) == ("timeout", True)


def test_a_short_outage_is_survived_and_told_once(run: Any) -> None:
    watching = run()
    watching.status("Running", "RUNNING", rayClusterName="r-abc")
    watching.take(lambda: bool(watching.follow.rayjob))
    watching.cluster.say("LOST", ClusterError("connection refused"))
    watching.take(lambda: any("lost" in line for line in watching.said))
    watching.cluster.say("BACK")
    watching.take(lambda: any("is back" in line for line in watching.said))
    watching.status("Complete", "SUCCEEDED")
    assert watching.end().how == "final"
    assert sum("lost" in line for line in watching.said) == 1
    assert sum("is back" in line for line in watching.said) == 1


def test_a_long_outage_ends_as_unknown(run: Any) -> None:
    watching = run(patience=0.3)
    watching.status("Running", "RUNNING")
    watching.take(lambda: bool(watching.follow.rayjob))
    watching.cluster.say("LOST", ClusterError("connection refused"))
    end = watching.end()
    assert end.how == "lost"
    assert "not been reached" in end.message


def test_an_end_that_the_watch_never_delivered_is_found_by_rereading(run: Any) -> None:
    now = [0.0]
    watching = run(clock=lambda: now[0])
    watching.take(lambda: bool(watching.follow.rayjob))
    job = watching.cluster.objects["RayJob", "default", "r"]
    job["status"] = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}  # no event
    now[0] = 31.0
    end = watching.end(timeout=60)
    assert end.how == "final"


def test_a_refused_watch_ends_as_unknown(run: Any) -> None:
    cluster = FakeCluster()
    cluster.faults["watch", "RayJob"] = ClusterError("you may not watch rayjobs", status=403)
    watching = Watching(cluster)
    end = watching.end()
    assert (end.how, end.message) == ("lost", "you may not watch rayjobs")


def test_pods_that_cannot_be_watched_cost_a_warning_only(run: Any) -> None:
    watching = run()
    watching.cluster.faults["watch", "Pod"] = ClusterError("you may not watch pods", status=403)
    watching.status("Running", "RUNNING", rayClusterName="r-abc")
    watching.take(lambda: bool(watching.warned))
    watching.status("Complete", "SUCCEEDED")
    assert watching.end().how == "final"


def test_causes_are_said_once_and_not_during_the_end(run: Any) -> None:
    watching = run()
    watching.status("Initializing", rayClusterName="r-abc")
    broken = [
        {"name": "ray", "image": "x:typo", "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}
    ]
    for number in range(2):
        watching.pod(f"w{number}", phase="Pending", containerStatuses=broken)
    watching.take(lambda: any("x:typo" in s for s in watching.said))
    watching.pod("w0", phase="Pending", containerStatuses=broken)
    watching.follow._take(0.6)
    assert sum("x:typo" in s for s in watching.said) == 1
    assert '2/2 workers of w: ImagePullBackOff, image "x:typo" not found' in watching.said
    watching.status("Complete", "FAILED")
    watching.end()
    said = list(watching.said)
    watching.pod("w0", phase="Failed", reason="Terminated", message="node shutdown")
    watching.follow._take(0.2)
    watching.follow._take(0.6)
    assert watching.said == said


def test_the_pods_of_a_retry_replace_those_of_the_attempt_before(run: Any) -> None:
    watching = run()
    watching.status("Running", "RUNNING", rayClusterName="r-abc")
    watching.pod("w0", phase="Running")
    watching.take(lambda: bool(watching.follow.pods))
    watching.status("Retrying", "FAILED", rayClusterName="r-abc")
    watching.status("Initializing", "", rayClusterName="r-new")
    watching.take(lambda: watching.follow.ray_cluster == "r-new")
    assert watching.follow.pods == {}


def test_waiting_for_the_workers_to_go_counts_the_head_only_when_asked(run: Any) -> None:
    watching = run()
    watching.status("Complete", "SUCCEEDED", rayClusterName="r-abc")
    watching.pod("h", "head")
    watching.pod("w0")
    watching.end()
    watching.take(lambda: len(watching.follow.pods) == 2)
    assert [p["metadata"]["name"] for p in watching.follow.until_gone(0.2, head_too=False)] == ["w0"]
    threading.Timer(0.1, lambda: watching.cluster.remove("Pod", "w0")).start()
    assert watching.follow.until_gone(60, head_too=False) == []
    assert len(watching.follow.until_gone(0.1, head_too=True)) == 1


def test_pods_of_an_attempt_that_were_not_listed_yet_are_not_gone(run: Any) -> None:
    """An attempt that is seen first at its end, after an outage: its pods are asked for, and until then nothing is known."""
    watching = run()
    listing, watch = threading.Event(), watching.cluster.watch

    def late(api: str, kind: str, *words: Any, **more: Any) -> Any:
        if kind == "Pod":
            listing.wait(60)
        yield from watch(api, kind, *words, **more)

    watching.cluster.watch = late
    watching.pod("w0")
    watching.status("Complete", "SUCCEEDED", rayClusterName="r-abc")
    watching.end()
    assert watching.follow.until_gone(0.1, head_too=False) is None
    listing.set()
    watching.take(lambda: watching.follow._wait.listed)
    assert [p["metadata"]["name"] for p in watching.follow.until_gone(0.1, head_too=False)] == ["w0"]


def test_a_ready_cluster_without_a_driver_is_named_once(run: Any) -> None:
    now = [0.0]
    watching = run(clock=lambda: now[0])
    watching.status("Initializing", "", rayClusterName="r-abc")
    ready = {"state": "ready", "stateTransitionTimes": {"ready": "2026-11-30T12:00:00Z"}}
    watching.cluster.put({"kind": "RayCluster", "metadata": {"name": "r-abc"}, "status": ready})
    watching.take(lambda: watching.follow._wait._object is not None)
    for now[0] in (1.0, 100.0, 121.5, 122.0, 260.0):
        watching.follow._judge()
        assert any("8265" in line for line in watching.said) == (now[0] > 121)
    assert sum("8265" in line for line in watching.said) == 1


class Says:
    """A provider whose answer a test sets; it raises what is an error."""

    name = "says"

    def __init__(self, *answer: Any) -> None:
        self.answer, self.asked = list(answer), 0

    def reasons(self, run: Any, cluster: Any) -> list[Reason]:
        self.asked += 1
        for item in self.answer:
            if isinstance(item, Exception):
                raise item
        return self.answer


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_nrl.watch.inquiry.FIRST", 0.02)
    monkeypatch.setattr("kubectl_nrl.watch.inquiry.LONGEST", 0.05)


BAD_IMAGE = [
    {"name": "ray", "image": "x:typo", "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}
]


def test_a_cause_that_needs_a_hand_ends_the_start_after_its_time(run: Any) -> None:
    now = [0.0]
    watching = run(clock=lambda: now[0], start_limit=900.0)
    watching.status("Initializing", rayClusterName="r-abc")
    watching.pod("w0", phase="Pending", containerStatuses=BAD_IMAGE)
    watching.take(lambda: bool(watching.follow.pods))
    for now[0] in (1.0, 899.0, 901.0):
        watching.follow._judge()
    end = watching.end()
    assert end.how == "stuck"
    assert end.trouble is not None
    assert end.trouble.reason == "ImagePullBackOff"
    assert "it cannot start after 15m00s" in end.message


def test_a_driver_that_ran_ends_the_start_for_good(run: Any) -> None:
    now = [0.0]
    watching = run(clock=lambda: now[0], start_limit=10.0)
    watching.status("Running", "RUNNING", rayClusterName="r-abc")
    watching.take(lambda: bool(watching.follow.rayjob))
    watching.status("Running", "PENDING", rayClusterName="r-abc")
    watching.pod("w0", phase="Pending", containerStatuses=BAD_IMAGE)
    watching.take(lambda: bool(watching.follow.pods))
    for now[0] in (1.0, 100.0):
        watching.follow._judge()
    watching.status("Complete", "SUCCEEDED", rayClusterName="r-abc")
    assert watching.end().how == "final"


def test_a_retry_is_another_start(run: Any) -> None:
    now = [0.0]
    watching = run(clock=lambda: now[0], start_limit=10.0)
    watching.status("Running", "RUNNING", rayClusterName="r-abc")
    watching.take(lambda: watching.follow.ray_cluster == "r-abc")
    watching.status("Retrying", "FAILED", rayClusterName="r-abc")
    watching.status("Initializing", "", rayClusterName="r-new")
    watching.take(lambda: watching.follow.ray_cluster == "r-new")
    labels = {"ray.io/cluster": "r-new", "ray.io/node-type": "worker", "ray.io/group": "w"}
    status = {"phase": "Pending", "containerStatuses": BAD_IMAGE}
    watching.cluster.put({"kind": "Pod", "metadata": {"name": "n0", "labels": labels}, "status": status})
    watching.take(lambda: bool(watching.follow.pods))
    for now[0] in (1.0, 12.0):
        watching.follow._judge()
    assert watching.end().how == "stuck"


def test_an_outage_is_no_time_in_which_a_cause_was_seen(run: Any) -> None:
    now = [0.0]
    watching = run(clock=lambda: now[0], start_limit=100.0)
    watching.status("Initializing", rayClusterName="r-abc")
    watching.pod("w0", phase="Pending", containerStatuses=BAD_IMAGE)
    watching.take(lambda: bool(watching.follow.pods))
    watching.follow._judge()
    watching.cluster.say("LOST", ClusterError("connection refused"))
    watching.take(lambda: any("lost" in line for line in watching.said))
    now[0] = 200.0
    watching.follow._judge()
    watching.cluster.say("BACK")
    watching.take(lambda: any("is back" in line for line in watching.said))
    watching.follow._judge()
    watching.status("Complete", "SUCCEEDED", rayClusterName="r-abc")
    assert watching.end().how == "final"


def test_a_wall_clock_that_jumps_makes_no_false_alarm(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here may read it: ages are the server's times, and our own seconds since they arrived."""
    monkeypatch.setattr("time.time", lambda: 1e10)
    now = [0.0]
    watching = run(clock=lambda: now[0], start_limit=10.0)
    watching.take(lambda: bool(watching.follow.rayjob))
    for now[0] in (1.0, 19.0):
        watching.follow._judge()
    assert not any("operator" in line for line in watching.said)
    now[0] = 21.0
    watching.follow._judge()
    assert any("is the operator running" in line for line in watching.said)


def test_a_provider_is_asked_while_something_is_not_ready_and_then_no_more(run: Any, quick: None) -> None:
    says = Says(Reason("Workload w", "Pending", "no quota"))
    watching = run(providers=[says])
    watching.status("Initializing", rayClusterName="r-abc")
    watching.pod("w0", phase="Pending")
    watching.take(lambda: "Workload w: Pending, no quota" in watching.said)
    watching.pod("w0", phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    watching.take(lambda: "1/1 pods ready" in watching.said)
    watching.take(lambda: watching.follow._inquiry._question is None)
    asked = says.asked
    watching.follow._take(0.3)
    assert says.asked <= asked + 1  # one may have been under way
    assert sum("no quota" in line for line in watching.said) == 1


def test_a_provider_that_raises_costs_one_warning_that_names_it(run: Any, quick: None) -> None:
    broken, fine = Says(ValueError("boom")), Says(Reason("PodGroup pg", "OverLimit", "full"))
    watching = run(providers=[broken, fine])
    watching.status("Initializing", rayClusterName="r-abc")
    watching.pod("w0", phase="Pending")
    watching.take(lambda: "PodGroup pg: OverLimit, full" in watching.said and broken.asked > 3)
    assert len(watching.warned) == 1
    assert '"says"' in watching.warned[0]
    assert "ValueError: boom" in watching.warned[0]


def test_events_that_may_not_be_read_cost_one_warning(run: Any, quick: None) -> None:
    watching = run()
    watching.cluster.faults["list", "Event"] = ClusterError("you may not list events", status=403)
    watching.status("Initializing", rayClusterName="r-abc")
    watching.take(lambda: sum(call[:2] == ("list", "Event") for call in watching.cluster.calls) > 2)
    watching.take(lambda: bool(watching.warned))
    assert watching.warned == ["events may not be read with these permissions"]


def test_each_new_picture_is_offered_and_the_last_is_of_the_end(run: Any) -> None:
    pictures: list[Snapshot] = []
    watching = run(view=pictures.append)
    watching.status("Initializing", rayClusterName="r-abc")
    watching.pod("w0", phase="Pending")
    watching.take(lambda: bool(pictures) and pictures[-1].groups != ())
    seen = len(pictures)
    watching.follow._judge()
    assert len(pictures) == seen
    assert [(g.name, g.ready, g.total) for g in pictures[-1].groups] == [("w", 0, 1)]
    watching.status("Complete", "SUCCEEDED", rayClusterName="r-abc")
    watching.end()
    assert pictures[-1].state == "SUCCEEDED"


def test_a_suspended_run_is_said_once(run: Any) -> None:
    watching = run()
    watching.status("Suspended")
    watching.take(lambda: any(line.startswith("Suspended") for line in watching.said))
    watching.follow._judge()
    assert [line for line in watching.said if "Suspended" in line] == [
        "Suspended: held back by its queue, or suspended by hand"
    ]


@pytest.mark.parametrize("phase", ["Active", "Terminating"])
def test_a_run_that_is_deleted_is_said_with_its_namespace_and_leaves_nothing_to_come_back_to(
    run: Any, phase: str
) -> None:
    watching = run()
    watching.cluster.put({"kind": "Namespace", "metadata": {"name": "default"}, "status": {"phase": phase}})
    watching.status("Running", "RUNNING")
    going = watching.cluster.objects["RayJob", "default", "r"]
    watching.cluster.put({**going, "metadata": {**going["metadata"], "deletionTimestamp": "2026-11-30T12:00:00Z"}})
    with_it = ' with its namespace "default"' if phase == "Terminating" else ""
    watching.take(lambda: f"rayjob/r is being deleted{with_it}" in watching.said)
    watching.cluster.remove("RayJob", "r")
    end = watching.end()
    assert (end.how, end.message) == ("deleted", f"rayjob/r was deleted{with_it} before it ended")


def test_pods_that_are_taken_away_before_a_picture_shows_them_are_one_line_of_their_reason(run: Any) -> None:
    watching = run()
    watching.pod("head", "head")
    taken = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "for x"}
    for name in ("w0", "w1"):
        watching.pod(name)
    watching.status("Running", "RUNNING", rayClusterName="r-abc")
    watching.take(lambda: len(watching.follow.pods) == 3)
    for name in ("w0", "w1"):
        gone = watching.cluster.objects.pop(("Pod", "default", name))
        watching.cluster._emit("DELETED", {**gone, "status": {"conditions": [taken]}})
    watching.take(lambda: bool(watching.warned))
    assert watching.warned == ["pod w0 (workers of w) died: PreemptionByScheduler, for x (and 1 more)"]
    watching.status("Complete", "SUCCEEDED")
    assert watching.end().how == "final"
    assert len(watching.warned) == 1
