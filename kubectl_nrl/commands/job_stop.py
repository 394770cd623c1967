"""`kubectl nrl job stop`: ends a run and gives back what it holds; the RayJob stays as the record.

No deletion rule of KubeRay matches a stopped job, so its pods would stay for good: stopping and releasing are one act here.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ClusterError, ExitCode, UsageError
from ..labels import ownership
from ..runs import RunRecord
from .connecting import agree, paste, ray_connector
from .log_reading import open_copy
from .run_result import LogFacts
from .session import Session

#: States between two attempts: KubeRay takes the Ray cluster away, and Ray's word is that of the driver before.
_BETWEEN = ("Retrying", "Suspending", "Suspended")
#: Seconds that KubeRay gets to notice a stopped job; it looks every three.
NOTICED = 120.0
#: Seconds that pods get to go.
GONE = 60.0
#: Seconds that a head gets to hand over the rest of the log before it goes.
REST = 5.0


@dataclass(frozen=True)
class StopResult:
    """`stopped`: this call stopped a running driver; `deleted`: the RayJob was deleted, since nothing had run yet or Ray did not obey."""

    run: RunRecord
    stopped: bool
    deleted: bool
    released: str
    not_gone: Sequence[str]
    log: LogFacts | None

    schema = "job_stop"

    def text(self) -> str:
        run = self.run
        if self.deleted:
            had = "was deleted with its driver" if run.status.get("jobStatus") else "had no driver yet and was deleted"
            if run.status.get("jobDeploymentStatus") in _BETWEEN:
                had = "had no driver now and was deleted"
            lines = [f"rayjob/{run.name} {had}"]
        else:
            lines = [f"rayjob/{run.name}: {run.state}" + ("" if self.stopped else ", was over already")]
            lines += [f"released Ray cluster {self.released}"] if self.released else []
        if self.not_gone:
            lines.append(f"still ending: {', '.join(self.not_gone)}")
        if self.log is not None:
            lines.append(f"log: {self.log.path}")
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        return {
            "id": self.run.id,
            "rayjob": self.run.name,
            "namespace": self.run.namespace,
            "state": "DELETED" if self.deleted else self.run.state,
            "stopped": self.stopped,
            "deleted": self.deleted,
            "released": self.released,
            "notGone": list(self.not_gone),
            "log": self.log.data() if self.log else None,
        }


def stop(args: argparse.Namespace, session: Session, cluster: Any, run: RunRecord) -> ExitCode:
    """Stop a run and release it, and return when that is true; 4 when its pods do not go.

    Raises `UsageError` for a run that is not mine, unless forced, and `ClusterError` when Ray does not obey; then --force
    deletes the RayJob, whose pods take the driver with them.
    """
    _guard(args, session, run)
    try:
        return _stop(args, session, cluster, run)
    except KeyboardInterrupt:
        again = paste(session, run.namespace, "job", "stop", run.id)
        session.output.plain(
            f"interrupted; run {run.id} may go on, or still hold its pods\n  go on stopping it: {again}"
        )
        raise


def _stop(args: argparse.Namespace, session: Session, cluster: Any, run: RunRecord) -> ExitCode:
    if not run.final and not run.status.get("jobStatus"):
        session.output.progress(f"rayjob/{run.name} has no driver yet ({run.description}); deleting it")
        return _delete(session, cluster, run, None)
    if run.status.get("jobDeploymentStatus") in _BETWEEN:
        session.output.progress(f"rayjob/{run.name} has no driver now ({run.description}); deleting it")
        return _delete(session, cluster, run, _keep_log(session, cluster, run))
    stopped = False
    if not run.final:
        try:
            _stop_driver(session, cluster, run)
            run = _until_final(session, cluster, run)
        except ClusterError as error:
            if not args.force:
                error.hint = error.hint or paste(session, run.namespace, "job", "stop", run.id, "--force")
                raise
            session.output.warn(f"{error.message}; deleting it")
            return _delete(session, cluster, run, _keep_log(session, cluster, run))
        stopped = run.state == "STOPPED"
    log = _keep_log(session, cluster, run)
    return _release(session, cluster, run, stopped, log)


def _guard(args: argparse.Namespace, session: Session, run: RunRecord) -> None:
    owner = ownership(run.rayjob, session.user)
    if owner.mine:
        return
    if owner.owner and not args.force:
        raise UsageError(
            f'RayJob "{run.name}" belongs to {owner.words} (you are "{session.user.name}")',
            paste(session, run.namespace, "job", "stop", run.id, "--force", "--yes"),
        )
    pods = 1 + sum(int(group.get("replicas") or 0) for group in _groups(run))
    agree(
        session,
        f"rayjob/{run.name} ({run.description}, {pods} pods) belongs to {owner.words}; stop and release it?",
        yes=args.yes,
    )


def _groups(run: RunRecord) -> list[dict[str, Any]]:
    return ((run.rayjob.get("spec") or {}).get("rayClusterSpec") or {}).get("workerGroupSpecs") or []


def _delete(session: Session, cluster: Any, run: RunRecord, log: LogFacts | None) -> ExitCode:
    """A run without a driver has no job to stop and nothing to remember; one that Ray cannot stop goes with its pods."""
    from ..apply import delete_run

    left = delete_run(cluster, run.rayjob, say=lambda text: None, within=NOTICED)
    session.manager.observe({"event": "torn-down", "run": run.id, "rayjob": run.name, "namespace": run.namespace})
    session.output.result(StopResult(run, False, True, run.ray_cluster, left or (), log))
    if left is None:
        _say_unseen(session)
    return ExitCode.GAVE_UP if left else ExitCode.OK


def _say_unseen(session: Session) -> None:
    session.output.warn("whether its pods are gone is not known: you may not list pods")


def _stop_driver(session: Session, cluster: Any, run: RunRecord) -> None:
    try:
        with ray_connector(cluster, run.namespace)(run.ray_cluster) as jobs:
            jobs.stop(run.submission_id)
    except ClusterError as error:
        raise ClusterError(
            f"rayjob/{run.name} was not stopped: {error.message}",
            error.hint,
            status=error.status,
            reason=error.reason,
        ) from error
    session.output.progress(f"asked Ray to stop {run.submission_id}")


def _until_final(session: Session, cluster: Any, run: RunRecord) -> RunRecord:
    from ..watch import Follow, RunTarget

    output = session.output
    follow = Follow(cluster, RunTarget(run.namespace, run.name, run.uid, run.id), say=output.progress, warn=output.warn)
    try:
        end = follow.until_final(NOTICED)
    finally:
        follow.close()
    if end.how == "deleted":
        raise ClusterError(
            f"{end.message}, not by this command; there is nothing left to stop", status=404, reason="Gone"
        )
    if end.outcome is None:
        raise ClusterError(f"rayjob/{run.name} is not over {NOTICED:.0f} s after the stop: {end.message}")
    return RunRecord(follow.rayjob)


def _keep_log(session: Session, cluster: Any, run: RunRecord) -> LogFacts | None:
    """Read the rest of the log into the copy before the head goes with the cluster."""
    from ..watch import DriverLog, Source

    if not run.ray_cluster or not run.status.get("jobStatus"):
        return None
    copy = open_copy(session, run.id)
    if copy is None:
        return None  # another process follows this run and keeps it, or nothing can be kept
    path = copy.path
    reader = DriverLog(ray_connector(cluster, run.namespace), lambda data: None, copy=copy, say=session.output.warn)
    reader.follow(Source(run.ray_cluster, run.ray_cluster, run.submission_id))
    reader.finish(REST, over=run.final)
    end = reader.to_the_end()
    return LogFacts(str(path), end.complete, end.bytes) if end.bytes and not reader.copy_lost else None


def _release(session: Session, cluster: Any, run: RunRecord, stopped: bool, log: LogFacts | None) -> ExitCode:
    from ..apply import holders, release, take_children

    released = release(cluster, run.rayjob, within=GONE, say=session.output.progress)
    if released.seen and not released.left:
        take_children(cluster, run.rayjob, session.output.warn)
    session.manager.observe({"event": "torn-down", "run": run.id, "rayjob": run.name, "namespace": run.namespace})
    session.output.result(StopResult(run, stopped, False, released.ray_cluster, released.left, log))
    for holder in holders(cluster, run.namespace, run.ray_cluster, released.pods):
        session.output.warn(f"after {GONE:.0f} s {holder.words}")
        session.output.hint(holder.look)
    if not released.seen:
        _say_unseen(session)
    return ExitCode.GAVE_UP if released.left else ExitCode.OK
