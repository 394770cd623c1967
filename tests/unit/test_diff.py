"""What counts as the same, and how a difference is told."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from plan_case import WRITTEN, Case

from kubectl_nrl.api import User
from kubectl_nrl.diff import judge
from kubectl_nrl.labels import LAST_APPLIED
from kubectl_nrl.plan import Options, PlannedObject

JDOE = User("jdoe", "jdoe")
GPUS = "cluster: {num_nodes: 2, gpus_per_node: 4}\n"
LONG = Options(mode="raycluster")


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def planned(case: Case, infra: str = WRITTEN, run_id: str = "a") -> PlannedObject:
    found: PlannedObject = case.plan(infra, GPUS, options=LONG, run_id=run_id).workload()
    return found


def live_of(obj: PlannedObject) -> dict[str, Any]:
    """The object as the API server and KubeRay return it: defaults, empty structs, a status."""
    live: dict[str, Any] = copy.deepcopy(dict(obj.manifest))
    live["metadata"] |= {"uid": "1", "resourceVersion": "7", "generation": 1, "managedFields": []}
    for group in live["spec"].get("workerGroupSpecs", []):
        group |= {"numOfHosts": 1, "scaleStrategy": {}}
        group["template"]["spec"]["containers"][0] |= {"terminationMessagePath": "/dev/termination-log"}
    live["status"] = {"state": "ready"}
    return live


def told(obj: PlannedObject, live: dict[str, Any], *ignores: str) -> list[str]:
    return [str(change) for change in judge(obj, live, JDOE, ignores).changes]


def test_nothing_there_is_absent(case: Case) -> None:
    assert judge(planned(case), None, JDOE).verdict == "absent"


def test_another_run_of_the_same_files_is_the_same_though_the_server_added_fields(case: Case) -> None:
    assert judge(planned(case, run_id="b"), live_of(planned(case, run_id="a")), JDOE).verdict == "same"


def test_what_a_scheduler_or_an_autoscaler_wrote_is_no_difference(case: Case) -> None:
    live = live_of(planned(case))
    live["spec"]["suspend"] = True
    live["spec"]["workerGroupSpecs"][0]["replicas"] = 9
    live["spec"]["headGroupSpec"]["template"]["spec"]["nodeSelector"] = {"pool": "x"}
    assert judge(planned(case), live, JDOE).verdict == "same"


def test_a_change_names_the_field_both_values_and_the_line(case: Case) -> None:
    live = live_of(planned(case))
    changed = planned(case, WRITTEN.replace("replicas: 2", "replicas: 3"))
    assert judge(changed, live, JDOE).verdict == "drifted"
    group = "spec.workerGroupSpecs[gpu]"
    assert sorted(told(changed, live)) == [
        f"{group}.maxReplicas: 2 -> 3  <- built-in",
        f"{group}.minReplicas: 2 -> 3  <- built-in",
        f"{group}.replicas: 2 -> 3  <- i.yaml:13",
    ]


def test_a_field_that_is_not_rendered_any_more_is_told_too(case: Case) -> None:
    live = live_of(
        planned(case, WRITTEN.replace("name: ray\n", "name: ray\n              env: [{name: A, value: b}]\n"))
    )
    path = "spec.workerGroupSpecs[gpu].template.spec.containers[ray].env[A]"
    assert told(planned(case), live) == [f"{path}: b -> (none)"]


def test_the_value_of_a_credential_is_never_told(case: Case) -> None:
    secret = "name: ray\n              env: [{name: HF_TOKEN, value: hf_abcdefgh}]\n"
    live = live_of(planned(case))
    live["metadata"]["annotations"][LAST_APPLIED] = ""
    live["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "HF_TOKEN", "value": "hf_12345678"}
    ]
    wanted = planned(
        case, WRITTEN.replace("name: ray\n", secret.replace("HF_TOKEN, value: hf_abcdefgh", "HF_TOKEN, value: ''"))
    )
    changes = told(wanted, live)
    assert changes
    assert "12345678" not in "".join(changes)


@pytest.mark.parametrize("note", ["", "not base64 %", "aGVsbG8="])
def test_without_a_readable_note_every_rendered_field_must_be_there(case: Case, note: str) -> None:
    obj = planned(case)
    live = live_of(obj)
    live["metadata"]["annotations"][LAST_APPLIED] = note
    assert told(obj, live) == []
    live["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["image"] = "other:1"
    path = "spec.workerGroupSpecs[gpu].template.spec.containers[ray].image"
    assert [line.split("  <-")[0] for line in told(obj, live)] == [f"{path}: other:1 -> reg.example/ray:1"]


def test_without_a_note_what_others_write_is_left_out_by_the_providers_word(case: Case) -> None:
    obj = planned(case)
    live = live_of(obj)
    del live["metadata"]["annotations"][LAST_APPLIED]
    live["spec"]["workerGroupSpecs"][0]["template"]["metadata"]["labels"]["kubectl-nrl/role"] = "changed"
    assert len(told(obj, live)) == 1
    assert told(obj, live, "spec.workerGroupSpecs.*.template.metadata") == []


def test_quantities_are_compared_as_amounts(case: Case) -> None:
    obj = planned(case)
    live = live_of(obj)
    del live["metadata"]["annotations"][LAST_APPLIED]
    limits = live["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"]["limits"]
    limits["nvidia.com/gpu"] = "4000m"
    assert told(obj, live) == []


@pytest.mark.parametrize("labels", [{}, {"kubectl-nrl/owner": "bob"}, {"nrl-k8s/owner": "bob"}])
def test_what_is_not_mine_is_foreign_even_when_it_is_equal(case: Case, labels: dict[str, str]) -> None:
    live = live_of(planned(case))
    live["metadata"]["labels"] = labels
    assert judge(planned(case), live, JDOE).verdict == "foreign"


def test_two_people_whose_names_map_alike_are_two(case: Case) -> None:
    live = live_of(planned(case))
    found = judge(planned(case), live, User("jdoe", "j.doe"))
    assert (found.verdict, found.owner and found.owner.owner) == ("foreign", "jdoe")


def test_what_is_being_deleted_is_nothing_to_use(case: Case) -> None:
    live = live_of(planned(case))
    live["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"
    assert judge(planned(case), live, JDOE).verdict == "going"
