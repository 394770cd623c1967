"""The only module that prints: results as text, JSON or YAML on stdout, everything else on stderr, secrets redacted.

Names and messages of a cluster are other people's text: what a terminal would obey in them is shown as an escape. A log alone is
written as it is.

Streams are looked up when something is printed, not when the object is made, so that a test (or a caller that redirects
`sys.stdout`) sees what a terminal would.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TextIO

from . import streams
from .cells import harmless
from .errors import ConfigError, NrlError, Problem
from .redaction import REDACTED, redact, secrets_of
from .result_forms import Result, dump, error_data, render

if TYPE_CHECKING:
    from .live import Live, Panel

#: `bytes`, under a name that a method of `Output` does not hide.
Raw = bytes

_COLOURS = {"red": "31", "yellow": "33", "green": "32", "cyan": "36", "bold": "1", "dim": "2"}


class Output:
    """Where a command's words go. `format` is text, json or yaml; `wrote` says whether stdout has got anything."""

    def __init__(
        self,
        format: str = "text",
        *,
        verbose: bool = False,
        quiet: bool = False,
        color: bool | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.format = format
        self.verbose = verbose
        self.quiet = quiet
        self.wrote = False
        #: Why the rest of a log was not shown.
        self._unseen: NrlError | None = None
        self._env = os.environ if env is None else env
        self._color = color
        self._secrets = secrets_of(self._env)
        self._panel: Panel | None = None
        self._complete: Callable[[str], str] = lambda text: text

    def configure(self, *, verbose: bool, quiet: bool, color: bool | None) -> None:
        """Take what the flags say, once they are parsed."""
        self.verbose, self.quiet, self._color = verbose, quiet, color

    def complete_by(self, complete: Callable[[str], str]) -> None:
        """What makes commands in text for people complete (`pasting.Given`)."""
        self._complete = complete

    def result(self, result: Result) -> None:
        """Print a command's result in the form asked for."""
        text = render(result, self.format)
        self.line(self._complete(text) if self.format == "text" else text)

    def line(self, text: str) -> None:
        """A line (or several) of data."""
        self.wrote = True
        with self._aside():
            streams.to_readers(redact(harmless(text), self._secrets).rstrip("\n") + "\n")

    def bytes(self, data: Raw) -> None:
        """Bytes of a job's log, as they are but for secrets of this environment. They end a panel: they may end within a line."""
        self.wrote = True
        self._end_panel()
        streams.bytes_to_readers(data, self._hidden(), REDACTED.encode())

    def log(self, data: Raw) -> None:
        """Bytes of a log that is followed to a result: on stdout, unless that is for the result alone (json, yaml).

        A stdout that cannot be written (a full disk) is warned about once (`require_seen`): the run's end is worth waiting for.
        """
        if self.format != "text":
            self._end_panel()
            streams.bytes_to_people(data, self._hidden(), REDACTED.encode())
            return
        try:
            self.bytes(data)
        except NrlError as error:
            if self._unseen is None:
                self.warn(f"{error.message}; the log goes on unseen")
            self._unseen = error

    def require_seen(self) -> None:
        """Raises what kept lines of a log from stdout, for a command that only shows them."""
        if self._unseen is not None:
            raise self._unseen

    def note(self, text: str) -> None:
        if not self.quiet:
            self._say("note", text, "cyan")

    def progress(self, text: str) -> None:
        """One line per change while waiting; without a prefix, and not with -q."""
        if not self.quiet:
            self._tell(text)

    @contextlib.contextmanager
    def transfer(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar on a terminal while bytes are sent, told by a call with the bytes so far; nothing elsewhere, or with -q."""
        if self.quiet or not total or not sys.stderr.isatty():
            yield lambda done: None
            return
        if self._panel is not None and self._panel.drawing:
            panel, size = self._panel, total / 2**20
            try:
                yield lambda done: panel.foot(f"{what} {done / 2**20:.1f}/{size:.1f} MiB")
            finally:
                panel.foot("")
            return
        self._end_panel()
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        sys.stdout.flush()
        console = Console(file=sys.stderr, no_color=not self.color(sys.stderr))
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(what, total=total)
            yield lambda done: progress.update(task, completed=done)

    def panel(self) -> Panel:
        """Lines that move while something is waited for: at the foot of the terminal, below whatever else is said."""
        from .live import Panel

        self._end_panel()
        live = sys.stderr.isatty() and not self.quiet and self._env.get("TERM") != "dumb"
        self._panel = Panel(self._live() if live else None, self.color(sys.stderr))
        return self._panel

    def _live(self) -> Live:
        from .live import Live

        encoding = getattr(sys.stderr, "encoding", None) or "ascii"

        def style(text: str, colour: str) -> str:
            # What the terminal cannot show takes one column, as it was counted.
            text = redact(harmless(text), self._secrets).encode(encoding, "replace").decode(encoding)
            return self.style(text, colour) if colour else text

        return Live(streams.to_people, _size, style)

    def _end_panel(self) -> None:
        if self._panel is not None:
            self._panel.give_way()

    def _aside(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._panel is None else self._panel.aside()

    def columns(self) -> int | None:
        """The width of the terminal that results are read on; None where there is none."""
        return _size(sys.stdout)[0] if sys.stdout.isatty() else None

    def plain(self, text: str) -> None:
        """A block for people, on stderr, whatever -q says."""
        self._tell(text)

    def debug(self, text: str) -> None:
        """API calls and the like, with -v only."""
        if self.verbose:
            self._tell(self.style(text, "dim"))

    def trace(self, text: str) -> None:
        """A line that was asked for by KUBECTL_NRL_TRACE."""
        self._tell(self.style(f"trace: {text}", "dim"))

    def warn(self, text: str) -> None:
        self._say("warning", text, "yellow")

    def error(self, text: str, hint: str = "") -> None:
        self._say("error", text, "red")
        self.hint(hint)

    def hint(self, text: str) -> None:
        for line in filter(None, text.splitlines()):
            self._tell(f"{self.style('hint:', 'green')} {line}")

    def problems(self, problems: Iterable[Problem]) -> None:
        """`file:line:column: severity: message` for each, with its hint below; notes not with -q."""
        colours = {"error": "red", "warning": "yellow", "note": "cyan"}
        for problem in problems:
            if problem.severity == "note" and self.quiet:
                continue
            place = f"{problem.origin}: " if problem.origin else ""
            word = self.style(f"{problem.severity}:", colours[problem.severity])
            self._tell(f"{place}{word} {problem.message}")
            self.hint(problem.hint)

    def failure(self, error: NrlError) -> None:
        """The end of the program: text on stderr, and with json or yaml an object on stdout when it is still empty."""
        if isinstance(error, ConfigError):
            self.problems(error.problems)
        else:
            self.error(error.message, error.hint)
        if self.format != "text" and not self.wrote:
            self.line(dump({**error_data(error), "hint": self._complete(error.hint)}, self.format))

    def style(self, text: str, colour: str) -> str:
        """The text in colour, where stderr is a terminal that wants it."""
        return f"\033[{_COLOURS[colour]}m{text}\033[0m" if self.color(sys.stderr) else text

    def tag(self, text: str, number: int) -> str:
        """The text in one of a few colours, by number, where stdout is a terminal that wants it: to tell sources apart."""
        colours = ("36", "33", "32", "35", "34", "31")
        return f"\033[{colours[number % len(colours)]}m{text}\033[0m" if self.color(sys.stdout) else text

    def color(self, stream: TextIO) -> bool:
        if self._color is not None:
            return self._color
        if self._env.get("NO_COLOR") or self._env.get("TERM") == "dumb":
            return False
        return stream.isatty()

    def _say(self, word: str, text: str, colour: str) -> None:
        self._tell(f"{self.style(word + ':', colour)} {text}")

    def _tell(self, text: str) -> None:
        # What was printed on stdout must not overtake what is said about it.
        sys.stdout.flush()
        with self._aside():
            streams.to_people(redact(harmless(self._complete(text)), self._secrets) + "\n")

    def _hidden(self) -> Iterator[Raw]:
        return (secret.encode() for secret in self._secrets)


def _size(stream: TextIO | None = None) -> tuple[int, int]:
    """Columns and rows of the terminal behind a stream (stderr), asked for anew: people resize windows."""
    try:
        size = os.get_terminal_size((stream or sys.stderr).fileno())
    except (OSError, ValueError):
        return 80, 24
    return size.columns or 80, size.lines or 24
