"""kubectl nrl: NeMo-RL recipes on Kubernetes, launched through plugins.

The package itself exports only the two pluggy markers, so that a plugin needs one import and no start-up cost is paid
for anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pluggy

    hookimpl: pluggy.HookimplMarker

__version__ = "0.1.0"

#: pluggy's project name, and the entry-point group in which plugins are found.
PROJECT = "kubectl_nrl"


def __getattr__(name: str) -> Any:
    """`kubectl_nrl.hookimpl`, made on first use: pluggy costs as much as a bare interpreter's start."""
    if name == "hookimpl":
        import pluggy

        return pluggy.HookimplMarker(PROJECT)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
