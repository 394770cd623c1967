"""`cluster dashboard` on a cluster in memory whose head is a server of this machine."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from cluster.state import free_port
from dashboard_case import Dashboard
from fake_cluster import FakeCluster
from run_files import RECIPE, infra
from scripted_server import Server

from kubectl_nrl.cluster.patience import Patience
from kubectl_nrl.cluster.sockets import SocketChannel, connect
from kubectl_nrl.commands import cluster_dashboard
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.testing import Outcome, Project

TOKEN = "very-secret-token"


class Forwarded:
    def __init__(self, world: World, namespace: str, pod: str, port: int) -> None:
        self.world, self.namespace, self.pod, self.port = world, namespace, pod, port

    def dial(self, patience: Patience) -> SocketChannel:
        self.world.dialled.append(self.pod)
        if self.world.forbidden:
            raise ClusterError("cannot port-forward to pods: forbidden", status=403, reason="Forbidden")
        if self.pod not in self.world.pods():
            raise ClusterError(f'pods "{self.pod}" not found', status=404, reason="NotFound")
        return SocketChannel(connect("127.0.0.1", self.world.server.port, patience))


class World(FakeCluster):
    """`looks` are called, one after the other, when the command looks at the cluster; after the last one Ctrl-C is pressed."""

    def __init__(self, server: Server, dashboard: Dashboard) -> None:
        super().__init__()
        self.server, self.dashboard = server, dashboard
        self.looks: list[Callable[[], None]] = []
        self.dialled: list[str] = []
        self.ran: list[str] = []
        self.forbidden = False
        self.may_exec = True
        self.links = 49
        self.project = Project({"recipe.yaml": RECIPE, "infra.yaml": infra("true", name="t")})

    def pods(self) -> list[str]:
        return [name for kind, _, name in self.objects if kind == "Pod"]

    def up(self, name: str = "t", **spec: Any) -> None:
        self.put({"kind": "RayCluster", "apiVersion": "ray.io/v1", "metadata": {"name": name}, "spec": spec})
        self.head(f"{name}-head", name)

    def head(self, pod: str, cluster: str = "t") -> None:
        labels = {"ray.io/cluster": cluster, "ray.io/node-type": "head"}
        spec = {"containers": [{"name": "proxy"}, {"name": "ray", "env": [{"name": "KUBERAY_GEN_RAY_START_CMD"}]}]}
        self.put(
            {"kind": "Pod", "metadata": {"name": pod, "labels": labels}, "spec": spec, "status": {"phase": "Running"}}
        )

    def forward(self, namespace: str, pod: str, port: int) -> Forwarded:
        return Forwarded(self, namespace, pod, port)

    def exec(
        self, namespace: str, pod: str, command: Sequence[str], *, container: str | None = None, timeout: float = 30
    ) -> tuple[int, bytes, bytes]:
        if not self.may_exec:
            raise ClusterError("cannot exec in pods: forbidden", status=403, reason="Forbidden")
        self.ran.append(f"{pod}/{container} {command[-1]}")
        copied = self.links if command[-1] == "change" else 0
        if copied:
            self.dashboard.faults.clear()
        return 0, json.dumps({"folder": "/b", "links": self.links, "copied": copied, "problem": ""}).encode(), b""

    def next_look(self) -> None:
        if not self.looks:
            raise KeyboardInterrupt
        self.looks.pop(0)()

    def open(self, words: str = "t", **env: str) -> Outcome:
        return self.project.run(f"cluster dashboard {words}", env={**self.project.env, **env})


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    dashboard = Dashboard()
    with Server(dashboard) as server:
        world = World(server, dashboard)
        monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: world)
        monkeypatch.setattr(cluster_dashboard, "between_looks", world.next_look)
        yield world


def test_it_is_open_once_everything_answers_and_ctrl_c_ends_it_well(world: World) -> None:
    world.up()
    done = world.open("t -o json").ok()
    result = done.result("cluster_dashboard")
    assert (result["cluster"], result["pod"], result["rayVersion"]) == ("raycluster/t", "t-head", "2.52.0")
    assert (result["tokenCommand"], result["copiedLinks"]) == ("", 0)
    assert "Ctrl-C" in done.err


def test_the_first_line_is_the_address(world: World) -> None:
    world.up()
    assert world.open("raycluster/t").ok().out.splitlines()[0].startswith("http://127.0.0.1:")


def test_the_token_is_told_how_to_get_and_never_shown(world: World) -> None:
    world.dashboard.token = TOKEN
    world.up(authOptions={"mode": "token"})
    secret = {"auth_token": base64.b64encode(TOKEN.encode()).decode()}
    world.put({"kind": "Secret", "metadata": {"name": "t"}, "data": secret})
    done = world.open("t -v").ok()
    assert "kubectl get secret t -n default -o jsonpath='{.data.auth_token}' | base64 -d" in done.out
    assert "Ray 2.52.0" in done.out
    assert TOKEN not in done.out + done.err
    assert secret["auth_token"] not in done.out + done.err


def test_who_may_not_read_the_token_still_gets_the_page(world: World) -> None:
    world.dashboard.token = TOKEN
    world.up(authOptions={"mode": "token", "secretName": "mine"})
    world.faults["get", "Secret"] = ClusterError("forbidden", status=403)
    done = world.open().ok()
    assert "cannot read Secret default/mine (forbidden)" in done.err
    assert "kubectl get secret mine" in done.out


def test_a_ray_that_takes_tokens_of_kubernetes_names_the_command_that_makes_one(world: World) -> None:
    world.dashboard.token = TOKEN
    world.up(authOptions={"mode": "token", "enableK8sTokenAuth": True})
    done = world.open("t --context c --kubeconfig k.yaml").ok()
    assert (
        f"kubectl create token SERVICEACCOUNT -n default --context c --kubeconfig {world.project.path}/k.yaml"
        in done.out
    )
    assert "warning" not in done.err


def test_a_blank_page_is_repaired_in_the_ray_container_and_the_image_named(world: World) -> None:
    world.up()
    world.dashboard.blank()
    done = world.open("t -o json").ok()
    assert world.ran == ["t-head/ray change"]
    assert done.json["copiedLinks"] == 49
    assert "49 were replaced by copies" in done.err
    assert "ENV UV_LINK_MODE=copy" in done.err


def test_a_page_that_works_is_never_touched(world: World) -> None:
    world.up()
    world.open().ok()
    assert world.ran == []


def test_without_fix_the_fault_is_named_and_nothing_is_changed(world: World) -> None:
    world.up()
    world.dashboard.blank()
    done = world.open("t --no-fix")
    assert (done.exit, world.ran) == (3, ["t-head/ray count"])
    assert "2 of the 2 files" in done.err and "symlinks" in done.err
    assert "hint: in the Dockerfile, before Ray is installed: ENV UV_LINK_MODE=copy" in done.err
    assert done.out == ""


def test_the_head_of_another_owner_is_changed_when_that_is_asked_for_alone(world: World) -> None:
    world.up()
    cluster = world.objects["RayCluster", "default", "t"]
    cluster["metadata"]["labels"] = {"kubectl-nrl/owner": "bob"}
    world.dashboard.blank()
    done = world.open()
    assert (done.exit, world.ran) == (3, ["t-head/ray count"]), done.err
    assert 'the cluster is "bob"\'s, and --fix repairs it there' in done.err
    world.open("t --fix").ok()
    assert world.ran[-1] == "t-head/ray change"


def test_where_exec_is_forbidden_the_way_out_is_the_image(world: World) -> None:
    world.up()
    world.may_exec = False
    world.dashboard.blank()
    done = world.open()
    assert done.exit == 3
    assert "you may not exec into the head" in done.err
    assert "ENV UV_LINK_MODE=copy" in done.err


def test_a_blank_page_of_another_cause_is_not_blamed_on_symlinks(world: World) -> None:
    world.up()
    world.links = 0
    world.dashboard.blank()
    done = world.open()
    assert done.exit == 3
    assert "no file in /b is a symlink" in done.err


def test_ray_without_its_dashboard_is_said(world: World) -> None:
    world.up()
    world.dashboard.faults["/"] = 404
    done = world.open()
    assert done.exit == 3
    assert "has no dashboard to show" in done.err and "ray[default]" in done.err


def test_a_head_that_is_replaced_is_found_again(world: World) -> None:
    world.up()
    world.looks = [lambda: world.remove("Pod", "t-head"), lambda: world.head("second")]
    done = world.open().ok()
    lines = done.err.splitlines()
    away = next(i for i, line in enumerate(lines) if "has no running head pod" in line)
    assert any("pod second" in line for line in lines[away:])


def test_a_cluster_that_goes_ends_it_with_a_word(world: World) -> None:
    world.up()
    world.looks = [lambda: world.remove("RayCluster", "t")]
    done = world.open()
    assert done.exit == 3
    assert "raycluster/t is gone, and its dashboard with it" in done.err


def test_a_forbidden_port_forward_is_said_at_once(world: World) -> None:
    world.up()
    world.forbidden = True
    done = world.open()
    assert done.exit == 3
    assert "forbidden" in done.err
    assert done.out == ""


def test_a_head_that_never_comes_is_given_up_on(world: World) -> None:
    world.put({"kind": "RayCluster", "metadata": {"name": "t"}, "spec": {"suspend": True}})
    done = world.open("t --timeout 0")
    assert done.exit == 4
    assert "raycluster/t is suspended" in done.err


def test_the_cluster_of_a_run_is_read_from_its_rayjob(world: World) -> None:
    status = {"rayClusterName": "t-x7k2p", "jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}
    world.put({"kind": "RayJob", "metadata": {"name": "t"}, "spec": {}, "status": status})
    world.up("t-x7k2p")
    assert world.open("t -o json").ok().json["cluster"] == "rayjob/t"
    assert set(world.dialled) == {"t-x7k2p-head"}


def test_a_run_whose_cluster_is_gone_points_to_its_log(world: World) -> None:
    status = {"rayClusterName": "t-x", "jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "jobId": "r1"}
    world.put({"kind": "RayJob", "metadata": {"name": "t"}, "spec": {}, "status": status})
    done = world.open("rayjob/t")
    assert done.exit == 3
    assert "job logs r1" in done.err


def test_a_name_of_two_things_is_not_guessed(world: World) -> None:
    world.up()
    world.put({"kind": "RayJob", "metadata": {"name": "t"}, "spec": {}})
    done = world.open()
    assert done.exit == 2
    assert "write rayjob/t or raycluster/t" in done.err


def test_a_recipe_is_its_long_lived_cluster(world: World) -> None:
    world.up()
    assert world.open("recipe.yaml --infra infra.yaml -o json").ok().json["cluster"] == "raycluster/t"


def test_a_recipe_without_a_long_lived_cluster_is_its_newest_run(world: World) -> None:
    labels = {"kubectl-nrl/cluster": "t", "kubectl-nrl/owner": "rl-user"}
    for number in (1, 2):
        meta = {"name": f"t-{number}", "labels": labels, "creationTimestamp": f"2026-11-30T12:00:0{number}Z"}
        world.put({"kind": "RayJob", "metadata": meta, "spec": {}, "status": {"rayClusterName": f"c{number}"}})
    world.up("c2")
    assert world.open("recipe.yaml --infra infra.yaml -o json").ok().json["cluster"] == "rayjob/t-2"


def test_the_port_of_the_infra_file_acts_when_it_is_written_and_the_flag_beats_it(world: World) -> None:
    number = free_port(set())  # of those that nobody is given by chance
    world.up()
    world.project.write("infra.yaml", {**infra("true", name="t"), "submit": {"localDashboardPort": number}})
    written = world.open("recipe.yaml --infra infra.yaml -o json").ok().json["url"]
    flag = world.open("recipe.yaml --infra infra.yaml -o json --port 0").ok().json["url"]
    assert written == f"http://127.0.0.1:{number}"
    assert flag != written


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("dashboard", "NAME"),
        ("dashboard nosuch", 'no run, RayJob or RayCluster "nosuch"'),
        ("dashboard t --port 70000", "is no port"),
        ("dashboard t --recreate", "--recreate says nothing to cluster dashboard"),
        ("dashboard t --target deployments.judge", "a dashboard is that of one role"),
        ("dashboard recipe.yaml --infra infra.yaml --role gym", 'no role "gym"'),
        ("dashboard t --local", "on this machine"),
        ("dashboard t --infra infra.yaml", "NAME"),
        ("up recipe.yaml --port 1", "--port belongs to cluster dashboard"),
        ("down t --no-fix", "--fix belongs to cluster dashboard"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(world: World, line: str, said: str) -> None:
    done = world.project.run(f"cluster {line}")
    assert done.exit == 2, str(done)
    assert said in done.err


def test_over_ssh_the_tunnel_is_told_and_no_browser_opened(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    world.up()
    done = world.open("t", SSH_CONNECTION="1.2.3.4 5 6.7.8.9 22", DISPLAY="localhost:10").ok()
    assert "ssh -L" in done.err
    assert opened == []
    done = world.open("t", DISPLAY=":0").ok()
    assert opened == [done.out.splitlines()[0]]
    world.open("t --no-open", DISPLAY=":0").ok()
    assert len(opened) == 1
