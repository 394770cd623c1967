"""Config to Plan: `build` makes the pure value that every command reads, `asking` what its providers ask a live cluster."""

from __future__ import annotations

from .asking import Asking, asking
from .build import build, every_problem
from .choices import code_on_pods, is_local
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
    "WORKLOAD_WAVE",
    "Asking",
    "Daemon",
    "GroupPlan",
    "HealthCheck",
    "Launch",
    "Lifetime",
    "Options",
    "Plan",
    "PlannedObject",
    "RolePlan",
    "asking",
    "build",
    "code_on_pods",
    "every_problem",
    "is_local",
]  # fmt: skip
