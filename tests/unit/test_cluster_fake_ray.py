"""Fake Ray heads answer as Ray does, and run what they are given."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import zipfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from cluster.fake_ray import FakeRay
from waiting import PATIENCE

HEAD = "10.89.0.1"
Run = Callable[[Callable[[FakeRay], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def ray(tmp_path: Path) -> Run:
    def run(scenario: Callable[[FakeRay], Coroutine[Any, Any, None]]) -> None:
        asyncio.run(asyncio.wait_for(scenario(FakeRay(tmp_path)), PATIENCE))

    return run


async def submit(ray: FakeRay, entrypoint: str, name: str = "a") -> int:
    request = {"entrypoint": entrypoint, "submission_id": name, "runtime_env": {"env_vars": {"FROM_ENV": "yes"}}}
    return (await ray.dashboard("POST", "/api/jobs/", json.dumps(request).encode(), HEAD))[0]


async def ended(ray: FakeRay, name: str = "a") -> dict[str, Any]:
    while True:
        details = json.loads((await ray.dashboard("GET", f"/api/jobs/{name}", b"", HEAD))[1])
        if details["status"] not in ("PENDING", "RUNNING"):
            return dict(details)
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("entrypoint", "status", "code"), [("echo hi", "SUCCEEDED", 0), ("echo hi; exit 3", "FAILED", 3)]
)
def test_the_exit_code_is_the_entrypoints(ray: Run, entrypoint: str, status: str, code: int) -> None:
    async def scenario(ray: FakeRay) -> None:
        assert await submit(ray, entrypoint) == 200
        job = await ended(ray)
        assert (job["status"], job["driver_exit_code"]) == (status, code)
        assert code == 0 or f"exit code {code}" in job["message"]
        assert json.loads((await ray.dashboard("GET", "/api/jobs/a/logs", b"", HEAD))[1]) == {"logs": "hi\n"}

    ray(scenario)


def test_the_environment_is_rays(ray: Run) -> None:
    async def scenario(ray: FakeRay) -> None:
        await submit(ray, "echo $RAY_JOB_SUBMISSION_ID $FROM_ENV")
        await ended(ray)
        assert (await ray.agent("GET", "/logs/job-driver-a.log", "", HEAD))[1] == b"a yes\n"

    ray(scenario)


def test_log_ranges(ray: Run) -> None:
    async def scenario(ray: FakeRay) -> None:
        await submit(ray, "printf 0123456789")
        await ended(ray)
        log = "/logs/job-driver-a.log"
        assert (await ray.agent("GET", log, "bytes=2-4", HEAD))[:2] == (206, b"234")
        assert (await ray.agent("GET", log, "bytes=8-99", HEAD))[2] == {"Content-Range": "bytes 8-9/10"}
        assert (await ray.agent("GET", log, "bytes=10-", HEAD))[::2] == (416, {"Content-Range": "bytes */10"})
        assert (await ray.agent("GET", "/logs/job-driver-b.log", "", HEAD))[0] == 404

    ray(scenario)


def test_stop_reaches_what_ignores_the_polite_signal(ray: Run) -> None:
    async def scenario(ray: FakeRay) -> None:
        await submit(ray, "trap '' TERM; echo ready; while :; do sleep 0.1; done")
        while b"ready" not in (await ray.agent("GET", "/logs/job-driver-a.log", "", HEAD))[1]:
            await asyncio.sleep(0.02)
        assert json.loads((await ray.dashboard("POST", "/api/jobs/a/stop", b"", HEAD))[1]) == {"stopped": True}
        assert (await ended(ray))["status"] == "STOPPED"
        assert json.loads((await ray.dashboard("POST", "/api/jobs/a/stop", b"", HEAD))[1]) == {"stopped": False}

    ray(scenario)


def test_a_submission_id_serves_once(ray: Run) -> None:
    async def scenario(ray: FakeRay) -> None:
        assert await submit(ray, "true") == 200
        assert await submit(ray, "true") == 500
        assert await submit(ray, "true", "b") == 200
        await ended(ray)
        await ended(ray, "b")
        assert len(json.loads((await ray.dashboard("GET", "/api/jobs/", b"", HEAD))[1])) == 2
        assert (await ray.dashboard("DELETE", "/api/jobs/a", b"", HEAD))[0] == 200
        assert (await ray.dashboard("GET", "/api/jobs/a", b"", HEAD))[0] == 404

    ray(scenario)


def test_a_job_goes_with_its_head(ray: Run, tmp_path: Path) -> None:
    async def scenario(ray: FakeRay) -> None:
        await submit(ray, "echo started; sleep 60; echo survived > ../survived")
        while b"started" not in (await ray.agent("GET", "/logs/job-driver-a.log", "", HEAD))[1]:
            await asyncio.sleep(0.02)
        ray.forget_heads({HEAD: "uid-1"})
        assert ray.heads() == {HEAD}
        ray.forget_heads({HEAD: "uid-2"})
        assert (await ray.dashboard("GET", "/api/jobs/a", b"", HEAD))[0] == 404
        assert (await ray.agent("GET", "/logs/job-driver-a.log", "", HEAD))[0] == 404
        await asyncio.wait(ray._running, timeout=PATIENCE)
        assert not ray._running

    ray(scenario)
    assert list(tmp_path.iterdir()) == []


def test_a_deleted_pod_serves_its_logs_for_its_grace(ray: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container does between SIGTERM and its end; its driver and what it knew of jobs are gone at once."""
    monkeypatch.setattr("cluster.fake_ray.GRACE", 0.2)

    async def scenario(ray: FakeRay) -> None:
        await submit(ray, "echo last; sleep 60")
        while b"last" not in (await ray.agent("GET", "/logs/job-driver-a.log", "", HEAD))[1]:
            await asyncio.sleep(0.02)
        ray.forget_heads({})
        assert (await ray.agent("GET", "/logs/job-driver-a.log", "", HEAD))[1] == b"last\n"
        assert (await ray.dashboard("GET", "/api/jobs/a", b"", HEAD))[0] == 404
        await asyncio.wait(ray._running, timeout=20)
        while any(tmp_path.iterdir()):
            await asyncio.sleep(0.02)
        assert (await ray.agent("GET", "/logs/job-driver-a.log", "", HEAD))[0] == 404

    ray(scenario)


