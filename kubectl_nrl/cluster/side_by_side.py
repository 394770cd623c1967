"""Questions to a cluster side by side: each costs a round trip, and together they should cost little more than one.

Threads are daemons: after Ctrl-C, or the first refusal, nobody waits for a server that does not answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")

#: As many connections as the client keeps open (cluster/pool.py): more would be dialled anew each time.
AT_ONCE = 8


def side_by_side(asks: Sequence[Callable[[], T]]) -> list[T]:
    """The answers in the order of the questions; the first error that comes is raised, and what has not begun is left out."""
    if len(asks) < 2:
        return [ask() for ask in asks]
    work = _Work(asks)
    for _ in range(min(AT_ONCE, len(asks))):
        threading.Thread(target=work.carry_out, daemon=True, name="side-by-side").start()
    try:
        found = dict(work.next_answer() for _ in asks)
    finally:
        work.stopped = True
    return [found[index] for index in range(len(asks))]


class _Work(Generic[T]):
    """Questions that threads take one by one, and their answers as they come."""

    def __init__(self, asks: Sequence[Callable[[], T]]) -> None:
        self.stopped = False
        self._asks = iter(enumerate(asks))
        self._lock = threading.Lock()
        self._answers: SimpleQueue[tuple[int, T] | BaseException] = SimpleQueue()

    def carry_out(self) -> None:
        while not self.stopped:
            with self._lock:
                taken = next(self._asks, None)
            if taken is None:
                return
            index, ask = taken
            try:
                self._answers.put((index, ask()))
            except BaseException as error:  # handed on, whatever it is: who asked raises it
                self.stopped = True
                self._answers.put(error)

    def next_answer(self) -> tuple[int, T]:
        answer = self._answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer
