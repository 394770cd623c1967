"""Asks a health URL from inside a Ray cluster, by a small Ray job on its head: for names that only resolve there.

One job polls until the URL answers, so that a slow start costs one submission.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ..errors import ClusterError
from ..script import encoded_line, launch_script
from .health import ServiceHealth, parts_of

_POLL = """\
import ssl, sys, time, urllib.error, urllib.request
url, seconds = sys.argv[1], float(sys.argv[2])
quiet = ssl.create_default_context()
quiet.check_hostname, quiet.verify_mode = False, ssl.CERT_NONE
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=quiet))
end = time.monotonic() + seconds
while True:
    try:
        with opener.open(url, timeout=10) as answer:
            sys.exit(0)
    except (OSError, ValueError) as error:
        why = error
    if time.monotonic() >= end:
        sys.exit(f"no healthy answer: {why}")
    time.sleep(1)
"""


class Jobs(Protocol):
    """What is needed of `ray_jobs.RayJobs`."""

    def submit(
        self, entrypoint: str, submission_id: str, *, runtime_env: Mapping[str, Any], metadata: Mapping[str, str]
    ) -> bool: ...
    def get(self, submission_id: str) -> dict[str, Any] | None: ...
    def stop(self, submission_id: str) -> bool: ...
    def delete(self, submission_id: str) -> bool: ...
    def close(self) -> None: ...


class HealthJob:
    """Whether `url` answers with less than 400 where the cluster's names resolve (`watch.Health`)."""

    def __init__(self, url: str, seconds: float, connect: Callable[[], Jobs], metadata: Mapping[str, str]) -> None:
        self._url, self._connect, self._metadata = url, connect, metadata
        self._id = f"health-{secrets.token_hex(4)}"
        code, where, within = shlex.quote(_POLL), shlex.quote(url), str(int(seconds))
        text = f"exec $(command -v python3 || command -v python) -c {code} {where} {within}"
        self._line = encoded_line(self._id, launch_script(text, run_id=self._id, recipe=""))
        self._submitted = self._healthy = False

    def ask(self) -> None:
        """Return once it has answered. Raises `ClusterError` until then."""
        if self._healthy:
            return
        jobs = self._connect()
        try:
            if not self._submitted:
                jobs.submit(self._line, self._id, runtime_env={}, metadata=self._metadata)
                self._submitted = True
            job = jobs.get(self._id) or {}
        finally:
            jobs.close()
        self._healthy = job.get("status") == "SUCCEEDED"
        if not self._healthy:
            ended = job.get("status") in ("FAILED", "STOPPED")
            said = str(job.get("message") or "").strip().rpartition("\n")[2] if ended else "asked from the cluster"
            raise ClusterError(f"{self._url} has not answered ({said})", reason="Unhealthy")

    def close(self) -> None:
        """End the job, and take it out of the list; one that cannot be reached ends by itself."""
        if not self._submitted:
            return
        try:
            jobs = self._connect()
        except ClusterError:
            return
        try:
            if not self._healthy:
                jobs.stop(self._id)
            jobs.delete(self._id)
        except ClusterError:
            pass  # Ray forgets no job that is still being stopped; it is over in a moment and harms nobody
        finally:
            jobs.close()


class UrlHealth:
    """A health URL: asked by a forward where it names a Service of the cluster, else by a Ray job there (`watch.Health`)."""

    def __init__(self, cluster: Any, namespace: str, job: HealthJob, url: str) -> None:
        asked = parts_of(url, namespace)
        self._service = ServiceHealth(cluster, asked) if asked else None
        self._job = job

    def ask(self) -> None:
        """Return when it answers. Raises `ClusterError`."""
        if self._service is not None:
            try:
                self._service.ask()
                return
            except ClusterError as error:
                if error.reason not in ("NotFound", "NoSelector", "Forbidden"):
                    raise
                self._service = None  # another kind of name, or one of which nothing may be known from here
        self._job.ask()

    def close(self) -> None:
        self._job.close()
