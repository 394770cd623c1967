"""`cluster up` and `cluster down` against a cluster in memory."""

from __future__ import annotations

import copy
import json
from importlib import import_module
from typing import Any

import pytest
from long_lived_case import LongLivedWorld

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.testing import USER


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> LongLivedWorld:
    return LongLivedWorld(monkeypatch)


def test_roles_and_deployments_come_up_and_are_waited_for(world: LongLivedWorld) -> None:
    world.infra("generation", "gym", deployment=True)
    done = world.up("-o json").ok().result("cluster_up")
    assert world.names("RayCluster") == ["generation", "gym", "t"]
    assert (world.names("Deployment"), world.names("Service")) == (["judge"], ["judge"])
    assert {(o["target"], o["action"], o["ready"]) for o in done["objects"]} == {
        ("kuberay.training", "created", True), ("kuberay.generation", "created", True), ("kuberay.gym", "created", True),
        ("deployments.judge", "created", True),
    }  # fmt: skip
    owners = world.cluster.objects["Service", "default", "judge"]["metadata"]["ownerReferences"]
    assert [ref["kind"] for ref in owners] == ["Deployment"]


def test_a_second_time_nothing_is_written(world: LongLivedWorld) -> None:
    world.infra("gym", deployment=True)
    world.up().ok()
    world.forget()
    done = world.up().ok()
    assert world.wrote() == []
    assert "raycluster/t: unchanged" in done.out


def test_only_the_targets_come_up(world: LongLivedWorld) -> None:
    world.infra("gym", deployment=True)
    world.up("--target kuberay.gym --target deployments.judge").ok()
    assert (world.names("RayCluster"), world.names("Deployment")) == (["gym"], ["judge"])
    world.up("--role training").ok()
    assert world.names("RayCluster") == ["gym", "t"]


def test_an_unknown_target_names_the_known_ones(world: LongLivedWorld) -> None:
    done = world.up("--target kuberay.gym")
    assert (done.exit, "it has: kuberay.training" in done.err) == (2, True), done.err


def test_a_drifted_cluster_is_kept_and_its_difference_told(world: LongLivedWorld) -> None:
    world.up().ok()
    world.forget()
    done = world.up("infra.image=y:2").ok()
    assert "raycluster/t differs" in done.err
    assert "containers[ray].image: x:1 -> y:2  <- command line: infra.image=y:2" in done.err
    assert world.wrote() == []
    assert "raycluster/t: kept" in done.out


def test_recreate_makes_only_what_drifted_anew(world: LongLivedWorld) -> None:
    world.infra("gym")
    world.up().ok()
    before = {name: world.cluster.objects["RayCluster", "default", name]["metadata"]["uid"] for name in ("gym", "t")}
    done = world.up("--recreate infra.kuberay.gym.annotations.new=x").ok()
    after = {name: world.cluster.objects["RayCluster", "default", name]["metadata"]["uid"] for name in ("gym", "t")}
    assert [name for name in before if before[name] != after[name]] == ["gym"], done.err
    assert "raycluster/gym: recreated" in done.out


def test_recreate_of_a_busy_cluster_needs_a_yes(world: LongLivedWorld) -> None:
    world.up().ok()
    world.ray.put("train-1", "RUNNING")
    world.forget()
    done = world.up("infra.image=y:2 --recreate")
    assert (done.exit, "running jobs: train-1" in done.err) == (2, True), done.err
    assert world.wrote() == []
    world.up("infra.image=y:2 --recreate --yes").ok()


def test_anothers_cluster_of_that_name_is_left_alone(world: LongLivedWorld) -> None:
    world.up().ok()
    world.give_to("RayCluster", "t", "bob")
    world.forget()
    done = world.up()
    assert (done.exit, 'raycluster/t in namespace "default" belongs to "bob"' in done.err) == (3, True), done.err
    assert "attach" in done.err
    assert world.wrote() == []


def test_a_refused_object_takes_back_what_this_call_made_and_nothing_else(world: LongLivedWorld) -> None:
    world.up().ok()
    world.infra("gym", deployment=True)
    world.cluster.faults["create", "Deployment"] = ClusterError("deployments is forbidden", status=403)
    done = world.up()
    assert (done.exit, "forbidden" in done.err) == (3, True), done.err
    assert (world.names("RayCluster"), world.names("Deployment"), world.names("Service")) == (["t"], [], [])


def test_what_the_server_refuses_is_said_before_anything_exists(world: LongLivedWorld) -> None:
    world.infra("gym")
    world.cluster.faults["dry-run", "Pod"] = ClusterError("pods is invalid: spec.x", status=422)
    done = world.up()
    assert done.exit == 3
    assert world.names("RayCluster") == []


