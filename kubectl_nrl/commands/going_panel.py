"""What is being deleted and is not gone yet: one line that moves on a terminal, a line when it changes elsewhere."""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from .session import Session


class GoingPanel:
    """The line of one wait; its `view` is told what is still there (`apply.take_down`)."""

    def __init__(self, session: Session) -> None:
        self._output, self._panel = session.output, session.output.panel()
        self._began = time.monotonic()
        self._said = ""

    def view(self, left: Sequence[str]) -> None:
        """Show it. As lines, that there are fewer pods is no change: hundreds may go one by one."""
        words = f"waiting for {words_of_left(left)}"
        self._panel.show(words, time.monotonic() - self._began)
        lasting = re.sub(r"\b\d+ pods?", "pods", words)
        if not self._panel.live and lasting != self._said:
            self._said = lasting
            self._output.progress(words)

    def close(self) -> None:
        self._panel.close()


@contextlib.contextmanager
def going_panel(session: Session) -> Iterator[GoingPanel]:
    """One that is taken away in the end."""
    panel = GoingPanel(session)
    try:
        yield panel
    finally:
        panel.close()


def words_of_left(left: Sequence[str]) -> str:
    """`6 pods, raycluster/a (held by finalizer x/y), raycluster/b`: pods are counted, what is held comes first."""
    pods = Counter(one.partition(" ")[2] for one in left if one.startswith("pod/"))
    words = [
        f"{count} pod{'' if count == 1 else 's'}{f' {held}' if held else ''}" for held, count in sorted(pods.items())
    ]
    objects = sorted((one for one in left if not one.startswith("pod/")), key=lambda one: "finalizer" not in one)
    return ", ".join([*words, *objects])
