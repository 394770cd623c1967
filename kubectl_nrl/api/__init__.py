"""What a plugin author imports: the frozen values a provider reads, and the base classes it fills in.

A provider contributes data (patches, resources, problems) and never edits a manifest: core applies what it returns, so
core can say for every rendered field who set it.
"""

from __future__ import annotations

from ..errors import NrlError, Origin, PluginError, Problem
from ..facts import ClusterFacts
from .context import Context, Group, Kind, Role, Traits
from .data import Capacity, Check, FailurePattern, Patch, Reason, Ref, Resource, RunInfo, Target, User
from .providers import (
    CodeSource,
    DraDriver,
    Policy,
    Profile,
    Provider,
    Scheduler,
    Section,
    Submitter,
)
from .running import (
    ClusterReader,
    CodeRequest,
    Connection,
    Prepared,
    Staged,
    State,
    Submission,
    Survey,
)

__all__ = [
    "Capacity", "Check", "ClusterFacts", "ClusterReader", "CodeRequest", "CodeSource", "Connection", "Context", "DraDriver",
    "FailurePattern", "Group", "Kind", "NrlError", "Origin", "Patch", "PluginError", "Policy", "Prepared", "Problem", "Profile", "Provider",
    "Reason", "Ref", "Resource", "Role", "RunInfo", "Scheduler", "Section", "Staged", "State", "Submission", "Submitter", "Survey",
    "Target", "Traits", "User",
]  # fmt: skip
