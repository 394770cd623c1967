"""The Kubernetes API: the only room that speaks to it, over nothing but the standard library.

The kubernetes package is imported for one thing, users with an `auth-provider`: its import takes longer than most
commands.
"""

from .cluster import Cluster
from .pool import Response
from .stream import Forward
from .watch import WatchEvent

__all__ = ["Cluster", "Forward", "Response", "WatchEvent"]
