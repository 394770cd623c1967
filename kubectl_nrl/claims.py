"""What the providers of DRA drivers share: which pods ask for a claim, what objects are called, how pods are wired.

Names carry the cluster and role; for a RayJob the run as well, since two runs of one infra file must share nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .api import Check, ClusterReader, Context, Patch, Problem, Role, Target
from .errors import ClusterError
from .manifests.names import LABEL_MAX, cut
from .unreadable import unreadable
from .written import cause, maps, origin, templates


@dataclass(frozen=True)
class Asking:
    """Pods that ask for a driver's claim, and the infra key that says so."""

    role: Role
    target: Target
    path: str


def asking(ctx: Context, claim_name: str) -> Iterator[Asking]:
    """The pods that get a claim of that name, role by role.

    Of a hand-written spec: the pod templates that list it in `resourceClaims` (a template that does not is left alone,
    and so is a `resourceClaimName`: that claim is somebody's own). Of pods made from a profile: every worker group
    with GPUs.
    """
    if ctx.kind == "local":
        return
    for role in ctx.roles.values():
        if not role.written:
            for group in role.groups:
                if group.gpus:
                    yield Asking(role, Target.pods(role.name, "workers", group.name), cause(ctx, "dra", "profile"))
        for template in templates(ctx, role):
            for _, entry in maps(template.pod.get("resourceClaims")):
                if entry.get("name") == claim_name and not entry.get("resourceClaimName"):
                    yield Asking(role, template.target, f"kuberay.{role.name}.spec")


def asking_roles(ctx: Context, claim_name: str) -> list[Role]:
    """The roles with at least one such pod, each once."""
    return list({found.role.name: found.role for found in asking(ctx, claim_name)}.values())


def object_name(prefix: str, role: Role, ctx: Context) -> str:
    """`<prefix>-<cluster>-<role>`, and `-<short run id>` for a RayJob; cut with a hash beyond a label's length."""
    suffix = f"-{ctx.run.short}" if ctx.kind == "RayJob" else ""
    return cut(f"{prefix}-{role.cluster}-{role.name}", LABEL_MAX - len(suffix)) + suffix


def wiring(ctx: Context, claim_name: str, prefix: str) -> Iterator[Patch]:
    """The patches that give each asking pod the claim.

    The pod's entry is forced: only the tool knows the template's name, which carries the run. The container's is not.
    """
    for found in asking(ctx, claim_name):
        entry = {"name": claim_name, "resourceClaimTemplateName": object_name(prefix, found.role, ctx)}
        yield Patch(found.target, {"spec": {"resourceClaims": [entry]}}, force=True, path=found.path)
        claims = {"resources": {"claims": [{"name": claim_name}]}}
        yield Patch(found.target, {"container": {"ray": claims}}, path=found.path)


def nobody_asks(ctx: Context, driver: str, claim_name: str) -> Iterator[Problem]:
    """A warning when `dra` names a driver that no pod asks for: it would do nothing."""
    wanted = ctx.get("dra")
    if isinstance(wanted, list) and driver in wanted and not asking_roles(ctx, claim_name):
        yield Problem(
            f'dra: no worker pod asks for "{driver}"',
            origin(ctx, "dra"),
            hint=f"list {{name: {claim_name}}} in the pod's resourceClaims",
            severity="warning",
        )


def not_served(ctx: Context, driver: str) -> Problem:
    """The error for a cluster without resource.k8s.io (Kubernetes before 1.32, or with its API switched off)."""
    return Problem(
        f'"{driver}" needs DRA, and this cluster does not serve resource.k8s.io',
        origin(ctx, "dra"),
        hint="write `dra: []`, or use a cluster with Kubernetes 1.32 or newer",
    )


def class_check(cluster: ClusterReader, version: str, name: str, hint: str) -> Check:
    """Whether a DeviceClass exists. It is cluster-scoped and often may not be read: that is no failure."""
    title = f'DeviceClass "{name}"'
    try:
        found = cluster.get(f"resource.k8s.io/{version}", "DeviceClass", name)
    except ClusterError as error:
        return unreadable(error, title, not_served=(f"resource.k8s.io/{version} is not served", hint))
    return Check(title, True) if found else Check(title, False, "not found", hint)
