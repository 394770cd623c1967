"""Ray's Jobs API and logs over stub transports that answer as Ray 2.52 does."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_nrl import ray_jobs
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.ray_jobs import Head, RayJobs, logs
from kubectl_nrl.ray_jobs.head import told


@dataclass
class Reply:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    def read(self) -> bytes:
        return self.body

    def chunks(self) -> Iterator[bytes]:
        yield from (self.body[at : at + 7] for at in range(0, len(self.body), 7))

    def close(self) -> None:
        pass


@dataclass
class Stub:
    """A transport that answers by a function, and remembers."""

    reply: Callable[[str, str, Mapping[str, str]], Reply]
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    closed: int = 0

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float = 30.0,
        cancelled: Callable[[], bool] | None = None,
    ) -> Reply:
        self.asked.append((method, path, dict(headers or {})))
        return self.reply(method, path, headers or {})

    def close(self) -> None:
        self.closed += 1


def unreachable(*_: object) -> Reply:
    raise ClusterError("port 52365: connection refused", reason="PortClosed")


def never(*_: object) -> Reply:
    raise AssertionError("must not be asked")


def agent_with(files: Mapping[str, bytes]) -> Callable[[str, str, Mapping[str, str]], Reply]:
    """The head's agent: static files with Range, as aiohttp serves them."""

    def reply(method: str, path: str, headers: Mapping[str, str]) -> Reply:
        data = files.get(path.removeprefix("/logs/"))
        if data is None:
            return Reply(404)
        first, _, last = headers["Range"].removeprefix("bytes=").partition("-")
        if int(first) >= len(data):
            return Reply(416, headers={"content-range": f"bytes */{len(data)}"})
        return Reply(206, data[int(first) : int(last) + 1])

    return reply


def api_log(text: str) -> Callable[[str, str, Mapping[str, str]], Reply]:
    return lambda method, path, headers: Reply(200, json.dumps({"logs": text}).encode())


@given(st.binary(max_size=300), st.integers(1, 50))
def test_the_agents_bytes_are_exact_whatever_they_are(log: bytes, limit: int) -> None:
    jobs = RayJobs(Head(Stub(never), Stub(agent_with({"job-driver-a.log": log}))))
    got = b""
    while chunk := jobs.log_chunk("a", len(got), limit=limit):
        assert len(chunk) <= limit
        got += chunk
    assert got == log


def test_a_log_that_became_shorter_is_another_log() -> None:
    for head in (
        Head(Stub(never), Stub(agent_with({"job-driver-a.log": b"abc"}))),
        Head(Stub(api_log("abc"))),
    ):
        with pytest.raises(ClusterError, match="it has 3 bytes now") as caught:
            RayJobs(head).log_chunk("a", 4)
        assert caught.value.reason == "LogReplaced"
        assert RayJobs(head).log_chunk("a", 3) == b""


def test_a_server_that_knows_no_range_is_cut_here() -> None:
    jobs = RayJobs(Head(Stub(never), Stub(lambda *_: Reply(200, b"0123456789"))))
    assert jobs.log_chunk("a", 3, limit=4) == b"3456"


def test_without_the_agent_by_exec_and_without_exec_by_the_jobs_api() -> None:
    commands: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> tuple[int, bytes, bytes]:
        commands.append(command)
        return 0, b"by exec", b""

    def forbidden(*_: object) -> Reply:
        raise ClusterError("you may not create pods/portforward", status=403, reason="Forbidden")

    assert RayJobs(Head(Stub(never), Stub(forbidden), run)).log_chunk("a b", 0) == b"by exec"
    commands.clear()
    head = Head(Stub(api_log("by the \u00e9 api")), Stub(unreachable), run)
    assert RayJobs(head).log_chunk("a b", 5, limit=9) == b"by exec"
    assert commands[0][-3:] == ["/tmp/ray/session_latest/logs/job-driver-a b.log", "6", "9"]

    refusals = 0

    def refuse(command: Sequence[str]) -> tuple[int, bytes, bytes]:
        nonlocal refusals
        refusals += 1
        raise ClusterError("cannot exec", status=403, reason="Forbidden")

    jobs = RayJobs(Head(Stub(api_log("by the \u00e9 api")), Stub(unreachable), refuse))
    assert jobs.log_chunk("a", 7) == "\u00e9 api".encode()
    assert jobs.log_chunk("a", 8) == "\u00e9 api".encode()[1:]
    assert refusals == 1


