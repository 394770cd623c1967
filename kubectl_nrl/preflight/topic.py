"""Checks under the word that they are about, so that what is right costs one line of a screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..api import Check
from ..errors import ClusterError


@dataclass(frozen=True)
class Topic:
    """What was looked at under one name; no checks: nothing of that kind is needed."""

    name: str
    checks: tuple[Check, ...]

    @property
    def failed(self) -> int:
        return sum(check.ok is False for check in self.checks)


def words(check: Check) -> str:
    """A check as one sentence; a detail that begins with the title stands alone."""
    if not check.detail or check.detail.startswith(check.title):
        return check.detail or check.title
    return f"{check.title}: {check.detail}"


def blocking(topics: Iterable[Topic]) -> list[Check]:
    """The failures for which `run` refuses."""
    return [check for topic in topics for check in topic.checks if check.ok is False and check.blocks]


def refusal(error: ClusterError) -> str:
    """Why something is not known; a missing permission without the API server's long sentence about it."""
    if error.status == 403:
        return f"{error.message.partition(': ')[0]}: forbidden"
    return f"could not be looked at: {error.message}"


def looked_at(name: str, look: Callable[[], Iterable[Check]]) -> Topic:
    """The topic, with a note in place of what the cluster refused to show.

    Raises `ClusterError` only where the cluster does not answer, or does not know who asks: then nothing else will be answered.
    """
    checks: list[Check] = []
    try:
        # One by one, so that what came before a refusal is kept.
        checks.extend(look())
    except ClusterError as error:
        if error.status in (0, 401) and error.reason != "NotServed":
            raise
        checks.append(Check(name, None, refusal(error)))
    return Topic(name, tuple(checks))
