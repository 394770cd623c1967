"""Objects of any kind on an API server: get, list, create, apply, patch, delete.

Manifests are plain dictionaries in and out: generated models would cost a quarter of a second to import and would
drop the fields they do not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from . import errors
from .client import Client
from .discovery import Discovery, Resource

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
#: Has the API server leave out all but the metadata.
_METADATA_ALONE = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}


class Objects:
    """The objects that one user may see and change; a namespace that is not given is the context's.

    All methods raise `ClusterError` (exit code 3) and may be called from several threads.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.discovery = Discovery(client)
        self.namespace = client.access.namespace

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """The object, or None when it is not there.

        A kind that is not served is a `ClusterError` (reason NotServed).
        """
        return self._get(api_version, kind, name, namespace)

    def metadata(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """The object's metadata alone, or None when it is not there: a Secret's values are then never sent."""
        return self._get(api_version, kind, name, namespace, _METADATA_ALONE)

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
        query = selectors(label_selector, field_selector)
        return self._pages(resource, None if all_namespaces else namespace, query, None)[0]

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

    def _resource(self, api_version: str, kind: str, namespace: str | None) -> tuple[Resource, str | None]:
        resource = self.discovery.resource(api_version, kind)
        return resource, (namespace or self.namespace) if resource.namespaced else None

    def _get(
        self, api_version: str, kind: str, name: str, namespace: str | None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any] | None:
        resource, namespace = self._resource(api_version, kind, namespace)
        if name in NO_NAMES:
            return None
        doing = errors.describe("get", resource.title, name, namespace)
        code, body = self.client.send("GET", resource.path(namespace, name), doing=doing, headers=headers)
        if code == 404 and errors.absent(body, name):
            return None
        return self._object(resource, "get", doing, (code, body), namespace)

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

    def _pages(
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


def selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    """The query's words for the selectors that are not empty."""
    return {
        **({"labelSelector": label_selector} if label_selector else {}),
        **({"fieldSelector": field_selector} if field_selector else {}),
    }
