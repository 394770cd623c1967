"""`kubectl nrl version`: this program's version, and the Python it runs on."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from .. import __version__
from ..errors import ExitCode
from .session import Session

EXAMPLES = """
kubectl nrl version
kubectl nrl version -o json
"""


@dataclass(frozen=True)
class Version:
    """The client alone; what a cluster serves is no business of this verb."""

    version: str
    python: str
    schema = "version"

    def text(self) -> str:
        return f"kubectl-nrl {self.version} (Python {self.python})"

    def data(self) -> dict[str, str]:
        return {"version": self.version, "python": self.python}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def handle(args: argparse.Namespace, session: Session) -> ExitCode:
    import platform

    session.output.result(Version(__version__, platform.python_version()))
    return ExitCode.OK
