"""A Plan as one screen: what `check` answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .check_data import plan_data

if TYPE_CHECKING:
    from ..facts import ClusterFacts
    from ..plan import Plan
    from ..plan.model import Daemon, GroupPlan, Lifetime, PlannedObject, RolePlan
    from .cluster_checks import OnCluster
    from .uploading import Looked

_NOTES = {
    "flag": "from -n",
    "infra": "from the infra file",
    "context": "from the kubeconfig context",
    "default": "unless the kubeconfig context names another",
}


@dataclass(frozen=True)
class Checked:
    """The result of `check`; with `explain`, every rendered field that somebody set, with who."""

    plan: Plan
    explain: bool = False
    queue: str | None = None
    looked: Looked | None = None
    on_cluster: OnCluster | None = None
    schema = "check"

    def text(self) -> str:
        plan = self.plan
        if plan.kind == "local":
            return self._text_here()
        lines = [
            f"{plan.kind} {_workload(plan)}",
            *_rows(
                ("namespace", f"{plan.namespace} ({_NOTES.get(plan.namespace_from, plan.namespace_from)})"),
                ("profile", plan.profile or "none"),
                ("scheduler", f"{plan.scheduler}, queue {self.queue}" if self.queue else plan.scheduler),
                ("dra", ", ".join(plan.dra) or "none"),
            ),
            *(line for role in plan.roles for line in _role_lines(role)),
            *_rows(*((role, f"{name}, which exists already") for role, name in plan.attached.items())),
            *_rows(
                ("code", _code(plan, self.looked)),
                *_upload_rows(self.looked),
                ("submitter", " ".join(w for w in (plan.launch.submitter, plan.launch.submission_mode) if w)),
                ("lifetime", lifetime_words(plan.lifetime)),
                ("log", plan.launch.log_dir or "on the head pod only"),
                ("objects", ", ".join(f"{o.kind}/{o.name}" for o in plan.objects)),
            ),
            "entrypoint:",
            *_indented(plan.launch.entrypoint),
            *(line for daemon in plan.daemons for line in _daemon_lines(daemon)),
            *(f"health of {c.name}: {c.url} within {c.timeout} s" for c in plan.health_checks),
            facts_words(plan.facts),
            *(["", *self.on_cluster.lines()] if self.on_cluster else ()),
        ]
        if self.explain:
            lines += ["", *explain_lines(plan)]
        return "\n".join(line.rstrip() for line in lines)

    def _text_here(self) -> str:
        """A Plan for this machine: Rays and a directory."""
        plan = self.plan
        return "\n".join(
            [
                f"local {_workload(plan)}",
                *_rows(
                    *((role.name, "a Ray on this machine") for role in plan.roles),
                    ("code", f"runs in {plan.launch.working_dir or 'the current directory'}"),
                ),
                "entrypoint:",
                *_indented(plan.launch.entrypoint),
                *(line for daemon in plan.daemons for line in _daemon_lines(daemon)),
            ]
        )

    def data(self) -> dict[str, Any]:
        data = plan_data(self.plan, _workload(self.plan), self.queue, self.looked)
        data["onCluster"] = self.on_cluster.data() if self.on_cluster else None
        if self.explain:
            data["explain"] = [
                {"object": f"{o.kind}/{o.name}", "field": path, "value": value, "source": source}
                for o in self.plan.objects
                for path, value, source in explained(o)
            ]
        return data


def lifetime_words(lifetime: Lifetime) -> str:
    """What happens when the job ends, in one line."""
    if lifetime.form == "keep":
        return "everything is kept, GPUs included, until you delete it"
    words = [f"workers and their GPUs go {_after(lifetime.workers_after)}"]
    if lifetime.head_kept:
        requests = ", ".join(f"{name} {value}" for name, value in sorted(lifetime.head_requests.items()))
        words.append(f"the head stays{f' ({requests})' if requests else ''} and goes {_after(lifetime.head_after)}")
    else:
        words.append("the head goes with them")
    if lifetime.record_after is not None:
        words.append(f"the RayJob goes {_after(lifetime.record_after)}")
    return "; ".join(words)


def facts_words(facts: ClusterFacts) -> str:
    """Which cluster the Plan was made for."""
    if facts.source != "offline":
        return f"made for this cluster (Kubernetes {facts.kubernetes})"
    return (
        f"offline: made for Kubernetes {facts.kubernetes} and the newest documented KubeRay, KAI, Kueue and DRA; "
        "`run` looks at the cluster first"
    )


def explained(obj: PlannedObject) -> Iterator[tuple[str, Any, str]]:
    """(field, value, who set it) of an object, for every field that somebody set."""
    from ..manifests.merge import leaves, show_path

    for path, value in leaves(obj.manifest):
        if source := obj.source(path):
            yield show_path(path), value, source


def explain_lines(plan: Plan) -> Iterator[str]:
    for obj in plan.objects:
        fields = list(explained(obj))
        if fields:
            yield f"{obj.kind}/{obj.name}"
        for name, value, source in fields:
            yield f"  {name}: {_shown(value)}  <- {source}"


def _shown(value: Any) -> str:
    """A field's value in at most 60 characters; an environment variable by its value alone."""
    if isinstance(value, Mapping) and set(value) == {"name", "value"}:
        value = value["value"]
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 60 and "\n" not in text else f"{text.splitlines()[0][:57]}..."