def zipped(**files: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def test_a_package_is_of_one_head_and_is_where_its_job_runs(ray: Run) -> None:
    async def scenario(ray: FakeRay) -> None:
        path = "/api/packages/gcs/_ray_pkg_1.zip"
        assert (await ray.dashboard("GET", path, b"", HEAD))[0] == 404
        assert (await ray.dashboard("PUT", path, zipped(a="hello"), HEAD))[0] == 200
        assert (await ray.dashboard("GET", path, b"", HEAD))[0] == 200
        assert (await ray.dashboard("GET", path, b"", "10.89.0.2"))[0] == 404
        request = {"entrypoint": "cat a", "submission_id": "a", "runtime_env": {"working_dir": "gcs://_ray_pkg_1.zip"}}
        await ray.dashboard("POST", "/api/jobs/", json.dumps(request).encode(), HEAD)
        assert (await ended(ray))["status"] == "SUCCEEDED"
        assert (await ray.agent("GET", "/logs/job-driver-a.log", "", HEAD))[1] == b"hello"
        ray.forget_heads({})
        assert (await ray.dashboard("GET", path, b"", HEAD))[0] == 404

    ray(scenario)


def test_half_a_package_fails_its_job(ray: Run) -> None:
    async def scenario(ray: FakeRay) -> None:
        whole = zipped(a="hello")
        await ray.dashboard("PUT", "/api/packages/gcs/p.zip", whole[: len(whole) // 2], HEAD)
        request = {"entrypoint": "true", "submission_id": "a", "runtime_env": {"working_dir": "gcs://p.zip"}}
        await ray.dashboard("POST", "/api/jobs/", json.dumps(request).encode(), HEAD)
        job = await ended(ray)
        assert (job["status"], "runtime environment" in job["message"]) == ("FAILED", True)

    ray(scenario)


def test_a_body_over_rays_limit_is_refused(ray: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.fake_ray.BODY_MAX", 10)

    async def scenario(ray: FakeRay) -> None:
        assert (await ray.dashboard("PUT", "/api/packages/gcs/p.zip", b"x" * 11, HEAD))[0] == 413
        assert (await ray.dashboard("GET", "/api/packages/gcs/p.zip", b"", HEAD))[0] == 404

    ray(scenario)


def test_an_address_that_passes_to_another_pod_keeps_no_job_of_the_first(tmp_path: Path) -> None:
    """KubeRay asks each attempt's head for one and the same id, and a fake node gives addresses out again at once."""
    pods = {HEAD: "first"}

    async def scenario() -> None:
        ray = FakeRay(tmp_path, lambda: dict(pods))
        await ray.refresh()
        assert await submit(ray, "exit 3") == 200
        assert (await ended(ray))["status"] == "FAILED"
        assert await submit(ray, "exit 3") == 500
        pods[HEAD] = "second"
        await ray.refresh()
        assert (await ray.dashboard("GET", "/api/jobs/a", b"", HEAD))[0] == 404
        assert await submit(ray, "echo again") == 200
        assert (await ended(ray))["status"] == "SUCCEEDED"

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


def test_a_head_is_not_taken_for_gone_by_a_look_that_began_before_it_was_there(tmp_path: Path) -> None:
    """Looks overlap: KubeRay's requests and the look twice a second; a job that went by an old look is submitted again."""
    looking, slow, answered = threading.Event(), threading.Event(), list[dict[str, str]]()

    def pods() -> dict[str, str]:
        present = dict(there)
        looking.set()
        if not present:
            assert slow.wait(PATIENCE)
        answered.append(present)
        return present

    there: dict[str, str] = {}

    async def scenario() -> None:
        ray = FakeRay(tmp_path, pods)
        old = asyncio.ensure_future(ray.refresh())
        while not looking.is_set():
            await asyncio.sleep(0.01)
        there[HEAD] = "first"
        new = [asyncio.ensure_future(ray.refresh()) for _ in range(3)]
        await asyncio.sleep(0)  # each has asked when this goes on
        slow.set()
        await asyncio.gather(*new)
        assert await submit(ray, "true") == 200
        await old
        assert (await ended(ray))["status"] == "SUCCEEDED"
        assert answered == [{}, there], "one look for three that asked for it meanwhile"

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


def test_a_job_whose_head_goes_before_it_began_leaves_nothing(ray: Run, tmp_path: Path) -> None:
    async def scenario(ray: FakeRay) -> None:
        await submit(ray, f"echo ran > {tmp_path}/ran")
        ray.forget_heads({})
        await asyncio.wait(ray._running, timeout=PATIENCE)

    ray(scenario)
    assert list(tmp_path.iterdir()) == []


def test_heads_are_told_apart(ray: Run) -> None:
    other = "10.89.0.2"

    async def scenario(ray: FakeRay) -> None:
        await submit(ray, "echo first")
        request = json.dumps({"entrypoint": "echo second", "submission_id": "a"}).encode()
        assert (await ray.dashboard("POST", "/api/jobs/", request, other))[0] == 200
        await asyncio.wait(ray._running, timeout=PATIENCE)
        for head, log in ((HEAD, b"first\n"), (other, b"second\n")):
            assert (await ray.agent("GET", "/logs/job-driver-a.log", "", head))[1] == log
            assert len(json.loads((await ray.dashboard("GET", "/api/jobs/", b"", head))[1])) == 1

    ray(scenario)
