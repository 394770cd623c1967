"""The reference of the commands as a page, made from their parsers: `python -m kubectl_nrl.reference FILE`.

argparse's own help text is not used: its form differs between versions of Python, and a test holds the page to the
parsers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from .commands.verbs import VERBS, Verb, verb_parser
from .errors import ExitCode
from .parser import PROG, Parser, add_globals

COMMAND = "python -m kubectl_nrl.reference docs/commands.md"

_HEAD = f"""# Commands

<!-- Generated from the parsers. Refresh it with: {COMMAND} -->

`{PROG} VERB ...` and `kubectl-nrl VERB ...` are the same. Flags may stand before, between and after the other words,
and are never abbreviated. kubectl passes no flag that is written before `nrl` to a plugin:
write `{PROG} -n rl run`.

An override is a word of the form `a.b=1`, `+a=1`, `++a=1` or `~a`, with Hydra's grammar. One that begins with
`infra.` goes to the infra file. What follows `--` is never a flag.
"""

_CODES = {
    ExitCode.OK: "done, and the job succeeded",
    ExitCode.FAILED: "the job failed, or an item of `doctor` did, or the answer could not be written (a full disk)",
    ExitCode.USAGE: "wrong usage, recipe or infra file; nothing was sent",
    ExitCode.CLUSTER: "the cluster refused or could not be reached",
    ExitCode.GAVE_UP: "gave up waiting",
    ExitCode.STOPPED: "the job was stopped, or what it ran on was deleted",
    ExitCode.UNKNOWN: "the outcome is unknown and the job may still run; the message says how to reattach",
    ExitCode.BUG: "a bug; the message names the file with its traceback",
    ExitCode.INTERRUPTED: "Ctrl-C; 143 and 129 for SIGTERM and SIGHUP (a closed terminal), which do the same",
}

_ENVIRONMENT = {
    "`KUBECTL_NRL_USER`, `NRL_K8S_USER`": "who you are, where the login name is not it",
    "`KUBECTL_NRL_PLUGINS`": "plugin files and modules to load, separated as `PATH` is",
    "`KUBECTL_NRL_TRACE=1`": "print every hook call, its implementations and their times",
    "`NRL_K8S_DEFAULTS`": "the file with your own defaults, below every infra file",
    "`KUBECONFIG`": "kubeconfig files, as kubectl reads them",
    "`NO_COLOR`": "plain text on a terminal too",
}


def page() -> str:
    """The page: a section for each verb that the help shows, then what all have in common."""
    lines = [_HEAD]
    for verb in VERBS.values():
        if not verb.hidden:
            lines += [*_section(verb), ""]
    every = Parser(PROG)
    add_globals(every)
    lines += ["## Flags of every verb", "", *_table(every.actions()), ""]
    lines += ["## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += [f"| {int(code)} | {meaning} |" for code, meaning in _CODES.items()]
    lines += ["", "## Environment", "", "| variable | effect |", "|---|---|"]
    lines += [f"| {name} | {effect} |" for name, effect in _ENVIRONMENT.items()]
    return "\n".join(lines) + "\n"


def _section(verb: Verb) -> Iterator[str]:
    parser, _ = verb_parser(verb)
    every = Parser(PROG)
    add_globals(every)
    common = {flag for action in every.actions() for flag in action.option_strings}
    own = [action for action in parser.actions() if not common & set(action.option_strings)]
    words = [_metavar(action) for action in own if not action.option_strings]
    flags = any(action.option_strings for action in own)
    yield f"## {verb.name}"
    yield ""
    yield f"`{' '.join([PROG, verb.name, *words, *(['[FLAGS]'] if flags else [])])}`: {verb.summary}."
    if own:
        yield ""
        yield from _table(own)
    if parser.examples.strip():
        yield ""
        yield "```sh"
        yield parser.examples.strip()
        yield "```"


def _table(actions: list[argparse.Action]) -> Iterator[str]:
    yield "| word or flag | effect |"
    yield "|---|---|"
    for action in actions:
        names = action.option_strings or [_metavar(action)]
        value = f" {_metavar(action)}" if action.option_strings and action.nargs != 0 else ""
        shown = ", ".join(f"`{name}{value}`" for name in names)
        yield f"| {_cell(shown)} | {_cell(str(action.help or ''))} |"


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices:
        return "|".join(map(str, action.choices))
    return action.dest.upper()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
