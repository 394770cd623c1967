"""`status` and the picture of a waiting run, on RayJobs that KubeRay really runs (their pods on fake nodes)."""

from __future__ import annotations

import codecs
import contextlib
import copy
import fcntl
import json
import os
import re
import struct
import subprocess
import termios
import threading
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.fake_nodes import fake_node
from cluster.fixtures import Cluster
from command_line import _PROGRAM, CommandLine, wait_until
from run_files import files
from terminal import Terminal
from waiting import PATIENCE

pytestmark = pytest.mark.node

#: One GPU resource of this module's own, so that a node for one test is none for another.
GPU = f"test.example/{uuid.uuid4().hex[:8]}-gpu"


@pytest.fixture
def cli(kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path) -> CommandLine:
    return CommandLine(kwok_cluster, kwok_namespace, tmp_path)


@contextlib.contextmanager
def a_node_of_gpus(kwok_cluster: Cluster) -> Iterator[None]:
    """Eight of this module's GPUs, while it lasts."""
    name = f"gpu-{uuid.uuid4().hex[:8]}"
    kwok_cluster.kubectl("create", "-f", "-", stdin=json.dumps(fake_node(name, **{GPU: "8"})))
    try:
        yield
    finally:
        kwok_cluster.kubectl("delete", "node", name, "--wait=false")


@pytest.fixture
def gpu_node(kwok_cluster: Cluster) -> Iterator[None]:
    with a_node_of_gpus(kwok_cluster):
        yield


def write(cli: CommandLine, entrypoint: str, *, gpus: int = 0) -> None:
    """A recipe and an infra file; with `gpus` each of two workers asks for so many."""
    found = files(entrypoint, codePath="/")
    found["recipe.yaml"] = {"cluster": {"num_nodes": 2 if gpus else 1, "gpus_per_node": gpus}}
    if gpus:
        group = found["infra.yaml"]["kuberay"]["training"]["spec"]["workerGroupSpecs"][0]
        group.update(replicas=2, minReplicas=2, maxReplicas=2)
        group["template"]["spec"]["containers"][0]["resources"]["limits"] = {GPU: str(gpus)}
    for file, data in found.items():
        (cli.directory / file).write_text(yaml.safe_dump(data))


def launch(cli: CommandLine, *flags: str) -> str:
    """Start a run and leave it; its RayJob's name."""
    words = " ".join(flags)
    done = cli.json(f"run recipe.yaml --infra infra.yaml --no-wait {words}")
    return str(done["rayjob"])


def item(cli: CommandLine, word: str) -> dict[str, Any]:
    return dict(cli.json(f"status {word}")["items"][0])


def becomes(cli: CommandLine, word: str, **wanted: Any) -> dict[str, Any]:
    """The status of a run once it has these values."""
    seen: list[dict[str, Any]] = []

    def there() -> bool:
        seen.append(item(cli, word))
        return all(seen[-1][key] == value for key, value in wanted.items())

    wait_until(there, lambda: f"{wanted}: {seen[-1]}")
    return seen[-1]


def dashboard(cli: CommandLine, method: str, path: str) -> None:
    """What Ray's dashboard does for somebody who clicks in it: no client of this program takes part."""
    selector = "ray.io/node-type=head"
    words = ["-n", cli.namespace, "get", "pods", "-l", selector, "-o", "jsonpath={.items[0].status.podIP}"]
    address = cli.cluster.kubectl(*words)
    with urllib.request.urlopen(
        urllib.request.Request(f"http://{address}:8265{path}", method=method), timeout=PATIENCE
    ):
        pass


def test_a_run_from_its_start_to_its_end(cli: CommandLine, gpu_node: None) -> None:
    write(cli, "while [ ! -e go ]; do sleep 0.1; done".replace("go", str(cli.directory / "go")), gpus=4)
    name = launch(cli)
    running = becomes(cli, name, state="Running", podsReady=3)
    assert (running["podsTotal"], running["gpusHeld"], running["troubles"]) == (3, 8, [])
    assert [group["name"] for group in running["groups"]] == ["head", "w"]
    assert f"rayjob/{name}" in cli.run("status").out
    watching = cli.start(f"status {name} -w")
    watching.until(lambda: "Running" in watching.out, "a line of its state")
    (cli.directory / "go").touch()
    assert watching.end() == 0
    assert f"rayjob/{name}: SUCCEEDED" in watching.out
    assert "\x1b" not in watching.out + watching.err
    ended = becomes(cli, name, gpusHeld=0, podsTotal=1)
    assert (ended["state"], ended["final"], ended["exitCode"]) == ("SUCCEEDED", True, 0)
    assert ended["headUntil"] > ended["ended"]
    assert cli.run("status").out.strip() == f'nothing of yours runs in namespace "{cli.namespace}", nor on this machine'
    assert item(cli, "recipe.yaml --infra infra.yaml")["name"] == name


