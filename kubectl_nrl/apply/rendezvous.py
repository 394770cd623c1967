"""The ConfigMap in which NeMo-RL's roles leave their URLs for one another: `nemo-rl-endpoints-<job id>`.

The roles make and fill it (nemo_rl/distributed/k8s_endpoint_registry.py) and take whatever it says, an earlier start's URLs too: so it is
cleared before daemons start, and never while one that has written its URL still runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..api import User
from ..errors import ClusterError
from ..labels import RAY_API, ownership
from .create import Say, owned_by, owner_reference

PREFIX = "nemo-rl-endpoints"
#: What each role writes, and `error`, with which either ends the other.
KEYS = {"gym": ("gym_head_server",), "generation": ("vllm_base_urls",)}
ERROR = "error"


class Rendezvous:
    """One id's ConfigMap. `ours` are the names of the RayClusters that take part."""

    def __init__(self, cluster: Any, namespace: str, job_id: str, user: User, ours: Collection[str]) -> None:
        self._cluster, self._namespace, self._user, self._ours = cluster, namespace, user, ours
        self.name = f"{PREFIX}-{job_id}"

    def clear(self, fresh: Collection[str], staying: Collection[str], say: Say) -> None:
        """Forget what the `fresh` roles' earlier daemons wrote; all of it when nobody who wrote there is `staying`.

        Raises `ClusterError` when another person's cluster uses it.
        """
        live = self._mine()
        if live is None:
            return
        if not staying:
            self._delete(live)
            say(f"configmap/{self.name} of an earlier start is cleared")
            return
        keys = [key for role in sorted(fresh) for key in KEYS.get(role, ())]
        stale = [key for key in (*keys, ERROR) if key in (live.get("data") or {})]
        if stale:
            body = {"data": dict.fromkeys(stale)}
            self._cluster.patch("v1", "ConfigMap", self.name, self._namespace, body)
            say(
                f"configmap/{self.name}: {', '.join(stale)} of an earlier start cleared; {', '.join(sorted(staying))} stay"
            )

    def adopt(self, raycluster: Mapping[str, Any]) -> None:
        """Let it go with that RayCluster, unless it goes with one already."""
        live = self._cluster.get("v1", "ConfigMap", self.name, self._namespace)
        if live is not None and not live["metadata"].get("ownerReferences"):
            body = owned_by(owner_reference(raycluster), live["metadata"])
            self._cluster.patch("v1", "ConfigMap", self.name, self._namespace, body)

    def remove(self) -> bool:
        """Delete it, with the last of its clusters gone; whether it was there. Another person's stays."""
        try:
            live = self._mine()
        except ClusterError as error:
            if error.reason != "InUse":
                raise
            return False
        if live is not None:
            self._delete(live)
        return live is not None

    def _delete(self, live: Mapping[str, Any]) -> None:
        self._cluster.delete("v1", "ConfigMap", self.name, self._namespace, uid=live["metadata"]["uid"])

    def _mine(self) -> Mapping[str, Any] | None:
        """It, when it is there. Raises `ClusterError` when a cluster that is not mine owns it."""
        live: Mapping[str, Any] | None = self._cluster.get("v1", "ConfigMap", self.name, self._namespace)
        for ref in (live or {}).get("metadata", {}).get("ownerReferences") or ():
            if ref.get("kind") != "RayCluster" or ref.get("name") in self._ours:
                continue
            owner = self._cluster.get(RAY_API, "RayCluster", ref["name"], self._namespace)
            if (
                owner is not None
                and owner["metadata"]["uid"] == ref.get("uid")
                and not ownership(owner, self._user).mine
            ):
                raise ClusterError(
                    f"configmap/{self.name}, where the roles exchange URLs, is in use by raycluster/{ref['name']} of "
                    f"{ownership(owner, self._user).words}",
                    "give the daemons another --job-id (and the training the same)",
                    status=409,
                    reason="InUse",
                )  # fmt: skip
        return live
