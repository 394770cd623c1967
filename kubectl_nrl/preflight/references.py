"""What the pods of a Plan refer to by name, read off what will be sent, so that it does not matter who put it there.

What the Plan itself makes, or a controller makes of it, is no reference: it does not exist yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..manifests.pods import PodSet, pod_sets
from ..written import maps

if TYPE_CHECKING:
    from ..plan.model import Plan, PlannedObject


@dataclass(frozen=True)
class Reference:
    """An object that pods name. `key` is a key of its data that must be there; `source` says who wrote it (`infra.yaml:12`).

    `use` tells an image pull secret from other Secrets.
    """

    kind: str
    name: str
    key: str = ""
    optional: bool = False
    source: str = ""
    use: str = ""


def references(plan: Plan) -> list[Reference]:
    """Every distinct reference of the Plan's pods, in their order."""
    made = {(o.kind, o.name) for o in plan.objects}
    made |= {(ref.kind, ref.name) for o in plan.objects for ref in o.await_refs}
    found: dict[tuple[str, str, str, bool, str], Reference] = {}
    for obj in plan.objects:
        for ref in (*_of_cluster(obj), *(r for pods in pod_sets(obj.manifest) for r in _of_pods(obj, pods))):
            if ref.name and (ref.kind, ref.name) not in made:
                found.setdefault((ref.kind, ref.name, ref.key, ref.optional, ref.use), ref)
    return list(found.values())


def _of_cluster(obj: PlannedObject) -> Iterator[Reference]:
    """What KubeRay itself puts into pods: the password of an external Redis (raycluster_types.go, GcsFaultToleranceOptions)."""
    spec = obj.manifest.get("spec") or {}
    options = ((spec.get("rayClusterSpec") or spec).get("gcsFaultToleranceOptions")) or {}
    for name in ("redisUsername", "redisPassword"):
        yield from _value_from((options.get(name) or {}).get("valueFrom") or {}, obj.source(("spec",)))


def _of_pods(obj: PlannedObject, pods: PodSet) -> Iterator[Reference]:
    spec, at = pods.spec, (*pods.at, "spec")

    def who(*path: str | int) -> str:
        return obj.source((*at, *path))

    for kind, key in (("ServiceAccount", "serviceAccountName"), ("PriorityClass", "priorityClassName"),
                      ("RuntimeClass", "runtimeClassName")):  # fmt: skip
        if spec.get(key):
            yield Reference(kind, str(spec[key]), source=who(key))
    for index, secret in maps(spec.get("imagePullSecrets")):
        yield Reference("Secret", str(secret.get("name") or ""), source=who("imagePullSecrets", index), use="pull")
    for _, claim in maps(spec.get("resourceClaims")):
        source = who("resourceClaims", f"[{claim.get('name')}]")
        for kind in ("ResourceClaim", "ResourceClaimTemplate"):
            if name := claim.get(f"{kind[0].lower()}{kind[1:]}Name"):
                yield Reference(kind, str(name), source=source)
    for _, volume in maps(spec.get("volumes")):
        yield from _of_volume(volume, who("volumes", f"[{volume.get('name')}]"))
    for listed in ("containers", "initContainers"):
        for _, container in maps(spec.get(listed)):
            yield from _of_container(container, partial(who, listed, f"[{container.get('name')}]"))


def _of_container(container: Mapping[str, Any], who: Any) -> Iterator[Reference]:
    for _, entry in maps(container.get("env")):
        yield from _value_from(entry.get("valueFrom") or {}, who("env", f"[{entry.get('name')}]"))
    for index, entry in maps(container.get("envFrom")):
        for kind, key in (("Secret", "secretRef"), ("ConfigMap", "configMapRef")):
            if ref := entry.get(key):
                yield _named(kind, ref, who("envFrom", index))


def _value_from(value: Mapping[str, Any], source: str) -> Iterator[Reference]:
    for kind, key in (("Secret", "secretKeyRef"), ("ConfigMap", "configMapKeyRef")):
        if ref := value.get(key):
            yield _named(kind, ref, source, key=str(ref.get("key") or ""))


def _of_volume(volume: Mapping[str, Any], source: str) -> Iterator[Reference]:
    if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
        yield Reference("PersistentVolumeClaim", str(claim), source=source)
    projected = (entry for _, entry in maps((volume.get("projected") or {}).get("sources")))
    for holder in (volume, *projected):
        for kind, key in (("Secret", "secret"), ("ConfigMap", "configMap")):
            if not (ref := holder.get(key)):
                continue
            yield _named(kind, ref, source)
            for _, item in maps(ref.get("items")):
                yield _named(kind, ref, source, key=str(item.get("key") or ""))


def _named(kind: str, ref: Mapping[str, Any], source: str, key: str = "") -> Reference:
    name = str(ref.get("name") or ref.get("secretName") or "")
    return Reference(kind, name, key, ref.get("optional") is True, source)


def twice_claimed(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """(words for the pods, claim, source) of each pod template with two volumes of one claim: it never starts.

    Source: kubernetes/kubernetes issues 127004 and 132921.
    """
    seen = set()
    for obj in plan.objects:
        for pods in pod_sets(obj.manifest):
            claims: dict[str, int] = {}
            for _, volume in maps(pods.spec.get("volumes")):
                claim = str((volume.get("persistentVolumeClaim") or {}).get("claimName") or "")
                claims[claim] = claims.get(claim, 0) + 1
                if claim and claims[claim] == 2 and (obj.name, claim) not in seen:
                    seen.add((obj.name, claim))
                    yield pods.words, claim, obj.source((*pods.at, "spec", "volumes", f"[{volume.get('name')}]"))
