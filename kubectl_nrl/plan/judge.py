"""Judgement of what was written and of what was rendered: schemas, names, labels; each problem with its place or its plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..api import Context, Provider, Resource
from ..config import Config
from ..errors import Origin, PluginError, Problem
from ..manifests.merge import FieldPath, keyed_path
from ..manifests.names import RAYCLUSTER_MAX, RAYJOB_MAX, name_fault
from ..schema import check_infra, check_object, check_user_spec
from .model import Options, PlannedObject
from .written import origin

if TYPE_CHECKING:
    from ..manager import Manager


#: Submitters that a life cycle brings with it; `submit.submitter` chooses among the others.
LIFE_CYCLE_SUBMITTERS = ("rayjob", "local")


def written(config: Config, manager: Manager) -> list[Problem]:
    """What is wrong with the infra file's keys, and with the specs written in it."""
    choices = {
        "launch.codeSource": list(manager.providers("code_sources")),
        "submit.submitter": [name for name in manager.providers("submitters") if name not in LIFE_CYCLE_SUBMITTERS],
    }
    problems = list(check_infra(config, manager.fragments(), choices=choices))
    for role, section in _mappings(config.infra.get("kuberay")):
        problems += _spec("RayCluster", config, ("kuberay", role, "spec"), section)
        problems += _left_to_webhooks(config, role, section.get("spec"))
    for name, section in _mappings(config.infra.get("deployments")):
        problems += _spec("Deployment", config, ("deployments", name, "spec"), section)
    return problems


def _spec(
    kind: Literal["RayCluster", "Deployment"], config: Config, path: FieldPath, section: dict[str, Any]
) -> list[Problem]:
    if "spec" not in section or section["spec"] is None:
        return []
    prefix = ".".join(str(p) for p in path)
    return check_user_spec(kind, section["spec"], lambda at: origin(config, *path, *at), prefix)


def _left_to_webhooks(config: Config, role: str, spec: Any) -> Iterable[Problem]:
    """Ephemeral storage and readiness probes: clusters' webhooks inject them, and two of them quarrel."""
    for at, value in _walk(spec, ("kuberay", role, "spec")):
        if at[-1] in ("ephemeral-storage", "readinessProbe") and value is not None:
            said = f"{at[-1]} is written by hand; cluster webhooks inject it on shared clusters, and KubeRay brings its own probes"
            yield Problem(
                said, origin(config, *at), severity="warning", hint="leave it out unless this cluster needs it"
            )


def _walk(value: Any, at: FieldPath) -> Iterable[tuple[FieldPath, Any]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in children:
        yield (*at, key), item
        yield from _walk(item, (*at, key))


def _mappings(value: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(str(k), v) for k, v in value.items() if isinstance(v, dict)] if isinstance(value, dict) else []


def names(ctx: Context, options: Options) -> Iterable[Problem]:
    """Names that KubeRay or Kubernetes would refuse, and two objects of one name."""
    seen: dict[str, str] = {}
    for role in ctx.roles.values():
        kind, limit = ("RayJob", RAYJOB_MAX) if ctx.kind == "RayJob" else ("RayCluster", RAYCLUSTER_MAX)
        path = None if options.rayjob_name and ctx.kind == "RayJob" else ("kuberay", role.name, "name")
        fault = name_fault(role.object_name, kind, limit)
        if fault:
            hint = "" if options.rayjob_name else f"set kuberay.{role.name}.name"
            yield Problem(fault, origin(ctx.config, *path) if path else None, hint=hint)
        if role.object_name in seen:
            said = f'roles {seen[role.object_name]} and {role.name} have one name "{role.object_name}"'
            yield Problem(said, origin(ctx.config, "kuberay", role.name, "name"))
        seen[role.object_name] = role.name
    for name, section in _mappings(ctx.infra.get("deployments")):
        fault = name_fault(str(section.get("name") or name), "Deployment")
        if fault:
            yield Problem(fault, origin(ctx.config, "deployments", name, "name"))


def resources(manager: Manager, provider: Provider, found: Sequence[Any]) -> list[Resource]:
    """A provider's resources, each of them really one."""
    for resource in found:
        manifest = getattr(resource, "manifest", None)
        named = isinstance(manifest, dict) and manifest.get("kind") and (manifest.get("metadata") or {}).get("name")
        if not isinstance(resource, Resource) or not named:
            who = f'plugin {manager.plugin_of(provider)} (provider "{provider.name}")'
            raise PluginError(f"{who} returned a resource that is no object with kind and metadata.name")
    return list(found)


def rendered(objects: Sequence[PlannedObject], known: Sequence[Problem]) -> Iterable[Problem]:
    """Objects that do not fit their schema, each with who set the field. Silent where the written files are wrong already."""
    if any(p.severity == "error" for p in known):
        return
    for obj in objects:
        yield from check_object(obj.manifest, _who(obj))


def _who(obj: PlannedObject) -> Callable[[tuple[str | int, ...]], Origin | None]:
    """The place of a rendered field: the file and line, or the provider, that set it or what is around it."""

    def find(path: tuple[str | int, ...]) -> Origin | None:
        keyed = keyed_path(obj.manifest, path)
        for end in range(len(keyed), 0, -1):
            source = obj.sources.get(keyed[:end])
            if source:
                return Origin(source)
        below = [label for at, label in obj.sources.items() if at[: len(keyed)] == keyed]
        return Origin(below[0]) if len(set(below)) == 1 else None

    return find
