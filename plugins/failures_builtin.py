"""The known failures that come with the program: data, `schemas/failures/patterns.json`."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_nrl import hookimpl
from kubectl_nrl.api import FailurePattern


@hookimpl
def nrl_failure_patterns() -> Iterator[FailurePattern]:
    from nrl_schemas import load

    for item in load("failures/patterns")["patterns"]:
        yield FailurePattern(
            item["id"], item["match"], item["summary"], item["hint"], item["in"], item.get("vague", False)
        )
