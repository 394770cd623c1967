"""What the metadata of any object says, for runs, Ray clusters, records and leftovers alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..labels import OWNER, UPSTREAM_OWNER, labels_of
from ..rayjob_state import parse_time


@dataclass(frozen=True)
class Named:
    """An object of a namespace, as the API server sent it."""

    manifest: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.manifest["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        return str(self.manifest["metadata"]["uid"])


@dataclass(frozen=True)
class Owned(Named):
    """One that belongs to somebody. Times are aware (UTC)."""

    @property
    def owner(self) -> str:
        """Whose it is by this tool's label, or upstream's; empty where no label says so."""
        labels = labels_of(self.manifest)
        return labels.get(OWNER) or labels.get(UPSTREAM_OWNER) or ""

    @property
    def created(self) -> datetime | None:
        return parse_time(self.manifest["metadata"].get("creationTimestamp"))
