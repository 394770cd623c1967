"""The way to the dashboard of a Ray cluster's head, found again whenever the head is another one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..cluster.patience import Patience
from ..cluster.sockets import Channel
from ..errors import ClusterError

if TYPE_CHECKING:
    from ..cluster import Forward

#: Seconds that a command in the head may take: copying a few megabytes on a busy node.
EXEC = 120.0


class HeadDoor:
    """Connections to the dashboard's port of the head that `find` leads to. Safe for several threads.

    `find` reads the RayCluster anew and raises `ClusterError`: reason `Gone` when it will not come back. `say` is told of a head that
    was replaced.
    """

    def __init__(self, cluster: Any, find: Callable[[], Mapping[str, Any]], say: Callable[[str], None]) -> None:
        self._cluster, self._find, self._say = cluster, find, say
        self._lock = threading.Lock()
        self._forward: Forward | None = None
        self._uid = ""
        self.pod = ""

    def resolve(self) -> Forward:
        """Find the head again. Raises `ClusterError`: reason `NoHead` when none runs now, or what `find` raises."""
        from .. import ray_jobs

        raycluster = self._find()
        pod = ray_jobs.head_pod(self._cluster, raycluster)
        name, uid = pod["metadata"]["name"], str(pod["metadata"].get("uid") or "")
        port = ray_jobs.dashboard_port(raycluster)
        with self._lock:
            if self._forward is None or (uid, port) != (self._uid, self._forward.port):
                if self._uid and uid != self._uid:
                    self._say(f"the head was replaced: connections go to pod {name} now")
                self._forward = self._cluster.forward(pod["metadata"]["namespace"], name, port)
                self._uid, self.pod = uid, name
            return self._forward

    def dial(self, patience: Patience) -> Channel:
        """A connection to the dashboard's port. Raises `ClusterError`."""
        known = self._forward
        if known is not None:
            try:
                return known.dial(patience)
            except ClusterError as error:
                if error.status in (401, 403) or error.reason == "Unreachable":
                    raise
        return self.resolve().dial(patience)

    def run(self, command: Sequence[str]) -> tuple[int, bytes, bytes]:
        """Run a command in the head's Ray container. Raises `ClusterError`."""
        from .. import ray_jobs

        pod = ray_jobs.head_pod(self._cluster, self._find())
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        return self._cluster.exec(  # type: ignore[no-any-return]
            namespace, name, command, container=ray_jobs.ray_container(pod), timeout=EXEC
        )
