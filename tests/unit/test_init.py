"""`init`: what it writes passes `check`, whatever was answered; nothing is overwritten; a cluster is asked, never needed."""

from __future__ import annotations

import itertools
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_nrl.api import Profile
from kubectl_nrl.commands import connecting
from kubectl_nrl.commands.init_discovery import Found, discover
from kubectl_nrl.commands.init_files import BASE, scalar
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.testing import Project

Items = list[dict[str, Any]]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(path=tmp_path)


class Cluster:
    """Answers a list by its kind: with items, an error, or (None) not before the test ends."""

    context, namespace, server = "lab", "rl", "https://lab"

    def __init__(self, **lists: Items | ClusterError | None) -> None:
        self.lists = lists
        self.end = threading.Event()
        self.asked: list[tuple[str, str | None]] = []

    def list(self, api_version: str, kind: str, namespace: str | None = None) -> Items:
        self.asked.append((kind, namespace))
        answer = self.lists.get(kind, [])
        if answer is None:
            self.end.wait(60)
            return []
        if isinstance(answer, ClusterError):
            raise answer
        return answer


def node(gpus: int = 0, **labels: str) -> dict[str, Any]:
    found = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return {"metadata": {"name": "n", "labels": found}, "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}}}


def queue(name: str, parent: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"parentQueue": parent} if parent else {}}


def claim(name: str, *modes: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"accessModes": list(modes)}}


GB300 = Profile({"name": "gb300", "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-GB300"}})
GB300_LABELS = {"nvidia_com__gpu_product": "NVIDIA-GB300"}


@pytest.fixture
def on_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def put(**lists: Items | ClusterError | None) -> Cluster:
        made.append(Cluster(**lists))
        monkeypatch.setattr(connecting, "open_cluster", lambda session: made[-1])
        return made[-1]

    yield put
    for cluster in made:
        cluster.end.set()


COMBINATIONS = [
    [f"--profile={profile}", *scheduler, *workspace, *image]
    for profile, scheduler, workspace, image in itertools.product(
        ("generic", "gb300"),
        ([], ["--scheduler=default"], ["--scheduler=kai", "--queue=rl"], ["--scheduler=kueue", "--queue=team-a"]),
        ([], ["--workspace=rl-workspace"]),
        ([], ["--image=registry.example/mine:1"]),
    )
] + [["--profile=local"], [], ["-n", "rl"]]


@pytest.mark.parametrize("flags", COMBINATIONS, ids=" ".join)
def test_what_it_writes_passes_check(flags: list[str], project: Project) -> None:
    written = project.run(["init", *flags, "-o", "json"]).ok().result("init")
    assert sorted(os.listdir(project.path)) == ["grpo.infra.yaml", "grpo.yaml"]
    outcome = project.run(written["next"][0]).ok()
    # Kueue deletes the cluster with the job: without shared storage the log goes too, which no default can mend.
    loses_log = "--scheduler=kueue" in flags and "--workspace=rl-workspace" not in flags
    assert outcome.err.count("warning: ") == (1 if loses_log else 0), outcome
    assert ("the driver's log goes with the cluster" in outcome.err) is loses_log
    for flag in flags:
        value = flag.partition("=")[2]
        assert value in project.read("grpo.infra.yaml") or value == "default"


def test_every_registered_profile_can_be_chosen(project: Project) -> None:
    shown = project.run("init --profile none-such").err
    names = shown.split("--profile ")[-1].strip().split("|")
    assert {"generic", "gb300", "local"} <= set(names)
    for name in names:
        project.run(f"init {name} --profile {name}").ok()
        project.run(f"check {name}.yaml --infra {name}.infra.yaml").ok()


def test_a_profile_file_is_found_from_the_infra_file(project: Project) -> None:
    project.write("runs/my.profile.yaml", {"name": "mine", "gpus": {"resource": "example.com/gpu"}})
    project.run("init a --profile ./my.profile.yaml --out runs").ok()
    assert "example.com/gpu: 8" in project.run("check runs/a.yaml --infra runs/a.infra.yaml --manifests-only").ok().out


def test_defaults_are_said_where_nobody_can_be_asked(project: Project) -> None:
    outcome = project.run("init").ok()
    for name in ("profile", "image", "scheduler", "workspace"):
        assert f"note: {name} not given: " in outcome.err
    assert "note: GPUs per node not known: 8" in outcome.err
    assert project.run("init quiet -q").ok().err == ""
    all_given = "init all --profile gb300 --image r.example/i:1 --scheduler default --workspace none"
    assert project.run(all_given).ok().err == ""


