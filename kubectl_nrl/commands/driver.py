"""A run's driver through its submitter, in the shape in which a log and a state are followed.

So a run of any submitter, a plugin's too, is followed, shown and ended by the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .handover import Reached

if TYPE_CHECKING:
    from ..api import RunInfo, Submitter
    from ..ray_jobs import RayJobs


class Driver:
    """One connection to one driver (`watch.JobsApi`); the ids that are handed in are those of the run."""

    def __init__(self, submitter: Submitter, run: RunInfo, reached: Reached) -> None:
        self._submitter, self._run, self._reached = submitter, run, reached

    @property
    def life(self) -> str:
        """Which of the heads that the cluster had this connection leads to."""
        return str(self._reached.jobs.life)

    def get(self, submission_id: str) -> dict[str, Any] | None:
        """`status` and `message`; None for a driver that the cluster does not know."""
        state = self._submitter.state(self._run, self._reached)
        return None if state.status == "UNKNOWN" else {"status": state.status, "message": state.message}

    def log_chunk(self, submission_id: str, offset: int) -> bytes:
        """Bytes of the log from `offset` on; b"" when there are none yet."""
        return next(iter(self._submitter.logs(self._run, self._reached, follow=False, offset=offset)), b"")

    def close(self) -> None:
        self._reached.jobs.close()


def driver_connector(
    submitter: Submitter, run: RunInfo, cluster: Any, namespace: str, connect: Callable[[str], RayJobs]
) -> Callable[[str], Driver]:
    """Connects to the run's driver by its RayCluster's name; `connect` reaches Ray there. Raises `ClusterError`."""
    return lambda name: Driver(submitter, run, Reached(namespace, connect(name), cluster))
