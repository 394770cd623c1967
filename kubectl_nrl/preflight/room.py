"""Whether the run would start now: what the scheduler could give against what the Plan asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..api import Capacity, ClusterReader
from ..errors import ClusterError
from .topic import refusal


@dataclass(frozen=True)
class Room:
    """`capacity` is None where it is not known, and `why` says why not. `needed` counts GPUs of the whole Plan."""

    needed: int
    capacity: Capacity | None
    why: str = ""

    @property
    def fits(self) -> bool | None:
        """Whether all of it can start now; None where that is not known."""
        if self.capacity is None:
            return None
        return self.capacity.free_gpus >= self.needed if self.capacity.fits is None else self.capacity.fits

    @property
    def words(self) -> str:
        if self.capacity is None:
            return f"not known: {self.why}"
        need = f"the run needs {self.needed}" if self.needed else "the run needs no GPUs"
        start = "and can start now" if self.fits else "and cannot start now"
        detail = f" ({self.capacity.detail})" if self.capacity.detail else ""
        free = f"{self.capacity.free_gpus} of {self.capacity.total_gpus} GPUs free{detail}; " if self.needed else ""
        return f"{free}{need} {start}" + (detail if not self.needed else "")

    def data(self) -> dict[str, Any]:
        found = self.capacity
        return {
            "needed": self.needed,
            "free": found.free_gpus if found else None,
            "total": found.total_gpus if found else None,
            "fits": self.fits,
            "detail": found.detail if found else self.why,
        }


def room_of(
    needed: int, scheduler: str, ask: Callable[[ClusterReader], Capacity | None], cluster: ClusterReader
) -> Room:
    """Ask the scheduler's provider. Raises `ClusterError` only when the cluster does not answer."""
    try:
        found = ask(cluster)
    except ClusterError as error:
        if error.status in (0, 401) and error.reason != "NotServed":
            raise
        return Room(needed, None, refusal(error))
    return Room(needed, found, "" if found else f'scheduler "{scheduler}" does not say what is free')