def test_a_log_that_is_not_on_the_head_is_found_by_the_jobs_api() -> None:
    for agent, run in ((Stub(agent_with({})), never), (None, lambda command: (44, b"", b""))):
        assert RayJobs(Head(Stub(api_log("elsewhere")), agent, run)).log_chunk("a", 0) == b"elsewhere"


def test_a_stream_that_breaks_is_not_a_reason_to_look_elsewhere() -> None:
    def broken(*_: object) -> Reply:
        raise ClusterError("cut", reason="ConnectionLost")

    with pytest.raises(ClusterError, match="cut"):
        RayJobs(Head(Stub(never), Stub(broken))).log_chunk("a", 0)


def test_a_head_that_is_gone_is_not_a_job_that_ray_does_not_know() -> None:
    def gone(*_: object) -> Reply:
        raise ClusterError('pods "h" not found', status=404, reason="NotFound")

    jobs = RayJobs(Head(Stub(gone), Stub(gone)))
    for ask in (lambda: jobs.get("a"), lambda: jobs.log_chunk("a", 0), jobs.version):
        with pytest.raises(ClusterError, match="the head of the Ray cluster is gone") as caught:
            ask()
        assert caught.value.reason == "NoHead"


def test_an_api_server_that_is_away_is_not_a_reason_to_look_elsewhere() -> None:
    def away(*_: object) -> Reply:
        raise ClusterError("cannot reach the API server", reason="Unreachable")

    with pytest.raises(ClusterError, match="cannot reach"):
        RayJobs(Head(Stub(never), Stub(away), never)).log_chunk("a", 0)


def test_the_shell_line_of_the_exec_way_is_right(tmp_path: Any) -> None:
    import subprocess

    path = tmp_path / "a $(touch x) 'b.log"
    path.write_bytes(b"0123\xff56789")

    def tail(start: int, limit: int) -> subprocess.CompletedProcess[bytes]:
        words = ["sh", "-c", logs._TAIL, "sh", str(path), str(start), str(limit)]
        return subprocess.run(words, capture_output=True, check=False, cwd=tmp_path)

    assert tail(4, 3).stdout == b"3\xff5" and tail(100, 3).stdout == b""
    path.rename(tmp_path / "c")
    assert tail(1, 3).returncode == 44 and not (tmp_path / "x").exists()


@pytest.mark.parametrize(("status", "token"), [(401, None), (403, "wrong")])
def test_a_refused_token_is_its_own_error_at_once(status: int, token: str | None) -> None:
    denied = Stub(lambda *_: Reply(status, b"Missing authentication token"))
    jobs = RayJobs(Head(denied, denied, never, token=token))
    for ask in (jobs.version, jobs.list, lambda: jobs.get("a"), lambda: jobs.stop("a"), lambda: jobs.log_chunk("a", 0)):
        with pytest.raises(ClusterError) as caught:
            ask()
        assert (caught.value.reason, caught.value.status) == ("RayUnauthorized", status)
        assert "wrong" not in caught.value.message


def test_the_token_goes_in_its_header_to_both_ports_and_into_no_repr() -> None:
    api, agent = Stub(lambda *_: Reply(200, b"{}")), Stub(agent_with({"job-driver-a.log": b"x"}))
    head = Head(api, agent, token="t0ken")
    jobs = RayJobs(head)
    jobs.version()
    jobs.log_chunk("a", 0)
    assert [stub.asked[0][2]["x-ray-authorization"] for stub in (api, agent)] == ["Bearer t0ken"] * 2
    assert "t0ken" not in repr(Head(Stub(never), token="t0ken"))


def test_ids_are_quoted_and_unknown_jobs_are_none() -> None:
    stub = Stub(lambda *_: Reply(404, b"Job a/.. does not exist"))
    jobs = RayJobs(Head(stub))
    assert jobs.get("a/..?x") is None
    assert stub.asked[0][1] == "/api/jobs/a%2F..%3Fx"
    with pytest.raises(ClusterError, match=r"cannot stop Ray job a on the Ray cluster: Job a/.. does not exist"):
        jobs.stop("a")


