"""Daemons of long-lived clusters on fake nodes: KubeRay is real, and daemons and drivers run as processes that talk to one another."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.fixtures import Cluster
from cluster.state import free_port
from command_line import CommandLine
from run_files import infra
from waiting import PATIENCE

pytestmark = pytest.mark.node

UP = "cluster up recipe.yaml --infra infra.yaml"
RUN = "run recipe.yaml --infra infra.yaml --raycluster"
#: Stays until the test is over: a fake Ray outlives its cluster, and so would what it runs.
STAY = "until [ -e {directory}/over ]; do sleep 0.2; done"
SERVE = "cd {directory}; python3 -u -m http.server --bind 127.0.0.1 {port} & " + STAY + "; kill $!"
FETCH = (
    "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:{port}/hello.txt\").read().decode())'"
)


class Shell(CommandLine):
    """Daemons of a cluster beside the driver's."""

    def daemon(self, entrypoint: str, url: str, driver: str = "true", seconds: int = int(PATIENCE)) -> None:
        data = infra(driver, codePath="/tmp", peerWatcher=False)
        gym = copy.deepcopy(data["kuberay"]["training"])
        daemon = {
            "entrypoint": entrypoint,
            "submissionId": self.id,
            "healthCheckUrl": url,
            "healthCheckTimeoutS": seconds,
        }
        data["kuberay"]["gym"] = {**gym, "name": "gym", "daemon": daemon}
        (self.directory / "infra.yaml").write_text(yaml.safe_dump(data))
        (self.directory / "recipe.yaml").write_text("cluster: {num_nodes: 1, gpus_per_node: 0}\n")

    @property
    def id(self) -> str:
        return f"gym-{self.namespace.rpartition('-')[2]}"

    def config_maps(self) -> str:
        return self.cluster.kubectl("-n", self.namespace, "get", "configmaps", "-o", "name")

    def daemons(self, line: str) -> Any:
        return self.json(line)["daemons"]


@pytest.fixture
def shell(kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path) -> Iterator[Shell]:
    made = Shell(kwok_cluster, kwok_namespace, tmp_path)
    yield made
    (tmp_path / "over").touch()


@pytest.fixture
def port() -> int:
    """A port for a daemon that is started later: none of those that the kernel gives to clients meanwhile."""
    return free_port(set())


def test_training_talks_to_a_daemon_that_the_next_run_uses_again_and_replace_makes_anew(
    shell: Shell, port: int
) -> None:
    (shell.directory / "hello.txt").write_text("from the gym")
    serve = SERVE.format(port=port, directory=shell.directory)
    shell.daemon(serve, f"http://localhost:{port}/hello.txt", FETCH.format(port=port))
    first = shell.run(RUN)
    assert first.out == "from the gym\n"
    assert f"daemon {shell.id} of gym: submitted" in first.err
    second = shell.run(RUN)
    assert second.out == "from the gym\n"
    assert f"daemon {shell.id} of gym: unchanged" in second.err
    (anew,) = shell.daemons(f"{UP} --replace")
    assert anew["action"] == "replaced"
    assert anew["submissionId"].startswith(f"{shell.id}-")
    assert shell.daemons(UP) == [{**anew, "action": "unchanged"}]


def test_a_health_url_of_a_service_is_asked_through_a_forward(shell: Shell) -> None:
    shell.daemon(STAY.format(directory=shell.directory), "http://gym-head-svc:8265/api/version")
    (one,) = shell.daemons(UP)
    assert one == {"role": "gym", "submissionId": shell.id, "action": "submitted"}
    jobs = [job["submissionId"] for job in shell.json("job list")]
    assert not [name for name in jobs if name.startswith("health-") and shell.id in name]


def test_a_daemon_that_dies_fails_the_command_with_its_last_lines_and_nothing_is_submitted(shell: Shell) -> None:
    shell.daemon("echo starting; echo no module gym >&2; exit 3", "http://localhost:9/health")
    done = shell.run(RUN, expect=3)
    assert f"daemon {shell.id} of gym has ended: FAILED" in done.err
    assert "  | no module gym" in done.err
    assert "exit code 3" in done.err
    assert "nrl-run-" not in shell.config_maps()


def test_a_daemon_that_never_answers_is_given_up_and_stays_for_a_look(shell: Shell, port: int) -> None:
    shell.daemon(STAY.format(directory=shell.directory), f"http://localhost:{port}/health", seconds=2)
    done = shell.run(UP, expect=4)
    assert f"daemon {shell.id} of gym is not healthy after 2 s" in done.err
    assert "kuberay.gym.daemon.healthCheckTimeoutS" in done.err


def test_a_fresh_start_clears_the_rendezvous_and_the_last_down_removes_it(shell: Shell) -> None:
    shell.daemon(f"{STAY.format(directory=shell.directory)} # --job-id job-7", "http://gym-head-svc:8265/api/version")
    name, kubectl = "nemo-rl-endpoints-job-7", shell.cluster.kubectl
    kubectl("-n", shell.namespace, "create", "configmap", name, "--from-literal=gym_head_server=http://old")
    assert f"configmap/{name} of an earlier start is cleared" in shell.run(UP).err
    kubectl("-n", shell.namespace, "create", "configmap", name, "--from-literal=gym_head_server=http://now")
    shell.run(UP)
    made = json.loads(kubectl("-n", shell.namespace, "get", "configmap", name, "-o", "json"))
    assert made["data"] == {"gym_head_server": "http://now"}
    assert [ref["name"] for ref in made["metadata"]["ownerReferences"]] == ["gym"]
    shell.run("cluster down recipe.yaml --infra infra.yaml")
    assert name not in shell.config_maps()
