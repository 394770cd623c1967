"""What `check --cluster` and `run` ask a cluster before anything is created, and how the answers are shown.

One screen: what is right costs a line for each topic, what is wrong a line and its fix.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..api import Check
from .planning import plan_options
from .session import Session

if TYPE_CHECKING:
    from ..config import Config
    from ..plan import Plan
    from ..preflight import Answers, Room, Topic

#: Longer lists of what is right are only counted.
_LISTED = 72


@dataclass(frozen=True)
class OnCluster:
    """The cluster's half of `check --cluster`: topics with their checks, and the room for the run."""

    where: str
    topics: tuple[Topic, ...]
    room: Room | None

    @property
    def failed(self) -> int:
        return sum(topic.failed for topic in self.topics)

    def lines(self) -> Iterator[str]:
        yield f"on the cluster {self.where}:"
        width = max((len(topic.name) for topic in self.topics), default=0)
        for topic in self.topics:
            for status, text, fix in _rows(topic):
                yield f"  {status:<6} {topic.name:<{width}}  {text}"
                yield from (f"  {'':<6} {'':<{width}}  fix: {line}" for line in fix.splitlines())
        if self.room is not None:
            status = "ok" if self.room.fits else "note"
            yield f"  {status:<6} {'capacity':<{width}}  {self.room.words}"
        seen = all(check.ok is not None for topic in self.topics for check in topic.checks)
        yield (
            f"{self.failed} failed" if self.failed else f"nothing is missing{'' if seen else ', as far as can be seen'}"
        )

    def data(self) -> dict[str, Any]:
        return {
            "cluster": self.where,
            "checks": [{"topic": topic.name, **check_data(check)} for topic in self.topics for check in topic.checks],
            "capacity": self.room.data() if self.room else None,
            "failed": self.failed,
        }


def check_data(check: Check) -> dict[str, Any]:
    return {"title": check.title, "ok": check.ok, "detail": check.detail, "fix": check.fix, "blocks": check.blocks}


def _rows(topic: Topic) -> Iterator[tuple[str, str, str]]:
    """(status, text, fix): what is right as one row, then everything else."""
    from ..preflight import words

    right = [check for check in topic.checks if check.ok]
    if right:
        said = [f"{check.title} {check.detail}" if check.detail else check.title for check in right]
        listed = "; ".join(said)
        yield "ok", listed if len(listed) <= _LISTED or len(said) == 1 else f"{len(right)} of {len(topic.checks)}", ""
    for check in topic.checks:
        if not check.ok:
            text = check.detail if check.title == topic.name else words(check)
            yield "FAILED" if check.ok is False else "note", text, check.fix


def on_cluster(args: argparse.Namespace, session: Session, cluster: Any, config: Config, plan: Plan) -> OnCluster:
    """Everything at once, the API server's strict dry run of every object beside the checks."""
    from ..apply import dry_run
    from ..cluster.side_by_side import side_by_side
    from ..preflight import Topic

    found: list[Answers] = []
    strict: list[Check] = []

    def look() -> None:
        found.append(answers(args, session, cluster, config, plan, room=True))

    def ask() -> None:
        if plan.facts.kuberay:
            said = dry_run(plan, cluster)
            # A service account that is not there is a check of its own, and would be said again for each template.
            refusals = [r for r in said.refusals if "error looking up service account" not in r.message]
            strict.extend(Check(r.subject, False, r.message) for r in refusals)
            strict.extend(Check("api server", None, note) for note in said.notes)
            if not said.refusals:
                strict.append(Check(f"takes what would be sent ({len(said.checked)} tried)", True))

    side_by_side([look, ask])
    there = {topic.name for topic in found[0].topics}
    # Without its namespace or kinds nothing can be sent for a try.
    topics = (*found[0].topics, Topic("api server", tuple(strict))) if len(there) > 2 and strict else found[0].topics
    where = f"{cluster.server} (context {cluster.context})" if cluster.context else cluster.server
    return OnCluster(where, topics, found[0].room)


def answers(
    args: argparse.Namespace, session: Session, cluster: Any, config: Config, plan: Plan, *, room: bool = False
) -> Answers:
    """The answers to everything that this Plan and these flags need. Raises `ClusterError`, `PluginError`."""
    from .. import plan as plans
    from ..cluster.errors import KUBERAY_CHART
    from ..preflight import Wanted, look
    from .uploading import uploads

    asking = plans.asking(config, plan, plan_options(args, session, cluster.namespace), session.manager)
    wanted = Wanted(plan.wait, uploads(session, plan), bool(getattr(args, "replace", False)))
    return look(plan, asking, cluster, wanted, install=KUBERAY_CHART, room=room)


def refuse_failed(checks: Sequence[Check]) -> None:
    """Raise a `ClusterError` with all failures that block, and their fixes."""
    from ..errors import ClusterError
    from ..preflight import words

    if checks:
        fixes = "\n".join(dict.fromkeys(check.fix for check in checks if check.fix))
        raise ClusterError(one_or_many([words(check) for check in checks], "checks failed"), fixes)


def one_or_many(lines: Sequence[str], what: str) -> str:
    """One line as it is, several under a count."""
    return lines[0] if len(lines) == 1 else "\n".join([f"{len(lines)} {what}", *(f"  {line}" for line in lines)])


def say(session: Session, topics: Sequence[Topic]) -> None:
    """What does not stop a run, on stderr: failures that do not block as warnings, and notes that somebody can act on."""
    from ..preflight import words

    for check in (check for topic in topics for check in topic.checks):
        if check.ok is False and not check.blocks:
            session.output.warn(words(check))
            if check.fix:
                session.output.hint(check.fix)
        elif check.ok is None and check.detail:
            # What may not be read is no news at every run: `check --cluster` lists it.
            (session.output.note if check.fix else session.output.debug)(words(check))


def require_room(room: Room | None) -> None:
    """`--require-capacity`. Raises `ClusterError` unless all of the run can start now."""
    from ..errors import ClusterError

    if room is None or room.fits:
        return
    if room.fits is None:
        raise ClusterError(
            f"--require-capacity: what is free is {room.words}",
            "ask for a role that may list nodes and pods, or leave --require-capacity out",
        )
    raise ClusterError(
        f"--require-capacity: {room.words}; nothing was created", "run it without the flag to wait for room"
    )