@pytest.mark.parametrize("there", [("grpo.yaml",), ("grpo.infra.yaml",), ("grpo.yaml", "grpo.infra.yaml")])
def test_nothing_is_overwritten_without_force(there: tuple[str, ...], project: Project) -> None:
    for name in there:
        project.write(name, "mine: 1\n")
    refused = project.run("init")
    assert refused.exit == 2
    assert f"{' and '.join(there)} " in refused.err
    assert "--force" in refused.err
    assert sorted(os.listdir(project.path)) == sorted(there)
    assert all(project.read(name) == "mine: 1\n" for name in there)
    project.run("init --force").ok()
    assert "mine" not in project.read("grpo.yaml") + project.read("grpo.infra.yaml")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--profile gb30", 'no profile "gb30" (did you mean gb300?)'),
        ("--scheduler kay", 'no scheduler "kay" (did you mean kai?)'),
        ("--scheduler kai", "scheduler kai needs a queue"),
        ("--queue rl", "--queue needs the scheduler"),
        ("--scheduler default --queue rl", "--queue has no meaning under scheduler default"),
        ("--profile local --image x", "--image has no meaning on this machine"),
        ("--profile local --workspace x", "--workspace has no meaning on this machine"),
        ("--image ''", "--image is empty"),
        ("--profile ./absent.yaml", "these answers make no valid infra file: profile file"),
        ("'a b'", 'NAME "a b" may hold letters'),
        ("../a", 'NAME "../a" may hold letters'),
        ("--out /dev/null/x", "cannot write to /dev/null/x"),
        ("-n Not_A_Namespace", "these answers make no valid infra file: "),
    ],
)
def test_what_cannot_be_is_an_error_and_no_file(flags: str, words: str, project: Project) -> None:
    outcome = project.run(f"init {flags}")
    assert outcome.exit == 2
    assert words in outcome.err
    assert "hint: " in outcome.err
    assert os.listdir(project.path) == []


def test_in_a_nemo_rl_checkout_the_recipe_inherits_its_base(project: Project) -> None:
    project.write(
        str(BASE), "grpo: {num_prompts_per_step: 77, max_num_steps: 1}\ncluster: {gpus_per_node: 1, num_nodes: 1}\n"
    )
    project.write("nemo_rl/__init__.py", "")
    project.run("init --out work/mine").ok()
    assert "defaults: ../../examples/configs/grpo_math_1B.yaml" in project.read("work/mine/grpo.yaml")
    schema = project.run("check work/mine/grpo.yaml --infra work/mine/grpo.infra.yaml --manifests-only").ok()
    assert schema.documents
    elsewhere = Project()
    elsewhere.run("init").ok()
    assert "\ndefaults:" not in elsewhere.read("grpo.yaml")
    assert f"# defaults: /path/to/RL/{BASE}" in elsewhere.read("grpo.yaml")


@pytest.mark.parametrize(
    "text", ["ws", "true", "1e5", "007", "no", "a: b", "x #y", "r.example:5000/i:1", "i@sha256:ab", "-x", "{a}"]
)
def test_a_scalar_is_read_back_as_it_was(text: str) -> None:
    assert yaml.safe_load(f"{{key: {scalar(text)}}}") == {"key": text}


def test_the_cluster_is_discovered() -> None:
    cluster = Cluster(
        Node=[node(4, **GB300_LABELS), node(4, **GB300_LABELS), node(8), node()],
        Queue=[queue("root"), queue("team", "root"), queue("rl", "team"), queue("eval", "team")],
        LocalQueue=[queue("b"), queue("a")],
        PersistentVolumeClaim=[claim("one", "ReadWriteOnce"), claim("many", "ReadWriteMany")],
    )
    found = discover(cluster, [Profile({"name": "generic"}), GB300], "rl", 60)
    assert found == Found("context lab", "gb300", 2, 4, ("eval", "rl"), ("a", "b"), ("many",))
    assert ("LocalQueue", "rl") in cluster.asked
    assert discover(Cluster(Node=[node(8), node(2)]), [GB300], "rl", 60) == Found("context lab", "", 2, 8)


def test_what_may_not_be_read_is_skipped() -> None:
    forbidden = ClusterError("forbidden", status=403, reason="Forbidden")
    missing = ClusterError("not served", status=404, reason="NotServed")
    cluster = Cluster(Node=forbidden, Queue=missing, LocalQueue=[queue("rl")], PersistentVolumeClaim=forbidden)
    assert discover(cluster, [GB300], "rl", 60) == Found("context lab", local_queues=("rl",))
    everything = dict.fromkeys(("Node", "Queue", "LocalQueue", "PersistentVolumeClaim"), forbidden)
    assert discover(Cluster(**everything), [GB300], "rl", 60) == Found("context lab")


