"""Creating a Plan's objects: the order, what a failing step takes back, and what Ctrl-C leaves."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster
from plans import plan, planned, rayjob

from kubectl_nrl.api import Ref
from kubectl_nrl.apply import Created, Uncertain, up
from kubectl_nrl.errors import ClusterError

CLAIM = planned("ResourceClaimTemplate", "claim")
CONFIG = planned("ConfigMap", "script", wave=1)
SERVICE = planned("Service", "svc", wave=20)
JOB = rayjob()


class Bring:
    """One call of `up`, with what it said."""

    def __init__(self, cluster: FakeCluster, *objects: Any, **words: Any) -> None:
        self.cluster, self.created = cluster, Created()
        self.said: list[str] = []
        self.warned: list[str] = []
        self.events: list[Any] = []
        self.error: BaseException | None = None
        try:
            up(
                plan(*objects),
                cluster,
                self.created,
                say=self.said.append,
                warn=self.warned.append,
                event=self.events.append,
                **words,
            )
        except BaseException as error:
            self.error = error

    def verbs(self, verb: str) -> list[tuple[str, str]]:
        return [(kind, name) for v, kind, name in self.cluster.calls if v == verb]


def owners(cluster: FakeCluster, kind: str, name: str) -> list[dict[str, Any]]:
    return cluster.objects[kind, "default", name]["metadata"].get("ownerReferences") or []


def test_children_come_first_and_get_their_owner_last() -> None:
    bring = Bring(FakeCluster(), CLAIM, CONFIG, JOB, SERVICE)
    assert bring.error is None
    assert bring.verbs("create") == [
        ("ResourceClaimTemplate", "claim"),
        ("ConfigMap", "script"),
        ("RayJob", "demo"),
        ("Service", "svc"),
    ]
    workload = bring.created.workload
    assert workload is not None
    for kind, name in (("ResourceClaimTemplate", "claim"), ("ConfigMap", "script"), ("Service", "svc")):
        [owner] = owners(bring.cluster, kind, name)
        assert owner["uid"] == workload["metadata"]["uid"]
        assert owner["kind"] == "RayJob"
        assert "blockOwnerDeletion" not in owner
    creates = [i for i, call in enumerate(bring.cluster.calls) if call[0] == "create"]
    patches = [i for i, call in enumerate(bring.cluster.calls) if call[0] == "patch"]
    assert min(patches) > max(creates)
    assert [e["kind"] for e in bring.events] == ["ResourceClaimTemplate", "ConfigMap", "RayJob", "Service"]


@pytest.mark.parametrize("failing", ["ConfigMap", "RayJob", "Service"])
def test_a_failing_step_takes_back_what_this_call_made_and_nothing_else(failing: str) -> None:
    cluster = FakeCluster()
    cluster.put({"kind": "ConfigMap", "metadata": {"name": "somebody-elses"}})
    cluster.faults["create", failing] = ClusterError("forbidden", status=403, reason="Forbidden")
    bring = Bring(cluster, CLAIM, CONFIG, JOB, SERVICE)
    assert isinstance(bring.error, ClusterError)
    assert list(cluster.objects) == [("ConfigMap", "default", "somebody-elses")]
    assert bring.created.workload is None
    deleted = bring.verbs("delete")
    created = [c for c in bring.verbs("create") if c[0] != failing]
    assert deleted == created[::-1]
    assert len(bring.said) == len(deleted)


def test_a_name_that_appeared_meanwhile_is_not_deleted_by_the_roll_back() -> None:
    cluster = FakeCluster()
    foreign = cluster.put({"kind": "RayJob", "apiVersion": "ray.io/v1", "metadata": {"name": "demo"}})
    bring = Bring(cluster, CLAIM, JOB)
    assert isinstance(bring.error, ClusterError)
    assert bring.error.reason == "AlreadyExists"
    assert cluster.objects["RayJob", "default", "demo"]["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert ("ResourceClaimTemplate", "default", "claim") not in cluster.objects


def test_a_create_whose_answer_was_lost_counts_when_the_object_is_there() -> None:
    cluster = FakeCluster()
    create = cluster.create

    def lossy(manifest: Any, **words: Any) -> Any:
        made = create(manifest, **words)
        if manifest["kind"] == "RayJob":
            raise ClusterError("timed out")
        return made

    cluster.create = lossy  # type: ignore[method-assign]
    bring = Bring(cluster, CLAIM, JOB)
    assert bring.error is None
    assert bring.created.workload is not None
    assert owners(cluster, "ResourceClaimTemplate", "claim")


def test_a_create_whose_answer_was_lost_and_did_not_arrive_rolls_back() -> None:
    cluster = FakeCluster()
    cluster.faults["create", "RayJob"] = ClusterError("timed out")
    bring = Bring(cluster, CLAIM, JOB)
    assert isinstance(bring.error, ClusterError)
    assert cluster.objects == {}


def lose(cluster: FakeCluster, error: BaseException, *silences: ClusterError) -> None:
    """The RayJob's creation arrives and its answer does not; then the API server is away for so many questions."""
    create, get = cluster.create, cluster.get
    away = list(silences)

    def lossy(manifest: Any, **words: Any) -> Any:
        made = create(manifest, **words)
        if manifest["kind"] == "RayJob":
            raise error
        return made

    def silent(api: str, kind: str, *words: Any) -> Any:
        if kind == "RayJob" and away:
            raise away.pop(0)
        return get(api, kind, *words)

    cluster.create, cluster.get = lossy, silent  # type: ignore[method-assign]


