"""Kubernetes' strategic merge over plain manifests, which remembers for every field who set it.

The rules are Kubernetes' own, except where those make pods that cannot exist: keyed elements other than containers are replaced
whole (an env entry must not end with both `value` and `valueFrom`), and so are unions (a volume's source, a probe's handler).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

#: A field's place in a manifest. Elements of keyed lists are `[name]`, of other lists nothing: such a list is one field.
FieldPath = tuple[str | int, ...]

#: Lists whose elements merge into each other by this key.
RECURSED = {"containers": ("name",), "initContainers": ("name",), "workerGroupSpecs": ("groupName",)}
#: Lists whose elements are replaced whole by this key.
KEYED = {
    "env": ("name",),
    "volumes": ("name",),
    "resourceClaims": ("name",),
    "claims": ("name",),
    "volumeMounts": ("mountPath",),
    "ports": ("containerPort", "protocol"),
}
#: Lists that are sets: elements are added once.
SETS = frozenset({"tolerations", "imagePullSecrets", "envFrom", "add", "drop"})
#: Maps of which one key excludes the others: a stronger one replaces the weaker whole.
UNIONS = frozenset({"strategy", "postStart", "preStop"})
HANDLERS = frozenset({"exec", "httpGet", "tcpSocket", "grpc"})
_DEFAULTS: dict[str, Any] = {"protocol": "TCP"}


@dataclass(frozen=True)
class Source:
    """Who set a field: the rank it was set at and the label shown to people."""

    rank: int
    label: str


@dataclass(frozen=True)
class Conflict:
    """Two sources of one rank that set one field differently."""

    path: FieldPath
    first: str
    second: str
    values: tuple[Any, Any]


@dataclass
class Layered:
    """A manifest under construction: weaker layers first, each `merge` on top of what is there."""

    value: dict[str, Any] = field(default_factory=dict)
    sources: dict[FieldPath, Source] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)

    def merge(self, patch: Mapping[str, Any], rank: int, label: str | Callable[[FieldPath], str]) -> None:
        """Apply one layer; `label` names it, or answers who wrote the field at a path of the patch (list indices kept)."""
        name = label if callable(label) else (lambda _path, fixed=label: fixed)
        _Merge(self, rank, name).maps(self.value, patch, (), ())

    def source(self, path: FieldPath) -> Source | None:
        """Who set the field, or the nearest field around it."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.sources:
                return self.sources[path[:end]]
        return None


