"""The Kubernetes API: the only package that speaks to it, over nothing but the standard library.

The kubernetes package is imported for one thing, users with an `auth-provider`: its import takes longer than most
commands.
"""

from .cluster import Cluster
from .forward import Forward
from .pool import Response
from .watch import WatchEvent

__all__ = ["Cluster", "Forward", "Response", "WatchEvent"]
