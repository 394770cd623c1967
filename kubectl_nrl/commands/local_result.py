"""What a run on this machine ends with, as text for people and as data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..rayjob_state import span
from .reward_curve import RewardCurve, plot

if TYPE_CHECKING:
    from ..local import LocalRecord
    from ..triage import Failure


@dataclass(frozen=True)
class LocalResult:
    """A run on this machine as it is now: `curve` when its log was read, `commands` to come back to it, `failure` when it failed."""

    run: LocalRecord
    now: datetime
    commands: Mapping[str, str]
    curve: RewardCurve | None = None
    wandb: str = ""
    plain: bool = False
    failure: Failure | None = None

    schema = "local_run"

    def text(self) -> str:
        run = self.run
        seconds = run.seconds(self.now)
        after = f" after {span(seconds)}" if run.final and seconds is not None else ""
        reason = f" ({run.reason})" if run.reason else ""
        lines = [f"local run {run.id}: {run.shown_state}{reason}{after}"]
        if run.message:
            lines += [f"  {line}" for line in run.message.strip().splitlines()[:20]]
        drawn = plot(self.curve, plain=self.plain) if self.curve else ""
        if drawn:
            lines += ["reward:", drawn]
        lines += [f"{name}: {place}" for name, place in self._places().items()]
        if self.wandb:
            lines.append(f"wandb: {self.wandb}")
        if self.failure:
            lines.append(self.failure.text())
        return "\n".join(lines)

    def _places(self) -> dict[str, str]:
        """Where things are; what the recipe only promises is left out until it is there."""
        found = {"log": str(self.run.log)} if self.run.log.exists() else {}
        return found | {name: place for name, place in self.run.results.items() if os.path.exists(place)}

    def data(self) -> dict[str, Any]:
        run = self.run
        curve = self.curve.points if self.curve else {}
        return {
            **record_data(run, self.now),
            "exitCode": int(run.exit_code) if run.final else 0,
            "commands": dict(self.commands),
            "rewards": [{"step": step, "reward": curve[step]} for step in sorted(curve)],
            "wandb": self.wandb,
            "failure": self.failure.data() if self.failure else None,
        }


def record_data(run: LocalRecord, now: datetime) -> dict[str, Any]:
    """A local run or cluster as data, the same in every answer."""
    return {
        "local": True,
        "id": run.id,
        "form": run.form,
        "owner": run.user,
        "state": run.shown_state,
        "phase": run.phase,
        "final": run.final,
        "reason": run.reason,
        "message": run.message,
        "exitStatus": run.exit_status,
        "created": run.created or None,
        "started": run.started or None,
        "ended": run.ended or None,
        "durationSeconds": run.seconds(now),
        "cluster": run.cluster,
        "roles": [
            {"name": name, "address": role.address, "dashboard": role.dashboard} for name, role in run.roles.items()
        ],
        "gpus": run.gpus,
        "directory": run.directory,
        "session": run.session,
        "recipe": run.recipe,
        "log": str(run.log) if run.log.exists() else None,
        "results": dict(run.results),
        "tornDown": run.torn_down,
    }
