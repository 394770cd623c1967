"""Questions to a cluster side by side: each costs a round trip, and together they should cost little more than one.

Threads are daemons: after Ctrl-C, the first refusal or a deadline, nobody waits for a server that does not answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
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


def within(seconds: float, tasks: Iterable[Callable[[], None]]) -> None:
    """Carry out all tasks at once, and return when they are done or the time is over; what is late then goes on unwatched."""
    threads = [threading.Thread(target=task, daemon=True, name="within") for task in tasks]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))


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