def test_a_cluster_that_does_not_answer_is_not_waited_for() -> None:
    silent = Cluster(Node=None, Queue=None, LocalQueue=None, PersistentVolumeClaim=None)
    assert discover(silent, [GB300], "rl", 0.05) is None
    silent.end.set()
    gone = dict.fromkeys(("Node", "Queue", "LocalQueue", "PersistentVolumeClaim"), ClusterError("unreachable"))
    assert discover(Cluster(**gone), [GB300], "rl", 60) is None
    half = Cluster(Node=None, LocalQueue=[queue("rl")])
    assert discover(half, [GB300], "rl", 2).local_queues == ("rl",)  # type: ignore[union-attr]
    half.end.set()


def test_what_the_cluster_says_is_written(on_cluster: Callable[..., Cluster], project: Project) -> None:
    on_cluster(
        Node=[node(4, **GB300_LABELS)],
        Queue=[queue("root"), queue("rl", "root")],
        PersistentVolumeClaim=[claim("shared", "ReadWriteMany")],
    )
    outcome = project.run("init -o json").ok()
    data = outcome.result("init")
    found = {key: data[key] for key in ("profile", "scheduler", "queue", "workspace")}
    assert found == {"profile": "gb300", "scheduler": "kai", "queue": "rl", "workspace": "shared"}
    assert "profile not given: gb300, 1 nodes of context lab carry its labels" in outcome.err
    assert "queue not given: rl, the only one in context lab" in outcome.err
    project.run("check grpo.yaml --infra grpo.infra.yaml").ok()


def test_flags_beat_the_cluster(on_cluster: Callable[..., Cluster], project: Project) -> None:
    on_cluster(Node=[node(4, **GB300_LABELS)], LocalQueue=[queue("a"), queue("b")])
    data = project.run("init --profile generic --queue b -o json").ok().result("init")
    assert (data["profile"], data["scheduler"], data["queue"]) == ("generic", "kueue", "b")
    assert "gpus_per_node: 4" in project.read("grpo.yaml")
    # Two queues and nobody to choose: no guess.
    assert project.run("init two -o json").ok().json["scheduler"] == "default"
    refused = project.run("init three --scheduler kueue")
    assert refused.exit == 2
    assert "there are: a, b" in refused.err


def test_a_silent_cluster_is_said_and_no_error(
    on_cluster: Callable[..., Cluster], project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cluster(**dict.fromkeys(("Node", "Queue", "LocalQueue", "PersistentVolumeClaim"), ClusterError("unreachable")))
    assert "https://lab does not answer" in project.run("init").ok().err


def test_nothing_is_asked_of_a_cluster_when_all_is_given(on_cluster: Callable[..., Cluster], project: Project) -> None:
    cluster = on_cluster()
    project.run("init --profile gb300 --image i.example/x:1 --scheduler kai --queue rl --workspace ws").ok()
    project.run("init here --profile local").ok()
    assert cluster.asked == []


def on_terminal(project: Project, typed: str, *words: str) -> tuple[int, str]:
    """Run it in an interpreter of its own on a pseudo-terminal; (exit code, what the terminal showed)."""
    main, other = pty.openpty()
    code = "from kubectl_nrl.app import entry; entry()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "init", *words], stdin=other, stdout=other, stderr=other, cwd=project.path,
        env={**project.env, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
    )  # fmt: skip
    os.close(other)
    os.write(main, typed.encode())
    shown = b""
    while True:
        try:
            piece = os.read(main, 4096)
        except OSError:  # Linux says so that the other side is closed
            break
        if not piece:
            break
        shown += piece
    os.close(main)
    return process.wait(60), shown.decode()


def test_on_a_terminal_it_asks_for_what_was_not_given(project: Project) -> None:
    # A wrong profile and an empty queue are asked for again; the image was given.
    code, shown = on_terminal(project, "gb30\ngb300\nkai\n\nrl\nws\n", "--image", "r.example/i:1", "mine")
    assert code == 0, shown
    assert 'no profile "gb30" (did you mean gb300?)' in shown
    assert "profile (gb300, generic, local) [generic]:" in shown
    assert "image" not in shown.split("wrote")[0].replace("--image", "")
    assert shown.count("queue:") == 2
    text = project.read("mine.infra.yaml")
    assert "scheduler: {kind: kai, queue: rl}" in text
    assert "pvcName: ws" in text
    project.run("check mine.yaml --infra mine.infra.yaml").ok()


def test_an_end_of_input_writes_nothing(project: Project) -> None:
    code, shown = on_terminal(project, "gb300\n\x04")
    assert code == 2, shown
    assert "nothing was written" in shown
    assert os.listdir(project.path) == []
