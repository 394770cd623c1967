"""A run that somebody deleted while it was followed: what is still there of it, and that nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode
from .session import Session

if TYPE_CHECKING:
    from ..apply import Remains

#: Seconds that what was deleted gets to go before what holds it is named.
GONE = 60.0


@dataclass(frozen=True)
class SeenGone:
    """STOPPED for a run that does not go on, UNKNOWN for one that may; `left` are the names of pods that are still there."""

    exit_code: ExitCode
    left: Sequence[str] = ()


def see_deleted(
    session: Session, cluster: Any, namespace: str, message: str, ray_cluster: str, *, uid: str = "", rayjob: str = ""
) -> SeenGone:
    """See to it that it goes, and say so; `message` says what was deleted.

    `ray_cluster` is what it ran on, where that was seen (else that of `rayjob`), `uid` that RayCluster's, where its name says too little.
    """
    from ..apply import Remains, ray_cluster_of, until_gone

    output, said, left = session.output, f"{message}, not by this command", Remains()
    try:
        ray_cluster = ray_cluster or ray_cluster_of(cluster, namespace, rayjob)
        if ray_cluster:
            output.progress(f"{message}; waiting for what is left of it to go")
            left = until_gone(cluster, namespace, ray_cluster, uid=uid, within=GONE)
    except KeyboardInterrupt:
        output.error(f"{said}; interrupted, its pods may still be ending")
        return SeenGone(ExitCode.INTERRUPTED)
    except ClusterError as error:
        look = f"kubectl get pods -n {namespace}" + (f" -l ray.io/cluster={ray_cluster}" if ray_cluster else "")
        output.error(f"{said}; whether something of it still runs cannot be seen: {error.message}", look)
        return SeenGone(ExitCode.UNKNOWN)
    return _judge(session, cluster, namespace, said, ray_cluster, left)


def _judge(session: Session, cluster: Any, namespace: str, said: str, ray_cluster: str, left: Remains) -> SeenGone:
    """Say what is left, with what holds it."""
    from ..apply import holders

    output = session.output
    if left.orphan:
        what = f"raycluster {ray_cluster}" if left.present else f"pods -l ray.io/cluster={ray_cluster}"
        delete = f"kubectl delete {what} -n {namespace}"
        output.error(f"{said}; {left.orphan} was left behind, and the driver may still run", delete)
        return SeenGone(ExitCode.UNKNOWN, left.names)
    if not left.pods:
        output.error(f"{said}; nothing of it runs any more")
        if left.present:
            output.warn(f"raycluster/{ray_cluster} itself is still there")
            output.hint(f"kubectl get raycluster {ray_cluster} -n {namespace} -o yaml")
        return SeenGone(ExitCode.STOPPED)
    ending = all(pod["metadata"].get("deletionTimestamp") for pod in left.pods)
    names = ", ".join(left.names)
    output.error(
        f"{said}; " + (f"still ending: {names}" if ending else f"not ended yet, its driver may still run: {names}")
    )
    for holder in holders(cluster, namespace, ray_cluster, left.pods):
        output.warn(f"after {GONE:.0f} s {holder.words}")
        output.hint(holder.look)
    return SeenGone(ExitCode.STOPPED if ending else ExitCode.UNKNOWN, left.names)