def test_pods_that_no_node_can_hold_and_an_image_that_is_not_there(cli: CommandLine) -> None:
    write(cli, "true", gpus=4)
    name = launch(cli)
    waiting = becomes(cli, name, podsReady=1, podsTotal=3)
    # The scheduler refuses one after the other.
    wait_until(lambda: "2/2 workers of w" in [t["who"] for t in item(cli, name)["troubles"][:1]], "the reason of both")
    assert f"Insufficient {GPU}" in cli.run("status").out
    assert waiting["gpusHeld"] == 0
    no_image = {
        "containerStatuses": [
            {
                "name": "ray", "image": "x:1", "imageID": "", "ready": False, "restartCount": 0,
                "state": {"waiting": {"reason": "ImagePullBackOff", "message": "x:1: not found"}},
            }
        ]
    }  # fmt: skip
    pods = cli.cluster.kubectl(
        "-n", cli.namespace, "get", "pods", "-l", "ray.io/node-type=worker", "-o", "name"
    ).split()
    for pod in pods:
        words = ["patch", pod, "--subresource=status", "--type=merge", "-p", json.dumps({"status": no_image})]
        cli.cluster.kubectl("-n", cli.namespace, *words)
    out = cli.run(f"status {name}").out
    assert '2/2 workers of w: ImagePullBackOff, image "x:1" not found' in out
    assert "try        set infra.image=" in out


def test_a_run_stopped_from_the_dashboard_holds_its_gpus_until_somebody_releases_it(
    cli: CommandLine, gpu_node: None
) -> None:
    write(cli, "sleep 600", gpus=4)
    name = launch(cli)
    run = becomes(cli, name, state="Running", podsReady=3)
    dashboard(cli, "POST", f"/api/jobs/{run['id']}/stop")
    stopped = becomes(cli, name, state="STOPPED")
    assert (stopped["gpusHeld"], stopped["workersUntil"], stopped["headUntil"]) == (8, None, None)
    said = cli.run("status")
    assert f"run {run['id']} is over and still holds 8 GPUs, and nothing will take them from it" in said.err
    hint = next(line for line in said.err.splitlines() if line.startswith("hint: ")).removeprefix("hint: ")
    cli.run(hint.partition("   # ")[0])
    cli.pods_become()
    assert cli.json("status")["items"] == []


def test_a_suspended_run_is_named_as_such(cli: CommandLine) -> None:
    write(cli, "sleep 600")
    name = launch(cli)
    becomes(cli, name, state="Running")
    # KubeRay suspends a RayJob only where the classic shutdown ends it.
    spec = {"suspend": True, "shutdownAfterJobFinishes": True, "deletionStrategy": None}
    patch = json.dumps({"spec": spec})
    cli.cluster.kubectl("-n", cli.namespace, "patch", "rayjob", name, "--type=merge", "-p", patch)
    suspended = becomes(cli, name, state="Suspended")
    assert suspended["gpusHeld"] == 0
    assert "suspended by hand" in suspended["troubles"][0]["message"]


def test_who_may_not_list_pods_or_events_is_told_so_and_gets_the_rest(cli: CommandLine) -> None:
    write(cli, "true", gpus=4)
    name = launch(cli)
    becomes(cli, name, state="Initializing")
    rules = [{"apiGroups": ["ray.io"], "resources": ["rayjobs", "rayclusters"], "verbs": ["get", "list", "watch"]}]
    limited = {"KUBECONFIG": str(cli.cluster.user(cli.namespace, rules))}
    for line in ("status", f"status {name}"):
        done = cli.json(line, **limited)["items"][0]
        assert done["state"] == "Initializing"
        assert "pods may not be read with these permissions" in done["notes"]


