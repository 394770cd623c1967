"""A Kubernetes cluster as one user: its objects, their changes, its pods' logs and ports, and what the user may do."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from . import errors
from . import kubeconfig as kubeconfigs
from .access_review import account_allowed, allowed, server_time
from .client import Client
from .forward import Forward
from .inside import Inside
from .objects import Items, Objects, selectors
from .port_requests import PortRequests
from .stream import run_command
from .watch import GRACE_SECONDS, Watcher, WatchEvent


class Cluster(Objects):
    """One cluster as one user.

    All methods raise `ClusterError` (exit code 3) and may be called from several threads.
    """

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.server = client.access.server
        self.user = client.access.user_name
        self.context = client.access.context

    @classmethod
    def connect(
        cls,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        trace: Callable[[str], None] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Cluster:
        """The cluster of a context; nothing is sent yet.

        Raises `ClusterError` with a hint when there is no such context.
        """
        environment = os.environ if env is None else env
        return cls(Client(kubeconfigs.choose(kubeconfig, context, environment), environment, trace))

    def close(self) -> None:
        """Close idle connections."""
        self.client.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def plural(self, api_version: str, kind: str) -> str:
        """What permissions call a kind: `rayjobs`. Raises `ClusterError` (reason NotServed) for one that is not served."""
        return self.discovery.resource(api_version, kind).plural

    def watch(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        *,
        name: str | None = None,
        label_selector: str = "",
        stop: threading.Event | None = None,
        all_namespaces: bool = False,
        listed: Callable[[Items], None] = lambda items: None,
    ) -> Iterator[WatchEvent]:
        """What is there (`ADDED`), then every change, until `stop` is set (noticed within a second).

        `listed` is called with all that is there at once, before the events of it: at the beginning, and after a gap.

        The connection may drop, and the server forget: changes are made up for by a new list. `LOST` and `BACK` once
        per outage, which begins when reconnecting at once did not help. Raises `ClusterError` when refused (401, 403,
        NotServed).
        """
        resource, namespace = self._resource(api_version, kind, namespace)
        where = None if all_namespaces else namespace
        query = selectors(label_selector, f"metadata.name={name}" if name else "")
        doing = errors.describe("watch", resource.title, name or "", where)

        def lister(cancelled: Callable[[], bool]) -> tuple[Items, str]:
            found = self._pages(resource, where, query, cancelled)
            listed(found[0])
            return found

        def opener(version: str, seconds: int, cancelled: Callable[[], bool]) -> Iterator[bytes]:
            words = {**query, "watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
            words["timeoutSeconds"] = str(seconds)
            return self.client.watch(
                resource.path(where), words, doing=doing, seconds=seconds + GRACE_SECONDS, cancelled=cancelled
            )

        return Watcher(lister, opener, stop).events()

    def pod_log_stream(
        self,
        namespace: str,
        pod: str,
        query: Mapping[str, str],
        *,
        cancelled: Callable[[], bool],
        silence: float = 60.0,
    ) -> Iterator[bytes]:
        """Bytes of a container's log as they come; `query` is that of the API (`follow`, `sinceTime`, ...).

        Raises `ClusterError` at once when refused, and while iterating OSError after a cut or `silence` seconds without a
        byte, `Cancelled` when nobody wants it any more.
        """
        doing = errors.describe("read the log of", "pods", pod, namespace)
        path = self.discovery.resource("v1", "Pod").path(namespace, pod, "log")
        return self.client.watch(path, query, doing=doing, seconds=silence, cancelled=cancelled)

    def exec(
        self, namespace: str, pod: str, command: Sequence[str], *, container: str | None = None, timeout: float = 30,
        stdin: bytes = b"",
    ) -> tuple[int, bytes, bytes]:  # fmt: skip
        """Run a command in a pod: exit code, stdout, stderr, exact bytes. `timeout` seconds in all; see `run_command`."""
        return run_command(self.client, namespace, pod, command, container=container, timeout=timeout, stdin=stdin)

    def forward(self, namespace: str, pod: str, port: int, *, inside: str = "") -> PortRequests:
        """HTTP to a port of a pod, through the API server; a context manager that may be used by several threads.

        `inside` is a host name or address by which pods of the cluster reach it: used when this process runs in one.
        """
        forward = Forward(self.client, namespace, pod, port)
        return Inside(inside, forward, self.client.trace) if inside and self.client.access.inside else forward

    def can_i(
        self, verb: str, group: str, resource: str, namespace: str | None, *, subresource: str = "", name: str = ""
    ) -> bool | None:
        """Whether the user may; None when the cluster does not say."""
        return allowed(self.client, verb, f"{group}/{resource}/{subresource}", namespace, name)

    def time(self) -> datetime | None:
        """The API server's clock, to the second; None when it does not tell. Asked for only before its first answer."""
        return self.client.answered.now() or server_time(self.client)

    def may_account(self, verb: str, group: str, resource: str, namespace: str, account: str) -> bool:
        """Whether a service account of the namespace may. Status 403 where one may not ask that of others."""
        return account_allowed(self.client, verb, f"{group}/{resource}/", namespace, account)

    def served(self) -> Mapping[str, tuple[str, ...]]:
        """Group -> served versions; the core group is `""`."""
        return self.discovery.served()

    def server_version(self) -> str:
        """The API server's version, `v1.34.4`."""
        return self.discovery.version()

    def openapi_fields(self, group: str, version: str, kind: str, path: tuple[str, ...]) -> frozenset[str]:
        """Names of the served fields at a path of a kind's schema; lists are entered by themselves."""
        return self.discovery.fields(group, version, kind, path)
