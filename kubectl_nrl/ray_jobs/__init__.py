"""Ray's Jobs API and the drivers' logs of a Ray cluster, wherever it runs."""

from .containers import ray_container
from .head import Answer, Exec, Head, Transport
from .head_history import head_history, same_head
from .jobs import RayJobs
from .locate import TOKEN_KEY, connect, dashboard_port, head_pod, token_of, token_secret
from .logs import log_name
from .packages import passing

__all__ = [
    "TOKEN_KEY",
    "Answer",
    "Exec",
    "Head",
    "RayJobs",
    "Transport",
    "connect",
    "dashboard_port",
    "head_history",
    "head_pod",
    "log_name",
    "passing",
    "ray_container",
    "same_head",
    "token_of",
    "token_secret",
]
