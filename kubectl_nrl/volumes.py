"""What the providers that mount storage share: a volume with its mount as patches.

A claim is one volume of a pod, however often it is mounted: a pod with two volumes of one claim stays in
ContainerCreating for good (kubernetes/kubernetes issues 127004, 132921). So volumes are named after their claim, and a
hand-written one is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .api import Context, Patch, Target
from .manifests.names import LABEL_MAX, cut, dns_label
from .written import Template, maps, templates

#: The kinds that mean a PersistentVolumeClaim; Lustre is one, whatever provisions it.
CLAIM_KINDS = ("lustre", "pvc")


def mount(name: str, source: Mapping[str, Any], mount_path: str, path: str) -> Patch:
    """The patch that gives every Ray pod a volume `nrl-<name>` of that source at `mount_path`."""
    return _mount(Target.pods(), {"name": f"nrl-{name}", **source}, {"mountPath": mount_path}, path)


def mount_claim(
    ctx: Context,
    claim: str,
    mount_path: str,
    path: str,
    *,
    sub_path: str | None = None,
    wanted: Callable[[Template], bool] = lambda template: True,
) -> Iterator[Patch]:
    """The patches that mount a claim, or `sub_path` of it, in the Ray pods; of hand-written ones in those `wanted`."""
    mounted = {"mountPath": mount_path, **({"subPath": sub_path} if sub_path else {})}
    volume = {"name": _volume_name(claim), "persistentVolumeClaim": {"claimName": claim}}
    for role in ctx.roles.values():
        if not role.written:
            yield _mount(Target.pods(role.name), volume, mounted, path)
        for template in filter(wanted, templates(ctx, role)):
            own = _written_volume(template, claim)
            if own is None:
                yield _mount(template.target, volume, mounted, path)
            else:
                merge = {"container": {"ray": {"volumeMounts": [{"name": own, **mounted}]}}}
                yield Patch(template.target, merge, path=path)


def _mount(target: Target, volume: Mapping[str, Any], mounted: Mapping[str, Any], path: str) -> Patch:
    mounts = [{"name": volume["name"], **mounted}]
    return Patch(
        target, {"spec": {"volumes": [dict(volume)]}, "container": {"ray": {"volumeMounts": mounts}}}, path=path
    )


def _volume_name(claim: str) -> str:
    """A volume's name for a claim: the same for the same claim, another for another (claims may hold dots, names may not)."""
    name = f"nrl-pvc-{dns_label(claim)}"
    return name if name == f"nrl-pvc-{claim}" and len(name) <= LABEL_MAX else _hashed(name, claim)


def _hashed(name: str, claim: str) -> str:
    import hashlib

    return f"{cut(name, LABEL_MAX - 7)}-{hashlib.sha256(claim.encode()).hexdigest()[:6]}"


def _written_volume(template: Template, claim: str) -> str | None:
    """The name under which a hand-written pod has that claim already."""
    for _, volume in maps(template.pod.get("volumes")):
        source = volume.get("persistentVolumeClaim")
        if isinstance(source, Mapping) and source.get("claimName") == claim and isinstance(volume.get("name"), str):
            return str(volume["name"])
    return None
