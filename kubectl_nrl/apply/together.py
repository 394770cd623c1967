"""Several long steps at the same time, of which the first that fails ends the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")


class Stopped(Exception):
    """A step was told to stop, since another failed or the person asked for the end."""


def together(steps: Mapping[str, Callable[[threading.Event], T]]) -> dict[str, T]:
    """Run all steps, each in a thread, and return their answers by name.

    Each gets an event that is set when another failed, or at Ctrl-C, and should then raise `Stopped` soon; all have ended when this
    returns or raises. Raises what failed first.
    """
    stop = threading.Event()
    first: list[BaseException] = []
    with ThreadPoolExecutor(max(1, len(steps)), thread_name_prefix="together") as pool:
        futures: dict[str, Future[T]] = {name: pool.submit(step, stop) for name, step in steps.items()}
        try:
            left = set(futures.values())
            while left:
                # in slices, so that Ctrl-C is noticed
                done, left = wait(left, timeout=0.2, return_when=FIRST_COMPLETED)
                failed = [error for f in done if (error := f.exception()) and not isinstance(error, Stopped)]
                first += failed
                if failed:
                    stop.set()
        except BaseException as error:
            stop.set()
            first.insert(0, error)
    if first:
        raise first[0]
    return {name: future.result() for name, future in futures.items()}
