"""The `workspace` section: the directory that pods share, from a claim or from the nodes.

`rayUpload`, the default, mounts nothing: code is then sent to Ray, and results end with the pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Context, Patch, Section
from kubectl_nrl.volumes import CLAIM_KINDS, mount, mount_claim


def _kind(ctx: Context) -> str:
    """The kind, with `auto` settled: pvc when a claim is named, else rayUpload."""
    kind = str(ctx.get("workspace.kind", "rayUpload"))
    if kind == "auto":
        return "pvc" if ctx.get("workspace.pvcName") else "rayUpload"
    return kind


class Workspace(Section):
    name = "workspace"
    summary = "the shared directory, mounted in all Ray pods"

    def schema(self) -> dict[str, Any]:
        from nrl_schemas import load

        fragment: dict[str, Any] = load("fragments/workspace")
        return fragment

    def patches(self, ctx: Context) -> Iterable[Patch]:
        kind, where = _kind(ctx), str(ctx.get("workspace.mountPath", "/mnt/nemo-rl"))
        claim, directory = ctx.get("workspace.pvcName"), ctx.get("workspace.hostPath")
        if kind in CLAIM_KINDS and claim:
            yield from mount_claim(ctx, str(claim), where, "workspace.pvcName")
        elif kind == "hostPath" and directory:
            # Directory, not DirectoryOrCreate: one made by the kubelet would be empty, and each node's own.
            source = {"hostPath": {"path": str(directory), "type": "Directory"}}
            yield mount("workspace", source, where, "workspace.hostPath")


@hookimpl
def nrl_sections() -> Iterator[Section]:
    yield Workspace()
