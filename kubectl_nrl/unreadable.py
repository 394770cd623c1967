"""The check of an object that the cluster did not show: what may not be read is no failure, what is not served is one."""

from __future__ import annotations

from .api import Check
from .errors import ClusterError


def unreadable(error: ClusterError, title: str, *, not_served: tuple[str, str] | None = None) -> Check:
    """`not_served` is what to say, and the fix, where the cluster has no such kind. Raises the error when it is neither."""
    if error.status == 403:
        return Check(title, None, "may not be read with these permissions")
    if not_served is not None and error.reason == "NotServed":
        return Check(title, False, *not_served)
    raise error
