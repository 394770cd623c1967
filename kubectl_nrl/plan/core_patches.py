"""What the infra file's own top-level keys put on pods and objects: image, pull secrets, service account, labels, owner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .. import labels
from ..api import Context, RunInfo
from ..errors import Problem
from ..manifests.merge import Layered
from ..manifests.names import label_value
from .drafts import Drafts, Label
from .ranks import Rank
from .written import author, origin


def common(drafts: Drafts, ctx: Context) -> None:
    """What the common keys put on every pod, below what the specs write: account, pull secrets, labels, annotations."""
    for role, draft in drafts.roles.items():
        for group in draft.pods("all", None):
            for template, who in _pod_layers(ctx, f"kuberay.{role}"):
                group.merge({"template": template}, Rank.SECTION, who)
    for name, layered in drafts.deployments.items():
        for template, who in _pod_layers(ctx, f"deployments.{name}"):
            layered.merge({"spec": {"template": template}}, Rank.SECTION, who)


def images_and_owner(drafts: Drafts, ctx: Context, problems: list[Problem]) -> None:
    """`image` replaces the Ray container's image, and says so where the spec wrote another; pods carry the owner's labels."""
    for role, draft in drafts.roles.items():
        documents: list[tuple[tuple[str | int, ...], Layered]] = [(("headGroupSpec",), draft.head)]
        documents += [(("workerGroupSpecs", i), draft.groups[g.name]) for i, g in enumerate(draft.role.groups)]
        for path, group in documents:
            _image(group, ctx, ("kuberay", role, "spec", *path), problems)
            group.merge({"template": {"metadata": {"labels": pod_labels(ctx, role)}}}, Rank.FORCED, "kubectl nrl")
    for name, layered in drafts.deployments.items():
        _deployment(name, layered, ctx)


def metadata(layered: Layered, ctx: Context, section: Mapping[str, Any], path: str) -> None:
    """An object's own labels and annotations: the file's common ones, the section's, and the tool's."""
    for rank, source, written in (
        (Rank.SECTION, "", {k: ctx.get(k) for k in ("labels", "annotations")}),
        (Rank.USER, f"{path}.", {k: section.get(k) for k in ("labels", "annotations")}),
    ):
        for key, values in written.items():
            if values:
                layered.merge(
                    {"metadata": {key: _texts(values)}}, rank, author(ctx.config, *f"{source}{key}".split("."))
                )
    own = {"labels": object_labels(ctx), "annotations": {labels.RAW_USER: ctx.run.user.raw}}
    layered.merge({"metadata": own}, Rank.FORCED, "kubectl nrl")


def object_labels(ctx: Context) -> dict[str, str]:
    """Labels of every object the tool creates (design: what lives where on a cluster)."""
    return {
        labels.MANAGED: "true",
        labels.OWNER: ctx.run.user.name,
        labels.CLUSTER: label_value(ctx.roles["training"].cluster) if "training" in ctx.roles else "none",
        "app.kubernetes.io/managed-by": "kubectl-nrl",
        labels.UPSTREAM_OWNER: ctx.run.user.name,
        **_run_label(ctx.kind, ctx.run),
    }


def pod_labels(ctx: Context, role: str) -> dict[str, str]:
    """Labels of pods, by which `kubectl get pods -l kubectl-nrl/run=ID` finds a run's."""
    return {labels.OWNER: ctx.run.user.name, labels.ROLE: label_value(role), **_run_label(ctx.kind, ctx.run)}


def _run_label(kind: str, run: RunInfo) -> dict[str, str]:
    return {labels.RUN: run.id} if kind == "RayJob" else {}


def _pod_layers(ctx: Context, section: str) -> Iterator[tuple[dict[str, Any], Label]]:
    """Pod templates that the common keys stand for, and the section's own labels, each with who wrote it.

    A section's annotations stay on its object: on a RayCluster KAI reads them for the whole gang, on pods for a group.
    """
    account = ctx.get("serviceAccount")
    if account:
        yield {"spec": {"serviceAccountName": str(account)}}, author(ctx.config, "serviceAccount")
    secrets = [{"name": str(name)} for name in ctx.get("imagePullSecrets") or []]
    if secrets:
        yield {"spec": {"imagePullSecrets": secrets}}, author(ctx.config, "imagePullSecrets")
    for path, key in (("labels", "labels"), ("annotations", "annotations"), (f"{section}.labels", "labels")):
        if ctx.get(path):
            yield {"metadata": {key: _texts(ctx.get(path))}}, author(ctx.config, *path.split("."))


def _image(group: Layered, ctx: Context, path: tuple[str | int, ...], problems: list[Problem]) -> None:
    image = ctx.get("image")
    containers = (((group.value.get("template") or {}).get("spec")) or {}).get("containers") or []
    for index, container in enumerate(containers):
        written = container.get("image")
        if not image and not written:
            where = origin(ctx.config, *path) if ctx.wrote("kuberay") else None
            said = f'container "{container.get("name")}" has no image'
            problems.append(
                Problem(said, where, hint="set image: REGISTRY/IMAGE:TAG in the infra file, or infra.image=...")
            )
        if not image or (index and written):
            continue
        if written and written != image:
            place = origin(ctx.config, *path, "template", "spec", "containers", index, "image")
            said = f"{written} of container {container.get('name')} is replaced by image: {image}"
            problems.append(Problem(said, place, severity="note"))
        patch = {"template": {"spec": {"containers": [{"name": container.get("name"), "image": str(image)}]}}}
        group.merge(patch, Rank.FLAG, author(ctx.config, "image"))


def _deployment(name: str, layered: Layered, ctx: Context) -> None:
    """A Deployment takes the image only where a container has none."""
    containers = (((layered.value.get("spec") or {}).get("template") or {}).get("spec") or {}).get("containers") or []
    bare = [{"name": c.get("name"), "image": str(ctx.get("image"))} for c in containers if not c.get("image")]
    if bare and ctx.get("image"):
        layered.merge({"spec": {"template": {"spec": {"containers": bare}}}}, Rank.SECTION, author(ctx.config, "image"))
    own = {"metadata": {"labels": pod_labels(ctx, f"deployments.{name}")}}
    layered.merge({"spec": {"template": own}}, Rank.FORCED, "kubectl nrl")


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {str(k): (str(v).lower() if isinstance(v, bool) else str(v)) for k, v in values.items() if v is not None}
