"""Writes to this process's two streams, and what becomes of one that cannot be written: a terminal that hung up, a full disk.

Such a stream is pointed at nothing, so that whatever is said after that, a rollback's lines among it, costs nothing more, and
neither does the interpreter's own flush at its end.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

from .errors import ExitCode, NrlError


def to_people(text: str) -> None:
    """Write to stderr. Words that reach nobody are dropped: they must not end what they are about.

    Raises `BrokenPipeError`, once, when the reader of a pipe is gone: then nobody waits for the rest either.
    """
    try:
        _write(sys.stderr, text)
    except BrokenPipeError:
        silence(sys.stderr)
        raise
    except OSError:
        silence(sys.stderr)


def to_readers(text: str) -> None:
    """Write data to stdout. Raises `BrokenPipeError`, and `NrlError` when it cannot be written."""
    with _data():
        _write(sys.stdout, text)


def bytes_to_readers(data: bytes, secrets: Iterable[bytes], hidden: bytes) -> None:
    """Write bytes to stdout as they are, `hidden` in the place of secrets. Raises as `to_readers` does."""
    with _data():
        _write_bytes(sys.stdout, _without(data, secrets, hidden))


def bytes_to_people(data: bytes, secrets: Iterable[bytes], hidden: bytes) -> None:
    """Write bytes to stderr; what cannot be written is dropped, as in `to_people`."""
    try:
        _write_bytes(sys.stderr, _without(data, secrets, hidden))
    except BrokenPipeError:
        silence(sys.stderr)
        raise
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Point a stream at nothing for good, what it holds back included."""
    with contextlib.suppress(OSError, ValueError):  # a test's stream has no descriptor
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


@contextlib.contextmanager
def _data() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        silence(sys.stdout)
        raise NrlError(
            f"standard output cannot be written: {error.strerror or error}", exit_code=ExitCode.FAILED
        ) from error


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:
        # A terminal in the C locale, or a lone surrogate from argv: say it with escapes rather than not at all.
        stream.write(text.encode(stream.encoding or "ascii", "backslashreplace").decode(stream.encoding or "ascii"))
    stream.flush()


def _write_bytes(stream: TextIO, data: bytes) -> None:
    stream.flush()
    raw = getattr(stream, "buffer", None)
    if raw is None:
        stream.write(data.decode("utf-8", "replace"))
    else:
        raw.write(data)
        raw.flush()


def _without(data: bytes, secrets: Iterable[bytes], hidden: bytes) -> bytes:
    for secret in secrets:
        data = data.replace(secret, hidden)
    return data
