"""What the sections that mount storage share: the volume with its mount as one patch, and the claim's preflight.

Volumes are called `nrl-<section>`, so that they never take over a volume of that name in a hand-written spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .api import Check, ClusterReader, Context, Patch, Target
from .errors import ClusterError

#: The kinds that mean a PersistentVolumeClaim; Lustre is one, whatever provisions it.
CLAIM_KINDS = ("lustre", "pvc")


def mount(
    section: str,
    source: Mapping[str, Any],
    mount_path: str,
    path: str,
    *,
    target: Target | None = None,
    sub_path: str | None = None,
) -> Patch:
    """The patch that gives every Ray pod (or the target's) that volume, or `sub_path` of it, at `mount_path`."""
    name = f"nrl-{section.replace('_', '-')}"
    mounted = {"name": name, "mountPath": mount_path, **({"subPath": sub_path} if sub_path else {})}
    merge = {"spec": {"volumes": [{"name": name, **source}]}, "container": {"ray": {"volumeMounts": [mounted]}}}
    return Patch(target or Target.pods(), merge, path=path)


def claim_source(claim: str) -> dict[str, Any]:
    """A pod volume's source for a PersistentVolumeClaim."""
    return {"persistentVolumeClaim": {"claimName": claim}}


def claim_check(ctx: Context, cluster: ClusterReader, section: str) -> Check:
    """Whether the section's claim exists and can be mounted."""
    name = str(ctx.get(f"{section}.pvcName"))
    title = f'PersistentVolumeClaim "{name}" ({section})'
    try:
        claim = cluster.get("v1", "PersistentVolumeClaim", name, ctx.namespace)
    except ClusterError as error:
        if error.status != 403:
            raise
        return Check(title, None, "may not be read with these permissions")
    if claim is None:
        fix = f"kubectl get pvc -n {ctx.namespace}, then set {section}.pvcName"
        return Check(title, False, f'not found in namespace "{ctx.namespace}"', fix)
    if claim.get("metadata", {}).get("deletionTimestamp"):
        return Check(title, False, "is being deleted", f"choose another claim for {section}.pvcName")
    phase = claim.get("status", {}).get("phase", "")
    if phase == "Lost":
        return Check(title, False, "has lost its volume", f"kubectl describe pvc {name} -n {ctx.namespace}")
    return Check(title, True, f"{phase}".lower())
