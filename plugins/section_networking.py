"""The `networking` section: the node's network or the pod's, and what NCCL and Gloo are told of it.

Only keys that were written are rendered, a written false too: it must be able to undo what a profile sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Context, Patch, Section, Target

#: Infra key -> environment variable (NCCL user guide, "Environment Variables"; Gloo as PyTorch documents it).
_VARIABLES = {
    "gloo_socket_ifname": "GLOO_SOCKET_IFNAME",
    "nccl_socket_ifname": "NCCL_SOCKET_IFNAME",
    "nccl_ib_disable": "NCCL_IB_DISABLE",
    "nccl_net": "NCCL_NET",
}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Networking(Section):
    name = "networking"
    summary = "host network, NCCL and Gloo interfaces, further environment of all Ray pods"

    def schema(self) -> dict[str, Any]:
        from nrl_schemas import load

        fragment: dict[str, Any] = load("fragments/networking")
        return fragment

    def patches(self, ctx: Context) -> Iterable[Patch]:
        host = ctx.get("networking.hostNetwork")
        if isinstance(host, bool):
            # Without this policy a pod on the host network resolves no Service, Ray's head among them.
            policy = "ClusterFirstWithHostNet" if host else "ClusterFirst"
            merge = {"spec": {"hostNetwork": host, "dnsPolicy": policy}}
            yield Patch(Target.pods(), merge, path="networking.hostNetwork")
        for key, variable in _VARIABLES.items():
            value = ctx.get(f"networking.{key}")
            if value is not None:
                text = str(int(value)) if isinstance(value, bool) else str(value)
                yield self._variable(variable, text, f"networking.{key}")
        extra = ctx.get("networking.extra_env")
        for variable, value in extra.items() if isinstance(extra, Mapping) else ():
            if value is not None:
                yield self._variable(str(variable), _text(value), f"networking.extra_env.{variable}")

    def _variable(self, name: str, value: str, path: str) -> Patch:
        return Patch(Target.pods(), {"container": {"ray": {"env": [{"name": name, "value": value}]}}}, path=path)


@hookimpl
def nrl_sections() -> Iterator[Section]:
    yield Networking()
