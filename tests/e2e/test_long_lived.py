"""Long-lived clusters on fake nodes: KubeRay is real, and what is submitted through the Jobs API really runs."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.fixtures import Cluster
from command_line import CommandLine, pasted, wait_until
from run_files import infra

pytestmark = pytest.mark.node

UP = "cluster up recipe.yaml --infra infra.yaml"
RUN = "run recipe.yaml --infra infra.yaml --raycluster"


class Shell(CommandLine):
    def roles(self, *roles: str, deployment: bool = False, entrypoint: str = "echo hello", **more: Any) -> None:
        """Write an infra file with training and these roles; the Deployment answers where Ray's dashboard would."""
        data = infra(entrypoint, codePath="/tmp")
        for role in roles:
            data["kuberay"][role] = {**copy.deepcopy(data["kuberay"]["training"]), "name": role}
        if deployment:
            container = {"name": "j", "image": "j:1", "ports": [{"containerPort": 8265}]}
            pods = {"template": {"spec": {"containers": [container]}}}
            url = "http://judge:8265/api/version"
            data["deployments"] = {"judge": {"name": "judge", "spec": pods, "healthCheckUrl": url}}
        (self.directory / "infra.yaml").write_text(yaml.safe_dump({**data, **more}))
        (self.directory / "recipe.yaml").write_text("cluster: {num_nodes: 1, gpus_per_node: 0}\n")

    def ids(self) -> tuple[str, str]:
        """Two run ids."""
        mark = self.namespace.rpartition("-")[2]
        return f"x-{mark}-1", f"x-{mark}-2"

    def left(self, kinds: str = "rayclusters,deployments,services,pods,configmaps") -> list[str]:
        names = self.cluster.kubectl("-n", self.namespace, "get", kinds, "-o", "name").split()
        return [name for name in names if name != "configmap/kube-root-ca.crt"]

    def goes(self, what: str) -> None:
        """Wait until nothing is left: what a cluster owns is taken by the garbage collector, after it."""
        wait_until(lambda: not self.left(), lambda: f"{what}, these are left: {self.left()}")

    def versions(self) -> dict[str, str]:
        found = json.loads(
            self.cluster.kubectl("-n", self.namespace, "get", "rayclusters,deployments,services", "-o", "json")
        )
        ours = [o for o in found["items"] if "kubectl-nrl/managed" in (o["metadata"].get("labels") or {})]
        return {f"{o['kind']}/{o['metadata']['name']}": str(o["metadata"]["generation"]) if "generation" in o["metadata"]
                else o["metadata"]["resourceVersion"] for o in ours}  # fmt: skip


@pytest.fixture
def shell(kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path) -> Iterator[Shell]:
    yield Shell(kwok_cluster, kwok_namespace, tmp_path)


def test_three_roles_and_a_deployment_come_up_stay_and_go_whole(shell: Shell) -> None:
    shell.roles("generation", "gym", deployment=True)
    made = shell.json(UP)
    assert {(o["target"], o["action"], o["ready"]) for o in made["objects"]} == {
        (target, "created", True)
        for target in ("kuberay.training", "kuberay.generation", "kuberay.gym", "deployments.judge")
    }
    before = shell.versions()
    again = shell.json(UP)
    assert {o["action"] for o in again["objects"]} == {"unchanged"}
    assert shell.versions() == before
    gone = shell.json("cluster down recipe.yaml --infra infra.yaml")
    assert len(gone["deleted"]) == 4
    assert shell.left("rayclusters,deployments,pods") == []
    shell.goes("heads' Services go with their clusters")


def test_what_differs_is_kept_until_it_is_asked_for_anew(shell: Shell) -> None:
    shell.roles("gym")
    shell.run(UP)
    before = {o["name"]: o["uid"] for o in shell.json(f"{UP} infra.kuberay.gym.annotations.new=x")["objects"]}
    drifted = shell.run(f"{UP} infra.kuberay.gym.annotations.new=x")
    assert "raycluster/gym: kept" in drifted.out
    anew = {o["name"]: o for o in shell.json(f"{UP} infra.kuberay.gym.annotations.new=x --recreate")["objects"]}
    assert (anew["gym"]["action"], anew["t"]["action"]) == ("recreated", "unchanged")
    assert anew["gym"]["uid"] != before["gym"]
    assert anew["t"]["uid"] == before["t"]


