"""What `clean` found and what became of it, as lines for people and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..rayjob_state import span
from .table import table

if TYPE_CHECKING:
    from ..local import Leftover as LocalLeftover
    from ..runs import Leftover
    from .clean_cluster import ClusterLitter, Swept


def listing(here: Sequence[LocalLeftover], there: ClusterLitter | None) -> Iterator[str]:
    """Every leftover as a line: on this machine, then on the cluster what it is, since when, what it holds, and why."""
    for local in here:
        yield local.words
    if there is not None and there.found:
        yield table([_row(left, there.all_namespaces) for left in there.found])


def _row(left: Leftover, where: bool) -> dict[str, str]:
    return {
        "NAMESPACE": left.namespace if where else "",
        "WHAT": left.words,
        "RUN": left.run,
        "OWNER": "" if left.owner.mine else left.owner.owner or "nobody",
        "AGE": span(left.age),
        "HOLDS": left.holds.words,
        "WHY": left.why,
    }


@dataclass(frozen=True)
class Cleaned:
    """What was found on this machine (`here`) and on the cluster (`there`: None without one), and what became of it.

    `stubborn` are processes that could not be ended.
    """

    here: Sequence[LocalLeftover]
    stubborn: Sequence[int]
    there: ClusterLitter | None
    swept: Swept | None = None
    dry_run: bool = False

    schema = "clean"

    def text(self) -> str:
        if not self.here and not (self.there and self.there.found):
            beyond = f", nor by my runs in {self.there.where}" if self.there else ""
            beyond += ", as far as may be seen" if self.there and self.there.seen.blind else ""
            return f"nothing was left behind on this machine{beyond}"
        if self.dry_run:
            return "\n".join(listing(self.here, self.there))
        if self.stubborn:
            return f"these processes could not be ended: {', '.join(map(str, self.stubborn))}"
        return f"cleared {len(self.here) + len(self.swept.removed if self.swept else ())}"

    def data(self) -> dict[str, Any]:
        return {
            "found": [{"id": f.id, "session": f.session, "processes": list(f.pids)} for f in self.here],
            "stubborn": list(self.stubborn),
            "dryRun": self.dry_run,
            "cluster": self._there(self.there) if self.there else None,
        }

    def _there(self, there: ClusterLitter) -> dict[str, Any]:
        removed = {left.uid for left in self.swept.removed} if self.swept else set()
        return {
            "namespace": None if there.all_namespaces else there.namespace,
            "leftovers": [_data(left, left.uid in removed) for left in there.found],
            "unseen": list(there.seen.unseen),
        }


def _data(left: Leftover, removed: bool) -> dict[str, Any]:
    return {
        "kind": left.kind,
        "name": left.name,
        "namespace": left.namespace,
        "uid": left.uid,
        "run": left.run,
        "owner": left.owner.owner,
        "ageSeconds": left.age,
        "why": left.why,
        "action": left.action,
        "busy": left.busy,
        "holds": {"pods": list(left.holds.pods), "gpus": left.holds.gpus},
        "removed": removed,
    }
