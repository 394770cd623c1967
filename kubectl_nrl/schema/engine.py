"""The checker all schemas share: a value against a JSON Schema, every fault at once, each in one plain line.

It is our own, not the jsonschema package's: that costs 80 ms to import and seconds for a file of 100,000 values, and
its errors would have to be taken apart again. Tests hold its verdicts to jsonschema's; a keyword it does not know (a
plugin may use any) is handed to jsonschema itself. A null counts as an absent key, as it does for Kubernetes and for
these files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import Severity
from .nodes import Node, Schema, SchemaFault
from .scalars import KNOWN as SCALAR_KEYWORDS
from .scalars import regex, scalar_faults
from .unknown import UnknownKeys
from .words import Path, either, is_type, path_text, show, type_of, type_words

#: More problems than anybody reads; beyond it the check ends, and says so.
MOST = 1000
_DEEPEST = 100
_ANNOTATIONS = {
    "title",
    "description",
    "default",
    "examples",
    "$schema",
    "$id",
    "$defs",
    "$comment",
    "deprecated",
    "readOnly",
}
_APPLIED = {
    "type", "$ref", "properties", "patternProperties", "additionalProperties", "propertyNames", "required", "items",
    "allOf", "anyOf", "oneOf", "if", "then", "else",
}  # fmt: skip
#: Most places of a large file say nothing but a type, and are done with it.
_TYPE_ALONE = (_ANNOTATIONS | {"type"}) - {"deprecated"}
_OBJECT = {"properties", "patternProperties", "additionalProperties", "propertyNames", "required"}
#: Keywords without a verdict of their own: `x-schema` names what a person's spec is checked by, elsewhere.
_EXTENSIONS = {"patternErrorMessage", "x-schema"}
KNOWN = frozenset(_ANNOTATIONS | _APPLIED | _EXTENSIONS | SCALAR_KEYWORDS)


@dataclass(frozen=True)
class Fault:
    """What is wrong at a path. `subject` is the path in words where it is not simply the path's."""

    path: Path
    message: str
    severity: Severity = "error"
    missing: bool = False


#: Asked before a value of the wrong type is refused: (path, value, accepted types) -> whether it is fine all the same.
Leniency = Callable[[Path, Any, "tuple[str, ...]"], bool]


class _Enough(Exception):
    """Raised inside a check that found MOST faults."""


def faults(
    schema: Schema, value: Any, *, prefix: str = "", partial: bool = False, lenient: Leniency | None = None
) -> list[Fault]:
    """Every fault of a value, in the order of the value. `partial` requires no key (a patch); raises `SchemaFault`."""
    checker = _Checker(prefix, partial, lenient)
    try:
        checker.check(Node(schema, schema), value, ())
    except _Enough:
        checker.found.append(Fault((), f"has more problems than the first {MOST}, which are shown"))
    return checker.found


