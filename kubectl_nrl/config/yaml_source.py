"""Reads one YAML file into a tree that knows where each value stands.

PyYAML composes the file once and the values are made from its nodes here, because positions are gone after its own loading. Scalars
follow OmegaConf's rules, not PyYAML's (`1e-4` is a number, a date is text), since NeMo-RL reads recipes with OmegaConf.
"""

from __future__ import annotations

import math
import os
import re
from functools import lru_cache
from typing import Any

import yaml

from ..errors import Origin, Problem
from .nodes import Key, Node

#: Bytes. The largest recipes are some 50 KB; PyYAML needs about a second for a megabyte.
MAX_BYTES = 1 << 20
#: Values after aliases are expanded: a file of nested anchors can name billions.
MAX_NODES = 200_000
#: Levels of nesting; Python's own recursion limit is ten times that.
MAX_DEPTH = 100
#: Characters of a number: Python converts digits in quadratic time.
MAX_NUMBER = 400

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# The float pattern of omegaconf/_utils.py, get_yaml_loader.
FLOAT = re.compile(
    r"""^(?:
     [-+]?[0-9]+(?:_[0-9]+)*\.[0-9_]*(?:[eE][-+]?[0-9]+)?
    |[-+]?[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+)
    |\.[0-9]+(?:_[0-9]+)*(?:[eE][-+][0-9]+)?
    |[-+]?[0-9]+(?:_[0-9]+)*(?::[0-5]?[0-9])+\.[0-9_]*
    |[-+]?\.(?:inf|Inf|INF)
    |\.(?:nan|NaN|NAN))$""",
    re.X,
)


class Loader(_LOADER):  # type: ignore[misc]
    """PyYAML's safe loader with OmegaConf's implicit resolvers: one more float, no timestamps."""


Loader.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+0123456789."))
Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in Loader.yaml_implicit_resolvers.items()
}

_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq", "merge", "value"))

#: libyaml's words, and what they mean to the person who wrote the file.
_WORDS = {
    "found character that cannot start any token": "this character cannot start a value; quote the text",
    "found undefined alias": "an alias (*name) to an anchor (&name) that does not exist",
    "but found another document": "more than one YAML document (---) in the file; one is expected",
    "mapping values are not allowed in this context": "a `:` where no key can stand; quote the text, or mind the indentation",
    "exceeded maximum nesting depth": "nested too deeply",
    "did not find expected key": "no key here; mind the indentation",
    "could not find expected ':'": "a key without its `:`",
}


