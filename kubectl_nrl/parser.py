"""The argparse pieces that commands share: one parser class, the global flags, overrides among positional words.

There are no subparsers: argparse lets a subparser's default overwrite a flag given before the verb, so the words
before the verb and the words after it are parsed by two parsers into one namespace.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from .errors import UsageError

PROG = "kubectl nrl"

#: Words that are formats; any other value of -o is a file, on the verbs that write one.
FORMATS = ("text", "json", "yaml")

#: `a.b=1`, `+a=1`, `++a=1`, `~a`, `~a=1` (Hydra's override grammar, told by shape). A `/` before the `=` makes it a
#: path.
_OVERRIDE = re.compile(r"(?:\+\+?|~)?[\w$][\w.$@:\[\]-]*=.*|~[\w$][\w.$@:\[\]-]*", re.DOTALL)

#: Marks a dash word that followed `--`, so that no version of argparse takes it for a flag; no real argument can
#: hold NUL.
_LITERAL = "\0"


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises `UsageError`, knows no abbreviations, and takes flags and words in any order."""

    def __init__(self, prog: str, summary: str = "", examples: str = "", **settings: Any) -> None:
        settings.setdefault("allow_abbrev", False)
        super().__init__(
            prog=prog,
            description=summary,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
            **settings,
        )
        self.show_examples(examples)

    def show_examples(self, examples: str) -> None:
        """Command lines that stand at the end of the help."""
        self.examples = examples
        if examples:
            self.epilog = f"examples:\n{_indent(examples)}"

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"{self.prog} --help")

    def parse_words(self, words: Sequence[str], namespace: argparse.Namespace) -> argparse.Namespace:
        """Parse everything after the verb. Raises `UsageError` for what is left over, with the nearest real flag."""
        words = list(words)
        if "--" in words:
            cut = words.index("--")
            words = words[:cut] + [_LITERAL + w if w.startswith("-") else w for w in words[cut + 1 :]]
        _, extras = self.parse_known_intermixed_args(words, namespace)
        if extras:
            self._refuse(extras[0].removeprefix(_LITERAL))
        for name, value in vars(namespace).items():
            if isinstance(value, str):
                setattr(namespace, name, value.removeprefix(_LITERAL))
            elif isinstance(value, list):
                setattr(namespace, name, [v.removeprefix(_LITERAL) if isinstance(v, str) else v for v in value])
        return namespace

    def flags(self) -> list[str]:
        """Every flag that the help shows."""
        return [f for a in self._actions if a.help != argparse.SUPPRESS for f in a.option_strings]

    def actions(self) -> list[argparse.Action]:
        """Every argument that the help shows, in order."""
        return [a for a in self._actions if a.help != argparse.SUPPRESS]

    def _refuse(self, word: str) -> NoReturn:
        hint = f"{self.prog} --help"
        if word.startswith("-") and len(word) > 1:
            flag = word.split("=", 1)[0]
            raise UsageError(f'unrecognized argument "{word}"{did_you_mean(flag, self.flags())}', hint)
        raise UsageError(f'unrecognized argument "{word}"', hint)


def add_globals(parser: argparse.ArgumentParser, *, default: Any = argparse.SUPPRESS) -> None:
    """The flags that every verb takes, before or after the verb.

    With the default of `SUPPRESS` a flag that is not given leaves what the words before the verb set.
    """

    def value(absent: Any) -> Any:
        return default if default is argparse.SUPPRESS else absent

    group = parser.add_argument_group("global flags")
    add = group.add_argument
    add("-n", "--namespace", metavar="NAME", default=value(None), help="namespace (default: infra file, then context)")
    add("--context", metavar="NAME", default=value(None), help="kubeconfig context")
    add("--kubeconfig", metavar="FILE", default=value(None), help="kubeconfig file")
    add("-o", "--output", metavar="FORMAT", default=value("text"), help="text (default), json or yaml")
    add("-v", "--verbose", action="store_true", default=value(False), help="show API calls, never secrets")
    add("-q", "--quiet", action="store_true", default=value(False), help="no notes and no progress on stderr")
    add("--no-color", action="store_true", default=value(False), help="plain text on a terminal too (also NO_COLOR=1)")
    add("-p", "--plugin", metavar="FILE|no:NAME", action="append", default=value([]), dest="plugins",
        help="load a plugin file, or keep one from loading; repeatable")  # fmt: skip
    add(
        "--strict-plugins",
        action="store_true",
        default=value(False),
        help="a broken plugin is an error, with its traceback",
    )
    add("-h", "--help", action="help", default=argparse.SUPPRESS, help="show this help")


def split_verb(argv: Sequence[str], parser: Parser) -> tuple[list[str], str | None, list[str]]:
    """(words before the verb, the verb or None, words after it); `parser` says which flags take a value."""
    takes_value = {flag for a in parser.actions() if a.nargs != 0 for flag in a.option_strings}
    at = 0
    while at < len(argv):
        word = argv[at]
        if word == "--":
            return list(argv[:at]), argv[at + 1] if at + 1 < len(argv) else None, list(argv[at + 2 :])
        if not word.startswith("-") or word == "-":
            return list(argv[:at]), word, list(argv[at + 1 :])
        at += 2 if word in takes_value else 1
    return list(argv), None, []


def is_override(word: str) -> bool:
    """Whether a positional word has the shape of a Hydra override."""
    return _OVERRIDE.fullmatch(word) is not None


def recipe_and_overrides(words: Iterable[str], prog: str) -> tuple[str | None, list[str]]:
    """Tell the recipe from the overrides among positional words; the overrides keep their order.

    Raises `UsageError` for a second word that is no override.
    """
    recipe: str | None = None
    overrides: list[str] = []
    for word in words:
        if is_override(word):
            overrides.append(word)
        elif recipe is None:
            recipe = word
        else:
            raise UsageError(
                f'unrecognized argument "{word}": the recipe is "{recipe}", and an override has the form key=value',
                f"{prog} --help",
            )
    return recipe, overrides


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The word that was probably meant: one that begins so, else the closest by spelling, else None."""
    import difflib

    known = sorted(set(words))
    if len(word.lstrip("-")) > 1:
        for candidate in known:
            if candidate.startswith(word):
                return candidate
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return close[0] if close else None


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """` (did you mean X?)`, or nothing when no word is near."""
    found = nearest(word, words)
    return f" (did you mean {found}?)" if found else ""


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip().splitlines())
