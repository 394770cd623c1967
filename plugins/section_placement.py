"""The `placement` section: which nodes the pods may use.

Node selector and affinity are the workers': a GPU node that the head lands on is lost to a worker that fills a node.
Tolerations only permit, so all pods get them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Context, Patch, Section, Target


class Placement(Section):
    name = "placement"
    summary = "node selector and affinity of worker pods, tolerations of all Ray pods"

    def schema(self) -> dict[str, Any]:
        from nrl_schemas import load

        fragment: dict[str, Any] = load("fragments/placement")
        return fragment

    def patches(self, ctx: Context) -> Iterable[Patch]:
        for key, target in (
            ("nodeSelector", Target.pods(which="workers")),
            ("affinity", Target.pods(which="workers")),
            ("tolerations", Target.pods()),
        ):
            if value := ctx.get(f"placement.{key}"):
                yield Patch(target, {"spec": {key: value}}, path=f"placement.{key}")


@hookimpl
def nrl_sections() -> Iterator[Section]:
    yield Placement()
