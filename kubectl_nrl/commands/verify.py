"""`kubectl nrl verify`: whether a run ended as it should have, item by item, whatever ran it; 1 when an item fails.

What cannot be looked at (forbidden, or a log that went with its head) is a note and no failure: only what was seen to be
wrong is called wrong. A run of which nobody can say how it ended is no success either: exit code 6.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..cells import printable
from ..errors import ExitCode, UsageError
from ..parser import PROG
from .connecting import namespace_of, open_cluster, paste, ray_connector
from .job_target import look_up, not_found
from .session import Session
from .targets import Words, add_recipe_arguments, run_here, tell_apart

if TYPE_CHECKING:
    from ..local import LocalRecord
    from ..runs import ClusterJob, ClusterRun, RunRecord
    from ..runs.checklist import Commands, Item, JobSeen
    from ..runs.evidence import LogFound

EXAMPLES = """
kubectl nrl verify 20261130-120000-abcd
kubectl nrl verify rayjob/grpo-a -n rl -o json
kubectl nrl verify raycluster/gym
kubectl nrl verify recipe.yaml --infra infra.yaml
"""

_MARKS = {True: "ok", False: "FAILED", None: "-"}


@dataclass(frozen=True)
class Where:
    """What ran it: the RayJob, the long-lived RayCluster, or (neither, and no namespace) this machine."""

    namespace: str = ""
    rayjob: str = ""
    ray_cluster: str = ""

    def words(self, run_id: str) -> str:
        if self.rayjob:
            return f"rayjob/{self.rayjob}, run {run_id}"
        return f"run {run_id} on raycluster/{self.ray_cluster}" if self.ray_cluster else f"local run {run_id}"


@dataclass(frozen=True)
class Verified:
    """The checklist of one run; `state` is what every other command calls it."""

    id: str
    where: Where
    state: str
    job: JobSeen
    items: Sequence[Item]

    schema = "verify"

    @property
    def failed(self) -> int:
        return sum(item.ok is False for item in self.items)

    @property
    def exit_code(self) -> ExitCode:
        if self.failed:
            return ExitCode.FAILED
        return ExitCode.OK if self.job.known else ExitCode.UNKNOWN

    def text(self) -> str:
        width = max(len(item.title) for item in self.items)
        lines = [self.where.words(self.id)]
        for item in self.items:
            lines.append(f"{_MARKS[item.ok]:<6}  {item.title:<{width}}  {printable(item.detail)}")
            if item.fix:
                lines.append(f"{'':<6}  {'':<{width}}  hint: {item.fix}")
        return "\n".join([*lines, self._verdict()])

    def _verdict(self) -> str:
        if self.failed:
            return f"{self.failed} failed"
        return (
            "nothing is wrong" if self.job.known else "nothing was seen to be wrong, but how the run ended is not known"
        )

    def data(self) -> dict[str, Any]:
        items = [{"title": i.title, "ok": i.ok, "detail": i.detail, "fix": i.fix} for i in self.items]
        return {
            "id": self.id,
            "local": not self.where.namespace,
            "namespace": self.where.namespace,
            "rayjob": self.where.rayjob,
            "rayCluster": self.where.ray_cluster,
            "state": self.state,
            "final": self.job.over,
            "failed": self.failed,
            "items": items,
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recipe_arguments(
        parser, "RUN",
        "a run's id, on the cluster or on this machine; rayjob/NAME; raycluster/NAME (its newest job); or a recipe (its newest run)",
    )  # fmt: skip
    parser.set_defaults(role="training", action="verify")


def handle(args: argparse.Namespace, session: Session) -> ExitCode:
    words = tell_apart(args.words, session, f"{PROG} verify")
    if not words.what:
        raise UsageError("a run's ID is missing", f"{PROG} runs")
    here = _here(args, session, words)
    result = _local(session, here) if here is not None else _on_cluster(args, session, words)
    session.output.result(result)
    return result.exit_code


def _here(args: argparse.Namespace, session: Session, words: Words) -> LocalRecord | None:
    """The run of this machine that the words name."""
    from . import local_job

    return local_job.find(session, words.name) if words.name else run_here(args, session, words)


def _local(session: Session, run: LocalRecord) -> Verified:
    from . import verify_local

    job, items = verify_local.look(session, run)
    return Verified(run.id, Where(), run.shown_state, job, items)


def _on_cluster(args: argparse.Namespace, session: Session, words: Words) -> Verified:
    from ..runs import RunRecord

    cluster, found = _find(args, session, words)
    if isinstance(found, RunRecord):
        return _rayjob(session, cluster, found)
    from . import verify_cluster

    run = _run_of(session, cluster, found)
    job, items = verify_cluster.look(session, cluster, run, _commands(session, run.namespace, run.id, run.ray_cluster))
    return Verified(run.id, Where(run.namespace, "", run.ray_cluster), job.state, job, items)


def _find(args: argparse.Namespace, session: Session, words: Words) -> tuple[Any, RunRecord | ClusterRun | ClusterJob]:
    """The cluster, and the run that the words name there: by its record where it has one, whatever became of what ran it.

    Raises `UsageError` for none.
    """
    from ..runs import ClusterRun, RunRecord, find

    if words.name is not None and words.recipe is None and "/" not in words.name:
        cluster = open_cluster(session)
        namespace = namespace_of(session, cluster)
        known = find(cluster, namespace, words.name) or _recorded(session, cluster, namespace, words.name)
        if isinstance(known, (RunRecord, ClusterRun)):
            return cluster, known
    place = look_up(args, session, words)
    if place.job is None:
        raise not_found(words, place.namespace)
    return place.cluster, place.job


def _recorded(session: Session, cluster: Any, namespace: str, run_id: str) -> ClusterRun | None:
    """A run by its record: as the cluster has it, else as this machine remembers it.

    Raises `UsageError` for one that this machine remembers on another cluster.
    """
    from ..runs import find_cluster_run, remember, remembered

    known = find_cluster_run(cluster, namespace, run_id)
    if known is not None:
        remember(known, cluster.server, session.env)
        return known
    copy = remembered(run_id, session.env)
    if copy is None or (session.namespace is not None and session.namespace != copy[0].namespace):
        return None
    run, server = copy
    if server != cluster.server:
        raise UsageError(f"run {run_id} was on the cluster at {server}, and this is {cluster.server}", "--context NAME")
    session.output.note(f"the record of run {run_id} went with raycluster/{run.ray_cluster}; this machine remembers it")
    return run


def _run_of(session: Session, cluster: Any, job: ClusterRun | ClusterJob) -> ClusterRun:
    """The run of a job that was found on a long-lived cluster."""
    from ..runs import ClusterRun, find_cluster_run
    from .verify_cluster import unrecorded

    if isinstance(job, ClusterRun):
        return job
    known = find_cluster_run(cluster, job.cluster.namespace, job.id)
    return known if known is not None and known.ray_cluster_uid == job.cluster.uid else unrecorded(session, job)


def _rayjob(session: Session, cluster: Any, run: RunRecord) -> Verified:
    from ..runs import checklist, evidence, rayjob_checklist

    commands = _commands(session, run.namespace, run.id)
    found, job = evidence.seen(cluster, run), rayjob_checklist.job(run)
    items = checklist.checklist(
        rayjob_checklist.objects(run, found, commands),
        job,
        evidence.launched(cluster, run, session.env),
        _rayjob_log(session, cluster, run),
        commands,
        rayjob_checklist.teardown(run, found, commands, session.now()),
    )
    return Verified(run.id, Where(run.namespace, run.name, run.ray_cluster), run.state, job, items)


def _commands(session: Session, namespace: str, run_id: str, ray_cluster: str = "") -> Commands:
    """What may be pasted; `ray_cluster` is the cluster that the run leaves up."""
    from ..runs.checklist import Commands

    def line(*words: str) -> str:
        return paste(session, namespace, *words)

    return Commands(
        line("job", "logs", run_id), line("job", "stop", run_id),
        line("status", f"raycluster/{ray_cluster}" if ray_cluster else run_id), line("clean"),
        line("cluster", "down", ray_cluster) if ray_cluster else "",
    )  # fmt: skip


def _rayjob_log(session: Session, cluster: Any, run: RunRecord) -> LogFound:
    from ..watch import Source
    from .verify_log import LogPlace, read

    began = run.ray_cluster and run.status.get("jobStatus")
    source = Source(run.ray_cluster, run.ray_cluster, run.submission_id) if began else None
    why = "" if began else "there was no driver" if run.final else "there is no driver yet"
    connect = ray_connector(cluster, run.namespace)
    return read(session, LogPlace(run.id, run.ray_cluster, run.wandb, run.final, source, connect, why))
