"""Ray heads for fake pods: every pod's address answers like a Ray 2.52 dashboard (8265) and its agent (52365).

KubeRay reaches it through the Service and the API server's proxy, a client through a port-forward (fake_kubelet.py), as with
real pods. What is submitted is really run (see fake_ray_jobs.py), in the working directory that was uploaded, and ends with
its head pod. Auth and log tailing are not there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import shutil
import ssl
import urllib.request
import uuid
from collections.abc import Awaitable, Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from waiting import PATIENCE

from . import versions
from .fake_ray_jobs import Job
from .http_framing import Head, has_body, read_head

DASHBOARD, AGENT = 8265, 52365
Answer = tuple[int, bytes, dict[str, str]]  # status, body, headers

BODY_MAX = 100 * 1024 * 1024  # Ray's DASHBOARD_CLIENT_MAX_SIZE
#: Seconds for which a deleted pod's agent still serves logs: a container has that long, and longer, between SIGTERM and its end.
GRACE = 2.0


class FakeRay:
    """All heads of one cluster, told apart by their pods' addresses.

    `pods` asks the API server for the head pods that exist now: their uid by their address. An address may be another
    pod's a moment after its pod is gone.
    """

    def __init__(self, directory: Path, pods: Callable[[], dict[str, str]] = dict) -> None:
        self._directory, self._pods = directory, pods
        self._uids: dict[str, str] = {}
        self._jobs: list[Job] = []  # in the order of their submission
        self._packages: dict[tuple[str, str], bytes] = {}  # by head and name
        self._running: set[asyncio.Task[None]] = set()
        self._ending: dict[str, list[Job]] = {}  # by head: jobs of deleted pods, for their logs' sake
        self._listing = asyncio.Lock()
        self._asked = self._seen = 0  # askings for a look at the pods, and up to which of them one has answered

    async def dashboard(self, method: str, path: str, body: bytes, head: str) -> Answer:
        """Answer one request to the Jobs API."""
        if path == "/api/version":
            return _json(
                200, {"version": "4", "ray_version": versions.RAY, "ray_commit": "fake", "session_name": "fake"}
            )
        if path == "/api/jobs/" and method == "POST":
            return self._submit(json.loads(body), head)
        if path == "/api/jobs/":
            return _json(200, [job.details() for job in self._jobs if job.head == head])
        if path.startswith("/api/packages/gcs/"):
            return self._package(method, path.rpartition("/")[2], body, head)
        found = re.fullmatch(r"/api/jobs/([^/]+)(/logs|/stop)?", path)
        if not found:
            return _text(404, f"no route {path}")
        job = self._find(unquote(found[1]), head)
        if job is None:
            return _text(404, f"Job {unquote(found[1])} does not exist")
        return await self._about(job, method, found[2])

    async def agent(self, method: str, path: str, byte_range: str, head: str) -> Answer:
        """Answer one request for a log file, with byte ranges as aiohttp serves them."""
        for job in (*self._jobs, *self._ending.get(head, ())):
            if job.head == head and path == f"/logs/{job.log.name}" and job.log.exists():
                return _file(job.log, byte_range)
        return _text(404, "not found")

    async def refresh(self) -> None:
        """End the jobs of heads that are gone, or whose address has passed to another.

        One look at a time, and none for an answer that an earlier one gives: a look that began before a head was there and ended
        after another had found it would take that head for gone.
        """
        self._asked += 1
        mine = self._asked
        async with self._listing:
            if self._seen >= mine:
                return
            last = self._asked
            try:
                self.forget_heads(await asyncio.get_running_loop().run_in_executor(None, self._pods))
            except OSError:
                return  # the API server is being stopped, or started
            self._seen = last

    def forget_heads(self, present: dict[str, str]) -> None:
        """End the jobs whose head pod is gone; with the pod go its memory and, after its grace, its files.

        `present` are uids of pods by address: the next pod may get the same address, and then nothing of the last is there.
        """
        gone = {address for address, uid in self._uids.items() if present.get(address) != uid}
        gone |= self.heads() - present.keys()
        self._uids = dict(present)
        for held in [held for held in self._packages if held[0] in gone]:
            del self._packages[held]
        for job in list(self._jobs):
            if job.head in gone:
                job.kill()
                self._jobs.remove(job)
                self._ending.setdefault(job.head, []).append(job)
        for head in gone & self._ending.keys():
            asyncio.get_running_loop().call_later(GRACE, self._remove, head, self._ending[head])
        for head in self._ending.keys() & present.keys():
            self._remove(head, self._ending[head])

    def _remove(self, head: str, jobs: list[Job]) -> None:
        """Remove the files of a head that ended, unless that is done."""
        if self._ending.get(head) is not jobs:
            return
        for job in self._ending.pop(head):
            job.log.unlink(missing_ok=True)
            shutil.rmtree(job.work, ignore_errors=True)
            with contextlib.suppress(OSError):  # not there, since it never began
                job.directory.rmdir()

    def heads(self) -> set[str]:
        """Return the addresses of heads that hold jobs or packages."""
        return {job.head for job in self._jobs} | {head for head, _ in self._packages}

    def _find(self, name: str, head: str) -> Job | None:
        """A head's job of that id: KubeRay gives the same to each attempt of a RayJob."""
        return next((job for job in self._jobs if (job.submission_id, job.head) == (name, head)), None)

    def _package(self, method: str, name: str, body: bytes, head: str) -> Answer:
        if method == "PUT":
            if len(body) > BODY_MAX:
                return _text(413, f"Maximum request body size {BODY_MAX} exceeded, actual body size {len(body)}")
            self._packages[head, name] = body
            return 200, b"", {}
        if (head, name) not in self._packages:
            return _text(404, f"Package gcs://{name} does not exist")
        return 200, b"", {}

    def _submit(self, request: dict[str, Any], head: str) -> Answer:
        name = request.get("submission_id") or request.get("job_id") or f"raysubmit_{uuid.uuid4().hex[:16]}"
        if self._find(name, head):
            return _text(500, f"Job with submission_id {name} already exists. Please use a different submission_id.")
        job = Job(
            name,
            request["entrypoint"],
            self._directory / head,
            request.get("metadata") or {},
            request.get("runtime_env") or {},
            head,
        )
        working_dir = job.runtime_env.get("working_dir")
        if working_dir:
            job.package = self._packages.get((head, working_dir.removeprefix("gcs://")), b"")
        self._jobs.append(job)
        task = asyncio.get_running_loop().create_task(job.run())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return _json(200, {"job_id": name, "submission_id": name})

    async def _about(self, job: Job, method: str, what: str | None) -> Answer:
        if what == "/logs":
            try:
                return _json(200, {"logs": job.log.read_text() if job.log.exists() else ""})
            except UnicodeDecodeError as error:
                return _text(500, f"Traceback (most recent call last):\nUnicodeDecodeError: {error}")
        if what == "/stop" and method == "POST":
            return _json(200, {"stopped": await job.stop()})
        if method == "DELETE":
            if job.end_time is None:
                return _text(500, f"Attempted to delete job {job.submission_id}, but it is in a non-terminal state.")
            self._jobs.remove(job)
            return _json(200, {"deleted": True})
        return _json(200, job.details())