def test_one_who_is_faster_is_seen_as_if_it_had_been_there(world: LongLivedWorld) -> None:
    """Between looking and creating somebody makes the same cluster: the second call changes nothing."""
    original = world.cluster.create

    def create(manifest: Any, *, namespace: str, dry_run: bool = False) -> dict[str, Any]:
        if manifest["kind"] == "RayCluster" and not dry_run and not world.names("RayCluster"):
            world.cluster.put(copy.deepcopy(dict(manifest)))
            world.operate()
        made: dict[str, Any] = original(manifest, namespace=namespace, dry_run=dry_run)
        return made

    world.cluster.create = create  # type: ignore[method-assign]
    done = world.up().ok()
    assert len(world.names("RayCluster")) == 1
    assert ("delete", "RayCluster") not in world.wrote(), done.err


def test_one_of_anothers_that_is_faster_is_an_owner_error_and_no_half_state(world: LongLivedWorld) -> None:
    world.infra("gym")
    original = world.cluster.create

    def create(manifest: Any, *, namespace: str, dry_run: bool = False) -> dict[str, Any]:
        if manifest["metadata"].get("name") == "t" and not dry_run and "t" not in world.names("RayCluster"):
            world.cluster.put(copy.deepcopy(dict(manifest)))
            world.give_to("RayCluster", "t", "bob")
        made: dict[str, Any] = original(manifest, namespace=namespace, dry_run=dry_run)
        return made

    world.cluster.create = create  # type: ignore[method-assign]
    done = world.up()
    assert (done.exit, 'belongs to "bob"' in done.err) == (3, True), done.err
    assert world.names("RayCluster") == ["t"]


def test_a_missing_service_is_made_beside_the_deployment_that_is_there(world: LongLivedWorld) -> None:
    world.infra(deployment=True)
    world.up().ok()
    world.cluster.remove("Service", "judge")
    done = world.up().ok()
    assert world.names("Service") == ["judge"]
    assert "deployment/judge: completed" in done.out


def test_waiting_ends_with_what_is_missing(world: LongLivedWorld) -> None:
    world.keeps_down.add("RayCluster")
    done = world.up("--timeout 0")
    assert (done.exit, "gave up waiting for raycluster/t" in done.err) == (4, True), done.err
    assert world.names("RayCluster") == ["t"]
    assert "KubeRay has not looked at it yet" in done.err


def test_a_start_that_cannot_succeed_is_given_up_and_taken_back(world: LongLivedWorld) -> None:
    world.infra("gym", deployment=True)
    world.never_start()
    done = world.up("--start-timeout 1")
    assert (done.exit, 'ImagePullBackOff, image "x:typo"' in done.err) == (4, True), done.err
    assert [*world.names("RayCluster"), *world.names("Deployment")] == [], "GPUs are given back"


@pytest.mark.parametrize("flag", ["", "--start-timeout 0", "--start-timeout 60"])
def test_within_its_time_no_start_is_given_up(world: LongLivedWorld, flag: str) -> None:
    world.never_start()
    done = world.up(f"--timeout 2 {flag}")
    assert (done.exit, "gave up waiting for raycluster/t" in done.err) == (4, True), done.err
    assert world.names("RayCluster") == ["t"]


def test_where_a_limit_of_the_start_has_no_meaning_it_is_said(world: LongLivedWorld) -> None:
    assert "clusters that nobody waits for" in world.up("--no-wait --start-timeout 5").err
    done = world.up("--local --start-timeout 5")
    assert (done.exit, "--start-timeout is for clusters on Kubernetes" in done.err) == (2, True), done.err


def test_no_wait_returns_at_once(world: LongLivedWorld) -> None:
    world.keeps_down.add("RayCluster")
    done = world.up("--no-wait").ok()
    assert done.out == "raycluster/t: created\n"
    assert world.ray.asked == []


def test_a_cluster_that_somebody_suspended_is_named_with_the_way_out(world: LongLivedWorld) -> None:
    world.up().ok()
    obj = copy.deepcopy(world.cluster.objects["RayCluster", "default", "t"])
    obj["spec"]["suspend"] = True
    world.cluster.put(obj)
    done = world.up()
    assert (done.exit, "is suspended" in done.err, "kubectl patch raycluster t" in done.err) == (3, True, True), (
        done.err
    )


def test_dry_run_prints_the_targets_and_sends_nothing(world: LongLivedWorld) -> None:
    world.infra("gym")
    done = world.up("--dry-run --target kuberay.gym").ok()
    assert [d["metadata"]["name"] for d in done.documents] == ["gym"]
    assert world.wrote() == []


