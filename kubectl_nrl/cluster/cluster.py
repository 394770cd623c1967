"""A Kubernetes cluster, for any kind: get, list, create, apply, patch, delete, watch, logs, exec, forward.

Manifests are plain dictionaries in and out: generated models would cost a quarter of a second to import and would
drop the fields they do not know.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from . import errors
from . import kubeconfig as kubeconfigs
from .access_review import account_allowed, allowed, server_time
from .client import Client
from .discovery import Discovery, Resource
from .forward import Forward
from .inside import Inside
from .port_requests import PortRequests
from .stream import run_command
from .watch import GRACE_SECONDS, Watcher, WatchEvent

#: Objects as the API server sends them.
Items = list[dict[str, Any]]

MANAGER = "kubectl-nrl"
#: Objects per page of a list, as kubectl asks for them.
PAGE = 500
#: What no object is called, and what a URL would take for all objects of a kind (a DELETE of it deletes them all), or for another place.
NO_NAMES = ("", ".", "..")

_PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class Cluster:
    """One cluster as one user.

    All methods raise `ClusterError` (exit code 3) and may be called from several threads.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.discovery = Discovery(client)
        self.namespace = client.access.namespace
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

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """The object, or None when it is not there.

        A kind that is not served is a `ClusterError` (reason NotServed).
        """
        resource, namespace = self._resource(api_version, kind, namespace)
        if name in NO_NAMES:
            return None
        doing = errors.describe("get", resource.title, name, namespace)
        code, body = self.client.send("GET", resource.path(namespace, name), doing=doing)
        if code == 404 and errors.absent(body, name):
            return None
        return self._object(resource, "get", doing, (code, body), namespace)

    def metadata(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """The object's metadata alone, or None when it is not there: a Secret's values are then never sent."""
        resource, namespace = self._resource(api_version, kind, namespace)
        if name in NO_NAMES:
            return None
        doing = errors.describe("get", resource.title, name, namespace)
        headers = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
        code, body = self.client.send("GET", resource.path(namespace, name), doing=doing, headers=headers)
        if code == 404 and errors.absent(body, name):
            return None
        return self._object(resource, "get", doing, (code, body), namespace)

    def plural(self, api_version: str, kind: str) -> str:
        """What permissions call a kind: `rayjobs`. Raises `ClusterError` (reason NotServed) for one that is not served."""
        return self.discovery.resource(api_version, kind).plural

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        all_namespaces: bool = False,
    ) -> list[dict[str, Any]]:
        """All matching objects of a namespace (the context's when None), or of all, page by page."""
        resource, namespace = self._resource(api_version, kind, namespace)
        query = _selectors(label_selector, field_selector)
        return self._list(resource, None if all_namespaces else namespace, query, None)[0]

    def create(
        self, manifest: Mapping[str, Any], *, namespace: str | None = None, dry_run: bool = False
    ) -> dict[str, Any]:
        """Create it, strictly: an unknown or duplicate field is refused.

        An existing name has reason `AlreadyExists`.
        """
        resource, name, namespace = self._of(manifest, namespace)
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
        doing = errors.describe("create", resource.title, name, namespace)
        code, body = self.client.send("POST", resource.path(namespace), query, manifest, doing=doing)
        return self._object(resource, "create", doing, (code, body), namespace)

    def apply(
        self, manifest: Mapping[str, Any], *, namespace: str | None = None, force: bool = False
    ) -> dict[str, Any]:
        """Server-side apply as this tool's field manager. A conflict with another manager has status 409."""
        resource, name, namespace = self._of(manifest, namespace)
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict", "force": "true" if force else "false"}
        doing = errors.describe("apply", resource.title, name, namespace)
        code, body = self.client.send(
            "PATCH",
            resource.path(namespace, name),
            query,
            manifest,
            doing=doing,
            content_type="application/apply-patch+yaml",
        )
        return self._object(resource, "patch", doing, (code, body), namespace)

    def patch(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str | None,
        body: Any,
        *,
        kind_of: Literal["merge", "json", "strategic"] = "merge",
        subresource: str = "",
    ) -> dict[str, Any]:
        """Patch an object (or its `status`). One that is not there has reason `NotFound`."""
        resource, namespace = self._resource(api_version, kind, namespace)
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict"}
        doing = errors.describe("patch", resource.title, name, namespace)
        code, data = self.client.send(
            "PATCH",
            resource.path(namespace, name, subresource),
            query,
            body,
            doing=doing,
            content_type=_PATCHES[kind_of],
        )
        return self._object(resource, "patch", doing, (code, data), namespace)

    def delete(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str | None = None,
        *,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        uid: str | None = None,
        version: str | None = None,
    ) -> bool:
        """Delete it; False when it was not there. With `uid`, another object of that name is left alone (and False);
        with `version`, one that changed since that resourceVersion has status 409."""
        resource, namespace = self._resource(api_version, kind, namespace)
        if name in NO_NAMES:
            return False
        body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if uid or version:
            conditions = {"uid": uid, "resourceVersion": version}
            body["preconditions"] = {key: value for key, value in conditions.items() if value}
        doing = errors.describe("delete", resource.title, name, namespace)
        code, data = self.client.send("DELETE", resource.path(namespace, name), None, body, doing=doing)
        if code == 404 and errors.absent(data, name):
            return False
        if code == 409 and uid and "uid" in str(errors.parse_status(data).get("message", "")).lower():
            return False
        self._object(resource, "delete", doing, (code, data), namespace)
        return True

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
        query = _selectors(label_selector, f"metadata.name={name}" if name else "")
        doing = errors.describe("watch", resource.title, name or "", where)

        def lister(cancelled: Callable[[], bool]) -> tuple[Items, str]:
            found = self._list(resource, where, query, cancelled)
            listed(found[0])
            return found

        def opener(version: str, seconds: int, cancelled: Callable[[], bool]) -> Iterator[bytes]:
            words = {**query, "watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
            words["timeoutSeconds"] = str(seconds)
            return self.client.watch(
                resource.path(where), words, doing=doing, seconds=seconds + GRACE_SECONDS, cancelled=cancelled
            )

        return Watcher(lister, opener, stop).events()

    def pod_logs(self, namespace: str, pod: str, *, container: str | None = None, tail: int | None = None) -> str:
        """The log of a container so far (its last `tail` lines); bytes that are no text are replaced."""
        resource = self.discovery.resource("v1", "Pod")
        query = {
            **({"container": container} if container else {}),
            **({"tailLines": str(tail)} if tail is not None else {}),
        }
        doing = errors.describe("read the log of", "pods", pod, namespace)
        headers = {"Accept": "*/*"}
        code, body = self.client.send("GET", resource.path(namespace, pod, "log"), query, doing=doing, headers=headers)
        if code >= 300:
            raise self.client.refusal(doing, code, body, f"get pods/log -n {namespace}")
        return body.decode("utf-8", "replace")

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
        """The API server's clock, to the second; None when it does not tell."""
        return server_time(self.client)

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

    def _resource(self, api_version: str, kind: str, namespace: str | None) -> tuple[Resource, str | None]:
        resource = self.discovery.resource(api_version, kind)
        return resource, (namespace or self.namespace) if resource.namespaced else None

    def _of(self, manifest: Mapping[str, Any], namespace: str | None) -> tuple[Resource, str, str | None]:
        metadata = manifest.get("metadata") or {}
        resource, namespace = self._resource(
            str(manifest.get("apiVersion", "")), str(manifest.get("kind", "")), namespace or metadata.get("namespace")
        )
        return resource, str(metadata.get("name") or ""), namespace

    def _object(
        self, resource: Resource, verb: str, doing: str, answer: tuple[int, bytes], namespace: str | None
    ) -> dict[str, Any]:
        code, body = answer
        if code >= 300:
            where = f" -n {namespace}" if namespace else ""
            raise self.client.refusal(doing, code, body, f"{verb} {resource.title}{where}")
        return self.client.decode(body, doing)  # type: ignore[no-any-return]

    def _list(
        self, resource: Resource, namespace: str | None, query: Mapping[str, str], cancelled: Callable[[], bool] | None
    ) -> tuple[Items, str]:
        """All pages, and the version to watch from.

        When the server has forgotten the version of the first page (410), all over again in one page.
        """
        doing = errors.describe("list", resource.title, "", namespace)
        items: Items = []
        words: dict[str, str] = {**query, "limit": str(PAGE)}
        while True:
            code, body = self.client.send("GET", resource.path(namespace), words, doing=doing, cancelled=cancelled)
            if code == 410 and "limit" in words:
                items, words = [], dict(query)
                continue
            page = self._object(resource, "list", doing, (code, body), namespace)
            kind = str(page.get("kind", "")).removesuffix("List") or resource.kind
            for item in page.get("items") or []:
                # Items of a list carry neither; an object that says what it is can be handed on.
                item.setdefault("apiVersion", page.get("apiVersion"))
                item.setdefault("kind", kind)
                items.append(item)
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return items, str(metadata.get("resourceVersion") or "")
            words["continue"] = metadata["continue"]


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    return {
        **({"labelSelector": label_selector} if label_selector else {}),
        **({"fieldSelector": field_selector} if field_selector else {}),
    }
