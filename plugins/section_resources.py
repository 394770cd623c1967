"""The `resources` section: CPU, memory and GPUs of each role's head and workers.

Memory and GPUs are requested and limited alike; CPU is only requested. A CPU limit throttles a head that starts Ray's
dashboard or a worker that loads data, though the node is idle, and KubeRay tells Ray of the request where there is no
limit (common/pod.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Context, Patch, Problem, Section, Target
from kubectl_nrl.written import origin

_PODS: tuple[tuple[str, Literal["head", "workers"]], ...] = (("head", "head"), ("worker", "workers"))


class Resources(Section):
    name = "resources"
    summary = "cpu, memory and gpu of each role's head and workers"

    def schema(self) -> dict[str, Any]:
        from nrl_schemas import load

        fragment: dict[str, Any] = load("fragments/resources")
        return fragment

    def patches(self, ctx: Context) -> Iterable[Patch]:
        for role in ctx.roles:
            for key, which in _PODS:
                written = ctx.get(f"resources.{role}.{key}")
                for name, value in written.items() if isinstance(written, Mapping) else ():
                    if value is not None:
                        path = f"resources.{role}.{key}.{name}"
                        yield Patch(Target.pods(role, which), self._merge(ctx, which, str(name), value), path=path)

    def _merge(self, ctx: Context, which: str, name: str, value: Any) -> dict[str, Any]:
        resource = str(ctx.profile.get("gpus.resource", "nvidia.com/gpu")) if name == "gpu" else name
        amount = {resource: value if name == "gpu" else str(value)}
        resources = {"requests": amount} if name == "cpu" else {"requests": amount, "limits": dict(amount)}
        # An extended resource that is asked for with 0 is still one that a quota or Kueue's flavors must know.
        merge: dict[str, Any] = {"container": {"ray": {"resources": resources}}} if value != 0 else {}
        if name == "gpu" and which == "head":
            # A head is given no GPU in Ray's eyes unless asked; whoever asks for its GPUs wants Ray to use them.
            merge["group"] = {"rayStartParams": {"num-gpus": str(value)}}
        return merge

    def problems(self, ctx: Context) -> Iterable[Problem]:
        """A role that does not exist gets nothing; a profile's defaults name roles whether they exist or not."""
        written = ctx.get("resources")
        for role in written if isinstance(written, Mapping) else ():
            if role not in ctx.roles and ctx.config.user_wrote(f"resources.{role}"):
                yield Problem(
                    f"resources.{role} has no effect: there is no kuberay.{role}",
                    origin(ctx, "resources", str(role)),
                    severity="warning",
                )


@hookimpl
def nrl_sections() -> Iterator[Section]:
    yield Resources()
