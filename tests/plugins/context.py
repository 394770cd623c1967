"""A Context made by hand, what a provider's patches make of it, and a cluster to look at: for tests of single providers.

Patches go through the core's own merge, so a patch that core would refuse fails a test here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from kubectl_nrl.api import Context, Group, Patch, Problem, Profile, Provider, Role, RunInfo, User
from kubectl_nrl.errors import ClusterError, ConfigError, Origin
from kubectl_nrl.facts import ClusterFacts
from kubectl_nrl.plan.drafts import Drafts, RoleDraft
from kubectl_nrl.written import deployments, dig

USER = User("jo", "Jo")
RUN = RunInfo("20260102-030405-ab12", datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc), USER)


class Origins:
    """Origins whose `file` is the path of the nearest value that exists, so that a test can say which one was named."""

    def __init__(self, tree: Mapping[str, Any], name: str) -> None:
        self.tree, self.name = tree, name

    def get(self, path: tuple[str | int, ...] | str) -> Origin | None:
        parts = tuple(path.split(".")) if isinstance(path, str) else tuple(path)
        while parts and dig(self.tree, *parts) is None:
            parts = parts[:-1]
        return Origin(f"{self.name}:{'.'.join(map(str, parts))}")


@dataclass
class FakeConfig:
    """What providers read of `kubectl_nrl.config.Config`. A recipe value `unresolvable` cannot be resolved here."""

    recipe: Mapping[str, Any]
    infra: Mapping[str, Any]
    overrides: tuple[str, ...] = ()
    entrypoint_words: tuple[str, ...] = ()
    unwritten: frozenset[str] = frozenset()
    user: User = USER
    problems: tuple[Problem, ...] = ()

    @property
    def recipe_origins(self) -> Origins:
        return Origins(self.recipe, "recipe")

    @property
    def infra_origins(self) -> Origins:
        return Origins(self.infra, "infra")

    def recipe_value(self, path: str, default: Any = None) -> Any:
        value = dig(self.recipe, *path.split("."))
        if value == "unresolvable":
            raise ConfigError([Problem(f"{path} cannot be resolved")])
        return default if value is None else value

    def user_wrote(self, path: str) -> bool:
        return path not in self.unwritten and dig(self.infra, *path.split(".")) is not None


def written_role(infra: Mapping[str, Any], name: str) -> Role:
    """The role as core reads a hand-written spec (or one worker group of 4 with 4 GPUs, when there is none)."""
    section = dig(infra, "kuberay", name) or {}
    spec = section.get("spec") or {}
    size = section.get("segmentSize")
    cluster = section.get("name", f"jo-{name}")
    if not spec:
        workers = section.get("workers", 0 if name == "gym" else 4)
        groups = (Group("worker", workers, section.get("gpus", 4), size, {"groupName": "worker"}),) if workers else ()
        return Role(name, cluster, f"{cluster}-ab12", False, groups, {})
    found = []
    for group in spec.get("workerGroupSpecs") or []:
        gpus = dig(group, "template", "spec", "containers", 0, "resources", "limits", "nvidia.com/gpu") or 0
        found.append(Group(group["groupName"], group.get("replicas", 1), int(gpus), size, group))
    return Role(name, cluster, f"{cluster}-ab12", True, tuple(found), spec)


def context(infra: Mapping[str, Any] | None = None, recipe: Mapping[str, Any] | None = None, **changes: Any) -> Context:
    """A Context. `changes`: kind, facts, profile (a mapping), namespace, run; overrides, words, unwritten of the config."""
    infra = infra or {}
    config = FakeConfig(
        recipe or {},
        infra,
        tuple(changes.pop("overrides", ())),
        tuple(changes.pop("words", ())),
        frozenset(changes.pop("unwritten", ())),
    )
    roles = list(infra.get("kuberay") or {"training": {}})
    profile = Profile(changes.pop("profile", {}), changes.pop("source", ""))
    made = Context(
        config=config,  # type: ignore[arg-type]
        kind="RayJob",
        run=RUN,
        facts=ClusterFacts(),
        namespace="rl",
        profile=profile,
        roles={name: written_role(infra, name) for name in roles},
    )
    return replace(made, **changes)


def ray_pod(gpus: int = 4, **pod: Any) -> dict[str, Any]:
    """A hand-written pod template with one Ray container."""
    container = {"name": "ray", "image": "x", "resources": {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}}
    return {"spec": {"containers": [container], **pod}}


def ray_spec(*groups: Mapping[str, Any], head: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A hand-written RayCluster spec."""
    return {"headGroupSpec": {"template": dict(head or ray_pod(0))}, "workerGroupSpecs": [dict(g) for g in groups]}


