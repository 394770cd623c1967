"""The bytes of a driver's log as submitters give them: from an offset on, through outages, to the end of what is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from kubectl_nrl.errors import ClusterError


def log_bytes(read: Callable[[int], bytes], over: Callable[[], bool], offset: int, *, pause: float) -> Iterator[bytes]:
    """What `read` gives from byte `offset` on, until `over` says that the job has ended, and then what was written last.

    A lost connection is no end: it is tried again after `pause` seconds, as is a log with nothing new. Raises `ClusterError` when Ray
    or the API server refuses (401, 403), or when the job is over and its log cannot be read.
    """
    while True:
        final = False
        try:
            final = over()
            chunk = read(offset)
        except ClusterError as error:
            if final or error.status in (401, 403):
                raise
            chunk = b""
        if chunk:
            offset += len(chunk)
            yield chunk
        elif final:
            return
        else:
            time.sleep(pause)
