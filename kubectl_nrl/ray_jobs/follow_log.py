"""A driver's log as a stream of bytes, for submitters: to its last byte when it is followed, and through dropped connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ..errors import ClusterError


def follow_log(read: Callable[[int], bytes], over: Callable[[], bool], offset: int, *, pause: float) -> Iterator[bytes]:
    """What `read(offset)` gives, from that byte on, until it gives nothing more after `over()` was true.

    A failing `read` is tried again while the driver is not over, after `pause` seconds, except for a refusal (401, 403). Raises
    `ClusterError`.
    """
    while True:
        final = over()
        try:
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
