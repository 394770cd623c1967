"""Code source `lustre`: the code is on the shared workspace, at `launch.codePath`.

Where no mount holds that path yet, the workspace's claim is mounted there a second time, with `workspace.codeSubPath`
of it: so the same `codePath` (say /opt/nemo-rl) can be everybody's, each with a directory of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubectl_nrl import hookimpl
from kubectl_nrl.api import CodeSource, Context, Patch, Problem
from kubectl_nrl.volumes import CLAIM_KINDS, mount_claim
from kubectl_nrl.written import Template, code_path, maps, origin, templates


def _claim(ctx: Context) -> str | None:
    kind, claim = ctx.get("workspace.kind", "rayUpload"), ctx.get("workspace.pvcName")
    return str(claim) if claim and kind in (*CLAIM_KINDS, "auto") else None


def _holds(directory: str, path: str) -> bool:
    """Whether the path is the directory or below it."""
    directory = directory.rstrip("/")
    return path.rstrip("/") == directory or path.startswith(directory + "/")


def _mounted(template: Template, path: str) -> bool:
    """Whether a hand-written Ray container already has a mount that holds the path."""
    mounts = maps(template.ray.get("volumeMounts"))
    return any(_holds(str(found.get("mountPath", "")), path) for _, found in mounts if found.get("mountPath"))


class LustreCode(CodeSource):
    name = "lustre"
    summary = "code on the shared workspace, at launch.codePath"

    def working_dir(self, ctx: Context) -> str | None:
        return code_path(ctx)

    def patches(self, ctx: Context) -> Iterable[Patch]:
        path, claim = code_path(ctx), _claim(ctx)
        if path is None or claim is None:
            return
        in_workspace = _holds(str(ctx.get("workspace.mountPath", "/mnt/nemo-rl")), path)
        if in_workspace and not ctx.wrote("workspace.codeSubPath"):
            return
        sub_path = str(ctx.get("workspace.codeSubPath", f"{ctx.run.user.name}/nemo-rl"))
        yield from mount_claim(
            ctx,
            claim,
            path,
            "workspace.codeSubPath",
            sub_path=sub_path,
            wanted=lambda template: not _mounted(template, path),
        )

    def problems(self, ctx: Context) -> Iterable[Problem]:
        path = code_path(ctx)
        if path is None or _claim(ctx) or self._on_nodes(ctx, path):
            return
        for role in ctx.roles.values():
            if not role.written or any(not _mounted(template, path) for template in templates(ctx, role)):
                yield Problem(
                    f"{role.name}: codeSource lustre needs a workspace that holds {path}, and none is mounted there",
                    origin(ctx, "launch", "codeSource"),
                    hint="workspace: {kind: lustre, pvcName: NAME, mountPath: /mnt/NAME}",
                )

    def _on_nodes(self, ctx: Context, path: str) -> bool:
        where = str(ctx.get("workspace.mountPath", "/mnt/nemo-rl"))
        return ctx.get("workspace.kind") == "hostPath" and _holds(where, path)


@hookimpl
def nrl_code_sources() -> Iterator[CodeSource]:
    yield LustreCode()
