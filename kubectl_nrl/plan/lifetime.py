"""What happens to a RayJob's pods when its job ends: GPUs go at once, the CPU head stays for its log, the object as the record.

KubeRay's deletion rules can do that from 1.6 on; elsewhere, and under schedulers that evict a head without its workers, the cluster goes
as one (facts 5.4 and section 7).
"""

from __future__ import annotations

from typing import Any

from ..api import ClusterFacts, Kind, Scheduler
from ..errors import Problem
from .model import Lifetime, Options

DEFAULT_TTL = 3600
#: How long the RayJob object stays as the run's record.
RECORD_SECONDS = 7 * 24 * 3600

#: The ends that a rule can name; a stopped job matches none (facts section 7), so the tool releases those itself.
_ENDS = ({"jobStatus": "SUCCEEDED"}, {"jobStatus": "FAILED"}, {"jobDeploymentStatus": "Failed"})


_RELEASE = "this deletes them: kubectl nrl job stop ID, or kubectl nrl clean"


def option_problems(options: Options) -> list[Problem]:
    """Flags that contradict each other or make no sense."""
    found = []
    for flag, value in (("--ttl", options.ttl), ("--hold", options.hold)):
        if value is not None and value < 0:
            found.append(Problem(f"{flag} is {value}, must be 0 or more seconds"))
        if value is not None and options.shutdown is False:
            found.append(
                Problem(f"{flag} has no meaning with --no-shutdown, which keeps everything", hint=f"leave out {flag}")
            )
    return found


def decide(
    options: Options, facts: ClusterFacts, scheduler: Scheduler, kind: Kind, *, head_gpus: int, deployments: bool
) -> tuple[Lifetime, list[Problem]]:
    """The lifetime, with a warning where the head cannot be kept although that was asked for, and where Deployments stay.

    A run's Deployments belong to its RayJob and go with it alone, so with them the RayJob is not kept as a record.
    """
    if kind != "RayJob" or options.shutdown is False:
        return Lifetime("keep", None, None, False), []
    hold = options.hold or 0
    ttl = DEFAULT_TTL if options.ttl is None else options.ttl
    why = _head_cannot_stay(facts, scheduler, head_gpus)
    notes = []
    if why and options.ttl:
        notes.append(
            Problem(f"--ttl {options.ttl} cannot keep the head: {why}; it goes with the workers", severity="warning")
        )
    if not facts.deletion_rules or scheduler.traits.lifetime == "shutdown":
        if deployments:
            notes.append(
                Problem(
                    "the run's deployments outlive it unless `run` is there at its end",
                    hint=_RELEASE,
                    severity="warning",
                )
            )
        return Lifetime("shutdown", hold, hold, False), notes
    head_after = max(hold, 0 if why else ttl)
    record_after = head_after if deployments else max(RECORD_SECONDS, head_after)
    return Lifetime("rules", hold, head_after, head_after > hold, record_after), notes


def _head_cannot_stay(facts: ClusterFacts, scheduler: Scheduler, head_gpus: int) -> str:
    if not facts.deletion_rules:
        return "this KubeRay has no deletion rules for it (1.6 has)"
    if scheduler.traits.lifetime == "shutdown":
        return f"scheduler {scheduler.name} deletes the cluster as one"
    if not scheduler.traits.keeps_head(facts):
        return f"scheduler {scheduler.name} here evicts a head without its workers"
    return "it holds GPUs" if head_gpus else ""


def spec_fields(lifetime: Lifetime) -> dict[str, Any]:
    """The RayJob spec's fields for it."""
    if lifetime.form == "keep":
        return {"shutdownAfterJobFinishes": False}
    if lifetime.form == "shutdown":
        return {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": lifetime.workers_after or 0}
    rules = []
    if lifetime.head_kept:
        rules += _rules("DeleteWorkers", lifetime.workers_after or 0)
    rules += _rules("DeleteCluster", lifetime.head_after or 0)
    rules += _rules("DeleteSelf", lifetime.record_after or RECORD_SECONDS)
    return {"deletionStrategy": {"deletionRules": rules}}


def _rules(policy: str, seconds: int) -> list[dict[str, Any]]:
    return [{"policy": policy, "condition": {**end, "ttlSeconds": seconds}} for end in _ENDS]
