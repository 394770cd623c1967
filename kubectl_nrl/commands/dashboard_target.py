"""Whose dashboard `cluster dashboard` opens: a Ray cluster's on Kubernetes, or one of this machine."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from ..errors import ClusterError
from ..labels import ownership
from .connecting import paste
from .session import Session

if TYPE_CHECKING:
    from ..cluster.patience import Patience
    from ..cluster.sockets import Channel
    from ..dashboard import Links
    from ..local import LocalRecord


class Target(Protocol):
    """A Ray cluster with a dashboard. `own_port` is one of this machine that it listens on anyway, 0 for none."""

    @property
    def words(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def pod(self) -> str: ...
    @property
    def own_port(self) -> int: ...
    @property
    def owner(self) -> str:
        """Who owns the cluster, where that is somebody else than the asking user."""
        ...

    @property
    def fix(self) -> str:
        """How symlinks among the dashboard's files are kept from coming back."""
        ...

    def dial(self, patience: Patience) -> Channel:
        """A connection to the dashboard. Raises `ClusterError` or `OSError`."""
        ...

    def check(self) -> None:
        """Return while the dashboard has a place to be. Raises `ClusterError`, with reason `Gone` when it is over."""
        ...

    def token(self) -> str | None:
        """Ray's token, None where it wants none. Raises `ClusterError` when it may not be read."""
        ...

    def token_command(self) -> str:
        """A line that prints the token for the person to paste into Ray's page; empty where Ray wants none."""
        ...

    def links(self, *, change: bool) -> Links:
        """Count, or replace by copies, the symlinks among the dashboard's files. Raises `ClusterError`."""
        ...


class OnKubernetes:
    """The dashboard of a RayCluster's head; `find` reads the RayCluster anew (see `HeadDoor`)."""

    own_port = 0
    fix = "in the Dockerfile, before Ray is installed: ENV UV_LINK_MODE=copy"

    def __init__(
        self, session: Session, cluster: Any, namespace: str, words: str, find: Callable[[], Mapping[str, Any]]
    ) -> None:
        from ..dashboard import HeadDoor

        self._session, self._cluster, self._find = session, cluster, find
        self.words, self.namespace = words, namespace
        self._door = HeadDoor(cluster, find, session.output.progress)

    @property
    def pod(self) -> str:
        return self._door.pod

    @property
    def owner(self) -> str:
        found = ownership(self._find(), self._session.user)
        return "" if found.mine else found.owner

    def dial(self, patience: Patience) -> Channel:
        return self._door.dial(patience)

    def check(self) -> None:
        self._door.resolve()

    def token(self) -> str | None:
        from ..ray_jobs import token_of

        live = self._find()
        return None if _wants_kubernetes_token(live) else token_of(self._cluster, live)

    def token_command(self) -> str:
        from ..ray_jobs import TOKEN_KEY, token_secret

        live = self._find()
        secret = token_secret(live)
        if not secret:
            return ""
        flags = ["-n", self.namespace]
        flags += ["--context", self._session.context] if self._session.context else []
        if self._session.kubeconfig:
            flags += ["--kubeconfig", str(self._session.cwd / self._session.kubeconfig)]
        if _wants_kubernetes_token(live):
            return shlex.join(["kubectl", "create", "token", "SERVICEACCOUNT", *flags])
        get = shlex.join(["kubectl", "get", "secret", secret, *flags])
        return f"{get} -o jsonpath='{{.data.{TOKEN_KEY}}}' | base64 -d; echo"

    def links(self, *, change: bool) -> Links:
        from ..dashboard import repair

        return repair(self._door.run, change=change)


class OnThisMachine:
    """The dashboard of a Ray that runs here; it listens on a port of this machine already."""

    namespace = pod = owner = ""
    fix = "install Ray with UV_LINK_MODE=copy in the environment of uv"

    def __init__(self, found: LocalRecord, role: str) -> None:
        self._found, self._role = found, role
        self.words = f"{'cluster' if found.form == 'cluster' else 'run'} {found.id} of this machine"

    @property
    def own_port(self) -> int:
        return urlsplit(self._found.roles[self._role].dashboard).port or 0

    def dial(self, patience: Patience) -> Channel:
        from ..cluster.sockets import SocketChannel, connect
        from ..dashboard import LOOPBACK

        return SocketChannel(connect(LOOPBACK, self.own_port, patience))

    def check(self) -> None:
        if not self._found.alive:
            raise ClusterError(f"{self.words} is down, and its dashboard with it", reason="Gone")

    @property
    def _token_file(self) -> Path:
        from ..local.ray_process import TOKEN

        return Path(self._found.session) / TOKEN

    def token(self) -> str | None:
        try:
            return self._token_file.read_text(encoding="utf-8").strip()
        except OSError:
            return None

    def token_command(self) -> str:
        return f"cat {shlex.quote(str(self._token_file))}" if self._token_file.exists() else ""

    def links(self, *, change: bool) -> Links:
        from importlib.util import find_spec

        from ..dashboard import Links, copy_links

        ray = find_spec("ray")  # a local Ray is started by the Python that runs this program
        if ray is None or not ray.submodule_search_locations:
            raise ClusterError(f"{sys.executable} has no Ray whose dashboard could be repaired", reason="Repair")
        folder = Path(ray.submodule_search_locations[0]) / "dashboard" / "client" / "build"
        return Links.told(copy_links(str(folder), change))


def _wants_kubernetes_token(raycluster: Mapping[str, Any]) -> bool:
    """Whether Ray takes tokens of Kubernetes in place of one of its own (RayCluster `spec.authOptions.enableK8sTokenAuth`)."""
    return bool(((raycluster.get("spec") or {}).get("authOptions") or {}).get("enableK8sTokenAuth"))


def gone(session: Session, namespace: str, words: str, run: str = "") -> ClusterError:
    """The error for a Ray cluster that is not there any more; `run` is the id of the run whose log is left."""
    hint = paste(session, namespace, "job", "logs", run) if run else paste(session, namespace, "cluster", "list")
    return ClusterError(f"{words} is gone, and its dashboard with it", hint, reason="Gone")
