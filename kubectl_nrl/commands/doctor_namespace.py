"""The checks of `doctor` on a namespace: what I may do there, and what my runs left there; and the least Role for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError
from ..labels import MANAGED, OWNER, RUN, labels_of, ownership
from .connecting import paste
from .doctor_cluster import Reached
from .doctor_finding import Finding

if TYPE_CHECKING:
    from ..api import ClusterFacts
    from ..preflight import Need

ROLE = "kubectl-nrl"


def needs(facts: ClusterFacts | None) -> list[Need]:
    """What the tool uses in RayJob mode, and what it makes beside a RayJob where the cluster serves that."""
    from ..preflight import Need, Wanted, rayjob_needs

    found = [Need("create", "ray.io", "rayjobs", "to make runs"), *rayjob_needs(Wanted(wait=True, uploads=True))]
    if facts and facts.dra_version:
        for verb in ("create", "get", "patch", "delete"):
            found.append(
                Need(verb, "resource.k8s.io", "resourceclaimtemplates", "for claims of NICs and NVLink", False)
            )
    if facts and facts.compute_domain_version:
        for verb in ("create", "patch", "delete"):
            found.append(Need(verb, "resource.nvidia.com", "computedomains", "for NVLink between nodes", False))
    return found


@dataclass(frozen=True)
class LeastRole:
    """The Role that an admin must grant, as a manifest for `kubectl apply -f -`."""

    namespace: str
    rules: list[dict[str, list[str]]]
    schema = "doctor_rbac"

    def text(self) -> str:
        from .manifest_text import to_yaml

        bind = f"kubectl create rolebinding {ROLE} --role={ROLE} -n {self.namespace} --user=USER   # or --group=GROUP"
        return f"# what kubectl nrl uses for RayJobs; grant it with\n#   {bind}\n{to_yaml(self.data())}"

    def data(self) -> dict[str, Any]:
        return {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": ROLE, "namespace": self.namespace},
            "rules": self.rules,
        }


def permissions(reached: Reached) -> Iterator[Finding]:
    """What the least Role would grant and this user lacks."""
    from ..preflight import by_resource, granted

    asked = needs(reached.facts())
    answers = granted(reached.cluster, reached.namespace, asked)
    lacking = [need for need, answer in zip(asked, answers, strict=True) if answer is False]
    fix = paste(reached.session, reached.namespace, "doctor", "--rbac") + "   # the Role to ask for"
    where = f'in namespace "{reached.namespace}"'
    for status, missing in (("failed", True), ("note", False)):
        if words := by_resource(n for n in lacking if n.required is missing):
            yield Finding("permissions", "failed" if status == "failed" else "note",
                          f"you may not {words} {where}", fix)  # fmt: skip
    unknown = sum(answer is None for answer in answers)
    if unknown:
        yield Finding("permissions", "note", f"the cluster does not say whether you may, {where}: {unknown} questions")
    if not lacking and not unknown:
        yield Finding("permissions", "ok", f"all {len(asked)} that runs need, {where}")


def runs(reached: Reached) -> Iterator[Finding]:
    """My runs that are over and still hold GPUs, each with what releases it."""
    from ..runs import my_runs

    if not reached.facts().kuberay:
        return
    session, held = reached.session, 0
    for run in my_runs(reached.cluster, reached.namespace, session.user, all_namespaces=False, all_users=False):
        if run.final and run.gpus:
            held += 1
            fix = paste(session, run.namespace, "job", "stop", run.id)
            yield Finding("runs", "failed", f"run {run.id} is over ({run.state}) and still holds {run.gpus} GPUs", fix)
    if not held:
        yield Finding("runs", "ok", "no run of mine that is over holds GPUs")


def orphans(reached: Reached) -> Iterator[Finding]:
    """Objects that I made for runs that are not there any more, as after a call that was killed half way."""
    facts = reached.facts()
    if not facts.kuberay:
        return
    selector = f"{MANAGED}=true,{OWNER}={reached.session.user.name}"
    jobs = reached.cluster.list("ray.io/v1", "RayJob", reached.namespace, label_selector=selector)
    alive = {labels_of(job).get(RUN) for job in jobs}
    kinds = [("v1", "ConfigMap")]
    kinds += [(f"resource.k8s.io/{facts.dra_version}", "ResourceClaimTemplate")] if facts.dra_version else []
    if facts.compute_domain_version:
        kinds.append((f"resource.nvidia.com/{facts.compute_domain_version}", "ComputeDomain"))
    left, unseen = 0, []
    for api, kind in kinds:
        try:
            found = reached.cluster.list(api, kind, reached.namespace, label_selector=selector)
        except ClusterError as error:
            if error.status != 403:
                raise
            unseen.append(kind)
            continue
        for obj in found:
            if _orphaned(obj, alive) and ownership(obj, reached.session.user).mine:
                left += 1
                name = f"{kind.lower()} {obj['metadata']['name']}"
                fix = f"kubectl delete {name} -n {reached.namespace}"
                yield Finding(
                    "orphans", "warning", f"{name} was made for run {labels_of(obj)[RUN]}, which is not there", fix
                )
    if unseen:
        yield Finding("orphans", "note", f"may not be listed: {', '.join(unseen)}")
    elif not left:
        yield Finding("orphans", "ok", "nothing of mine was left behind")


def _orphaned(obj: Mapping[str, Any], alive: set[str | None]) -> bool:
    run = labels_of(obj).get(RUN)
    return bool(run) and run not in alive and not obj["metadata"].get("ownerReferences")