def test_a_traceback_becomes_its_last_line() -> None:
    text = b'Traceback (most recent call last):\n  File "x"\nRuntimeError: no such thing\n.\n'
    with pytest.raises(ClusterError, match=r"on the Ray cluster: RuntimeError: no such thing$") as caught:
        RayJobs(Head(Stub(lambda *_: Reply(500, text)))).list()
    assert (caught.value.status, caught.value.reason) == (500, "RayError")


@given(st.binary(max_size=1000))
def test_any_error_text_is_one_short_line(body: bytes) -> None:
    line = told(body)
    assert len(line) <= 300 and "\n" not in line and (not line or line.isprintable())


def pod(name: str, created: str, *, phase: str = "Running", going: bool = False) -> dict[str, Any]:
    metadata = {"name": name, "creationTimestamp": created, **({"deletionTimestamp": created} if going else {})}
    return {"metadata": metadata, "spec": {"containers": [{"name": "head"}]}, "status": {"phase": phase}}


@dataclass
class Kubernetes:
    pods: list[dict[str, Any]] = field(default_factory=list)
    secrets: dict[str, dict[str, Any]] = field(default_factory=dict)
    forbidden: bool = False
    forwards: list[tuple[str, str, int]] = field(default_factory=list)
    selectors: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    executed: list[Any] = field(default_factory=list)
    lost: bool = False

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        if self.forbidden:
            raise ClusterError("forbidden", status=403)
        return self.secrets.get(f"{namespace}/{name}")

    def list(self, api_version: str, kind: str, namespace: str | None = None, *, label_selector: str = "") -> Any:
        self.selectors.append(label_selector)
        return self.pods

    def forward(self, namespace: str, pod: str, port: int, *, inside: str = "") -> Stub:
        self.forwards.append((namespace, pod, port))
        self.inside.append(inside)
        return Stub(unreachable)

    def exec(self, *words: Any, **more: Any) -> tuple[int, bytes, bytes]:
        self.executed.append((*words, more))
        if self.lost:
            raise ClusterError("no such pod", status=404, reason="NotFound")
        return 0, b"out", b""


def cluster(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "c", "namespace": "n"}, "spec": spec}


def test_the_head_is_the_newest_that_runs_and_is_not_going() -> None:
    reader = Kubernetes(
        [pod("old", "1"), pod("new", "3"), pod("going", "4", going=True), pod("dead", "5", phase="Failed")]
    )
    jobs = ray_jobs.connect(reader, cluster())
    assert reader.forwards == [("n", "new", 8265), ("n", "new", 52365)] and jobs.pod == "new"
    assert reader.selectors == ["ray.io/cluster=c,ray.io/node-type=head"]


def test_inside_the_cluster_the_head_has_a_service_and_its_agent_an_address() -> None:
    reader = Kubernetes([pod("h", "1")])
    reader.pods[0]["status"]["podIP"] = "10.1.2.3"
    ray_jobs.connect(reader, cluster())
    ray_jobs.connect(reader, {**cluster(), "status": {"head": {"serviceName": "named-head-svc"}}})
    assert reader.inside == ["c-head-svc.n.svc", "10.1.2.3", "named-head-svc.n.svc", "10.1.2.3"]


def test_commands_run_in_rays_container_wherever_a_sidecar_stands() -> None:
    reader = Kubernetes([pod("h", "1")])
    ray = {"name": "ray", "env": [{"name": "KUBERAY_GEN_RAY_START_CMD", "value": "ray start"}]}
    reader.pods[0]["spec"]["containers"] = [{"name": "injected"}, ray]
    jobs = ray_jobs.connect(reader, cluster())
    assert jobs.run(["cat"], b"in", 5.0) == (0, b"out", b"")
    assert reader.executed == [("n", "h", ["cat"], {"container": "ray", "stdin": b"in", "timeout": 5.0})]
    reader.lost = True
    with pytest.raises(ClusterError) as caught:
        jobs.run(["cat"])
    assert caught.value.reason == "NoHead"


