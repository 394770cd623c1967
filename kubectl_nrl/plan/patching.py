"""Patches collected from providers and merged by rank, so that the result depends on names and ranks, never on registration order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ..api import Context, Patch, Profile, Provider, Target
from ..errors import ClusterError, PluginError, Problem
from ..manifests.merge import Layered, show_path
from .drafts import Drafts
from .ranks import Rank

if TYPE_CHECKING:
    from ..manager import Manager

T = TypeVar("T")


def call(manager: Manager, provider: Provider, method: str, *args: Any) -> list[Any]:
    """What a provider's method yields, consumed at once; whatever it raises names its plugin."""
    return answer(manager, provider, method, *args, into=lambda got: list(got or ()))


def answer(manager: Manager, provider: Provider, method: str, *args: Any, into: Callable[[Any], T]) -> T:
    """What a provider's method says, taken `into` a value at once; whatever it raises names its plugin.

    A refusal of the cluster (`checks` ask it) passes: no plugin is to blame for it.
    """
    try:
        return into(getattr(provider, method)(*args))
    except ClusterError:
        raise
    except Exception as error:
        who = f'plugin {manager.plugin_of(provider)} (provider "{provider.name}")'
        raise PluginError(f"{who} raised {type(error).__name__} in {method}(): {error}") from error


#: A patch kept for the forced rank: its label, itself, its provider.
Forced = tuple[str, Patch, Provider]


def apply_providers(
    drafts: Drafts,
    providers: Iterable[tuple[str, int, Provider]],
    ctx: Context,
    manager: Manager,
    problems: list[Problem],
) -> list[Forced]:
    """Merge the patches of (label, rank, provider), weakest rank first; the answer is those with `force`, for later.

    They are merged when what the user wrote is there (`apply_forced`): a merge beats whatever came before it.
    """
    forced: list[Forced] = []
    for label, rank, provider in sorted(providers, key=lambda p: (p[1], p[0])):
        for patch in _patches(manager, provider, ctx):
            if patch.force and rank < Rank.FORCED:
                forced.append((label, patch, provider))
            else:
                _apply(drafts, patch, rank, _label(label, patch, ctx), provider, manager, problems)
    return forced


def apply_forced(
    drafts: Drafts, forced: Iterable[Forced], ctx: Context, manager: Manager, problems: list[Problem]
) -> None:
    """Merge the forced patches that `apply_providers` kept back."""
    for label, patch, provider in forced:
        _apply(drafts, patch, Rank.FORCED, _label(label, patch, ctx), provider, manager, problems)


def profile_patches(profile: Profile) -> list[Patch]:
    """The patches that a profile's data stands for (schemas/profile.schema.json)."""
    patches: list[Patch] = []
    for which, data in (("workers", profile.data), ("head", profile.get("head", {}))):
        placement = {k: data[k] for k in ("nodeSelector", "tolerations") if data.get(k)}
        if placement:
            patches.append(Patch(Target.pods(which=which), {"spec": placement}))  # type: ignore[arg-type]
    size = profile.get("head.resources")
    if size:
        amounts = {"limits": {k: v for k, v in size.items() if k != "cpu"}, "requests": dict(size)}
        patches.append(Patch(Target.pods(which="head"), {"container": {"ray": {"resources": amounts}}}))
    env = [{"name": k, "value": _text(v)} for k, v in profile.get("env", {}).items()]
    if env:
        patches.append(Patch(Target.pods(), {"container": {"ray": {"env": env}}}))
    if profile.get("workerSecurityContext"):
        secured = {"container": {"ray": {"securityContext": profile.get("workerSecurityContext")}}}
        patches.append(Patch(Target.pods(which="workers"), secured))
    patches += [Patch(_target(p.get("target", {})), p.get("merge", {})) for p in profile.get("patches", [])]
    return patches


def _target(target: Mapping[str, Any]) -> Target:
    if "kind" in target:
        return Target.object(target["kind"], target.get("role"))
    return Target.pods(target.get("role"), target.get("pods", "all"), target.get("group"))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _patches(manager: Manager, provider: Provider, ctx: Context) -> list[Patch]:
    found = call(manager, provider, "patches", ctx)
    if isinstance(provider, Profile):
        found = [*profile_patches(provider), *found]
    for patch in found:
        fault = _malformed(patch)
        if fault:
            raise PluginError(f'plugin {manager.plugin_of(provider)} (provider "{provider.name}") {fault}')
    return found


def _malformed(patch: Any) -> str | None:
    """What is wrong with what a provider called a patch, before it is merged (its fields are judged on the rendered object)."""
    if not isinstance(patch, Patch):
        return f"returned a {type(patch).__name__} where a Patch belongs"
    target: Any = patch.target
    if not isinstance(target, Target):
        return f"returned a patch whose target is a {type(target).__name__}"
    merge: Any = patch.merge
    return (
        _not_json(merge, "merge")
        if isinstance(merge, Mapping)
        else f"returned a patch whose merge is a {type(merge).__name__}"
    )


def _not_json(value: Any, at: str) -> str | None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                return f"returned a patch whose {at} has the key {key!r}, which is no text"
            fault = _not_json(item, f"{at}.{key}")
            if fault:
                return fault
    elif isinstance(value, list):
        for index, item in enumerate(value):
            fault = _not_json(item, f"{at}[{index}]")
            if fault:
                return fault
    elif not isinstance(value, str | int | float | bool | None):
        return f"returned a patch whose {at} is a {type(value).__name__}, which JSON cannot hold"
    return None


def _apply(
    drafts: Drafts, patch: Patch, rank: int, label: str, provider: Provider, manager: Manager, problems: list[Problem]
) -> None:
    fault = drafts.apply(patch, rank, label)
    if fault:
        who = f'plugin {manager.plugin_of(provider)} (provider "{provider.name}")'
        problems.append(Problem(f"{who} {fault}"))


def _label(label: str, patch: Patch, ctx: Context) -> str:
    if not patch.path:
        return label
    where = ctx.config.infra_origins.get(patch.path)
    return f"{label} ({where.short})" if where else label


def conflicts(drafts: Drafts) -> list[Problem]:
    """One problem for each field that two sources of one rank set differently."""
    found = []
    for name, layered in drafts.documents():
        for conflict in layered.conflicts:
            if conflict.first.partition(" (")[0] == conflict.second.partition(" (")[0]:
                continue
            field = show_path(conflict.path)
            found.append(Problem(f"{conflict.first} and {conflict.second} set {field} of {name} differently"))
    return found


def drop_unmounted(layered: Layered) -> None:
    """Remove volumes that a provider brought and nothing mounts (the mount went away with something stronger)."""
    spec = ((layered.value.get("template") or {}).get("spec")) or {}
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    used = {m.get("name") for c in containers for m in c.get("volumeMounts") or []}
    used |= {m.get("name") for c in containers for m in c.get("volumeDevices") or []}
    for volume in list(spec.get("volumes") or []):
        source = layered.source(("template", "spec", "volumes", f"[{volume.get('name')}]"))
        if volume.get("name") not in used and source is not None and source.rank != Rank.USER:
            spec["volumes"].remove(volume)
    if spec.get("volumes") == []:
        del spec["volumes"]
