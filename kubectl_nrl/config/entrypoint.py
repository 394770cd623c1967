"""Points the training command of an entrypoint at the composed recipe, and finds the overrides written beside it.

Only literal text is touched, and only where it stands: the script is otherwise byte-identical, because it is a person's program and
not ours to normalise.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import Problem
from .credentials import shown
from .overrides import key_of
from .shell_words import Command, Quote, Word, commands

#: What a command reads instead of its recipe's path; exported by the launch script.
RECIPE_VARIABLE = "NRL_RECIPE"

#: `a.b=1`, `+a=1`, `++a=1`, `~a=1`, and `~a.b` with at least one dot (`~name` is somebody's home directory).
_OVERRIDE = re.compile(r"(?:\+\+?|~)?[A-Za-z_][\w-]*(?:\.[\w-]+)*=|~[A-Za-z_][\w-]*(?:\.[\w-]+)+\Z", re.ASCII)
#: The start of a word whose key is written out and whose value a shell makes: `a.b=$X`, `"a=$(cmd)"`.
_MADE = re.compile(r"[\"']?(?P<key>(?:\+\+?)?[A-Za-z_][\w-]*(?:\.[\w-]+)*=)", re.ASCII)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_FLAG = "--config"


@dataclass(frozen=True)
class ConfigCommand:
    """A simple command that holds `--config`.

    `config` is the literal path (None where a shell makes it), `config_word` the word it stands in, `joined` whether that is
    `--config=PATH`; `overrides` are its literal `key=value` words, `made` the words that only a shell knows.
    """

    config: str | None
    config_word: Word
    joined: bool
    overrides: tuple[Word, ...]
    quote: Quote
    made: tuple[Word, ...] = ()


@dataclass(frozen=True)
class Rewritten:
    """An entrypoint as it will run; `words` are the `key=value` words as written; `uses_config`: it reads the recipe at all."""

    text: str
    notes: tuple[Problem, ...]
    words: tuple[str, ...]
    uses_config: bool


def config_commands(text: str) -> list[ConfigCommand]:
    """Every `--config X` of a script, in order; never `--config-name` or `--config-path`."""
    found: list[ConfigCommand] = []
    for command in commands(text):
        found.extend(_of_command(command))
    return found


def _of_command(command: Command) -> list[ConfigCommand]:
    words = command.words
    found: list[ConfigCommand] = []
    for at, word in enumerate(words):
        if word.value == _FLAG and at + 1 < len(words):
            target = words[at + 1]
            found.append(ConfigCommand(target.value, target, False, (), command.quote))
        elif word.value is not None and word.value.startswith(_FLAG + "="):
            found.append(ConfigCommand(word.value[len(_FLAG) + 1 :], word, True, (), command.quote))
    if not found:
        return []
    first = found[0]
    overrides = tuple(
        word for word in _arguments(words) if _is_override(word, {item.config_word.start for item in found})
    )
    made = tuple(word for word in _arguments(words) if word.value is None)
    found[0] = ConfigCommand(first.config, first.config_word, first.joined, overrides, first.quote, made)
    return found


def _arguments(words: Sequence[Word]) -> Sequence[Word]:
    """The words after the program: its script (`x.py`) or module (`-m x`) when there is one, else the command's first word.

    Assignments before it (`SEED=1 python ...`, `env SEED=1 python ...`) are environment, not overrides.
    """
    for at, word in enumerate(words):
        if word.value is not None and (word.value.endswith(".py") or word.value == "-m"):
            return words[at + 1 :]
    at = 0
    while at < len(words) and (words[at].value == "env" or _ASSIGNMENT.match(words[at].value or "$")):
        at += 1
    return words[at + 1 :]


def _is_override(word: Word, taken: set[int]) -> bool:
    return (
        word.value is not None
        and word.start not in taken
        and _OVERRIDE.match(word.value) is not None
        and "$" not in word.value
    )


def rewrite(text: str, *, recipe_source: str, overrides: Sequence[str]) -> Rewritten:
    """The entrypoint with every literal `--config X.yaml` pointed at the composed recipe (`recipe_source` inline).

    `overrides` are the command line's (not those of the infra file): a word of the entrypoint that sets the same key is replaced by
    them, since they are what the person asked for last. Notes say what was changed and what could not be.
    """
    found = config_commands(text)
    notes: list[Problem] = []
    edits: list[tuple[int, int, str]] = []
    words: list[str] = []
    for command in found:
        words.extend(word.value for word in command.overrides if word.value is not None)
        edits.extend(_config_edit(command, recipe_source, notes))
        for word in command.overrides:
            edits.extend(_word_edit(word, command.quote, overrides, notes))
        for word in command.made:
            edits.extend(_made_edit(word, text[word.start : word.end], command.quote, overrides, notes))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return Rewritten(text, tuple(dict.fromkeys(notes)), tuple(words), bool(found) or RECIPE_VARIABLE in text)


def _config_edit(command: ConfigCommand, recipe_source: str, notes: list[Problem]) -> list[tuple[int, int, str]]:
    path = command.config
    if path is None:
        message = "the entrypoint's --config is made by the shell, so it does not read the composed recipe"
        notes.append(Problem(message, None, f'write the path out, or --config "${RECIPE_VARIABLE}"', "warning"))
        return []
    if not path.endswith((".yaml", ".yml")):
        return []
    if recipe_source == "pod":
        message = f"the copy of {path} on the pod decides what runs, not the recipe and overrides given here (recipeSource: pod)"
        notes.append(Problem(message, None, "launch.recipeSource: inline", "warning"))
        return []
    new = f'"${RECIPE_VARIABLE}"'
    if command.joined:
        new = f"{_FLAG}={new}"
    return [(command.config_word.start, command.config_word.end, command.quote(new))]


def _word_edit(word: Word, quote: Quote, overrides: Sequence[str], notes: list[Problem]) -> list[tuple[int, int, str]]:
    """What stands in for a word when the command line sets its key, a key above it or a key below it."""
    assert word.value is not None
    key = key_of(word.value)
    same = [text for text in overrides if _covers(key_of(text), key)]
    below = [text for text in overrides if not _covers(key_of(text), key) and _covers(key, key_of(text))]
    if not same and not below:
        return []
    parts: list[str] = []
    if same:
        last = same[-1]
        if not last.startswith("~"):
            parts.append(_again(last))
        later = overrides[list(overrides).index(last) + 1 :]
        below = [text for text in below if text in later]
    else:
        deletes = any(text.startswith("~") for text in below)
        parts.append("++" + word.value.lstrip("+") if deletes else _again(word.value))
    parts += [_again(text) for text in below]
    new = " ".join(shlex.quote(part) for part in parts)
    said = shown(" ".join(parts)) or "nothing (it is deleted)"
    notes.append(
        Problem(f"the entrypoint's word {shown(word.value)} gives way to the command line: {said}", None, "", "note")
    )
    return [(word.start, word.end, quote(new))]


def _made_edit(
    word: Word, written: str, quote: Quote, overrides: Sequence[str], notes: list[Problem]
) -> list[tuple[int, int, str]]:
    """As `_word_edit` for a word whose value a shell makes: it gives way whole; where it sets more, a warning says so."""
    match = _MADE.match(written)
    key = key_of(match["key"]) if match else ""
    rivals = [text for text in overrides if key and (_covers(key_of(text), key) or _covers(key, key_of(text)))]
    if not rivals:
        return []
    last = rivals[-1]
    if not _covers(key_of(last), key):
        said = f"the entrypoint's word {shown(written)} sets all of {key}, after the command line's {shown(last)}"
        notes.append(Problem(said, None, "take the word out of the entrypoint", "warning"))
        return []
    new = "" if last.startswith("~") else shlex.quote(_again(last))
    said = f"the entrypoint's word {shown(written)} gives way to the command line: {shown(last) if new else 'it is deleted'}"
    notes.append(Problem(said, None, "", "note"))
    return [(word.start, word.end, quote(new))]


def gives_way(word: str, overrides: Sequence[str]) -> bool:
    """Whether one of the command line's overrides replaces a literal word of the entrypoint altogether."""
    return any(_covers(key_of(text), key_of(word)) for text in overrides)


def _covers(above: str, below: str) -> bool:
    return below == above or below.startswith(above + ".")


def _again(text: str) -> str:
    """The override so that it may be applied again: what `+` adds, the composed recipe holds already."""
    return "++" + text.lstrip("+") if text.startswith("+") else text
