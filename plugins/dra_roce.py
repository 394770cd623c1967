"""The RDMA NICs of each worker pod, as a claim template made from the profile's `nics`.

The class, count and selectors are a site's data and come from the profile; the fallback is what the public GB300
example uses. Shapes of the claim by API version: Kubernetes API reference, resource.k8s.io.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Check, ClusterReader, Context, DraDriver, Patch, Problem, Resource, Role
from kubectl_nrl.claims import asking_roles, class_check, nobody_asks, not_served, object_name, wiring
from kubectl_nrl.errors import Origin
from kubectl_nrl.written import Path, origin, templates

PREFIX = "roce"
#: `resource.k8s.io`: devices that one claim may be allocated.
MOST_DEVICES = 32


@dataclass(frozen=True)
class Nics:
    """What to claim; without a profile that says so, 8 NICs of the class in NeMo-RL's GB300 example."""

    device_class: str = "roce.networking.k8s.aws"
    count: int = 8
    selectors: tuple[str, ...] = ()
    request: str = "nic"

    @classmethod
    def of(cls, ctx: Context) -> Nics:
        data = ctx.profile.get("nics")
        if not data:
            return cls()
        selectors = tuple(str(expression) for expression in data.get("selectors") or ())
        return cls(str(data["deviceClass"]), int(data.get("count", 1)), selectors, str(data.get("requestName", "nic")))

    def request_of(self, dra_version: str) -> dict[str, Any]:
        """The request: v1 and v1beta2 nest what v1beta1 has flat."""
        wanted: dict[str, Any] = {
            "deviceClassName": self.device_class,
            "allocationMode": "ExactCount",
            "count": self.count,
        }
        if self.selectors:
            wanted["selectors"] = [{"cel": {"expression": expression}} for expression in self.selectors]
        return {"name": self.request, **(wanted if dra_version == "v1beta1" else {"exactly": wanted})}


class Roce(DraDriver):
    name = "roce"
    summary = "RDMA NICs of each worker pod, as the profile's nics say"
    claim_name = "roce-channel"

    def resources(self, ctx: Context) -> Iterable[Resource]:
        version = ctx.facts.dra_version or "v1"
        for role in asking_roles(ctx, self.claim_name):
            manifest = {
                "apiVersion": f"resource.k8s.io/{version}",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": object_name(PREFIX, role, ctx)},
                "spec": {"spec": {"devices": {"requests": [Nics.of(ctx).request_of(version)]}}},
            }
            yield Resource(manifest, wave=0, role=role.name)

    def patches(self, ctx: Context) -> Iterable[Patch]:
        return wiring(ctx, self.claim_name, PREFIX)

    def problems(self, ctx: Context) -> Iterable[Problem]:
        yield from nobody_asks(ctx, self.name, self.claim_name)
        roles = asking_roles(ctx, self.claim_name)
        if not roles:
            return
        if ctx.facts.dra_version is None:
            yield not_served(ctx, self.name)
        count = Nics.of(ctx).count
        if count > MOST_DEVICES:
            yield Problem(
                f"nics.count is {count}; one claim holds at most {MOST_DEVICES} devices",
                Origin(ctx.profile.source) if ctx.profile.source else origin(ctx, "profile"),
            )
        for role in roles:
            if path := _host_network(ctx, role):
                yield Problem(
                    f"{role.name}: with hostNetwork the claimed NICs stay in the node's network namespace; "
                    "a DRA driver that moves them into the pod (dranet) has no use there",
                    origin(ctx, *path),
                    severity="note",
                )

    def checks(self, ctx: Context, cluster: ClusterReader) -> Iterable[Check]:
        if asking_roles(ctx, self.claim_name) and ctx.facts.dra_version is not None:
            hint = "kubectl get deviceclasses, then set nics.deviceClass in the profile"
            yield class_check(cluster, ctx.facts.dra_version, Nics.of(ctx).device_class, hint)


def _host_network(ctx: Context, role: Role) -> Path | None:
    """Where the role's pods are put on the node's network, or None."""
    for template in templates(ctx, role):
        if template.pod.get("hostNetwork") is True:
            return (*template.path, "spec", "hostNetwork")
    return ("networking", "hostNetwork") if ctx.get("networking.hostNetwork") is True else None


@hookimpl
def nrl_dra_drivers() -> Iterator[DraDriver]:
    yield Roce()
