"""Plans made by hand, for tests of what is done with one; how a Plan is built is tested elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from kubectl_nrl.api import Ref, RunInfo, User
from kubectl_nrl.facts import OFFLINE
from kubectl_nrl.labels import RUN
from kubectl_nrl.plan.model import Launch, Lifetime, Plan, PlannedObject

USER = User("jo", "jo")
RUN_INFO = RunInfo("20261130-120000-abcd", datetime(2026, 11, 30, 12, tzinfo=timezone.utc), USER)

RULES = Lifetime("rules", 0, 3600, True, 604800)


def pod_template(image: str = "x:1", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "ray", "image": image}], **spec}}


def planned(kind: str, name: str, *, wave: int = 0, refs: tuple[Ref, ...] = (), **spec: Any) -> PlannedObject:
    manifest: Mapping[str, Any] = {
        "apiVersion": "ray.io/v1" if kind.startswith("Ray") else "v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {RUN: RUN_INFO.id, "kubectl-nrl/owner": USER.name}},
        "spec": spec,
    }
    return PlannedObject(manifest, wave, "training", child=wave < 10, await_refs=refs)


def rayjob(name: str = "demo", head: Any = None, groups: Any = None, **spec: Any) -> PlannedObject:
    cluster = {
        "headGroupSpec": {"template": head or pod_template()},
        "workerGroupSpecs": groups
        if groups is not None
        else [{"groupName": "w", "template": pod_template(tolerations=[])}],
    }
    return planned("RayJob", name, wave=10, rayClusterSpec=cluster, **spec)


def plan(*objects: PlannedObject, lifetime: Lifetime = RULES, wait: bool = True) -> Plan:
    return Plan(
        kind="RayJob",
        run=RUN_INFO,
        facts=OFFLINE,
        namespace="default",
        namespace_from="flag",
        profile="",
        scheduler="default",
        dra=(),
        roles=(),
        objects=tuple(objects or (rayjob(),)),
        launch=Launch("python x.py", "", ": nrl x; y", "rayjob", "HTTPMode", "image", None, "inline"),
        lifetime=lifetime,
        problems=(),
        wait=wait,
    )