class Unreadable(Exception):
    """A file that yields no tree; carries the one problem that says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def read_text(path: str, shown: str, asked: Origin | None = None) -> str:
    """The file's text. `shown` is its name in messages, `asked` the place that named it. Raises Unreadable."""

    def refuse(message: str, hint: str = "", origin: Origin | None = None) -> Unreadable:
        return Unreadable(Problem(message, origin or asked or Origin(shown), hint))

    name = f'"{shown}"' if asked else "the file"
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = b"" if size > MAX_BYTES else file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise refuse(f"{name} does not exist") from None
    except IsADirectoryError:
        raise refuse(f"{name} is a directory") from None
    except (OSError, ValueError) as error:
        raise refuse(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if size > MAX_BYTES or len(data) > MAX_BYTES:
        mib = max(size, len(data)) / (1 << 20)
        raise refuse(
            f"{name} is {mib:.1f} MiB; a recipe or infra file may have {MAX_BYTES >> 20} MiB", "is it the right file?"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refuse("the file is not UTF-8 text", "is it the right file?", Origin(shown, line)) from None


def parse(text: str, shown: str, problems: list[Problem]) -> Node | None:
    """The tree of a file's text; None for an empty file. Faults inside are added to `problems`; raises Unreadable when there is no tree."""
    try:
        node = yaml.compose(text, Loader=Loader)
    except yaml.YAMLError as error:
        raise Unreadable(_syntax_problem(error, text, shown)) from None
    except RecursionError:
        raise Unreadable(Problem("nested too deeply", Origin(shown))) from None
    if node is None:
        return None
    return _Builder(shown, problems).build(node)


def _syntax_problem(error: yaml.YAMLError, text: str, shown: str) -> Problem:
    """libyaml's complaint with its position, in a person's words."""
    mark = getattr(error, "problem_mark", None)
    words = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML")
    if mark is None:
        position = getattr(error, "position", None)
        line = text.count("\n", 0, position) + 1 if isinstance(position, int) else 0
        return Problem(f"not YAML text: {words}", Origin(shown, line), "is it the right file?")
    origin = Origin(shown, mark.line + 1, mark.column + 1)
    lines = text.splitlines()
    line_text = lines[mark.line] if mark.line < len(lines) else ""
    before = line_text[: mark.column + 1]
    if "cannot start any token" in words and (before.endswith("\t") or (before.strip() == "" and "\t" in before)):
        return Problem("a tab in the indentation; YAML wants spaces", origin, "replace the tab by spaces")
    return Problem(f"not valid YAML: {_WORDS.get(words, words)}", origin)


class _Builder:
    """Makes values from PyYAML's nodes, expanding aliases and merge keys (`<<`), and collecting faults."""

    def __init__(self, shown: str, problems: list[Problem]) -> None:
        self.shown = shown
        self.problems = problems
        self.count = 0
        self.open: set[int] = set()

    def build(self, node: Any, depth: int = 0) -> Node:
        self.count += 1
        if self.count > MAX_NODES:
            raise Unreadable(self.problem(node, f"the file expands to more than {MAX_NODES} values (nested anchors?)"))
        if depth > MAX_DEPTH:
            raise Unreadable(self.problem(node, f"nested more than {MAX_DEPTH} levels deep"))
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        if id(node) in self.open:
            raise Unreadable(self.problem(node, "an anchor that contains itself"))
        self.open.add(id(node))
        try:
            if node.tag not in _PLAIN_TAGS:
                self.report(node, f"the tag {_tag(node.tag)} is not supported")
            if isinstance(node, yaml.MappingNode):
                return self.mapping(node, depth)
            return Node([self.build(child, depth + 1) for child in node.value], self.origin(node))
        finally:
            self.open.discard(id(node))

    def scalar(self, node: Any) -> Node:
        return Node(self.value(node), self.origin(node), node.value, node.style or "")

    def value(self, node: Any) -> Any:
        """A scalar's Python value by its tag, as PyYAML's safe constructor makes it."""
        tag, text = node.tag, node.value
        if tag in (_TAG + "str", _TAG + "value", _TAG + "merge"):
            return text
        if tag == _TAG + "null":
            return None
        if tag not in _PLAIN_TAGS:
            self.report(node, f"the tag {_tag(tag)} is not supported")
            return text
        if len(text) > MAX_NUMBER:
            self.report(node, f"a number of {len(text)} characters; quote it when it is text")
            return text
        try:
            return _construct(tag, node)
        except (ValueError, KeyError, IndexError, AttributeError, TypeError, OverflowError):
            self.report(node, f"not a value of the type {_tag(tag)}")
            return text

    def mapping(self, node: Any, depth: int) -> Node:
        value: dict[Key, Node] = {}
        merged: dict[Key, Node] = {}
        written: dict[Key, str] = {}
        places: dict[Key, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                self.merge_key(value_node, merged, written, depth)
                continue
            key = self.key(key_node)
            if key is None:
                continue
            if key in places:
                self.report(key_node, f'duplicate key "{key_node.value}", first written in line {places[key]}')
            places.setdefault(key, key_node.start_mark.line + 1)
            if not isinstance(key, str):
                written[key] = key_node.value
            value[key] = self.build(value_node, depth + 1)
        return Node({**merged, **value}, self.origin(node), written_keys=written or None)

    def key(self, node: Any) -> Key | None:
        """A mapping's key, or None (and a problem) for one that OmegaConf cannot hold."""
        if not isinstance(node, yaml.ScalarNode) or node.tag == _TAG + "null":
            self.report(node, "a key must be text or a number")
            return None
        key = self.value(node)
        if isinstance(key, float) and math.isnan(key):
            self.report(node, "a key must be text or a number")
            return None
        return key

    def merge_key(self, node: Any, merged: dict[Key, Node], written: dict[Key, str], depth: int) -> None:
        """`<<: *anchor` or a list of them: keys that are not there yet; the first of a list wins."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                self.report(source, "`<<` takes a mapping (an alias like *name) or a list of them")
                continue
            tree = self.build(source, depth + 1)
            written.update(tree.written_keys or {})
            for key, child in tree.value.items():
                merged.setdefault(key, child)

    def origin(self, node: Any) -> Origin:
        return Origin(self.shown, node.start_mark.line + 1, node.start_mark.column + 1)

    def problem(self, node: Any, message: str) -> Problem:
        return Problem(message, self.origin(node))

    def report(self, node: Any, message: str) -> None:
        self.problems.append(self.problem(node, message))


def _tag(tag: str) -> str:
    return tag.replace(_TAG, "!!")


@lru_cache(maxsize=1)
def _constructor() -> Any:
    return yaml.constructor.SafeConstructor()


def _construct(tag: str, node: Any) -> Any:
    constructor = _constructor()
    if tag == _TAG + "int":
        return constructor.construct_yaml_int(node)
    if tag == _TAG + "float":
        return constructor.construct_yaml_float(node)
    if tag == _TAG + "bool":
        return constructor.construct_yaml_bool(node)
    raise ValueError(tag)
