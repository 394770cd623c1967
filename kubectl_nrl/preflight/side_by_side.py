"""Questions to a cluster side by side: each costs a round trip, and together they should cost little more than one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

#: As many connections as the client keeps open (cluster/pool.py): more would be dialled anew each time.
AT_ONCE = 8


def side_by_side(asks: Sequence[Callable[[], T]]) -> list[T]:
    """The answers in the order of the questions; the first that raises ends it, and those not yet begun are left out."""
    if len(asks) < 2:
        return [ask() for ask in asks]
    pool = ThreadPoolExecutor(min(AT_ONCE, len(asks)), thread_name_prefix="preflight")
    try:
        asked = [pool.submit(ask) for ask in asks]
        return [answer.result() for answer in asked]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
