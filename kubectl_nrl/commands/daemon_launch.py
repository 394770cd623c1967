"""One daemon's job on its cluster: found again, or submitted with its own code under an id that is free."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode, NrlError
from ..rayjob_state import LIVE
from .connecting import paste
from .handover import Reached, stage
from .session import Session
from .uploading import code_source

if TYPE_CHECKING:
    from ..api import Prepared
    from ..plan import Daemon, Plan
    from ..ray_jobs import RayJobs
    from ..watch import DaemonStanding, DaemonWatch
    from .cluster_drivers import ClusterDrivers

#: Seconds that a job which is replaced gets to end; Ray itself kills it after some.
STOPPED = 60.0
#: How often a submission that another person's crossed is judged again.
TRIES = 3


class DaemonLaunch:
    """One daemon on the RayCluster `live`."""

    def __init__(self, session: Session, cluster: Any, plan: Plan, daemon: Daemon, live: Mapping[str, Any]) -> None:
        self._session, self._cluster, self._plan, self._daemon, self._live = session, cluster, plan, daemon, live
        self._uid = str(live["metadata"]["uid"])

    def ensure(
        self, package: Prepared | None, code: str, *, replaced: bool, lock: threading.Lock
    ) -> tuple[str, DaemonStanding]:
        """The id under which it runs, and how it stood before; `lock` is held while code is sent.

        Raises `ClusterError`.
        """
        from ..watch import standing_of

        with self._connect() as jobs:
            for last in (False,) * (TRIES - 1) + (True,):
                known = jobs.list()
                standing = standing_of(known, self._daemon, self._uid, code)
                if standing.running:
                    return standing.submission_id, standing
                submission_id = self._free_id(jobs, known, replaced)
                try:
                    self._submit(jobs, submission_id, package, lock)
                    return submission_id, standing
                except ClusterError as error:
                    # Somebody who does the same at this moment was faster; theirs is as good.
                    if error.reason != "AlreadyExists" or last:
                        raise
        raise AssertionError("the last try returns or raises")

    def watch(self, submission_id: str, words: str, *, fresh: bool, tell: Callable[[str], None]) -> DaemonWatch:
        """Watches it under that id; `tell` gets what it still lacks."""
        from ..plan.daemons import HEALTH_SECONDS
        from ..watch import DaemonWatch, HealthJob, UrlHealth

        daemon, plan = self._daemon, self._plan
        health, timeout = None, float(HEALTH_SECONDS)
        if daemon.health is not None:
            url, timeout = daemon.health.url, float(daemon.health.timeout)
            asker = HealthJob(url, timeout, self._connect, {"user": plan.run.user.name, "entrypoint": f"asks {url}"})
            health = UrlHealth(self._cluster, plan.namespace, asker, url)
        recipe = [plan.recipe_path, *(["--infra", plan.infra_path] if plan.infra_path else [])]
        return DaemonWatch(
            words, submission_id, self._connect, health, fresh=fresh, timeout=timeout,
            look=paste(self._session, plan.namespace, "logs", *recipe, "--role", daemon.role, "--source", "daemon"),
            key=f"kuberay.{daemon.role}.daemon.healthCheckTimeoutS", tell=tell,
        )  # fmt: skip

    def _connect(self) -> RayJobs:
        from .. import ray_jobs

        return ray_jobs.connect(self._cluster, self._live)

    def _free_id(self, jobs: RayJobs, known: Sequence[Mapping[str, Any]], replaced: bool) -> str:
        """The id of the infra file; with a suffix when it replaces one that ran, or when something else has it.

        An ended job of this daemon under that id is forgotten, since Ray takes no id twice.
        """
        from ..watch import of_daemon

        plain = self._daemon.submission_id
        suffixed = f"{plain[: 62 - len(self._plan.run.short)].rstrip('.-_')}-{self._plan.run.short}"
        wanted = suffixed if replaced else plain
        holder = next((job for job in known if job.get("submission_id") == wanted), None)
        if holder is None:
            return wanted
        if holder.get("status") in LIVE or holder not in of_daemon(known, self._daemon, self._uid):
            return suffixed
        jobs.delete(wanted)
        return wanted

    def _submit(self, jobs: RayJobs, submission_id: str, package: Prepared | None, lock: threading.Lock) -> None:
        from ..plan.assemble import METADATA_MAX
        from ..script import encoded_line
        from ..watch import metadata_for

        daemon, plan = self._daemon, self._plan
        working_dir = ""
        if package is not None:
            with lock:
                reached = Reached(plan.namespace, jobs, self._cluster)
                source = code_source(self._session, plan.launch.code_source)
                working_dir = stage(self._session, source, plan.run, reached, package).working_dir or ""
        jobs.submit(
            encoded_line(submission_id, daemon.script),
            submission_id,
            runtime_env={"working_dir": working_dir} if working_dir else {},
            metadata=metadata_for(daemon, self._uid, working_dir, plan.run.user.name, METADATA_MAX),
        )


def until_ended(jobs: RayJobs | ClusterDrivers, ids: Sequence[str]) -> None:
    """Wait until jobs that were stopped have ended. Raises `NrlError` that names those which do not."""
    deadline = time.monotonic() + STOPPED
    left = list(ids)
    while left:
        left = [one for one in left if (jobs.get(one) or {}).get("status") in LIVE]
        if left and time.monotonic() >= deadline:
            raise NrlError(
                f"still running {STOPPED:.0f} s after they were stopped: {', '.join(left)}",
                exit_code=ExitCode.GAVE_UP,
            )
        if left:
            time.sleep(0.25)