def _workload(plan: Plan) -> str:
    try:
        return plan.workload().name
    except KeyError:
        return ", ".join(role.cluster for role in plan.roles)


def _rows(*rows: tuple[str, str]) -> Iterator[str]:
    for name, value in rows:
        yield f"  {name:<10} {value}"


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}" for line in text.rstrip("\n").splitlines())


def _daemon_lines(daemon: Daemon) -> Iterator[str]:
    health = f", healthy when {daemon.health.url} answers within {daemon.health.timeout} s" if daemon.health else ""
    yield f"daemon of {daemon.role} ({daemon.submission_id}{health}):"
    yield from _indented(daemon.entrypoint)


def _role_lines(role: RolePlan) -> Iterator[str]:
    gpus = f"{role.gpus} GPU{'' if role.gpus == 1 else 's'}" if role.gpus else "no GPUs"
    yield f"  {role.name:<10} {role.cluster}: {role.pods} pod{'' if role.pods == 1 else 's'}, {gpus}"
    yield f"    head     1 x {_gpus(role.head_gpus)}, {role.head_image}"
    for groups in _segments(role.groups):
        many = f"{len(groups)} segments of " if len(groups) > 1 else ""
        names = " to ".join(dict.fromkeys((groups[0].name, groups[-1].name)))
        yield f"    workers  {many}{groups[0].replicas} x {_gpus(groups[0].gpus)}, {groups[0].image} ({names})"
    if role.claims:
        yield f"    claims   {', '.join(role.claims)}"


def _segments(groups: Sequence[GroupPlan]) -> list[list[GroupPlan]]:
    """Groups that are segments of one and equal but for their names stand together; a screen has no room for 16 of them."""
    found: dict[tuple[str, int, int, str], list[GroupPlan]] = {}
    for group in groups:
        stem, segment, number = group.name.rpartition("-segment-")
        name = stem if segment and number.isdigit() else group.name
        found.setdefault((name, group.replicas, group.gpus, group.image), []).append(group)
    return list(found.values())


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}" if count else "CPU"


def _code(plan: Plan, looked: Looked | None = None) -> str:
    if looked is not None and looked.survey is not None:
        return f"{plan.launch.code_source}, runs in the uploaded directory"
    where = plan.launch.working_dir
    return (
        f"{plan.launch.code_source}, runs in {where}"
        if where
        else f"{plan.launch.code_source}, runs where Ray starts it"
    )


def _upload_rows(looked: Looked | None) -> Iterator[tuple[str, str]]:
    """What a run would send from here: its size, then a line for each part."""
    if looked is None or looked.survey is None:
        return
    yield "upload", f"{looked.survey.words}, of {looked.survey.root}"
    for line in looked.survey.lines:
        yield "", line


def _after(seconds: int | None) -> str:
    if seconds is None:
        return "never"
    if seconds == 0:
        return "the moment the job ends"
    days, rest = divmod(seconds, 86400)
    return f"{days} days after the end" if days and not rest else f"{seconds} s after the end"
