"""`kubectl nrl plugins`: what is loaded, from where, what it provides, what is broken.

A broken plugin is a row like the others and not an exit code: the program works without it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ExitCode
from ..manager import PluginInfo
from .session import Session

EXAMPLES = """
kubectl nrl plugins
kubectl nrl plugins -o json
kubectl nrl -p ./site.py plugins
kubectl nrl -p no:dra_roce plugins
KUBECTL_NRL_TRACE=1 kubectl nrl plugins
"""


@dataclass(frozen=True)
class Plugins:
    infos: Sequence[PluginInfo]
    schema = "plugins"

    def text(self) -> str:
        rows = [("NAME", "VERSION", "SOURCE", "PROVIDES")]
        for info in self.infos:
            provides = ", ".join(info.providers) or ", ".join(info.hooks) or "-"
            rows.append(
                (info.name, info.version or "-", info.source, f"BROKEN: {info.broken}" if info.broken else provides)
            )
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join("  ".join([*(row[i].ljust(widths[i]) for i in range(3)), row[3]]) for row in rows)

    def data(self) -> dict[str, Any]:
        return {
            "plugins": [
                {
                    "name": info.name,
                    "version": info.version,
                    "source": info.source,
                    "hooks": list(info.hooks),
                    "providers": list(info.providers),
                    "broken": info.broken,
                }
                for info in self.infos
            ]
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def handle(args: argparse.Namespace, session: Session) -> ExitCode:
    session.output.result(Plugins(session.manager.infos))
    return ExitCode.OK
