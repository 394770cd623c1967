"""A run that somebody deleted while it was followed: what is still there of it, and that nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ClusterError, ExitCode
from .session import Session

#: Seconds that what was deleted gets to go before what holds it is named.
GONE = 60.0


@dataclass(frozen=True)
class SeenGone:
    """STOPPED for a run that does not go on, UNKNOWN for one that may; `left` are the names of pods that are still there."""

    exit_code: ExitCode
    left: Sequence[str] = ()


def see_deleted(
    session: Session, cluster: Any, namespace: str, message: str, ray_cluster: str, uid: str = ""
) -> SeenGone:
    """See to it that it goes, and say so; `message` says what was deleted.

    `ray_cluster` is what it ran on, empty where there was none yet, `uid` that RayCluster's, where its name says too little.
    """
    from ..apply import holders, until_gone

    output, said = session.output, f"{message}, not by this command"
    if not ray_cluster:
        output.error(f"{said}; it had no Ray cluster yet")
        return SeenGone(ExitCode.STOPPED)
    output.progress(f"{message}; waiting for what is left of it to go")
    try:
        left = until_gone(cluster, namespace, ray_cluster, uid=uid, within=GONE)
    except KeyboardInterrupt:
        output.error(f"{said}; interrupted, its pods may still be ending")
        return SeenGone(ExitCode.INTERRUPTED)
    except ClusterError as error:
        look = f"kubectl get pods -n {namespace} -l ray.io/cluster={ray_cluster}"
        output.error(f"{said}; whether something of it still runs cannot be seen: {error.message}", look)
        return SeenGone(ExitCode.UNKNOWN)
    if left.orphan:
        what = f"raycluster {ray_cluster}" if left.present else f"pods -l ray.io/cluster={ray_cluster}"
        delete = f"kubectl delete {what} -n {namespace}"
        output.error(f"{said}; {left.orphan} was left behind, and the driver may still run", delete)
        return SeenGone(ExitCode.UNKNOWN, left.names)
    if not left.pods:
        output.error(f"{said}; nothing of it runs any more")
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