def test_of_two_people_at_once_one_gets_the_clusters_and_the_other_an_owner_error(shell: Shell) -> None:
    shell.roles("generation", "gym", deployment=True)
    people = [shell.start(UP, KUBECTL_NRL_USER=name) for name in ("ann", "bob")]
    codes = [one.end() for one in people]
    owners = shell.cluster.kubectl(
        "-n", shell.namespace, "get", "rayclusters,deployments", "-o",
        "jsonpath={.items[*].metadata.labels.kubectl-nrl/owner}",
    ).split()  # fmt: skip
    assert sorted(set(codes)) in ([0, 3], [3]), "\n".join(map(str, people))
    for one, code in zip(people, codes, strict=True):
        assert code == 0 or "belongs to" in one.err, str(one)
    # Whoever failed took back what was theirs: what is there is one person's, and whole.
    assert (len(set(owners)), len(owners)) in ((1, 4), (0, 0)), (owners, "\n".join(map(str, people)))


def test_one_person_twice_at_once_makes_everything_once(shell: Shell) -> None:
    shell.roles("generation", "gym", deployment=True)
    both = [shell.start(UP) for _ in range(2)]
    assert [one.end() for one in both] == [0, 0], "\n".join(map(str, both))
    assert len([name for name in shell.left() if name.startswith("raycluster")]) == 3


def test_a_run_brings_its_cluster_up_and_the_next_one_uses_it_again(shell: Shell) -> None:
    shell.roles(entrypoint="for n in $(seq 1 3000); do echo line $n; done; echo $NRL_K8S_RUN_ID")
    one, two = shell.ids()
    first = shell.json(f"{RUN} --run-id {one}")
    assert (first["state"], first["log"]["complete"]) == ("SUCCEEDED", True)
    second = shell.run(f"{RUN} --run-id {two}")
    lines = second.out.splitlines()
    assert lines == [*(f"line {n}" for n in range(1, 3001)), two]
    assert "raycluster/t: unchanged" in second.err
    record = json.loads(
        shell.cluster.kubectl("-n", shell.namespace, "get", "configmap", f"nrl-run-{two}", "-o", "json")
    )
    assert (record["data"]["state"], record["data"]["rayClusterUid"]) == ("SUCCEEDED", first["rayClusterUid"])
    shell.run("cluster down t")
    shell.goes("records go with their cluster")


def test_a_driver_that_fails_fails_the_run(shell: Shell) -> None:
    shell.roles(entrypoint="echo so; exit 3")
    done = shell.run(RUN, expect=1)
    assert done.out == "so\n"
    assert "FAILED" in done.err


def test_ctrl_c_leaves_the_run_and_replace_ends_it(shell: Shell) -> None:
    shell.roles(entrypoint="echo started; sleep 600")
    one, two = shell.ids()
    first = shell.start(f"{RUN} --run-id {one}")
    first.until(lambda: "started" in first.out, "the driver's first line")
    assert first.interrupt() == 130
    assert pasted(first.err, "follow it again").startswith(f"kubectl nrl job logs {one} -f")
    (shell.directory / "infra.yaml").write_text(
        (shell.directory / "infra.yaml").read_text().replace("sleep 600", "true")
    )
    away = shell.elsewhere()
    assert {run["id"]: run["state"] for run in shell.json("runs", **away)} == {one: "RUNNING"}
    assert shell.run(f"job logs {one}", **away).out == "started\n"
    second = shell.run(f"{RUN} --run-id {two} --replace")
    assert {run["id"]: run["state"] for run in shell.json("runs", **away)} == {one: "STOPPED", two: "SUCCEEDED"}
    assert f"stopping {one}" in second.err


def test_code_is_uploaded_once_and_is_the_drivers_directory(shell: Shell) -> None:
    shell.roles(entrypoint="cat said.txt")
    root = shell.directory / "code"
    root.mkdir()
    (root / "said.txt").write_text("from the laptop\n")
    line = f"{RUN} --code-source upload --repo-root code"
    assert shell.run(line).out == "from the laptop\n"
    assert "0 bytes" in shell.run(line).err


def test_a_run_is_verified_while_its_cluster_stays_and_after_it_was_taken_down(shell: Shell) -> None:
    _, run_id = shell.ids()
    shell.roles(deployment=True, entrypoint="echo 'Mean Generation Length: 512'")
    shell.run(f"{RUN} --run-id {run_id}")
    told = shell.json(f"verify {run_id}", **shell.elsewhere())
    assert {item["title"]: item["ok"] for item in told["items"]} == {
        "objects": True, "job": True, "log": True, "wandb": None, "generation": True, "teardown": True
    }, told  # fmt: skip
    objects, *_, teardown = told["items"]
    assert objects["detail"] == "raycluster/t (2/2 pods ready), deployment/judge (1/1 available)"
    shell.run(teardown["fix"])
    gone = shell.json(f"verify {run_id}")
    assert [item["ok"] for item in gone["items"]] == [None, True, True, None, True, True], gone
    assert "raycluster/t is gone, and no pod of it is left" in gone["items"][-1]["detail"]
    shell.run(f"verify {run_id}", expect=2, **shell.elsewhere("third-laptop"))
