"""Packages and submissions over a head that breaks where it hurts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.ray_jobs import Head, RayJobs, packages, submission
from kubectl_nrl.ray_jobs.submission import MARK

NAME = "_ray_pkg_0123456789abcdef0123456789abcdef.zip"
CUT = ClusterError("connection lost", reason="ConnectionLost")


@dataclass
class Reply:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    def read(self) -> bytes:
        return self.body

    def close(self) -> None:
        pass


@dataclass
class Pieces:
    data: bytes

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self.data), 4):
            yield self.data[start : start + 4]


class Ray:
    """The packages and jobs of one head. `faults` are taken one for each request that they match: a word of the request line.

    A fault is an error before the request, `("after", error)` after it was carried out, `("half", error)` while the body arrives, or
    a reply.
    """

    def __init__(self) -> None:
        self.packages: dict[str, bytes] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.lines: list[str] = []
        self.sent = 0
        self.faults: list[tuple[str, Any]] = []

    def request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: Any = b"", *, timeout: float = 30.0,
        cancelled: Callable[[], bool] | None = None,
    ) -> Reply:  # fmt: skip
        line = f"{method} {path}"
        self.lines.append(line)
        fault = self._fault(line)
        if isinstance(fault, Exception):
            raise fault
        if isinstance(fault, Reply):
            return fault
        data = b""
        for piece in (body,) if isinstance(body, bytes) else body:
            data += piece
            self.sent += len(piece)
            if fault and fault[0] == "half" and len(data) >= len(body) / 2:
                raise fault[1]
        reply = self._answer(method, path, data)
        if fault and fault[0] == "after":
            raise fault[1]
        return reply

    def _fault(self, line: str) -> Any:
        for number, (word, fault) in enumerate(self.faults):
            if word in line:
                del self.faults[number]
                return fault
        return None

    def _answer(self, method: str, path: str, data: bytes) -> Reply:
        if found := re.fullmatch(r"/api/packages/gcs/(.+)", path):
            if method == "PUT":
                self.packages[found[1]] = data
            return Reply(200 if found[1] in self.packages else 404)
        if method == "POST":
            job = json.loads(data)
            if job["submission_id"] in self.jobs:
                return Reply(500, b"Traceback ...\nRuntimeError: already exists")
            self.jobs[job["submission_id"]] = {**job, "status": "PENDING"}
            return Reply(200, json.dumps({"submission_id": job["submission_id"]}).encode())
        job = self.jobs.get(path.rpartition("/")[2])
        return Reply(200, json.dumps(job).encode()) if job else Reply(404)

    def close(self) -> None:
        pass


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    monkeypatch.setattr(packages, "PAUSE", 0.0)
    monkeypatch.setattr(submission, "PAUSE", 0.0)
    return Ray()


def jobs(ray: Ray, token: str | None = None) -> RayJobs:
    return RayJobs(Head(ray, token=token))


def submit(ray: Ray) -> bool:
    return jobs(ray).submit(
        "python x.py", "run-1", runtime_env={"working_dir": f"gcs://{NAME}"}, metadata={"user": "me"}
    )


def puts(ray: Ray) -> int:
    return sum(line.startswith("PUT") for line in ray.lines)


def test_a_package_is_sent_once(ray: Ray) -> None:
    told: list[int] = []
    assert jobs(ray).upload_package(NAME, Pieces(b"0123456789"), told.append) == 10
    assert ray.packages == {NAME: b"0123456789"}
    assert told == [0, 4, 8, 10]
    assert jobs(ray).upload_package(NAME, Pieces(b"0123456789")) == 0
    assert (puts(ray), ray.sent) == (1, 10)


def test_the_token_goes_with_every_request(ray: Ray, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    request = ray.request

    def note(method: str, path: str, headers: Any = None, body: Any = b"", **words: Any) -> Reply:
        seen.append((headers or {}).get("x-ray-authorization"))
        return request(method, path, headers, body, **words)

    monkeypatch.setattr(ray, "request", note)
    jobs(ray, "t0ken").upload_package(NAME, Pieces(b"x"))
    jobs(ray, "t0ken").submit("x", "id", runtime_env={}, metadata={})
    assert seen == ["Bearer t0ken"] * 3


def test_a_cut_upload_is_repeated_whole(ray: Ray) -> None:
    ray.faults = [("PUT", ("half", CUT)), ("PUT", ("half", CUT))]
    told: list[int] = []
    assert jobs(ray).upload_package(NAME, Pieces(b"0123456789"), told.append) == 10
    assert ray.packages == {NAME: b"0123456789"}
    assert puts(ray) == 3
    assert told.count(0) == 3


def test_an_upload_whose_answer_was_lost_is_not_repeated(ray: Ray) -> None:
    ray.faults = [("PUT", ("after", CUT))]
    assert jobs(ray).upload_package(NAME, Pieces(b"0123456789")) == 10
    assert puts(ray) == 1


@pytest.mark.parametrize(
    "error",
    [
        CUT, ClusterError("x", reason="Timeout"), ClusterError("x", reason="Unreachable"), ClusterError("x", reason="PortClosed"),
        ClusterError("x", status=503), ClusterError("x", status=502), ClusterError("x", status=504),
    ],
)  # fmt: skip
@pytest.mark.parametrize("word", ["GET", "PUT"])
def test_outages_are_waited_out(ray: Ray, error: ClusterError, word: str) -> None:
    ray.faults = [(word, error)] * 3
    assert jobs(ray).upload_package(NAME, Pieces(b"0123456789")) == 10
    assert ray.packages[NAME] == b"0123456789"


def test_an_outage_that_does_not_end_is_the_error(ray: Ray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "PATIENCE", 0.0)
    ray.faults = [("PUT", ("half", CUT))]
    with pytest.raises(ClusterError) as error:
        jobs(ray).upload_package(NAME, Pieces(b"0123456789"))
    assert packages.passing(error.value)
    assert ray.packages == {}


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(413), "larger than it accepts"),
        (Reply(500, b"Traceback\nRuntimeError: disk is full"), "disk is full"),
        (Reply(400), "HTTP 400"),
    ],
)
def test_a_refusal_is_said_at_once(ray: Ray, reply: Reply, said: str) -> None:
    ray.faults = [("PUT", reply)]
    with pytest.raises(ClusterError, match=said):
        jobs(ray).upload_package(NAME, Pieces(b"0123456789"))
    assert puts(ray) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_is_refused_is_said_at_once(ray: Ray, status: int) -> None:
    ray.faults = [("GET", Reply(status))]
    with pytest.raises(ClusterError) as error:
        jobs(ray).upload_package(NAME, Pieces(b"x"))
    assert error.value.reason == "RayUnauthorized"
    assert puts(ray) == 0


def test_a_head_that_is_gone_is_no_package_that_ray_lacks(ray: Ray) -> None:
    ray.faults = [("GET", ClusterError("pods x not found", status=404))]
    with pytest.raises(ClusterError) as error:
        jobs(ray).upload_package(NAME, Pieces(b"x"))
    assert error.value.reason == "NoHead"


def test_a_job_is_submitted_with_all_its_words(ray: Ray) -> None:
    assert submit(ray) is True
    job = ray.jobs["run-1"]
    assert job["entrypoint"] == "python x.py"
    assert job["runtime_env"] == {"working_dir": f"gcs://{NAME}"}
    assert job["metadata"].pop(MARK)
    assert job["metadata"] == {"user": "me"}


@pytest.mark.parametrize("fault", [("after", CUT), ("after", ClusterError("x", reason="Timeout"))])
def test_a_submission_whose_answer_was_lost_is_not_repeated(ray: Ray, fault: Any) -> None:
    ray.faults = [("POST", fault)]
    assert submit(ray) is False
    assert len(ray.jobs) == 1
    assert sum(line.startswith("POST") for line in ray.lines) == 1


def test_a_submission_that_did_not_arrive_is_repeated(ray: Ray) -> None:
    ray.faults = [("POST", CUT), ("POST", ClusterError("x", reason="PortClosed"))]
    assert submit(ray) is True
    assert list(ray.jobs) == ["run-1"]


def test_a_head_whose_agent_is_not_up_yet_is_asked_again(ray: Ray) -> None:
    said = b"Traceback:\naiohttp.client_exceptions.ServerDisconnectedError: Server disconnected\n"
    ray.faults = [("POST", Reply(500, said)), ("POST", Reply(500, said))]
    assert submit(ray) is True
    assert sum(line.startswith("POST") for line in ray.lines) == 3


def test_another_500_is_an_answer(ray: Ray) -> None:
    ray.faults = [("POST", Reply(500, b"RuntimeError: no such runtime_env"))]
    with pytest.raises(ClusterError) as error:
        submit(ray)
    assert error.value.reason == "RayError"


def test_while_the_outcome_is_unknown_nothing_is_submitted(ray: Ray) -> None:
    ray.faults = [("POST", ("after", CUT)), ("GET", CUT), ("GET", CUT)]
    assert submit(ray) is False
    assert sum(line.startswith("POST") for line in ray.lines) == 1


def test_an_answer_of_500_to_a_repeated_post_is_our_own_job(ray: Ray) -> None:
    """A proxy may repeat a POST, and Ray then says that the id exists."""
    post = ray._answer

    def twice(method: str, path: str, data: bytes) -> Reply:
        if method == "POST":
            post(method, path, data)
        return post(method, path, data)

    ray._answer = twice  # type: ignore[method-assign]
    assert submit(ray) is False


@pytest.mark.parametrize("status", ["RUNNING", "SUCCEEDED", "STOPPED"])
def test_an_id_of_another_submission_is_an_error_that_says_its_state(ray: Ray, status: str) -> None:
    ray.jobs["run-1"] = {"submission_id": "run-1", "status": status, "metadata": {MARK: "another"}}
    with pytest.raises(ClusterError, match=rf'"run-1" already exists on this Ray cluster \({status}\)') as error:
        submit(ray)
    assert "--run-id" in error.value.hint
    assert error.value.reason == "AlreadyExists"


def test_a_refused_submission_is_said_at_once(ray: Ray) -> None:
    ray.faults = [("POST", Reply(400, b"entrypoint is missing"))]
    with pytest.raises(ClusterError, match="entrypoint is missing"):
        submit(ray)
    assert len(ray.lines) == 1


def test_a_submission_gives_up_in_the_end(ray: Ray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "PATIENCE", 0.0)
    ray.faults = [("POST", CUT)]
    with pytest.raises(ClusterError) as error:
        submit(ray)
    assert error.value.reason == "ConnectionLost"
