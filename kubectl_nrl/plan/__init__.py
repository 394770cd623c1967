"""Config to Plan: `build` makes the pure value that every command reads, `preflight` asks the cluster what its providers need."""

from __future__ import annotations

from .build import build, every_problem, preflight
from .choices import is_local
from .model import (
    WORKLOAD_WAVE,
    Daemon,
    GroupPlan,
    HealthCheck,
    Launch,
    Lifetime,
    Options,
    Plan,
    PlannedObject,
    RolePlan,
)

__all__ = [
    "WORKLOAD_WAVE", "Daemon", "GroupPlan", "HealthCheck", "Launch", "Lifetime", "Options", "Plan", "PlannedObject", "RolePlan",
    "build", "every_problem", "is_local", "preflight",
]  # fmt: skip
