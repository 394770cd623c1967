"""The `checkpoints` section: the claim that checkpoints are written to.

Where the recipe writes them stays the recipe's word (`checkpointing.checkpoint_dir`): a launcher that changed it would
make a run that the recipe does not describe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Context, Patch, Section
from kubectl_nrl.volumes import CLAIM_KINDS, mount_claim


class Checkpoints(Section):
    name = "checkpoints"
    summary = "the claim for checkpoints, mounted in all Ray pods"

    def schema(self) -> dict[str, Any]:
        from nrl_schemas import load

        fragment: dict[str, Any] = load("fragments/checkpoints")
        return fragment

    def patches(self, ctx: Context) -> Iterable[Patch]:
        claim = ctx.get("checkpoints.pvcName")
        if ctx.get("checkpoints.kind") in CLAIM_KINDS and claim:
            where = str(ctx.get("checkpoints.mountPath", "/mnt/nemo-rl/checkpoints"))
            yield from mount_claim(ctx, str(claim), where, "checkpoints.pvcName")


@hookimpl
def nrl_sections() -> Iterator[Section]:
    yield Checkpoints()
