"""The submitters of long-lived runs, as Plans know them: checked and rendered, and not run yet.

`available` is False for all of them, and a run that needs one is refused before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Submitter


class PortForwardSubmitter(Submitter):
    name = "portForward"
    summary = "Ray's Jobs API, through a forwarded port"
    available = False


class ExecSubmitter(Submitter):
    name = "exec"
    summary = "started in the head pod, through pods/exec"
    available = False


@hookimpl
def nrl_submitters() -> Iterator[Submitter]:
    yield PortForwardSubmitter()
    yield ExecSubmitter()
