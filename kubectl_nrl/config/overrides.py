"""Reads Hydra overrides from a command line or an entrypoint.

hydra-core's own parser reads them, since its grammar is what the training program will use; it is imported with the first override
that is not one of the plainest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..errors import Origin, Problem
from . import plain_override
from .credentials import shown
from .nodes import Key, Node, dotted, from_plain

#: Characters of one override: Hydra's parser takes quadratic time for lists, a second for this many.
MAX_LENGTH = 4096
#: Brackets inside one another: deeper ones overflow Hydra's parser.
MAX_DEPTH = 25
#: Parts of one key: a tree must stay shallow enough to walk.
MAX_KEYS = 40

Kind = Literal["change", "add", "force", "delete"]

_KINDS: dict[str, Kind] = {"": "change", "+": "add", "++": "force"}
_WORD = re.compile(r"(?P<mark>~|\+\+?)?(?P<key>[^=]*)(?P<value>=.*)?", re.DOTALL)


@dataclass(frozen=True)
class Override:
    """One override. `text` is as typed; `value` is None for a deletion without a value (`given` false)."""

    kind: Kind
    keys: tuple[str, ...]
    value: Any
    given: bool
    text: str
    origin: Origin
    prefix: str = ""

    @property
    def key(self) -> str:
        return self.named(self.keys)

    def named(self, path: Sequence[Key]) -> str:
        """A path below the override's tree as it is typed on a command line."""
        return self.prefix + dotted(path)

    @property
    def node(self) -> Node:
        """The value as a tree; a plain scalar keeps its text (`infra.launch.env.A=0x10`)."""
        node = from_plain(self.value, self.origin)
        written = self.text.split("=", 1)[-1].strip()
        if node.is_scalar and self.given and not isinstance(self.value, str):
            node.text = written
        return node

    def below(self, prefix: str) -> Override:
        """The same override with the first key, `prefix`, taken off."""
        assert self.keys[0] == prefix
        return replace(self, keys=self.keys[1:], prefix=f"{prefix}.")


class Refused(Exception):
    """Why an override cannot be applied, with a hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def command_line_origin(text: str) -> Origin:
    """The place of an override, without a credential's value."""
    line = shown(text).replace("\n", " ")
    return Origin(f"command line: {line if len(line) <= 100 else line[:97] + '...'}")


def parse(texts: Sequence[str], problems: list[Problem], origin: Origin | None = None) -> list[Override]:
    """Every override that Hydra's grammar accepts; the others become problems. `origin` is theirs when no command line is."""
    parsed: list[Override] = []
    for text in texts:
        place = origin or command_line_origin(text)
        try:
            parsed.append(_parse(text, place))
        except Refused as refused:
            problems.append(Problem(refused.message, place, refused.hint))
    return parsed


def _parse(text: str, origin: Origin) -> Override:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused("an override that is not UTF-8 text") from None
    if len(text) > MAX_LENGTH:
        raise Refused(
            f"an override of {len(text)} characters; {MAX_LENGTH} are the limit", "put the value into the recipe"
        )
    if _depth(text) > MAX_DEPTH:
        raise Refused(f"brackets more than {MAX_DEPTH} deep", "put the value into the recipe")
    plain = plain_override.read(text)
    if plain is not None and len(plain.keys) <= MAX_KEYS:
        return Override(_KINDS[plain.mark], plain.keys, plain.value, True, text, origin)
    found = _hydra(text)
    if found.is_sweep_override():
        value = text.split("=", 1)[-1]
        raise Refused(
            "a sweep of several values; one run takes one",
            f"a list is written [{shown(value)}], text with a comma '\"{shown(value)}\"'",
        )
    key = str(found.key_or_group)
    if found.package is not None or "/" in key:
        raise Refused(
            f'"{found.get_key_element()}" names a Hydra config group; recipes have none', "separate keys by dots"
        )
    keys = tuple(key.split("."))
    if not all(keys):
        raise Refused("an override without a key")
    if len(keys) > MAX_KEYS:
        raise Refused(f"a key of {len(keys)} parts; {MAX_KEYS} are the limit")
    kind: Kind = (
        "delete" if found.is_delete() else "add" if found.is_add() else "force" if found.is_force_add() else "change"
    )
    value = found.value()
    if not _keys_are_sound(value):
        raise Refused("a mapping's key must be text or a number")
    return Override(kind, keys, value, "=" in text, text, origin)


def _keys_are_sound(value: Any) -> bool:
    """Whether every mapping in a value has keys OmegaConf can hold."""
    if isinstance(value, dict):
        return all(key is not None and str(key) != "nan" and _keys_are_sound(child) for key, child in value.items())
    return all(_keys_are_sound(child) for child in value) if isinstance(value, list) else True


def _hydra(text: str) -> Any:
    """Hydra's reading of one override. Raises Refused."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(text)
    except (
        HydraException,
        ValueError,
        TypeError,
        AssertionError,
        RecursionError,
        KeyError,
        AttributeError,
    ) as error:
        secret = shown(text) != text
        said = "" if secret else _first_line(str(error))
        hint = "quote a value that holds special characters: 'key=\"a=b, c\"'"
        raise Refused(f"not an override (key=value): {said}" if said else "not an override (key=value)", hint) from None


def _first_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    line = lines[0] if lines else ""
    return line if len(line) <= 120 else line[:117] + "..."


def _depth(text: str) -> int:
    """The deepest nesting of brackets, counted without regard to quotes."""
    depth = deepest = 0
    for char in text:
        if char in "[({":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "])}":
            depth = max(0, depth - 1)
    return deepest


def key_of(text: str) -> str:
    """The key an override names, as typed, without its mark (`+`, `++`, `~`)."""
    match = _WORD.fullmatch(text)
    return match["key"] if match else ""