def ray_group(
    name: str = "gpu", replicas: int = 4, template: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {"groupName": name, "replicas": replicas, "template": dict(template or ray_pod()), **more}


def with_training(spec: Mapping[str, Any], **infra: Any) -> dict[str, Any]:
    """An infra file whose training cluster is hand-written; `training` adds keys beside its spec."""
    beside = infra.pop("training", {})
    return {"kuberay": {"training": {"name": "big", "spec": spec, **beside}}, **infra}


@dataclass
class Rendered:
    """What patches made of empty documents; forced patches come last, as in a Plan."""

    drafts: Drafts
    patches: list[Patch]

    def workload(self, role: str = "training") -> dict[str, Any]:
        return self.drafts.roles[role].workload.value

    def head(self, role: str = "training") -> dict[str, Any]:
        return self.drafts.roles[role].head.value

    def group(self, name: str = "worker", role: str = "training") -> dict[str, Any]:
        return self.drafts.roles[role].groups[name].value

    def head_pod(self, role: str = "training") -> dict[str, Any]:
        return self.head(role).get("template", {}).get("spec", {})

    def pod(self, name: str = "worker", role: str = "training") -> dict[str, Any]:
        return self.group(name, role).get("template", {}).get("spec", {})

    def ray(self, name: str = "worker", role: str = "training") -> dict[str, Any]:
        """The Ray container of a group's pods, `head` for the head's."""
        pod = self.head_pod(role) if name == "head" else self.pod(name, role)
        return (pod.get("containers") or [{}])[0]

    def env(self, name: str = "worker", role: str = "training") -> dict[str, str]:
        return {entry["name"]: entry["value"] for entry in self.ray(name, role).get("env", [])}

    def template(self, name: str = "worker", role: str = "training") -> dict[str, Any]:
        """Metadata of a group's pod template, `head` for the head's."""
        spec = self.head(role) if name == "head" else self.group(name, role)
        return spec.get("template", {}).get("metadata", {})


def render(provider: Provider, ctx: Context, *, user_specs: bool = False) -> Rendered:
    """Apply the provider's patches; with `user_specs` what the user wrote comes between, as in a Plan."""
    drafts = Drafts()
    for role in ctx.roles.values():
        draft = drafts.roles[role.name] = RoleDraft(role, ctx.kind)
        for group in role.groups:
            draft.groups[group.name] = type(draft.head)()
    for found in deployments(ctx):
        drafts.deployments[found.name] = type(RoleDraft(next(iter(ctx.roles.values())), ctx.kind).head)()
    patches = list(provider.patches(ctx))
    for patch in (p for p in patches if not p.force):
        assert drafts.apply(patch, 2, "provider") is None
    if user_specs:
        for role in ctx.roles.values():
            draft = drafts.roles[role.name]
            draft.head.merge(role.spec.get("headGroupSpec", {}), 4, "user")
            for group in role.groups:
                draft.groups[group.name].merge(group.spec, 4, "user")
    for patch in (p for p in patches if p.force):
        assert drafts.apply(patch, 6, "provider") is None
    return Rendered(drafts, patches)


def problems(provider: Provider, ctx: Context, severity: str = "error") -> list[str]:
    """Messages of that severity."""
    return [problem.message for problem in provider.problems(ctx) if problem.severity == severity]


def origins(provider: Provider, ctx: Context) -> list[str]:
    """Where the problems point."""
    return [str(problem.origin) for problem in provider.problems(ctx)]


@dataclass
class FakeCluster:
    """Objects to read; `forbidden` and `absent` are kinds that answer 403, or are not served."""

    objects: list[Mapping[str, Any]] = field(default_factory=list)
    forbidden: frozenset[str] = frozenset()
    no_lists: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    now: datetime | None = datetime(2026, 12, 1, tzinfo=timezone.utc)

    def time(self) -> datetime | None:
        return self.now

    def _guard(self, api_version: str, kind: str, namespace: str | None) -> None:
        self.asked.append((api_version, kind, namespace))
        if kind in self.forbidden:
            raise ClusterError(f"may not read {kind}", status=403, reason="Forbidden")
        if kind in self.absent:
            raise ClusterError(f"{api_version} {kind} is not served", status=404, reason="NotServed")
        if kind in self.broken:
            raise ClusterError("the server is on fire", status=500)

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Mapping[str, Any] | None:
        self._guard(api_version, kind, namespace)
        return next((o for o in self.objects if o["kind"] == kind and o["metadata"]["name"] == name), None)

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, *, label_selector: str = "",
        field_selector: str = "", all_namespaces: bool = False,
    ) -> list[Mapping[str, Any]]:  # fmt: skip
        self._guard(api_version, kind, namespace)
        if kind in self.no_lists:
            raise ClusterError(f"may not list {kind}", status=403, reason="Forbidden")
        key, _, value = label_selector.partition("=")
        found = [o for o in self.objects if o["kind"] == kind]
        return [o for o in found if not key or o["metadata"].get("labels", {}).get(key) == value]


def thing(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    """An object of the fake cluster; `metadata` adds to its name."""
    return {"kind": kind, "metadata": {"name": name, **fields.pop("metadata", {})}, **fields}


def of(patches: Iterable[Patch]) -> list[str]:
    """The infra keys that patches name as their cause."""
    return [patch.path for patch in patches]
