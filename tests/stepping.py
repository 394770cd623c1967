"""A proxy that acts at the n-th step of the program: a request that changes something, or one that begins to wait."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from cluster.fault_proxy import FaultProxy, Seen

#: Reviews are questions in the form of a POST; dry runs change nothing.
_QUESTION = re.compile(r"dryRun=All|/selfsubject")
_WAITING = re.compile(r"watch=1|/portforward")


def is_step(method: str, target: str) -> bool:
    if method == "GET":
        return bool(_WAITING.search(target))
    return not _QUESTION.search(target)


class SteppingProxy(FaultProxy):
    """Calls `before(step)` when the n-th step arrives and `after(step)` when the API server has answered it.

    Both before the program learns anything of it. Steps count from 1; `steps` are those so far, as `METHOD path`.
    """

    def __init__(
        self,
        kubeconfig: Path,
        *,
        before: Callable[[int], None] = lambda step: None,
        after: Callable[[int], None] = lambda step: None,
    ) -> None:
        super().__init__(kubeconfig)
        self._before = before
        self.steps: list[str] = []
        self.seen = _Watched(self, after)

    def meet(self, method: str, target: str) -> list:  # type: ignore[type-arg]
        if is_step(method, target):
            self.steps.append(f"{method} {target.partition('?')[0]}")
            self._before(len(self.steps))
        return super().meet(method, target)


class _Watched(list[Seen]):
    """The proxy's list of answers, which tells of each."""

    def __init__(self, proxy: SteppingProxy, after: Callable[[int], None]) -> None:
        super().__init__()
        self._proxy, self._after = proxy, after

    def append(self, seen: Seen) -> None:
        super().append(seen)
        if is_step(seen.method, seen.target):
            self._after(len(self._proxy.steps))
