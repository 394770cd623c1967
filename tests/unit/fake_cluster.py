"""A cluster in memory with the interface of `kubectl_nrl.cluster.Cluster`.

Objects, watches, refusals on demand, a log of calls.

Only what the real one guarantees is imitated (create-only names, uids, preconditions, a watch that starts with what
is there); the tests of tests/api hold the same code against a real API server.
"""

from __future__ import annotations

import copy
import queue
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubectl_nrl.cluster.watch import WatchEvent
from kubectl_nrl.errors import ClusterError


def _matches(obj: Mapping[str, Any], selector: str) -> bool:
    labels = obj["metadata"].get("labels") or {}
    among = re.fullmatch(r"(\S+) in \((.*)\)", selector)
    if among:
        return labels.get(among[1]) in among[2].split(",")
    parts = [part.partition("=") for part in filter(None, selector.split(","))]
    return all(labels.get(key) == value if sign else key in labels for key, sign, value in parts)


@dataclass
class FakeCluster:
    namespace: str = "default"
    server: str = "https://fake"
    user: str = "tester"
    context: str = "fake"
    objects: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    #: (verb, kind) -> what to raise; `dry-run` is a verb of its own.
    faults: dict[tuple[str, str], BaseException] = field(default_factory=dict)
    #: (verb, kind) -> a function called after the verb was carried out.
    after: dict[tuple[str, str], Any] = field(default_factory=dict)
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    denied: set[tuple[str, str]] = field(default_factory=set)
    #: Groups that are served beside Kubernetes' core, and the server's clock.
    groups: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"ray.io": ("v1",)})
    now: datetime | None = None
    #: Namespaces that are not there; all others are.
    no_namespaces: set[str] = field(default_factory=set)
    #: Verbs that a service account may use on ConfigMaps; None: that may not be asked.
    accounts: dict[str, set[str]] | None = field(default_factory=dict)
    _watchers: list[tuple[str, str, str, str | None, queue.Queue[WatchEvent]]] = field(default_factory=list)
    _uid: int = 0
    _version: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def _note(self, verb: str, kind: str, name: str) -> None:
        self.calls.append((verb, kind, name))
        fault = self.faults.get((verb, kind))
        if fault is not None:
            raise fault

    def _done(self, verb: str, kind: str) -> None:
        hook = self.after.get((verb, kind))
        if hook is not None:
            hook()

    def _emit(self, type_: Any, obj: Mapping[str, Any]) -> None:
        meta = obj["metadata"]
        for kind, namespace, selector, name, events in list(self._watchers):
            if (
                kind == obj["kind"]
                and namespace == meta["namespace"]
                and name in (None, meta["name"])
                and _matches(obj, selector)
            ):
                events.put(WatchEvent(type_, copy.deepcopy(dict(obj))))

    def put(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Make or change an object, as a controller would."""
        with self._lock:
            obj = copy.deepcopy(dict(obj))
            meta = obj.setdefault("metadata", {})
            meta.setdefault("namespace", self.namespace)
            key = (obj["kind"], meta["namespace"], meta["name"])
            known = self.objects.get(key)
            if "uid" not in meta:
                self._uid += 1
                meta["uid"] = known["metadata"]["uid"] if known else f"uid-{self._uid}"
            self._version += 1
            meta["resourceVersion"] = str(self._version)
            meta.setdefault("creationTimestamp", "2026-11-30T12:00:00Z")
            self.objects[key] = obj
            self._emit("MODIFIED" if known else "ADDED", obj)
            return copy.deepcopy(obj)

    def set_status(self, kind: str, name: str, **status: Any) -> None:
        with self._lock:
            obj = copy.deepcopy(self.objects[kind, self.namespace, name])
            obj["status"] = {**(obj.get("status") or {}), **status}
            self.put(obj)

    def remove(self, kind: str, name: str) -> None:
        with self._lock:
            obj = self.objects.pop((kind, self.namespace, name), None)
            if obj:
                self._emit("DELETED", obj)

    def say(self, type_: Any, error: ClusterError | None = None) -> None:
        """LOST or BACK on every watch."""
        for *_, events in list(self._watchers):
            events.put(WatchEvent(type_, {}, error))

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        self._note("get", kind, name)
        found = self.objects.get((kind, namespace or self.namespace, name))
        if found is None and kind == "Namespace" and name not in self.no_namespaces:
            return {"kind": kind, "metadata": {"name": name}}
        return copy.deepcopy(found)

    def metadata(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        found = self.get(api_version, kind, name, namespace)
        return found and {"kind": "PartialObjectMetadata", "metadata": found["metadata"]}

    def plural(self, api_version: str, kind: str) -> str:
        return f"{kind.lower()}s"

    def server_version(self) -> str:
        return "v1.34.4"

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, *, label_selector: str = "", field_selector:
        str = "", all_namespaces: bool = False,
    ) -> list[dict[str, Any]]:  # fmt: skip
        self._note("list", kind, label_selector)
        with self._lock:  # whoever plays a controller makes and removes meanwhile
            found = list(self.objects.items())
        return [
            copy.deepcopy(obj)
            for (k, ns, _), obj in found
            if k == kind and (all_namespaces or ns == (namespace or self.namespace)) and _matches(obj, label_selector)
        ]

    def create(self, manifest: Mapping[str, Any], *, namespace: str, dry_run: bool = False) -> dict[str, Any]:
        kind, meta = manifest["kind"], manifest["metadata"]
        name = meta.get("name") or meta["generateName"]
        self._note("dry-run" if dry_run else "create", kind, name)
        if (kind, namespace, name) in self.objects:
            raise ClusterError(f'{kind.lower()}s "{name}" already exists', status=409, reason="AlreadyExists")
        if dry_run:
            return copy.deepcopy(dict(manifest))
        made = self.put({**manifest, "metadata": {**meta, "namespace": namespace}})
        self._done("create", kind)
        return made

    def patch(
        self, api_version: str, kind: str, name: str, namespace: str, body: Mapping[str, Any], *, kind_of: str = "merge"
    ) -> dict[str, Any]:
        self._note("patch", kind, name)
        obj = copy.deepcopy(self.objects[kind, namespace, name])
        if body.get("metadata", {}).get("uid", obj["metadata"]["uid"]) != obj["metadata"]["uid"]:
            raise ClusterError("the UID in the precondition does not match", status=409, reason="Conflict")
        for key, value in body.get("metadata", {}).items():
            old = obj["metadata"].get(key)
            obj["metadata"][key] = {**(old or {}), **value} if isinstance(value, dict) else value
        for key in body.keys() - {"metadata"}:
            obj[key] = {**(obj.get(key) or {}), **body[key]}
        changed = self.put(obj)
        self._done("patch", kind)
        return changed

    def delete(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str,
        *,
        propagation: str = "Background",
        uid: str | None = None,
        version: str | None = None,
    ) -> bool:
        self._note("delete", kind, name)
        found = self.objects.get((kind, namespace, name))
        if found is None:
            return False
        if version is not None and found["metadata"].get("resourceVersion") != version:
            raise ClusterError("the ResourceVersion in the precondition does not match", status=409, reason="Conflict")
        if uid is not None and found["metadata"]["uid"] != uid:
            raise ClusterError("the UID in the precondition does not match", status=409, reason="Conflict")
        self.remove(kind, name)
        self._done("delete", kind)
        return True

    def watch(
        self, api_version: str, kind: str, namespace: str, *, name: str | None = None, label_selector: str = "",
        stop: threading.Event | None = None, all_namespaces: bool = False, listed: Any = lambda items: None,
    ) -> Iterator[WatchEvent]:  # fmt: skip
        self._note("watch", kind, name or label_selector)
        events: queue.Queue[WatchEvent] = queue.Queue()
        with self._lock:
            here = [
                copy.deepcopy(obj)
                for (k, ns, n), obj in self.objects.items()
                if k == kind and ns == namespace and name in (None, n) and _matches(obj, label_selector)
            ]
            listed(here)
            for obj in here:
                events.put(WatchEvent("ADDED", obj))
            self._watchers.append((kind, namespace, label_selector, name, events))
        while stop is None or not stop.is_set():
            try:
                yield events.get(timeout=0.02)
            except queue.Empty:
                continue

    def watches(self, kind: str) -> int:
        """How many watches of that kind have begun: each has been given what was there, and gets all that comes."""
        return [watcher[0] for watcher in list(self._watchers)].count(kind)

    def served(self) -> dict[str, tuple[str, ...]]:
        return {"": ("v1",), **self.groups}

    def time(self) -> datetime | None:
        return self.now

    def can_i(self, verb: str, group: str, resource: str, namespace: str, *, subresource: str = "") -> bool | None:
        self.calls.append(("can-i", f"{resource}/{subresource}".rstrip("/"), verb))
        return (verb, f"{resource}/{subresource}".rstrip("/")) not in self.denied

    def may_account(self, verb: str, group: str, resource: str, namespace: str, account: str) -> bool:
        self.calls.append(("may-account", resource, verb))
        if self.accounts is None:
            raise ClusterError("cannot ask what a service account may do", status=403, reason="Forbidden")
        return verb in self.accounts.get(account, set())


class FakeJobs:
    """Ray's Jobs API of one head: a growing log, a job state, and outages on demand."""

    def __init__(self, log: bytes = b"", status: str = "RUNNING") -> None:
        self.log, self.status = log, status
        self.errors: list[ClusterError] = []
        self.chunk = 100
        self.life = "pod-1/0"
        self.stopped: list[str] = []
        self.reads = 0

    def log_chunk(self, submission_id: str, offset: int) -> bytes:
        self.reads += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.log[offset : offset + self.chunk]

    def get(self, submission_id: str) -> dict[str, Any] | None:
        return {"submission_id": submission_id, "status": self.status}

    def stop(self, submission_id: str) -> bool:
        self.stopped.append(submission_id)
        return True

    def close(self) -> None:
        pass
