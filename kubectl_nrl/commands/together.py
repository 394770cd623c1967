"""Reads that do not wait for one another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def together(*reads: Callable[[], Any]) -> list[Any]:
    """What each returns, in order, the first being called in this thread. Raises what one of them raised."""
    answers: list[Any] = [None] * len(reads)
    raised: list[BaseException] = []

    def call(number: int) -> None:
        try:
            answers[number] = reads[number]()
        except Exception as error:  # raised again below
            raised.append(error)

    threads = [threading.Thread(target=call, args=(number,), daemon=True) for number in range(1, len(reads))]
    for thread in threads:
        thread.start()
    call(0)
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
    return answers
