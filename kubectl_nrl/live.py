"""Lines that are drawn on a terminal again and again in one place, until something else is to be said.

Not rich's Live: that one counts the lines it wrote, so that a terminal made narrower, which breaks them in two, keeps a
copy of each frame. The cursor is never hidden, so there is nothing to give back however the program ends.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

from .cells import cut, width

#: A piece of text and its colour (a key of `output.COLOURS`, empty: none); a line is made of them.
Span = tuple[str, str]
Line = Sequence[Span]
#: Columns and rows of the terminal -> lines that fit: none wider than columns - 1, no more than rows - 1.
View = Callable[[int, int], Sequence[Line]]

#: Seconds between looks at the clock in the view and at the terminal's size.
TICK = 0.25


class Live:
    """One place on the terminal. `write` puts text there, `size` says columns and rows, `style` colours a span.

    The lines are drawn by a thread of their own as well, so every write goes through a lock; a terminal that went away ends the
    drawing without a word.
    """

    def __init__(
        self, write: Callable[[str], None], size: Callable[[], tuple[int, int]], style: Callable[[str, str], str]
    ) -> None:
        self._write, self._size, self._style = write, size, style
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._view: View | None = None
        self._frame: tuple[int, list[str]] | None = None
        self._widths: list[int] = []

    def show(self, view: View) -> None:
        """Draw what the view gives from now on."""
        with self._lock:
            if self._over.is_set():
                return
            self._view = view
            self._draw()
            if self._thread is None:
                self._thread = threading.Thread(target=self._tick, name="panel", daemon=True)
                self._thread.start()

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Take the lines away while something else is written, and draw them again below it."""
        with self._lock:
            self._erase()
            yield
            self._draw()

    def close(self, last: Sequence[str] = (), *, keep: bool = False) -> None:
        """Take the lines away for good, putting `last` in their place; with `keep` leave them as they are."""
        with self._lock:
            self._over.set()
            self._view = None
            if not keep:
                self._erase()
                if last:
                    self._put("".join(f"{text}\n" for text in last))

    def _tick(self) -> None:
        while not self._over.wait(TICK):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        if self._view is None:
            return
        columns, rows = self._size()
        lines = self._view(columns, rows)
        texts = ["".join(self._style(text, colour) for text, colour in line) for line in lines]
        if self._frame == (columns, texts):
            return
        # Written over the last frame, which does not flicker; after a resize it is cleared first, since terminals remember of a
        # row that it goes on in the next one, and would join two new lines when they are made wider.
        resized = self._frame is not None and self._frame[0] != columns
        back = self._cleared(columns) if resized else self._back(columns)
        self._put(back + "".join(f"{text}\033[K\n" for text in texts) + "\033[J")
        self._frame = (columns, texts)
        self._widths = [sum(width(text) for text, _ in line) for line in lines]

    def _erase(self) -> None:
        if self._widths:
            self._put(self._cleared(self._size()[0]))
        self._frame, self._widths = None, []

    def _back(self, columns: int) -> str:
        """To the first drawn line."""
        rows = self._rows(columns)
        return f"\r\033[{rows}A" if rows else "\r"

    def _cleared(self, columns: int) -> str:
        """To the first drawn line, with nothing from there on.

        The rows are deleted first: tmux, asked to clear what begins at the top of its screen, would keep that among what scrolled away.
        """
        return f"{self._back(columns)}\033[{self._rows(columns)}M\033[J"

    def _rows(self, columns: int) -> int:
        """What the frame takes: a line that is wider than the terminal now stands on several rows there."""
        return sum(max(1, -(-taken // max(columns, 1))) for taken in self._widths)

    def _put(self, text: str) -> None:
        try:
            self._write(text)
        except (OSError, ValueError):  # closed, or gone
            self._over.set()
            self._view = None


class Panel:
    """Lines that move, on a terminal, while something is waited for.

    `live` is False where there is no terminal to draw on (or with -q), and once the panel is closed: then nothing is drawn, and
    what happens is said in lines.
    """

    def __init__(self, drawn: Live | None, color: bool) -> None:
        self._drawn, self._color = drawn, color
        self._last_words: Callable[[], Sequence[str]] = tuple
        self._view: View | None = None
        self._foot = ""

    @property
    def live(self) -> bool:
        return self._drawn is not None

    @property
    def drawing(self) -> bool:
        """Whether there is something on the terminal that moves."""
        return self._drawn is not None and self._view is not None

    def show(self, text: str, seconds: float) -> None:
        """Draw one line: what is being done, since when."""
        turn = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if self._color else "|/-\\"
        words = f"{turn[int(seconds * 10) % len(turn)]} {text}  {int(seconds)}s"
        self.draw(lambda columns, rows: [[(cut(words, columns - 1), "")]])

    def draw(self, view: View, last_words: Callable[[], Sequence[str]] = tuple) -> None:
        """Draw what the view gives, now and again until the panel is closed; `last_words` stay when it gives way to a log."""
        if self._drawn is not None:
            self._last_words, self._view = last_words, view
            self._drawn.show(self._lines)

    def foot(self, text: str) -> None:
        """A line below what is drawn, empty for none."""
        self._foot = text

    def _lines(self, columns: int, rows: int) -> Sequence[Line]:
        assert self._view is not None
        if not self._foot:
            return self._view(columns, rows)
        return [*self._view(columns, rows - 1), [(cut(self._foot, columns - 1), "")]]

    def aside(self) -> contextlib.AbstractContextManager[None]:
        """While something else is printed."""
        return contextlib.nullcontext() if self._drawn is None else self._drawn.aside()

    def close(self, *, keep: bool = False) -> None:
        """The end of it: taken away, and what follows begins where it stood; with `keep` it stays, as lines among others."""
        drawn, self._drawn = self._drawn, None
        if drawn is not None:
            drawn.close(keep=keep)

    def give_way(self) -> None:
        """The end of it because something longer begins: a log."""
        drawn, self._drawn = self._drawn, None
        if drawn is not None:
            drawn.close(self._last_words())