def test_dry_run_as_json_is_one_list(world: LongLivedWorld) -> None:
    world.infra("gym")
    found = json.loads(world.up("--dry-run -o json").ok().out)
    assert (found["kind"], sorted(item["metadata"]["name"] for item in found["items"])) == ("List", ["gym", "t"])


def test_a_dry_run_of_down_says_what_would_go_and_deletes_nothing(world: LongLivedWorld) -> None:
    world.infra("gym")
    world.up("--target kuberay.training").ok()
    world.ray.put("train-1", "RUNNING")
    world.forget()
    done = world.down("recipe.yaml --infra infra.yaml --dry-run -q").ok()
    assert done.out == (
        f'raycluster/t: owner "{USER}", 0 GPUs, running jobs: train-1; would be deleted\nraycluster/gym: did not exist\n'
    )
    told = world.down("t --dry-run -o json").ok().result("cluster_down")
    assert told["wouldDelete"] == [{"name": "raycluster/t", "owner": USER, "gpus": 0, "runningJobs": ["train-1"]}]
    assert (told["deleted"], world.wrote()) == ([], [])


def test_down_deletes_what_is_there_and_says_what_was_not(world: LongLivedWorld) -> None:
    world.infra("gym", deployment=True)
    world.up("--target kuberay.training --target deployments.judge").ok()
    done = world.down("recipe.yaml --infra infra.yaml -o json").ok().result("cluster_down")
    assert done["deleted"] == ["raycluster/t", "deployment/judge"]
    assert done["absent"] == ["raycluster/gym"]
    assert (world.names("RayCluster"), world.names("Deployment"), world.names("Service")) == ([], [], [])


def test_down_by_name_needs_no_recipe(world: LongLivedWorld) -> None:
    world.up().ok()
    done = world.down("raycluster/t").ok()
    assert done.out == "raycluster/t: deleted\n"
    done = world.down("t")
    assert (done.exit, 'no RayCluster "t"' in done.err) == (2, True), done.err


def test_a_rayjobs_cluster_is_not_taken_down_from_under_it(world: LongLivedWorld) -> None:
    refs = [{"kind": "RayJob", "name": "r", "uid": "9"}]
    world.cluster.put({"kind": "RayCluster", "metadata": {"name": "r-x1", "ownerReferences": refs}})
    done = world.down("r-x1")
    assert (done.exit, "kubectl nrl job stop rayjob/r -n default" in done.err) == (2, True), done.err
    assert world.names("RayCluster") == ["r-x1"]


def test_a_cluster_that_a_controller_would_make_anew_is_not_taken_down(world: LongLivedWorld) -> None:
    refs = [{"kind": "RayService", "name": "s", "uid": "9", "controller": True}]
    world.cluster.put({"kind": "RayCluster", "metadata": {"name": "s-x1", "ownerReferences": refs}})
    done = world.down("s-x1 --yes")
    assert (done.exit, "belongs to rayservice/s, which would make it anew" in done.err) == (2, True), done.err
    assert world.names("RayCluster") == ["s-x1"]


def test_an_override_beside_a_name_is_refused(world: LongLivedWorld) -> None:
    world.up().ok()
    done = world.down("t infra.kuberay.training.name=u")
    assert (done.exit, "is an override" in done.err, world.names("RayCluster")) == (2, True, ["t"]), done.err


@pytest.mark.parametrize(("flags", "code"), [("", 2), ("--yes", 2), ("--force", 2), ("--force --yes", 0)])
def test_anothers_cluster_needs_force_and_a_yes(world: LongLivedWorld, flags: str, code: int) -> None:
    world.up().ok()
    world.give_to("RayCluster", "t", "bob")
    done = world.down(f"t {flags}")
    assert (done.exit, world.names("RayCluster")) == (code, [] if code == 0 else ["t"]), done.err


def test_a_busy_cluster_of_mine_needs_a_yes(world: LongLivedWorld) -> None:
    world.up().ok()
    world.ray.put("train-1", "RUNNING")
    assert world.down("t").exit == 2
    world.ray.down = ClusterError("forbidden", status=403)
    assert world.down("t").exit == 2, "jobs that cannot be seen may be running"
    assert world.names("RayCluster") == ["t"]
    world.down("t --yes").ok()


def test_a_head_whose_dashboard_died_may_still_run_a_driver(world: LongLivedWorld) -> None:
    world.up().ok()
    world.ray.down = ClusterError("nothing listens on port 8265", reason="PortClosed")
    done = world.down("t")
    assert (done.exit, "jobs unknown" in done.err) == (2, True), done.err
    world.cluster.set_status("RayCluster", "t", conditions=[])
    world.down("t").ok()  # its head only starts


