"""The submitter that Plans know and this version does not run: `available` is False, and a run that needs it is refused early."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Submitter


class ExecSubmitter(Submitter):
    name = "exec"
    summary = "started in the head pod, through pods/exec"
    available = False


@hookimpl
def nrl_submitters() -> Iterator[Submitter]:
    yield ExecSubmitter()