def _json(status: int, value: object) -> Answer:
    return status, json.dumps(value).encode(), {"Content-Type": "application/json"}


def _text(status: int, text: str) -> Answer:
    return status, text.encode(), {"Content-Type": "text/plain"}


def _file(path: Path, byte_range: str) -> Answer:
    wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", byte_range)
    if not wanted:
        return 200, path.read_bytes(), {"Accept-Ranges": "bytes"}
    size, first = path.stat().st_size, int(wanted[1])
    if first >= size:
        return 416, b"", {"Content-Range": f"bytes */{size}"}
    last = min(int(wanted[2]) if wanted[2] else size, size - 1)
    with path.open("rb") as file:
        file.seek(first)
        part = file.read(last + 1 - first)
    return 206, part, {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{size}"}


async def serve(ray: FakeRay, pod_range: str, health: int) -> None:
    """Listen on both ports of each pod address, and on one of the loopback address for who asks whether it runs."""
    hosts = [str(address) for address in ip_network(pod_range)]
    for listening, port, answer in (
        (hosts, DASHBOARD, _dashboard),
        (hosts, AGENT, _agent),
        (["127.0.0.1"], health, _dashboard),
    ):

        async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Any = answer) -> None:
            await _talk(reader, writer, lambda *request: answer(ray, *request))

        await asyncio.start_server(client, listening, port)


async def _dashboard(ray: FakeRay, request: Head, body: bytes, here: str) -> Answer:
    await ray.refresh()
    return await ray.dashboard(request.words[0], urlsplit(request.words[1]).path, body, here)


async def _agent(ray: FakeRay, request: Head, body: bytes, here: str) -> Answer:
    await ray.refresh()
    return await ray.agent(request.words[0], urlsplit(request.words[1]).path, request.get("Range"), here)


async def _talk(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Callable[[Head, bytes, str], Awaitable[Answer]]
) -> None:
    here = writer.get_extra_info("sockname")[0]
    try:
        while request := await read_head(reader):
            size = int(request.get("Content-Length") or 0) if has_body(request) else 0
            status, payload, headers = await answer(request, await reader.readexactly(size), here)
            pairs = [*headers.items(), ("Content-Length", str(len(payload)))]
            writer.write(Head(f"HTTP/1.1 {status} -", pairs).encode() + payload)
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass  # the client left
    finally:
        writer.close()


def head_pods(server: str, context: ssl.SSLContext) -> dict[str, str]:
    """Ask the API server for the head pods of the cluster: uid by address. Raises `OSError`."""
    url = f"{server}/api/v1/pods?labelSelector=ray.io%2Fnode-type%3Dhead"
    # An answer without this look may be that of a head which is gone: a busy API server is waited for.
    with urllib.request.urlopen(url, context=context, timeout=PATIENCE) as answer:
        items = json.load(answer)["items"]
    # One that is going has no processes any more.
    there = [pod for pod in items if not pod["metadata"].get("deletionTimestamp")]
    return {pod["status"]["podIP"]: pod["metadata"]["uid"] for pod in there if pod["status"].get("podIP")}


async def follow_pods(ray: FakeRay) -> None:
    """Look twice a second while there are jobs."""
    while True:
        await asyncio.sleep(0.2)
        if ray.heads():
            await ray.refresh()


def main() -> None:
    """Run as a process of the kwok depth."""
    parser = argparse.ArgumentParser()
    for flag in ("pod-range", "directory", "server", "ca", "cert", "key"):
        parser.add_argument(f"--{flag}", required=True)
    parser.add_argument("--health", required=True, type=int)
    args = parser.parse_args()
    context = ssl.create_default_context(cafile=args.ca)
    context.load_cert_chain(args.cert, args.key)
    ray = FakeRay(Path(args.directory), lambda: head_pods(args.server, context))

    async def run() -> None:
        await serve(ray, args.pod_range, args.health)
        await follow_pods(ray)

    asyncio.run(run())


if __name__ == "__main__":
    main()