class Session:
    """The program on a terminal of its own."""

    def __init__(self, cli: CommandLine, line: str, columns: int, rows: int = 24) -> None:
        self.terminal = Terminal(columns, rows)
        self._master, slave = os.openpty()
        self._slave = slave
        self._wanted: tuple[int, int] | None = None
        self._resize(columns, rows)
        words = [*_PROGRAM, *line.split(), "-n", cli.namespace]
        env = {**cli.env, "TERM": "xterm-256color", "NO_COLOR": "1"}
        streams = {"stdin": slave, "stdout": slave, "stderr": slave}
        self.process = subprocess.Popen(words, cwd=cli.directory, env=env, start_new_session=True, **streams)  # type: ignore[call-overload]
        self.raw = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def resize(self, columns: int, rows: int = 24) -> None:
        """Resize it when a picture has just been drawn: one on its way would be for a terminal that is no more, as with real ones."""
        self._wanted = (columns, rows)
        wait_until(lambda: self._wanted is None, "a picture")

    def _resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.terminal.resize(columns, rows)

    def _read(self) -> None:
        decoder, text = codecs.getincrementaldecoder("utf-8")(), ""
        with contextlib.suppress(OSError):
            while data := os.read(self._master, 65536):
                self.raw += data
                text += decoder.decode(data)
                part = re.search(r"\x1b(\[[0-9;?]*)?\Z", text)  # a read may end within a sequence
                whole = text[: part.start()] if part else text
                self.terminal.write(whole)
                if self._wanted and text.endswith("\x1b[J"):
                    self._resize(*self._wanted)
                    self._wanted = None
                text = text[len(whole) :]

    def until(self, text: str) -> None:
        """Wait until a row has this text, were it only in one picture of many; fails when the process ends before."""
        screen: list[str] = []

        def over() -> bool:
            ended = self.process.poll() is not None
            screen[:] = self.terminal.screen
            return ended or any(text in row for row in screen)

        wait_until(over, lambda: f"{text}: {screen}")
        assert any(text in row for row in screen), screen

    def end(self) -> int:
        code = self.process.wait(PATIENCE)
        os.close(self._slave)
        self._reader.join(PATIENCE)
        os.close(self._master)
        return code


def test_a_waiting_run_is_a_picture_that_gives_way_to_the_log(cli: CommandLine, kwok_cluster: Cluster) -> None:
    write(cli, "echo step 1; sleep 3; echo step 2", gpus=4)
    session = Session(cli, "run recipe.yaml --infra infra.yaml", 80)
    session.until("2/2 workers of w: Unschedulable")
    session.until("head  1/1 ready")
    with a_node_of_gpus(kwok_cluster):
        assert session.end() == 0
    screen = session.terminal.screen
    steps = [row for row in screen if row.startswith("step ")]
    assert steps == ["step 1", "step 2"]
    assert not [row for row in screen if "Unschedulable" in row or "head  1/1" in row]  # nothing of the picture stays
    assert [row for row in screen if re.search(r"its driver's log begins, \S+ after its start", row)]
    assert b"\x1b[?25l" not in session.raw  # the cursor is never hidden


def test_roles_and_deployments_come_up_as_one_picture(cli: CommandLine, kwok_cluster: Cluster) -> None:
    write(cli, "true", gpus=4)
    infra = yaml.safe_load((cli.directory / "infra.yaml").read_text())
    gym = copy.deepcopy(infra["kuberay"]["training"]["spec"])
    del gym["workerGroupSpecs"]
    infra["kuberay"]["gym"] = {"name": "gym", "spec": gym}
    container = {"name": "j", "image": "j:1", "ports": [{"containerPort": 8000}]}
    spec = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    infra["deployments"] = {"judge": {"name": "judge", "spec": spec}}
    (cli.directory / "infra.yaml").write_text(yaml.safe_dump(infra))
    session = Session(cli, "cluster up recipe.yaml --infra infra.yaml", 100, 40)
    session.until("2 of 3 are up")
    session.until("2/2 workers of w: Unschedulable")
    for columns in (50, 200, 80):
        session.resize(columns, 40)
        wait_until(
            lambda: sum("2 of 3 are up" in row for row in session.terminal.screen) == 1, f"one picture at {columns}"
        )
    with a_node_of_gpus(kwok_cluster):
        assert session.end() == 0
    screen = session.terminal.screen
    assert re.fullmatch(r"3 of 3 are up after \S+, 6/6 pods ready, 8 GPUs held", screen[-4])
    assert screen[-3:] == [
        "raycluster/gym: created, ready, 0 workers", "raycluster/t: created, ready, 2 workers",
        "deployment/judge: created, ready, 2 replicas",
    ]  # fmt: skip
    assert not [
        row for row in screen if "Unschedulable" in row or row.startswith("  head")
    ]  # nothing of the picture stays
    cli.run("cluster down recipe.yaml --infra infra.yaml --yes")


def test_ctrl_c_keeps_what_was_waited_for_and_a_resized_window_one_copy_of_it(cli: CommandLine) -> None:
    write(cli, "true", gpus=4)
    name = launch(cli)
    becomes(cli, name, podsReady=1)
    session = Session(cli, f"status rayjob/{name} -w", 100)
    session.until("2/2 workers of w: Unschedulable")
    for columns in (60, 160, 80):
        session.resize(columns)
        mark = f"rayjob/{name}: Initializing"
        wait_until(lambda mark=mark: sum(row.startswith(mark) for row in session.terminal.screen) == 1, "one picture")  # type: ignore[misc]
    session.process.send_signal(2)
    assert session.end() == 130
    screen = session.terminal.screen
    assert sum("workers of w: Unschedulable" in row for row in screen) == 1
    assert not [row for row in screen if "Traceback" in row]