def test_a_heads_life_ends_with_its_pod_and_with_its_container() -> None:
    lives = []
    for uid, restarts in (("u1", 0), ("u1", 1), ("u2", 0)):
        one = pod("h", "1")
        one["metadata"]["uid"] = uid
        one["status"]["containerStatuses"] = [
            {"name": "sidecar", "restartCount": 9}, {"name": "head", "restartCount": restarts},
        ]  # fmt: skip
        lives.append(ray_jobs.connect(Kubernetes([one]), cluster()).life)
    assert len(set(lives)) == 3


def test_no_head_is_said() -> None:
    with pytest.raises(ClusterError, match='RayCluster "c" has no running head pod') as caught:
        ray_jobs.connect(Kubernetes([pod("a", "1", phase="Pending")]), cluster())
    assert caught.value.reason == "NoHead"


def test_ports_and_directories_that_were_moved() -> None:
    reader = Kubernetes([pod("h", "1")])
    params = {"dashboard-port": "9000", "dashboard-agent-listen-port": "9001", "temp-dir": "/scratch/ray/"}
    jobs = ray_jobs.connect(reader, cluster(headGroupSpec={"rayStartParams": params}))
    assert [port for _, _, port in reader.forwards] == [9000, 9001]
    assert jobs._head.log_dir == "/scratch/ray/session_latest/logs"


def test_the_token_comes_from_the_secret_that_kuberay_made_or_the_user_named() -> None:
    secret = {"data": {"auth_token": base64.b64encode(b"t\n").decode()}}
    reader = Kubernetes([pod("h", "1")], {"n/c": secret, "n/mine": secret})
    assert ray_jobs.token_of(reader, cluster()) is None
    assert ray_jobs.token_of(reader, cluster(authOptions={"mode": "disabled"})) is None
    for auth in ({"mode": "token"}, {"mode": "token", "secretName": "mine"}):
        assert ray_jobs.token_of(reader, cluster(authOptions=auth)) == "t"


@pytest.mark.parametrize(
    ("reader", "expected"),
    [
        (Kubernetes(forbidden=True), r"Ray requires a token; cannot read Secret n/c \(forbidden\)"),
        (Kubernetes(), "Secret n/c is not there"),
        (Kubernetes(secrets={"n/c": {"data": {"other": ""}}}), "Secret n/c has no key auth_token"),
        (Kubernetes(secrets={"n/c": {"data": {"auth_token": "//8="}}}), "characters in auth_token that no token has"),
        (
            Kubernetes(secrets={"n/c": {"data": {"auth_token": "YQ0KYjog"}}}),
            "characters in auth_token that no token has",
        ),
    ],
)
def test_a_token_that_cannot_be_had(reader: Kubernetes, expected: str) -> None:
    with pytest.raises(ClusterError, match=expected) as caught:
        ray_jobs.token_of(reader, cluster(authOptions={"mode": "token"}))
    assert caught.value.reason == "RayUnauthorized"


def test_closing_closes_both_transports() -> None:
    api, agent = Stub(never), Stub(never)
    with RayJobs(Head(api, agent)):
        pass
    assert (api.closed, agent.closed) == (1, 1)


NO_JSON = [b"", b"[" * 100_000, b"<html>"]
ASKS: dict[str, Callable[[RayJobs], object]] = {
    "get": lambda jobs: jobs.get("x"), "stop": lambda jobs: jobs.stop("x"), "delete": lambda jobs: jobs.delete("x"),
    "version": RayJobs.version, "list": RayJobs.list,
}  # fmt: skip


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("body", [*NO_JSON, b"3", b"null", b'"x"', b"[]", b"{}"])
def test_something_else_than_ray_behind_the_port_is_said_and_is_no_fault(ask: str, body: bytes) -> None:
    if body == (b"[]" if ask == "list" else b"{}"):
        return  # that is the form of Ray's own
    with pytest.raises(ClusterError, match=r"the answer is not (JSON|Ray's)") as caught:
        ASKS[ask](RayJobs(Head(Stub(lambda *_: Reply(200, body)))))
    assert caught.value.reason == "NotRay"


def test_what_is_no_job_in_a_list_of_jobs_is_left_out() -> None:
    assert RayJobs(Head(Stub(lambda *_: Reply(200, b'[3, {"submission_id": "a"}, null]')))).list() == [
        {"submission_id": "a"}
    ]
