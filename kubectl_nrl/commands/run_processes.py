"""Processes of a run on a head: all that its driver started has the run's id in its environment, which the launch script puts there."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError

if TYPE_CHECKING:
    from ..ray_jobs import RayJobs
    from .session import Session

#: Names each /proc/PID/environ that has the variable. The program that looks has it as well, and so proves that it can find one.
_FIND = 'NRL_K8S_RUN_ID="$1" grep -lszxF "NRL_K8S_RUN_ID=$1" /proc/self/environ /proc/[0-9]*/environ; exit 0'


def processes_of(jobs: RayJobs, run_id: str) -> tuple[int, ...]:
    """Their ids, as the Ray container of the head has them. Raises `ClusterError` where nobody may look, or can."""
    _, out, _ = jobs.run(["sh", "-c", _FIND, "sh", run_id])
    found = [line.split("/")[2] for line in out.decode("utf-8", "replace").splitlines() if line.startswith("/proc/")]
    if "self" not in found:
        raise ClusterError("its head has no grep that can look at processes")
    return tuple(sorted(int(word) for word in found if word.isdecimal()))


def ending(session: Session, cluster: Any, raycluster: Mapping[str, Any], pids: Sequence[int]) -> str:
    """The line that ends them: Ray stops no job that is over. Raises `ClusterError` when there is no head."""
    from ..ray_jobs import head_pod, ray_container

    pod = head_pod(cluster, raycluster)
    flags = ["--context", session.context] if session.context else []
    flags += ["--kubeconfig", str(session.cwd / session.kubeconfig)] if session.kubeconfig else []
    where = ["-n", pod["metadata"]["namespace"], pod["metadata"]["name"], "-c", ray_container(pod)]
    return shlex.join(["kubectl", *flags, "exec", *where, "--", "kill", *map(str, pids)])
