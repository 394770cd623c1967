"""The `secrets` section: Secrets whose keys become environment variables of all Ray pods, by reference only.

Pods made from a profile get the person's own Secret (`<user>-secrets`) unasked, as an optional reference: it is where
tokens are kept, and whoever has none can still run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Context, Patch, Section, Target


def _names(ctx: Context) -> list[str]:
    written = ctx.get("secrets")
    return [str(name) for name in written] if isinstance(written, list) else []


class Secrets(Section):
    name = "secrets"
    summary = "Secrets as environment of all Ray pods (envFrom)"

    def schema(self) -> dict[str, Any]:
        from nrl_schemas import load

        fragment: dict[str, Any] = load("fragments/secrets")
        return fragment

    def active(self, ctx: Context) -> bool:
        return ctx.wrote("secrets") or any(not role.written for role in ctx.roles.values())

    def patches(self, ctx: Context) -> Iterable[Patch]:
        if ctx.wrote("secrets"):
            for name in _names(ctx):
                yield Patch(Target.pods(), _reference({"name": name}), path="secrets")
            return
        own = {"name": f"{ctx.run.user.name}-secrets", "optional": True}
        for role in ctx.roles.values():
            if not role.written:
                yield Patch(Target.pods(role.name), _reference(own), path="profile")


def _reference(secret: dict[str, Any]) -> dict[str, Any]:
    return {"container": {"ray": {"envFrom": [{"secretRef": secret}]}}}


@hookimpl
def nrl_sections() -> Iterator[Section]:
    yield Secrets()
