"""`kubectl nrl clean`: what killed runs left on this machine; listed, asked about, removed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ExitCode
from .connecting import agree
from .session import Session

if TYPE_CHECKING:
    from ..local import Leftover

EXAMPLES = """
kubectl nrl clean
kubectl nrl clean --yes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="answer yes to questions")


@dataclass(frozen=True)
class Cleaned:
    """What was found, and what could not be ended."""

    found: Sequence[Leftover]
    stubborn: Sequence[int]

    schema = "clean"

    def text(self) -> str:
        if not self.found:
            return "nothing was left behind on this machine"
        if self.stubborn:
            return f"these processes could not be ended: {', '.join(map(str, self.stubborn))}"
        return f"cleared {len(self.found)}"

    def data(self) -> dict[str, Any]:
        return {
            "found": [{"id": f.id, "session": f.session, "processes": list(f.pids)} for f in self.found],
            "stubborn": list(self.stubborn),
        }


def handle(args: argparse.Namespace, session: Session) -> ExitCode:
    from .. import local

    found = local.leftovers(session.env)
    for left in found:
        session.output.plain(left.words)
    if found:
        agree(session, f"end and remove what is left of {_count(found)}?", yes=args.yes)
    stubborn = sorted({pid for left in found for pid in local.clear(left)})
    session.output.result(Cleaned(found, stubborn))
    return ExitCode.FAILED if stubborn else ExitCode.OK


def _count(found: Sequence[Leftover]) -> str:
    return "1 run" if len(found) == 1 else f"{len(found)} runs"