class _Checker:
    def __init__(
        self, prefix: str, partial: bool, lenient: Leniency | None, unknown: UnknownKeys | None = None
    ) -> None:
        self.found: list[Fault] = []
        self.partial = partial
        self.lenient = lenient
        self.prefix = prefix
        self.unknown = unknown or UnknownKeys(prefix)
        self.depth = 0
        self.when = ""
        #: What the unknown keys of a mapping were meant to be, by the mapping's path.
        self.meant: dict[Path, set[str | None]] = {}

    def add(self, path: Path, message: str, severity: Severity = "error", *, missing: bool = False) -> None:
        if len(self.found) >= MOST:
            raise _Enough
        self.found.append(Fault(path, message, severity, missing))

    def check(self, node: Node, value: Any, path: Path) -> None:
        schema = node.schema
        if schema is True or (value is None and path):
            return
        if schema is False:
            self.add(path, f"is not accepted{self.when or ' here'}")
        elif not isinstance(schema, Mapping):
            raise SchemaFault(f"{path_text(path, self.prefix)} has a schema that is no mapping")
        elif self.depth > _DEEPEST:
            self.add(path, "is nested too deeply")
        else:
            self.depth += 1
            try:
                self._check(node, schema, value, path)
            finally:
                self.depth -= 1

    def _check(self, node: Node, schema: Schema, value: Any, path: Path) -> None:
        if "type" in schema and not self._type(schema["type"], value, path):
            return
        if schema.keys() <= _TYPE_ALONE:
            return
        if "$ref" in schema:
            self.check(node.target(), value, path)
        if schema.get("deprecated"):
            self.add(path, f"is accepted and has no effect: {_reason(schema)}", "note")
        for message in scalar_faults(schema, value):
            self.add(path, message)
        if isinstance(value, Mapping):
            self._object(node, schema, value, path)
        elif isinstance(value, (list, tuple)) and "items" in schema and "prefixItems" not in schema:
            items = node.at(schema["items"])
            for index, item in enumerate(value):
                if item is None and not self._accepts_null(items):
                    self.add((*path, index), "is empty")
                self.check(items, item, (*path, index))
        self._combined(node, schema, value, path)
        if not schema.keys() <= KNOWN:
            self._rest(node, schema, value, path)

    def _type(self, types: Any, value: Any, path: Path) -> bool:
        names = (types,) if isinstance(types, str) else tuple(types)
        if any(is_type(value, name) for name in names):
            return True
        if self.lenient is not None and self.lenient(path, value, names):
            return False
        quote = ": put it in quotes" if names == ("string",) and isinstance(value, (bool, int, float)) else ""
        self.add(path, f"is {type_of(value)}, must be {type_words(names)}{quote}")
        return False

    def _accepts_null(self, node: Node) -> bool:
        schema = node.follow().schema
        types = schema.get("type", ()) if isinstance(schema, Mapping) else ("null",)
        return not types or "null" in ((types,) if isinstance(types, str) else types)

    def _object(self, node: Node, schema: Schema, value: Mapping[Any, Any], path: Path) -> None:
        if not _OBJECT.isdisjoint(schema):
            self.unknown.enter(node, path)
            try:
                self._keys(node, schema, value, path)
            finally:
                self.unknown.leave()

    def _keys(self, node: Node, schema: Schema, value: Mapping[Any, Any], path: Path) -> None:
        properties, patterns = schema.get("properties", {}), schema.get("patternProperties")
        extra = schema.get("additionalProperties", True)
        names = node.at(schema["propertyNames"]) if "propertyNames" in schema else None
        for key, item in value.items():
            if not isinstance(key, str):
                self.add((*path, key), "is a key that is no text: put it in quotes")
                continue
            if names is not None:
                self._name(names, key, path)
            applied = [form for pattern, form in patterns.items() if regex(pattern).search(key)] if patterns else []
            if key in properties:
                applied.append(properties[key])
            for form in applied:
                self.check(node.at(form), item, (*path, key))
            if not applied and extra is False:
                message, word = self.unknown.describe(key)
                self.meant.setdefault(path, set()).add(word)
                self.add((*path, key), message)
            elif not applied and extra is not True:
                self.check(node.at(extra), item, (*path, key))
        self._required(schema, value, path)

    def _name(self, names: Node, key: str, path: Path) -> None:
        if isinstance(names.schema, Mapping) and names.schema.keys() <= SCALAR_KEYWORDS | _EXTENSIONS:
            for message in scalar_faults(names.schema, key):
                self.add((*path, key), message)
            return
        judge = _Checker(self.prefix, self.partial, None, self.unknown)
        judge.check(names, key, (*path, key))
        for fault in judge.found:
            self.add(fault.path, fault.message, fault.severity)

    def _required(self, schema: Schema, value: Mapping[Any, Any], path: Path) -> None:
        """Missing keys; one that stands there misspelt has been named already."""
        if self.partial:
            return
        meant = self.meant.get(path, ())
        for key in schema.get("required", ()):
            if value.get(key) is None and key not in meant:
                self.add((*path, key), f"is required{self.when}", missing=True)

    def _combined(self, node: Node, schema: Schema, value: Any, path: Path) -> None:
        for branch in schema.get("allOf", ()):
            self.check(node.at(branch), value, path)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                self._choice(node, word, schema[word], value, path)
        if "if" in schema:
            holds = not self._try(node.at(schema["if"]), value, path)
            branch = schema.get("then" if holds else "else", True)
            outer, self.when = self.when, _when(schema["if"]) if holds else self.when
            try:
                self.check(node.at(branch), value, path)
            finally:
                self.when = outer

    def _choice(self, node: Node, word: str, branches: Any, value: Any, path: Path) -> None:
        """One of several forms: the faults of the form that was most likely meant, never those of all."""
        tried = [(node.at(branch), self._try(node.at(branch), value, path)) for branch in branches]
        right = sum(not found for _, found in tried)
        if right == 1 or (right and word == "anyOf"):
            return
        if right:
            self.add(path, f"fits {right} forms at once; it must fit one")
            return
        inside = [found for _, found in tried if any(f.path != path or "must be" not in f.message for f in found)]
        if inside:
            for fault in min(inside, key=len):
                self.add(fault.path, fault.message, fault.severity, missing=fault.missing)
            return
        self.add(path, f"is {show(value)}, must be {either(dict.fromkeys(_form(branch) for branch, _ in tried))}")

    def _try(self, node: Node, value: Any, path: Path) -> list[Fault]:
        """The errors a schema would give, without giving them."""
        judge = _Checker(self.prefix, False, self.lenient, self.unknown)
        judge.depth = self.depth
        judge.check(node, value, path)
        return [fault for fault in judge.found if fault.severity == "error"]

    def _rest(self, node: Node, schema: Schema, value: Any, path: Path) -> None:
        """Keywords that only jsonschema knows. Its texts show values, so the keyword alone is named."""
        import json

        import jsonschema
        from referencing.exceptions import Unresolvable

        whole = {"$defs": node.document.get("$defs", {}), **schema}
        try:
            plain = json.loads(json.dumps(value, default=str))
            for error in jsonschema.Draft202012Validator(whole).iter_errors(plain):
                word = error.relative_schema_path[0]
                if word not in KNOWN or (word == "items" and "prefixItems" in schema):
                    self.add((*path, *error.absolute_path), f"is refused by the schema's `{error.validator}`")
        except Unresolvable as error:
            raise SchemaFault(f"$ref points nowhere: {error}") from None
        except (RecursionError, TypeError, ValueError):
            self.add(path, "cannot be checked: it is no plain data")


def _reason(schema: Schema) -> str:
    text = str(schema.get("description", "deprecated"))
    return text[:1].lower() + text[1:].rstrip(".")


def _form(node: Node) -> str:
    """What a form wants, in words."""
    schema = node.follow().schema
    if not isinstance(schema, Mapping):
        return "something else"
    if "const" in schema:
        return show(schema["const"])
    if "enum" in schema:
        return either(show(word) for word in schema["enum"])
    types = schema.get("type")
    return type_words((types,) if isinstance(types, str) else types) if types else "something else"


def _when(condition: Any) -> str:
    """An `if` in words: ` when kind is lustre or pvc`."""
    parts = list(_conditions(condition))
    return " when " + " and ".join(parts) if parts else ""


def _conditions(condition: Any) -> Iterator[str]:
    for name, schema in condition.get("properties", {}).items() if isinstance(condition, Mapping) else ():
        words = [schema["const"]] if "const" in schema else schema.get("enum", ())
        if words:
            yield f"{name} is {either(str(word) for word in words)}"
