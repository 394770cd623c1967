"""What the cluster serves: the URL of a kind, served versions, and the fields of a served schema.

Kinds that every command uses have their plural here, so that a `get` costs one request; a cluster that does not serve
one says so itself (a 404 that names no object).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from . import errors
from .client import Client

#: kind -> (plural, namespaced), by group.
KNOWN: Mapping[str, Mapping[str, tuple[str, bool]]] = {
    "": {
        "ConfigMap": ("configmaps", True),
        "Event": ("events", True),
        "Namespace": ("namespaces", False),
        "Node": ("nodes", False),
        "PersistentVolumeClaim": ("persistentvolumeclaims", True),
        "Pod": ("pods", True),
        "Secret": ("secrets", True),
        "Service": ("services", True),
        "ServiceAccount": ("serviceaccounts", True),
    },
    "apps": {"Deployment": ("deployments", True)},
    "batch": {"Job": ("jobs", True)},
    "ray.io": {"RayCluster": ("rayclusters", True), "RayJob": ("rayjobs", True)},
    "resource.k8s.io": {
        "DeviceClass": ("deviceclasses", False),
        "ResourceClaim": ("resourceclaims", True),
        "ResourceClaimTemplate": ("resourceclaimtemplates", True),
    },
    "resource.nvidia.com": {"ComputeDomain": ("computedomains", True)},
}


@dataclass(frozen=True)
class Resource:
    """A served kind. `title` is what a person calls it: `rayjobs.ray.io`."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def title(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, of the object, or of a subresource of it."""
        words = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            words += ["namespaces", quote(namespace, safe="")]
        words.append(self.plural)
        words += [quote(word, safe="") for word in (name, subresource) if word]
        return "/".join(words)


class Discovery:
    """Answers about one API server, each asked for once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._resources: dict[tuple[str, str], dict[str, Resource]] = {}
        self._served: dict[str, tuple[str, ...]] | None = None
        self._schemas: dict[tuple[str, str], dict[str, Any]] = {}

    def resource(self, api_version: str, kind: str) -> Resource:
        """The resource of a kind. Raises `ClusterError` (reason NotServed) when the cluster has none."""
        group, _, version = api_version.rpartition("/")
        known = KNOWN.get(group, {}).get(kind)
        if known:
            return Resource(group, version, kind, *known)
        with self._lock:
            found = self._resources.get((group, version))
            if found is None:
                found = self._resources[group, version] = self._fetch(group, version, kind)
        if kind not in found:
            raise errors.not_served(f"use kind {kind} of {api_version}")
        return found[kind]

    def _fetch(self, group: str, version: str, kind: str) -> dict[str, Resource]:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        doing = f"use kind {kind} of {group + '/' if group else ''}{version}"
        code, body = self._client.send("GET", path, doing=doing)
        if code == 404:
            raise errors.not_served(doing)
        if code >= 300:
            raise self._client.refusal(doing, code, body)
        return {
            entry["kind"]: Resource(group, version, entry["kind"], entry["name"], bool(entry.get("namespaced")))
            for entry in self._client.decode(body, doing).get("resources", [])
            if "/" not in entry["name"]
        }

    def served(self) -> Mapping[str, tuple[str, ...]]:
        """Group -> served versions, the server's preferred first; the core group is `""`."""
        with self._lock:
            if self._served is None:
                data = self._client.json("GET", "/apis", doing="list the API groups")
                self._served = {"": ("v1",)} | {
                    group["name"]: tuple(v["version"] for v in group.get("versions", []))
                    for group in data.get("groups", [])
                }
            return self._served

    def version(self) -> str:
        """The server's version, `v1.34.4`."""
        return str(self._client.json("GET", "/version", doing="read the server's version").get("gitVersion", ""))

    def fields(self, group: str, version: str, kind: str, path: tuple[str, ...]) -> frozenset[str]:
        """Names of the properties at `path` below a served kind's schema; empty when there is no such place.

        Lists are entered by themselves: `("spec", "deletionStrategy", "deletionRules", "condition")`.
        Source: the API server's /openapi/v3, which every authenticated user may read.
        """
        node: Any = self._kind_schema(group, version, kind)
        for step in (*path, ""):
            node = self._enter(group, version, node)
            properties = node.get("properties") or {}
            if step:
                node = properties.get(step) or {}
        return frozenset(properties)

    def _kind_schema(self, group: str, version: str, kind: str) -> Mapping[str, Any]:
        for schema in self._document(group, version).values():
            for made_for in schema.get("x-kubernetes-group-version-kind") or []:
                if (made_for.get("group"), made_for.get("version"), made_for.get("kind")) == (group, version, kind):
                    return schema  # type: ignore[no-any-return]
        return {}

    def _document(self, group: str, version: str) -> dict[str, Any]:
        with self._lock:
            if (group, version) not in self._schemas:
                path = f"/openapi/v3/apis/{group}/{version}" if group else f"/openapi/v3/api/{version}"
                doing = f"read the schema of {group + '/' if group else ''}{version}"
                data = self._client.json("GET", path, doing=doing)
                self._schemas[group, version] = (data.get("components") or {}).get("schemas") or {}
            return self._schemas[group, version]

    def _enter(self, group: str, version: str, node: Any) -> Mapping[str, Any]:
        """Follow references and list items to a schema that can have properties."""
        for _ in range(16):
            if not isinstance(node, dict):
                return {}
            if "$ref" in node:
                node = self._document(group, version).get(str(node["$ref"]).rpartition("/")[2])
            elif len(node.get("allOf") or []) == 1:
                node = node["allOf"][0]
            elif "items" in node:
                node = node["items"]
            else:
                return node
        return {}