LOST = ClusterError("lost the API server", reason="ConnectionLost")
AWAY = ClusterError("cannot reach the API server", reason="Unreachable")


def test_a_lost_answer_is_asked_about_until_the_api_server_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    cluster = FakeCluster()
    lose(cluster, LOST, AWAY, ClusterError("starting", status=503), AWAY)
    bring = Bring(cluster, CLAIM, JOB)
    assert bring.error is None and owners(cluster, "ResourceClaimTemplate", "claim")
    assert bring.said == ["rayjob/demo was sent and nothing came back; asking whether it is there"]


@pytest.mark.parametrize("silence", [AWAY, ClusterError("forbidden", status=403)])
def test_a_workload_that_nobody_can_tell_of_may_run_and_nothing_is_taken_from_it(
    monkeypatch: pytest.MonkeyPatch, silence: ClusterError
) -> None:
    monkeypatch.setattr("kubectl_nrl.apply.create.UNANSWERED", 0.0)
    cluster = FakeCluster()
    lose(cluster, LOST, silence)
    bring = Bring(cluster, CLAIM, JOB)
    assert isinstance(bring.error, Uncertain) and bring.error.exit_code == 6
    assert "whether rayjob/demo was created is not known" in bring.error.message
    assert bring.created.uncertain and not bring.verbs("delete")


def test_ctrl_c_while_the_workload_is_sent_takes_nothing_back_when_nobody_can_tell() -> None:
    cluster = FakeCluster()
    lose(cluster, KeyboardInterrupt(), AWAY)
    bring = Bring(cluster, CLAIM, JOB)
    assert isinstance(bring.error, KeyboardInterrupt)
    assert bring.created.uncertain and not bring.verbs("delete")


def test_what_was_never_sent_is_certain() -> None:
    cluster = FakeCluster()
    cluster.faults["create", "RayJob"] = AWAY
    bring = Bring(cluster, CLAIM, JOB)
    assert bring.error is AWAY and cluster.objects == {} and ("get", "RayJob", "demo") not in cluster.calls


def test_a_roll_back_that_is_refused_says_what_to_delete() -> None:
    cluster = FakeCluster()
    cluster.faults["create", "RayJob"] = ClusterError("forbidden", status=403)
    cluster.faults["delete", "ConfigMap"] = ClusterError("forbidden", status=403)
    bring = Bring(cluster, CONFIG, JOB)
    assert "kubectl delete configmap/script -n default" in bring.warned[0]


def test_a_reader_who_left_does_not_keep_the_rest_from_being_taken_back() -> None:
    cluster = FakeCluster()
    cluster.faults["create", "RayJob"] = ClusterError("forbidden", status=403)

    def nobody_reads(text: str) -> None:
        raise BrokenPipeError

    with pytest.raises(ClusterError, match="forbidden"):
        up(plan(CLAIM, CONFIG, JOB), cluster, Created(), say=nobody_reads, warn=nobody_reads)
    assert cluster.objects == {}


def test_a_second_ctrl_c_names_what_is_left_with_the_command_for_it() -> None:
    cluster = FakeCluster()
    cluster.faults["create", "RayJob"] = KeyboardInterrupt()
    cluster.faults["delete", "ConfigMap"] = KeyboardInterrupt()
    bring = Bring(cluster, CLAIM, CONFIG, JOB)
    assert isinstance(bring.error, KeyboardInterrupt)
    assert bring.warned[0].endswith(
        "may be left: kubectl delete -n default resourceclaimtemplate/claim configmap/script"
    )
    assert len(bring.created.objects) == 2


