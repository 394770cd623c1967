"""`kubectl nrl job resume`: the upload and submission that a laptop left undone.

The RayJob holds what is submitted; only the code comes from this machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from ..errors import ExitCode, UsageError
from ..labels import SUBMISSION, ownership
from ..runs import RunRecord, script_of, submission_of
from ..script import embedded
from .connecting import observer, paste
from .handover import Handover
from .run_launch import commands_for, say_left_alone
from .run_result import RunResult
from .session import Session


def resume(args: argparse.Namespace, session: Session, cluster: Any, run: RunRecord) -> ExitCode | int:
    """Upload, submit, and follow. Raises `UsageError` for a run that is over, submitted, or not mine."""
    record = _record(session, run)
    _guard(args, session, run)
    handover = _handover(args, session, cluster, run, record)
    event = observer(session, {"run": run.id, "rayjob": run.name, "namespace": run.namespace})
    try:
        submitted = handover.complete(run.rayjob, None, event)
        if submitted:
            event({"event": "submitted"})
    except KeyboardInterrupt:
        say_left_alone(session, run.namespace, run.id, "interrupted", resume="" if handover.done else handover.resume)
        raise
    finally:
        handover.close()
    if submitted and not args.wait:
        say_left_alone(session, run.namespace, run.id, "not waiting for the run")
        if session.output.format != "text":
            commands = commands_for(session, run.namespace, run.id)
            session.output.result(RunResult(run.id, run.rayjob, run.state, "", "", 0, commands))
        return ExitCode.OK
    from .job_logs import follow

    return follow(session, cluster, run)


def _record(session: Session, run: RunRecord) -> Mapping[str, Any]:
    """What is left to submit. Raises `UsageError` when nothing is."""
    follow = paste(session, run.namespace, "job", "logs", run.id, "-f")
    if run.final:
        raise UsageError(f"run {run.id} is over ({run.description})", follow.removesuffix(" -f"))
    record = submission_of(run)
    if record is None:
        raise UsageError(f"run {run.id} has nothing to upload: KubeRay submits it by itself", follow)
    if (run.rayjob.get("spec") or {}).get("jobId"):
        raise UsageError(f"run {run.id} is submitted already ({run.description})", follow)
    paths = record.get("uploadPaths") or []
    if not (
        record.get("line")
        and record.get("codeSource")
        and isinstance(paths, list)
        and all(isinstance(p, str) for p in paths)
    ):
        raise UsageError(
            f"what is left to submit of run {run.id} cannot be read (annotation {SUBMISSION})",
            "stop the run, and start it anew",
        )
    return record


def _guard(args: argparse.Namespace, session: Session, run: RunRecord) -> None:
    owner = ownership(run.rayjob, session.user)
    if not owner.mine and not args.force:
        raise UsageError(
            f'RayJob "{run.name}" belongs to {owner.words} (you are "{session.user.name}")',
            paste(session, run.namespace, "job", "resume", run.id, "--force"),
        )


def _handover(
    args: argparse.Namespace, session: Session, cluster: Any, run: RunRecord, record: Mapping[str, Any]
) -> Handover:
    from ..api import RunInfo
    from .uploading import code_source, prepare, request

    script = script_of(cluster, run)
    try:
        recipe, entrypoint = embedded(script or "", "recipe.yaml"), embedded(script or "", "entrypoint.sh").rstrip("\n")
    except ValueError:
        raise UsageError(f"run {run.id} was not made by this program: it cannot be submitted from here") from None
    source = code_source(session, str(record["codeSource"]))
    asked = request(session, args.repo_root, record.get("uploadPaths"), recipe)
    prepared = prepare(session, source, asked)
    info = RunInfo(run.id, session.clock(), session.user)
    return Handover(session, cluster, run.namespace, info, str(record["line"]), entrypoint, source, prepared)
