"""A run or a long-lived Ray cluster as `status` shows it: one object, the picture of its pods, and how it may be handled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..labels import OWNER, RAY_NODE_TYPE, UPSTREAM_OWNER, labels_of
from ..rayjob_state import outcome, parse_time
from .run_result import LogFacts

if TYPE_CHECKING:
    from ..reasons import GroupView, Snapshot, Trouble
    from ..runs import ClusterJob, RunRecord, SeenRun
    from ..runs.lifetimes import Lifetimes
    from .status_daemons import DaemonView


@dataclass(frozen=True)
class Item:
    """`obj` is the RayCluster, or the RayJob that `run` reads. `due` and `log` are a finished run's; `pods` those that it still has;
    `daemons` are those of a cluster that was named, `jobs` what else goes on there (None: not asked, or not known), `ran` the run on it
    that was named. `blind`: its pods may not be seen, so that nobody knows what it holds.

    `commands` may be pasted: `logs` and `stop` for a run.
    """

    obj: Mapping[str, Any]
    snapshot: Snapshot
    pods: Sequence[Mapping[str, Any]] = ()
    run: RunRecord | None = None
    due: Lifetimes | None = None
    log: LogFacts | None = None
    commands: Mapping[str, str] | None = None
    daemons: Sequence[DaemonView] = ()
    jobs: Sequence[ClusterJob] | None = None
    ran: SeenRun | None = None
    blind: bool = False

    @property
    def kind(self) -> str:
        return "rayjob" if self.run is not None else "raycluster"

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def title(self) -> str:
        return f"{self.kind}/{self.name}"

    @property
    def namespace(self) -> str:
        return str(self.obj["metadata"]["namespace"])

    @property
    def owner(self) -> str:
        labels = labels_of(self.obj)
        return labels.get(OWNER) or labels.get(UPSTREAM_OWNER) or ""

    @property
    def created(self) -> datetime | None:
        return parse_time(self.obj["metadata"].get("creationTimestamp"))

    @property
    def final(self) -> bool:
        return self.run is not None and self.run.final

    @property
    def state(self) -> str:
        return self.run.state if self.run is not None and self.run.final else self.snapshot.state

    @property
    def ready(self) -> tuple[int, int]:
        """Pods ready, and pods that there should be."""
        return sum(g.ready for g in self.snapshot.groups), sum(g.total for g in self.snapshot.groups)

    @property
    def gpus(self) -> int:
        """GPUs that its pods hold now; a run that is over holds none of a Ray cluster that it only used."""
        return self.snapshot.gpus if self.pods or not self.final else 0

    @property
    def stuck(self) -> bool:
        """A finished run holds GPUs that nothing will take from it."""
        due = self.due
        return self.final and self.gpus > 0 and due is not None and due.workers is None and due.head is None

    @property
    def line(self) -> str:
        """Where it stands, as a line of changes that come one after another: no ages."""
        ready, total = self.ready
        words = [f"{self.title}: {self.state}", f"{ready}/{total} pods ready"]
        words += [f"{self.gpus} GPUs held"] if self.gpus else []
        words += [f"run {self.ran.run.id}: {self.ran.words}"] if self.ran is not None else []
        return ", ".join(words) + "".join(f"; {trouble.line}" for trouble in self.snapshot.troubles)

    def data(self, now: datetime) -> dict[str, Any]:
        from .runs import standing_data

        run, due, meta = self.run, self.due, self.obj["metadata"]
        end = outcome(run.status) if run is not None else None
        ready, total = self.ready
        return {
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "uid": str(meta["uid"]),
            "id": run.id if run is not None else "",
            "owner": self.owner,
            "state": self.state,
            "description": self.snapshot.description,
            "final": self.final,
            "reason": end.reason if end else "",
            "message": end.message if end else "",
            "exitCode": int(end.exit_code) if end else None,
            "created": meta.get("creationTimestamp"),
            "started": run.status.get("startTime") if run is not None else None,
            "ended": run.status.get("endTime") if run is not None else None,
            "durationSeconds": run.seconds(now) if run is not None else None,
            "rayCluster": run.ray_cluster if run is not None else self.name,
            "podsReady": ready,
            "podsTotal": total,
            "gpusHeld": None if self.blind else self.gpus,
            "groups": [_group_data(group) for group in self.snapshot.groups],
            "troubles": [_trouble_data(trouble, self.namespace) for trouble in self.snapshot.troubles],
            "notes": list(self.snapshot.notes),
            "daemons": [daemon.data() for daemon in self.daemons],
            "jobs": None if self.jobs is None else [job_data(job, now) for job in self.jobs],
            "run": standing_data(self.ran, now) if self.ran is not None else None,
            "workersUntil": _time(due.workers) if due and self.pods else None,
            "headUntil": _time(due.head) if due and self.pods else None,
            "log": self.log.data() if self.log else None,
            "wandb": run.wandb if run is not None else "",
            "commands": dict(self.commands or {}),
        }


def head_replaced(ray_cluster: Mapping[str, Any] | None, pods: Sequence[Mapping[str, Any]]) -> str:
    """A note on a head that is younger than its Ray cluster's readiness; empty otherwise.

    KubeRay keeps the time at which a cluster became ready (`status.stateTransitionTimes`) when a head dies later and it
    makes another.
    """
    from ..reasons import being_deleted

    times = ((ray_cluster or {}).get("status") or {}).get("stateTransitionTimes") or {}
    ready = parse_time(times.get("ready"))
    heads = [p for p in pods if labels_of(p).get(RAY_NODE_TYPE) == "head" and not being_deleted(p)]
    made = parse_time(heads[0]["metadata"].get("creationTimestamp")) if heads else None
    if ready is None or made is None or made <= ready:
        return ""
    return (
        f"its head is a new pod since {made:%Y-%m-%d %H:%M:%S} UTC: Ray's jobs and their history from before are lost"
    )


def job_data(job: ClusterJob, now: datetime) -> dict[str, Any]:
    return {
        "id": job.id,
        "submissionId": job.submission_id,
        "owner": job.owner,
        "state": job.state,
        "started": job.started.isoformat() if job.started else None,
        "durationSeconds": job.seconds(now),
    }


def _group_data(group: GroupView) -> dict[str, Any]:
    return {
        "role": group.role,
        "name": group.name,
        "ready": group.ready,
        "total": group.total,
        "gpus": group.gpus,
        "states": dict(group.states),
    }


def _trouble_data(trouble: Trouble, namespace: str) -> dict[str, Any]:
    from ..reasons.advice import advice

    return {
        "who": trouble.who,
        "reason": trouble.reason,
        "message": trouble.message,
        "heals": trouble.heals,
        "pods": list(trouble.pods),
        "hint": advice(trouble, namespace),
    }


def _time(when: datetime | None) -> str | None:
    return None if when is None else f"{when:%Y-%m-%dT%H:%M:%SZ}"
