"""RayClusters and Deployments waited for at the same time, each in a thread of its own, with one picture of all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from .session import Session
from .up_panel import Place, UpPanel
from .waiting import asked

Live = Mapping[str, Any]
#: Asked of what looks ready, until it raises no `ClusterError`.
Probe = Callable[[Live], None]


def until_up(
    session: Session,
    cluster: Any,
    lives: Mapping[str, Live],
    *,
    deadline: float,
    start_limit: float | None,
    suspended_by: str = "",
    probe: Callable[[str], Probe],
    after: Callable[[str, Live, threading.Event, Place], None] = lambda key, live, stop, place: None,
) -> dict[str, Live]:
    """Wait until all of them are up; the ready objects, by the same keys.

    `probe` gives each its probe; `after` is called with each that is ready, in its thread, and what it waits for counts too.
    Raises as `watch.UntilReady.until` does for the first that fails.
    """
    from ..apply import Stopped, together, words_of
    from ..watch import UntilReady

    if not lives:
        return {}
    panel = UpPanel(session, {key: words_of(live) for key, live in lives.items()})

    def step(key: str) -> Callable[[threading.Event], Live]:
        def wait(stop: threading.Event) -> Live:
            place = panel.place(key)
            until = UntilReady(
                cluster, lives[key], place, probe=probe(key), suspended_by=suspended_by, providers=asked(session),
                start_limit=start_limit,
            )  # fmt: skip
            live = until.until(deadline, stop)
            if live is None:
                raise Stopped
            place.say(f"{until.words} is ready")
            after(key, live, stop, place)
            place.up()
            return live

        return wait

    try:
        ready = together({key: step(key) for key in lives})
    except BaseException:
        panel.close(keep=True)
        raise
    panel.close()
    return ready