def test_ctrl_c_before_the_workload_exists_takes_the_children_back() -> None:
    cluster = FakeCluster()
    cluster.faults["create", "ConfigMap"] = KeyboardInterrupt()
    bring = Bring(cluster, CLAIM, CONFIG, JOB)
    assert isinstance(bring.error, KeyboardInterrupt)
    assert cluster.objects == {}


def test_ctrl_c_after_the_workload_exists_leaves_the_run_alone_with_its_children_owned() -> None:
    cluster = FakeCluster()
    cluster.faults["create", "Service"] = KeyboardInterrupt()
    bring = Bring(cluster, CLAIM, JOB, SERVICE)
    assert isinstance(bring.error, KeyboardInterrupt)
    assert bring.created.workload is not None
    assert ("RayJob", "default", "demo") in cluster.objects
    assert owners(cluster, "ResourceClaimTemplate", "claim")


def test_ctrl_c_while_the_workloads_answer_was_on_its_way_leaves_the_run_alone() -> None:
    cluster = FakeCluster()

    def interrupt() -> None:
        raise KeyboardInterrupt

    cluster.after["create", "RayJob"] = interrupt
    bring = Bring(cluster, CLAIM, JOB)
    assert isinstance(bring.error, KeyboardInterrupt)
    assert bring.created.workload is not None
    assert ("RayJob", "default", "demo") in cluster.objects


def test_what_a_controller_makes_is_awaited_before_the_workload() -> None:
    cluster = FakeCluster()
    domain = planned("ComputeDomain", "cd", refs=(Ref("v1", "ResourceClaimTemplate", "cd"),))

    def controller() -> None:
        cluster.put({"kind": "ResourceClaimTemplate", "metadata": {"name": "cd"}})

    cluster.after["create", "ComputeDomain"] = controller
    bring = Bring(cluster, domain, JOB)
    assert bring.error is None
    gets = [i for i, call in enumerate(cluster.calls) if call == ("get", "ResourceClaimTemplate", "cd")]
    assert gets
    assert gets[-1] < cluster.calls.index(("create", "RayJob", "demo"))


def test_a_controller_that_does_not_answer_ends_the_run_before_any_pod() -> None:
    cluster = FakeCluster()
    domain = planned("ComputeDomain", "cd", refs=(Ref("v1", "ResourceClaimTemplate", "cd"),))
    bring = Bring(cluster, domain, JOB, controller_within=0.3)
    assert isinstance(bring.error, ClusterError)
    assert "resourceclaimtemplate/cd was not made of computedomain/cd" in bring.error.message
    assert cluster.objects == {}
    assert not [c for c in cluster.calls if c[:2] == ("create", "RayJob")]


def test_an_owner_that_may_not_be_written_costs_a_warning_and_not_the_run() -> None:
    cluster = FakeCluster()
    cluster.faults["patch", "ConfigMap"] = ClusterError("forbidden", status=403)
    bring = Bring(cluster, CONFIG, JOB)
    assert bring.error is None
    assert "configmap/script will not be removed with the run" in bring.warned[0]


def test_ctrl_c_while_children_learn_their_owner_lets_all_of_them_learn_it() -> None:
    cluster, times = FakeCluster(), []

    def interrupt() -> None:
        times.append(1)
        if len(times) == 1:
            raise KeyboardInterrupt

    cluster.after["patch", "ResourceClaimTemplate"] = interrupt
    bring = Bring(cluster, CLAIM, CONFIG, JOB)
    assert isinstance(bring.error, KeyboardInterrupt)
    assert bring.created.workload is not None
    assert owners(cluster, "ResourceClaimTemplate", "claim")
    assert owners(cluster, "ConfigMap", "script")


def test_what_took_a_childs_name_meanwhile_is_never_made_to_go_with_the_run() -> None:
    """Garbage collection deletes what an owner owns: a stranger's object must not get one."""
    cluster = FakeCluster()

    def replaced() -> None:
        cluster.remove("ConfigMap", "script")
        cluster.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "script", "uid": "a-strangers"}})

    cluster.after["create", "RayJob"] = replaced
    bring = Bring(cluster, CONFIG, JOB)
    assert bring.error is None
    assert owners(cluster, "ConfigMap", "script") == []
    assert "configmap/script will not be removed with the run" in bring.warned[0]
