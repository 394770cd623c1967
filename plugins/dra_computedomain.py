"""NVIDIA's ComputeDomain: NVLink between the nodes of one Ray cluster (IMEX), as a channel claim of each worker pod.

Only the ComputeDomain is rendered: its controller makes the claim template of the same name, and one made by hand
would keep it in an endless AlreadyExists. Source: NVIDIA DRA driver, api/nvidia.com/resource/v1beta1/computedomain.go
and cmd/compute-domain-*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Check, ClusterReader, Context, DraDriver, Patch, Problem, Reason, Ref, Resource
from kubectl_nrl.claims import asking_roles, class_check, nobody_asks, not_served, object_name, wiring
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.written import dig, maps, origin

PREFIX = "compute-domain"
CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"
KIND = "ComputeDomain"
_INSTALL = "install the NVIDIA DRA driver with resources.computeDomains.enabled, or leave computedomain out of `dra`"


class ComputeDomain(DraDriver):
    name = "computedomain"
    summary = "NVIDIA ComputeDomain: NVLink across nodes (IMEX channels)"
    claim_name = "compute-domain-channel"

    def resources(self, ctx: Context) -> Iterable[Resource]:
        for role in asking_roles(ctx, self.claim_name):
            name = object_name(PREFIX, role, ctx)
            manifest = {
                "apiVersion": f"resource.nvidia.com/{ctx.facts.compute_domain_version or 'v1beta1'}",
                "kind": KIND,
                "metadata": {"name": name},
                # numNodes is deprecated, and 0 is right for every driver since 25.8; older CRDs require the key.
                "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": name}}},
            }
            template = Ref(f"resource.k8s.io/{ctx.facts.dra_version or 'v1'}", "ResourceClaimTemplate", name)
            yield Resource(manifest, wave=0, role=role.name, await_refs=(template,))

    def patches(self, ctx: Context) -> Iterable[Patch]:
        return wiring(ctx, self.claim_name, PREFIX)

    def problems(self, ctx: Context) -> Iterable[Problem]:
        yield from nobody_asks(ctx, self.name, self.claim_name)
        if not asking_roles(ctx, self.claim_name):
            return
        if ctx.facts.dra_version is None:
            yield not_served(ctx, self.name)
        elif ctx.facts.compute_domain_version is None:
            yield Problem(
                f'"{self.name}" needs the NVIDIA DRA driver, and this cluster does not serve resource.nvidia.com',
                origin(ctx, "dra"),
                hint=_INSTALL,
            )

    def checks(self, ctx: Context, cluster: ClusterReader) -> Iterable[Check]:
        if not asking_roles(ctx, self.claim_name) or ctx.facts.dra_version is None:
            return
        yield class_check(cluster, ctx.facts.dra_version, CHANNEL_CLASS, _INSTALL)
        api = f"resource.nvidia.com/{ctx.facts.compute_domain_version or 'v1beta1'}"
        try:
            cluster.list(api, KIND, ctx.namespace)
        except ClusterError as error:
            if error.status != 403 and error.reason != "NotServed":
                raise
            # What may not be listed is served: the API server looks at the path before it asks who may.
            ok = None if error.status == 403 else False
            yield Check("ComputeDomain", ok, "may not be listed" if ok is None else f"{api} is not served", _INSTALL)
        else:
            yield Check("ComputeDomain", True, f"{api} is served")

    def reasons(self, run: Mapping[str, Any], cluster: ClusterReader) -> Iterable[Reason]:
        """A domain that is being deleted hands out no channel, and a node gets none before its IMEX daemon is ready.

        The domain's own NotReady says nothing while numNodes is 0.
        """
        meta = run.get("metadata") or {}
        try:
            domains = cluster.list("resource.nvidia.com/v1beta1", KIND, meta.get("namespace"))
        except ClusterError:
            return
        for domain in domains:
            if meta.get("uid") not in [owner.get("uid") for owner in dig(domain, "metadata", "ownerReferences") or ()]:
                continue
            subject = f"{KIND} {dig(domain, 'metadata', 'name')}"
            if dig(domain, "metadata", "deletionTimestamp"):
                finalizers = ", ".join(dig(domain, "metadata", "finalizers") or ()) or "none"
                yield Reason(subject, "Terminating", f"is being deleted (finalizers: {finalizers})")
                continue
            nodes = [node for _, node in maps(dig(domain, "status", "nodes"))]
            waiting = sorted(str(node.get("name")) for node in nodes if node.get("status") == "NotReady")
            if waiting:
                few = ", ".join(waiting[:3]) + (", ..." if len(waiting) > 3 else "")
                words = f"the IMEX daemon is not ready on {len(waiting)} of {len(nodes)} nodes: {few}"
                yield Reason(subject, "NotReady", words)

    def drift_ignores(self) -> Iterable[str]:
        """Newer CRDs fill it in."""
        yield "spec.channel.allocationMode"


@hookimpl
def nrl_dra_drivers() -> Iterator[DraDriver]:
    yield ComputeDomain()