def test_a_stuck_finalizer_is_named(world: LongLivedWorld) -> None:
    world.up().ok()
    obj = copy.deepcopy(world.cluster.objects["RayCluster", "default", "t"])
    obj["metadata"] |= {"finalizers": ["example.com/stuck"], "deletionTimestamp": "2026-11-30T12:00:00Z"}
    world.cluster.put(obj)
    done = world.down("t --timeout 0")
    assert (done.exit, "held by finalizer example.com/stuck" in done.err) == (4, True), done.err


def test_an_outage_while_pods_go_is_waited_out_and_said_once(
    world: LongLivedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("kubectl_nrl.apply.take_down"), "LOOK", 0.0)
    world.up().ok()
    away, looks = ClusterError("cannot reach the API server", reason="Unreachable"), 0
    real = world.cluster.get

    def get(api: str, kind: str, name: str, namespace: str | None = None) -> Any:
        nonlocal looks
        if kind == "RayCluster" and name not in world.names(kind):
            looks += 1
            if looks < 9:
                raise away
        return real(api, kind, name, namespace)

    monkeypatch.setattr(world.cluster, "get", get)
    done = world.down("raycluster/t").ok()
    assert done.out == "raycluster/t: deleted\n"
    assert done.err.count("cannot reach the API server; waiting") == 1


def test_anothers_service_of_that_name_stays(world: LongLivedWorld) -> None:
    world.infra(deployment=True)
    world.up().ok()
    world.cluster.remove("Service", "judge")
    strange = {"labels": {"kubectl-nrl/owner": "bob"}, "name": "judge", "annotations": {}}
    world.cluster.put({"apiVersion": "v1", "kind": "Service", "metadata": strange})
    world.down().ok()
    assert (world.names("Deployment"), world.names("Service")) == ([], ["judge"])


def test_recreate_deletes_nothing_of_mine_where_anothers_object_would_stay_in_the_way(world: LongLivedWorld) -> None:
    world.infra(deployment=True)
    world.up().ok()
    world.cluster.remove("Service", "judge")
    strange = {"labels": {"kubectl-nrl/owner": "bob"}, "name": "judge", "annotations": {}}
    world.cluster.put({"apiVersion": "v1", "kind": "Service", "metadata": strange})
    world.forget()
    done = world.up("--recreate --force --yes")
    assert (done.exit, 'service/judge in namespace "default" belongs to "bob"' in done.err) == (3, True), done.err
    assert world.wrote() == []


def test_recreate_takes_anothers_cluster_with_all_that_belongs_to_it(world: LongLivedWorld) -> None:
    world.infra(deployment=True)
    world.up().ok()
    before = world.cluster.objects["Deployment", "default", "judge"]["metadata"]["uid"]
    for kind in ("Deployment", "Service"):
        world.give_to(kind, "judge", "bob")
    world.up("--recreate --force --yes").ok()
    assert world.cluster.objects["Deployment", "default", "judge"]["metadata"]["uid"] != before
    assert world.names("Service") == ["judge"]


def test_giving_up_says_what_stays_and_how_it_goes(world: LongLivedWorld) -> None:
    world.keeps_down.add("RayCluster")
    done = world.up("--timeout 0")
    assert "raycluster/t stays\n  take it down: kubectl nrl cluster down recipe.yaml --infra infra.yaml" in done.err


def test_what_stays_is_taken_down_by_its_targets_alone(world: LongLivedWorld) -> None:
    world.infra("gym")
    world.up("--target kuberay.gym").ok()
    world.keeps_down.add("RayCluster")
    down = "kubectl nrl cluster down recipe.yaml --infra infra.yaml --target kuberay.training -n default"
    for targets in ("--target kuberay.training", ""):
        done = world.up(f"{targets} --timeout 0")
        assert f"raycluster/t stays\n  take it down: {down}\n" in done.err
        world.run(down).ok()
    assert world.names("RayCluster") == ["gym"]


def test_a_refusal_repeats_what_was_typed_with_what_it_lacks(world: LongLivedWorld) -> None:
    world.infra("gym")
    world.up().ok()
    world.give_to("RayCluster", "gym", "bob")
    typed = "cluster down recipe.yaml --infra infra.yaml --role gym --no-wait"
    done = world.run(f"{typed} --context c")
    assert f"hint: kubectl nrl {typed} --context c -n default --force --yes\n" in done.err
    world.run(f"{typed} -n default --force --yes").ok()


def test_rayjob_is_no_way_to_bring_a_cluster_up(world: LongLivedWorld) -> None:
    assert world.up("--rayjob").exit == 2
