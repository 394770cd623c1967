"""DRA on fake nodes: devices to claim, and a hand that plays NVIDIA's controller of ComputeDomains."""

from __future__ import annotations

import json
import threading
from typing import Any

from cluster.fixtures import Cluster

from kubectl_nrl.cluster import Cluster as Api

#: Devices of each kind on each node: more than tests use at once.
DEVICES = 60

CHANNELS = {"driver": "compute-domain.nvidia.com", "class": "compute-domain-default-channel.nvidia.com"}
NICS = {"driver": "roce.networking.k8s.aws", "class": "roce.networking.k8s.aws"}


def publish(cluster: Cluster) -> None:
    """Device classes, and devices of both on every node."""
    nodes = cluster.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").split()
    items = [made for kind in (CHANNELS, NICS) for made in (_class(kind), *(_slice(kind, node) for node in nodes))]
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def _class(kind: dict[str, str]) -> dict[str, Any]:
    selector = {"cel": {"expression": f'device.driver == "{kind["driver"]}"'}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": kind["class"]},
        "spec": {"selectors": [selector]},
    }


def _slice(kind: dict[str, str], node: str) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{kind['driver']}"},
        "spec": {
            "driver": kind["driver"],
            "nodeName": node,
            "pool": {"name": f"{node}-{kind['driver']}", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"d{n}"} for n in range(DEVICES)],
        },
    }


class DomainController:
    """Makes the claim template of each ComputeDomain of a namespace, as the real controller does, and names the domain in it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._api = Api.connect(kubeconfig=str(cluster.kubeconfig), env={})
        self._namespace, self._stop = namespace, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> DomainController:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        api = "resource.nvidia.com/v1beta1"
        for event in self._api.watch(api, "ComputeDomain", self._namespace, stop=self._stop):
            if event.type == "ADDED" and not event.object["metadata"].get("deletionTimestamp"):
                self._api.create(_template(event.object), namespace=self._namespace)


def _template(domain: Any) -> dict[str, Any]:
    """Source of the shape: the DRA driver's compute-domain-workload-claim-template.tmpl.yaml."""
    meta = domain["metadata"]
    parameters = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomainChannelConfig",
        "domainID": meta["uid"],
    }
    requests = [{"name": "channel", "exactly": {"deviceClassName": CHANNELS["class"]}}]
    opaque = {"driver": CHANNELS["driver"], "parameters": parameters}
    owner = {"apiVersion": domain["apiVersion"], "kind": "ComputeDomain", "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": domain["spec"]["channel"]["resourceClaimTemplate"]["name"],
            "labels": {"resource.nvidia.com/computeDomain": meta["uid"]},
            "ownerReferences": [owner],
        },
        "spec": {"spec": {"devices": {"requests": requests, "config": [{"requests": ["channel"], "opaque": opaque}]}}},
    }
