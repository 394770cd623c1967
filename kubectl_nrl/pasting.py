"""Commands in printed text, made complete: with the flags that this call was given, so that they do the same when they are pasted.

Text is completed where it is printed, and not where it is written: a hint comes from anywhere, and most places know no flags.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

_OWN = "run|check|status|runs|job|logs|cluster|clean|verify|doctor|init|profile|plugins|dev"
_KUBECTL = "annotate|api-resources|apply|auth|cluster-info|create|delete|describe|edit|get|label|logs|patch"
#: A command of this program, or of kubectl, up to its verb, and what follows it in its line.
_COMMAND = re.compile(rf"(?<![\w/.-])kubectl(?: (?P<own>nrl(?= (?:{_OWN})\b))|(?= (?:{_KUBECTL})\b))(?P<rest>[^\n]*)")

#: Where a command ends within its line: at the next one, or at a comment.
_END = re.compile(r"&&|;|\||  +#|\bkubectl ")


@dataclass(frozen=True)
class Given:
    """The global flags of a call that say where and with what it works; `kubeconfig` and plugin files are absolute paths."""

    namespace: str = ""
    context: str = ""
    kubeconfig: str = ""
    plugins: Sequence[str] = ()

    @property
    def connection(self) -> list[str]:
        """The flags that kubectl knows too."""
        context = ["--context", self.context] if self.context else []
        return [*context, *(["--kubeconfig", self.kubeconfig] if self.kubeconfig else [])]

    @property
    def loading(self) -> list[str]:
        return [word for plugin in self.plugins for word in ("-p", plugin)]

    def complete(self, text: str) -> str:
        """The text, each command in it with the flags that it lacks: right after `kubectl nrl`, or `kubectl`, where both take them."""
        if not (self.connection or self.namespace or self.plugins):
            return text
        return _COMMAND.sub(self._completed, text)

    def _completed(self, found: re.Match[str]) -> str:
        own, rest = found["own"] or "", found["rest"]
        words = _END.split(rest, maxsplit=1)[0]
        flags: list[str] = []
        if not re.search(r" --(context|kubeconfig)\b", words):
            flags += self.connection
        if own and self.plugins and not re.search(r" (-p|--plugin)\b", words):
            flags += self.loading
        if own and self.namespace and not re.search(r" (-n|-A|--namespace|--all-namespaces)\b", words):
            flags += ["-n", self.namespace]
        # What follows may hold another command.
        return " ".join(["kubectl", *filter(None, [own]), *([shlex.join(flags)] if flags else [])]) + self.complete(
            rest
        )