class _Merge:
    """One layer's walk. `at` is the place in the result, `written` the place in the patch."""

    def __init__(self, into: Layered, rank: int, label: Callable[[FieldPath], str]) -> None:
        self.into = into
        self.rank = rank
        self.label = label

    def maps(self, base: dict[str, Any], patch: Mapping[str, Any], at: FieldPath, written: FieldPath) -> None:
        for key, value in patch.items():
            here, there = (*at, key), (*written, key)
            if value is None or (isinstance(value, list) and not value):
                self._remove(base, key, here, there, value)
            elif isinstance(value, Mapping):
                self._map(base, key, value, here, there)
            elif isinstance(value, list):
                self._list(base, key, value, here, there)
            else:
                self._set(base, key, value, here, there)

    def _remove(self, base: dict[str, Any], key: str, here: FieldPath, there: FieldPath, value: Any) -> None:
        if key in base:
            self._conflict(base[key], value, here, there)
            del base[key]
        self._forget(here)

    def _map(self, base: dict[str, Any], key: str, value: Mapping[str, Any], here: FieldPath, there: FieldPath) -> None:
        old = base.get(key)
        if not isinstance(old, dict):
            if key in base:
                self._conflict(old, value, here, there)
                self._forget(here)
            old = base[key] = {}
        elif key in UNIONS and set(old) != set(value):
            self._forget(here)
            old.clear()
        elif (replaced := HANDLERS & set(old)) and HANDLERS & set(value) and replaced != HANDLERS & set(value):
            for handler in replaced:
                del old[handler]
                self._forget((*here, handler))
        self.maps(old, value, here, there)
        if not old:
            self.into.sources[here] = Source(self.rank, self.label(there))

    def _list(self, base: dict[str, Any], key: str, value: list[Any], here: FieldPath, there: FieldPath) -> None:
        keys = RECURSED.get(key) or KEYED.get(key)
        old = base.get(key)
        if keys and _keyed(value, keys) and (old is None or (isinstance(old, list) and _keyed(old, keys))):
            self._keyed_list(base.setdefault(key, []), key, value, keys, here, there)
        elif key in SETS and (old is None or isinstance(old, list)):
            items = base.setdefault(key, [])
            for index, item in enumerate(value):
                if item not in items:
                    items.append(copy.deepcopy(item))
                    at = (*here, len(items) - 1)
                    self.into.sources[at] = Source(self.rank, self.label((*there, index)))
        else:
            self._set(base, key, value, here, there)

    def _keyed_list(
        self, items: list[Any], key: str, value: list[Any], keys: tuple[str, ...], here: FieldPath, there: FieldPath
    ) -> None:
        places = {element_key(item, keys): index for index, item in enumerate(items)}
        for index, item in enumerate(value):
            name = element_key(item, keys)
            at, written = (*here, name), (*there, index)
            if name not in places:
                places[name] = len(items)
                items.append({} if key in RECURSED else copy.deepcopy(item))
                if key not in RECURSED:
                    self.into.sources[at] = Source(self.rank, self.label(written))
                    continue
            elif key not in RECURSED:
                self._conflict(items[places[name]], item, at, written)
                items[places[name]] = copy.deepcopy(item)
                self._forget(at)
                self.into.sources[at] = Source(self.rank, self.label(written))
                continue
            known = items[places[name]]
            self.maps(known, {k: v for k, v in item.items() if k not in keys or k not in known}, at, written)

    def _set(self, base: dict[str, Any], key: str, value: Any, here: FieldPath, there: FieldPath) -> None:
        if key in base:
            self._conflict(base[key], value, here, there)
            self._forget(here)
        base[key] = copy.deepcopy(value)
        self.into.sources[here] = Source(self.rank, self.label(there))

    def _conflict(self, old: Any, new: Any, here: FieldPath, there: FieldPath) -> None:
        before = self.into.source(here)
        label = self.label(there)
        if before and before.rank == self.rank and before.label != label and old != new:
            self.into.conflicts.append(Conflict(here, before.label, label, (old, new)))

    def _forget(self, path: FieldPath) -> None:
        for known in [p for p in self.into.sources if p[: len(path)] == path]:
            del self.into.sources[known]


def element_key(item: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """The name under which an element of a keyed list is known: `[NAME]`, `[8265/TCP]`."""
    return "[" + "/".join(str(item.get(k, _DEFAULTS.get(k, ""))) for k in keys) + "]"


def _keyed(items: list[Any], keys: tuple[str, ...]) -> bool:
    return all(isinstance(item, Mapping) and isinstance(item.get(keys[0]), (str, int)) for item in items)


def leaves(value: Any, at: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Every field of a manifest with its path, keyed lists by key; an empty map is a field."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _children(str(key), item, (*at, key))
    else:
        yield at, value


def _children(key: str, value: Any, at: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    keys = RECURSED.get(key) or KEYED.get(key)
    if isinstance(value, list) and value and keys and _keyed(value, keys):
        for item in value:
            if key in RECURSED:
                yield from leaves(item, (*at, element_key(item, keys)))
            else:
                yield (*at, element_key(item, keys)), item
    elif isinstance(value, list) and key in SETS:
        for index, item in enumerate(value):
            yield (*at, index), item
    else:
        yield from leaves(value, at)


def keyed_path(value: Any, path: FieldPath) -> FieldPath:
    """A path with list indices as the merge knows it: elements of keyed lists by their key."""
    keyed: list[str | int] = []
    name = ""
    for part in path:
        keys = RECURSED.get(name) or KEYED.get(name)
        item = _child(value, part)
        keyed.append(element_key(item, keys) if isinstance(part, int) and keys and isinstance(item, Mapping) else part)
        value, name = item, str(part)
    return tuple(keyed)


def _child(value: Any, part: str | int) -> Any:
    if isinstance(value, list):
        return value[part] if isinstance(part, int) and part < len(value) else None
    return value.get(part) if isinstance(value, Mapping) else None


def show_path(path: FieldPath) -> str:
    """A field's path as people read it: `spec.containers[ray-worker].env[NCCL_NET]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += part if part.startswith("[") else ("." if text else "") + part
    return text
