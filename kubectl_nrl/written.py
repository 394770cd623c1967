"""What a person wrote by hand in specs, with its place in the file: pod templates, labels, Deployments.

Providers read it here and not from rendered manifests, because a problem must name the line that somebody can change,
and worker groups are still whole (not yet split into segments).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .api import Context, Role, Target
from .errors import Origin

Path = tuple[str | int, ...]


def dig(value: Any, *keys: str | int) -> Any:
    """The value at a path of maps and lists; None where it is absent or something else than expected stands on the way.

    Files are read before they are known to be right (all problems are reported at once), so nothing here may raise.
    """
    for key in keys:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and key < len(value) else None
        else:
            value = value.get(key) if isinstance(value, Mapping) else None
    return value


def maps(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The elements of a list that are maps, with their index; nothing when it is no list."""
    for index, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, Mapping):
            yield index, item


def origin(ctx: Context, *path: str | int) -> Origin | None:
    """Where the infra value at that path was written, or the nearest value around it."""
    return ctx.config.infra_origins.get(path)


def cause(ctx: Context, *keys: str) -> str:
    """The first of the infra keys that was written, else the last: what a patch names as its cause."""
    return next((key for key in keys if ctx.wrote(key)), keys[-1])


@dataclass(frozen=True)
class Template:
    """A hand-written pod template: `target` is how a patch reaches it, `path` where it stands in the infra file."""

    role: str
    target: Target
    path: Path
    value: Mapping[str, Any]
    which: Literal["head", "workers"] = "head"
    group: str | None = None

    @property
    def pod(self) -> Mapping[str, Any]:
        """The pod's spec; empty where there is none."""
        pod = dig(self.value, "spec")
        return pod if isinstance(pod, Mapping) else {}

    @property
    def ray(self) -> Mapping[str, Any]:
        """Container 0, the Ray container; empty where there is none."""
        container = dig(self.pod, "containers", 0)
        return container if isinstance(container, Mapping) else {}


def templates(ctx: Context, role: Role) -> Iterator[Template]:
    """The role's hand-written pod templates, head first; none for a role that the profile makes."""
    if not role.written:
        return
    base: Path = ("kuberay", role.name, "spec")
    head = dig(role.spec, "headGroupSpec", "template")
    if isinstance(head, Mapping):
        yield Template(role.name, Target.pods(role.name, "head"), (*base, "headGroupSpec", "template"), head)
    for index, group in maps(dig(role.spec, "workerGroupSpecs")):
        template = dig(group, "template")
        if isinstance(template, Mapping):
            name = str(group.get("groupName", ""))
            path = (*base, "workerGroupSpecs", index, "template")
            yield Template(role.name, Target.pods(role.name, "workers", name), path, template, "workers", name)


def role_labels(ctx: Context, role: Role, key: str) -> Iterator[tuple[Path, str]]:
    """Every place where a person gave the role that label: for all objects, for its cluster, in its pod templates."""
    places: list[tuple[Path, Any]] = [
        (("labels", key), dig(ctx.infra, "labels", key)),
        (("kuberay", role.name, "labels", key), dig(ctx.infra, "kuberay", role.name, "labels", key)),
    ]
    for template in templates(ctx, role):
        places.append(((*template.path, "metadata", "labels", key), dig(template.value, "metadata", "labels", key)))
    return ((path, str(value)) for path, value in places if value is not None)


def autoscaled(ctx: Context, role: Role) -> Path | None:
    """Where the role's spec turns on Ray's autoscaler, or None."""
    if dig(role.spec, "enableInTreeAutoscaling") is True:
        return ("kuberay", role.name, "spec", "enableInTreeAutoscaling")
    return None


@dataclass(frozen=True)
class WrittenDeployment:
    """A Deployment of the infra file; `role` is how patches name it."""

    name: str
    value: Mapping[str, Any]

    @property
    def role(self) -> str:
        return f"deployments.{self.name}"

    @property
    def pod(self) -> Mapping[str, Any]:
        pod = dig(self.value, "spec", "template", "spec")
        return pod if isinstance(pod, Mapping) else {}

    def label(self, key: str) -> str | None:
        """The label on its pods, else on the object, as KAI looks a label up from both."""
        value = dig(self.value, "labels", key)
        if value is None:
            value = dig(self.value, "spec", "template", "metadata", "labels", key)
        return None if value is None else str(value)


def deployments(ctx: Context) -> Iterator[WrittenDeployment]:
    """The infra file's Deployments, in its order."""
    written = ctx.get("deployments")
    for name, value in written.items() if isinstance(written, Mapping) else ():
        if isinstance(value, Mapping):
            yield WrittenDeployment(str(name), value)


def code_path(ctx: Context) -> str | None:
    """`launch.codePath`, where it is an absolute path (the schema says so to who wrote another)."""
    path = ctx.get("launch.codePath")
    return path if isinstance(path, str) and path.startswith("/") else None
