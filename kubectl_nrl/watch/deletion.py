"""What somebody else's deletion of a watched object is called: its own, or that of the namespace around it."""

from __future__ import annotations

from typing import Any

from ..errors import ClusterError


def deletion(cluster: Any, words: str, namespace: str) -> str:
    """`words`, with its namespace where that is being deleted or gone; many users may not look at namespaces."""
    try:
        live = cluster.get("v1", "Namespace", namespace)
    except ClusterError:
        return words
    going = live is None or (live.get("status") or {}).get("phase") == "Terminating"
    return f'{words} with its namespace "{namespace}"' if going else words
