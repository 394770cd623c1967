"""`kubectl nrl completion SHELL`, and what answers a TAB: the verbs, the flags and their values, read from the parsers.

The answer is kubectl's own protocol (lines, then `:DIRECTIVE`; cobra's bits), since kubectl calls
`kubectl_complete-nrl` for `kubectl nrl <TAB>`; the shell scripts for `kubectl-nrl <TAB>` call the same program.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

from ..errors import ExitCode
from .session import Session

if TYPE_CHECKING:
    from ..parser import Parser

EXAMPLES = """
source <(kubectl nrl completion bash)
kubectl nrl completion zsh > "${fpath[1]}/_kubectl-nrl"
kubectl nrl completion fish > ~/.config/fish/completions/kubectl-nrl.fish
"""

#: cobra's ShellCompDirective bits (spf13/cobra completions.go).
DEFAULT, NO_FILES, FILE_EXTENSIONS = 0, 4, 8

#: Flags whose value is a file with one of these endings; without endings any file.
_FILES = {
    "--infra": ("yaml", "yml"),
    "--plugin": ("py",),
    "-p": ("py",),
    "--kubeconfig": (),
    "--code-path": (),
    "--out": (),
}
_VALUES = {"-o": ("text", "json", "yaml"), "--output": ("text", "json", "yaml")}

_BASH = """\
_kubectl_nrl() {
    local words=("${COMP_WORDS[@]:1:COMP_CWORD}") lines=() line directive
    mapfile -t lines < <(kubectl_complete-nrl "${words[@]}" 2>/dev/null)
    directive=${lines[-1]#:}
    unset 'lines[-1]'
    COMPREPLY=()
    if ((directive & 8)); then
        local pattern
        pattern=$(IFS='|'; echo "${lines[*]}")
        while IFS= read -r line; do
            [[ -d $line || $line =~ \\.($pattern)$ ]] && COMPREPLY+=("$line")
        done < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
        compopt -o filenames
    elif ((directive & 4)); then
        for line in "${lines[@]}"; do COMPREPLY+=("${line%%$'\\t'*}"); done
    else
        compopt -o default
    fi
}
complete -F _kubectl_nrl kubectl-nrl
"""

_ZSH = """\
#compdef kubectl-nrl
_kubectl_nrl() {
    local -a lines described
    local line directive
    lines=("${(@f)$(kubectl_complete-nrl "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    directive=${lines[-1]#:}
    lines[-1]=()
    if ((directive & 8)); then
        _files -g "*.(${(j:|:)lines})(-.)"
    elif ((directive & 4)); then
        for line in $lines; do described+=("${${line//:/\\\\:}/$'\\t'/:}"); done
        _describe 'kubectl-nrl' described
    else
        _files
    fi
}
compdef _kubectl_nrl kubectl-nrl
"""

_FISH = """\
function __kubectl_nrl_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l lines (kubectl_complete-nrl $words[2..-1] 2>/dev/null)
    set -l directive (string replace : '' -- $lines[-1])
    set -e lines[-1]
    if test (math "bitand($directive, 8)") -ne 0
        for ending in $lines
            __fish_complete_suffix .$ending
        end
    else if test (math "bitand($directive, 4)") -ne 0
        printf '%s\\n' $lines
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c kubectl-nrl -f -a '(__kubectl_nrl_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=tuple(SCRIPTS), help="bash, zsh or fish")


def handle(args: argparse.Namespace, session: Session) -> ExitCode:
    session.output.line(SCRIPTS[args.shell])
    return ExitCode.OK


def complete_entry() -> NoReturn:
    """The console script `kubectl_complete-nrl WORDS... WORD`; the last word is being typed, '' when it is new."""
    lines, directive = complete(sys.argv[1:])
    sys.stdout.write("".join(f"{line}\n" for line in lines) + f":{directive}\n")
    sys.exit(0)


def complete(words: Sequence[str]) -> tuple[list[str], int]:
    """(candidates, each with its description after a TAB; directive)."""
    from ..parser import split_verb
    from .verbs import VERBS, top_parser

    *before, word = words or [""]
    top = top_parser(VERBS)
    _, name, rest = split_verb(before, top)
    try:
        if name is None:
            return _value_or(top, before, word, _verbs())
        return _after_verb(name, rest, word)
    except Exception:
        # Whatever is wrong (a broken plugin, half a word), a traceback in the middle of a prompt helps nobody.
        return [], NO_FILES


def _verbs() -> list[tuple[str, str]]:
    from ..output import Output
    from .verbs import all_verbs

    return [(v.name, v.summary) for v in all_verbs(Session(Output(quiet=True))).values() if not v.hidden]


def _after_verb(name: str, rest: Sequence[str], word: str) -> tuple[list[str], int]:
    from ..output import Output
    from .verbs import all_verbs, verb_parser

    verb = all_verbs(Session(Output(quiet=True))).get(name)
    if verb is None:
        return [], NO_FILES
    parser, _ = verb_parser(verb)
    if "--" in rest:
        return [], NO_FILES
    positionals = [a for a in parser.actions() if not a.option_strings]
    choices = [(str(c), "") for a in positionals[:1] for c in a.choices or ()]
    if choices and any(w in dict(choices) for w in rest):
        choices = []
    if not choices and any(a.metavar == "RECIPE [OVERRIDES]" for a in positionals) and not word.startswith("-"):
        flag = _awaited(parser, rest)
        return _values(parser, flag, word) if flag else (["yaml", "yml"], FILE_EXTENSIONS)
    return _value_or(parser, rest, word, choices)


def _value_or(
    parser: Parser, before: Sequence[str], word: str, choices: Iterable[tuple[str, str]]
) -> tuple[list[str], int]:
    """Values of the flag that still wants one, else flags when the word begins like one, else the choices."""
    flag = _awaited(parser, before)
    if flag:
        return _values(parser, flag, word)
    if word.startswith("--") and "=" in word:
        flag, value = word.split("=", 1)
        found, directive = _values(parser, flag, value)
        return ([f"{flag}={v}" for v in found], directive) if directive == NO_FILES else ([], DEFAULT)
    if word.startswith("-"):
        options = [(f, a.help or "") for a in parser.actions() for f in a.option_strings if f.startswith("--")]
        return _matching(options, word), NO_FILES
    return _matching(choices, word), NO_FILES


def _awaited(parser: Parser, before: Sequence[str]) -> str | None:
    """The last word before, when it is a flag that takes a value."""
    takes_value = {f for a in parser.actions() if a.nargs != 0 for f in a.option_strings}
    return before[-1] if before and before[-1] in takes_value else None


def _values(parser: Parser, flag: str, word: str) -> tuple[list[str], int]:
    if flag in _FILES:
        return (list(_FILES[flag]), FILE_EXTENSIONS) if _FILES[flag] else ([], DEFAULT)
    known: Sequence[str] = _VALUES.get(flag, ())
    for action in parser.actions():
        if flag in action.option_strings and action.choices:
            known = [str(choice) for choice in action.choices]
    return _matching([(v, "") for v in known], word), NO_FILES


def _matching(choices: Iterable[tuple[str, str]], word: str) -> list[str]:
    return [f"{name}\t{summary}" if summary else name for name, summary in choices if name.startswith(word)]
