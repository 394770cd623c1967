"""The checks of `doctor` on a namespace: what I may do there, and what my runs left there; and the least Role for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .connecting import paste
from .doctor_cluster import Reached
from .doctor_finding import Finding

if TYPE_CHECKING:
    from ..runs import Leftover

ROLE = "kubectl-nrl"


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
    from ..preflight import by_resource, granted, least_needs

    asked = least_needs(reached.facts())
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
    """My runs that are over and still hold something: for nothing, or as they were told to."""
    from ..runs import my_runs

    if not reached.facts().kuberay:
        return
    litter = {left.uid: left for left in _mine(reached) if left.kind == "RayJob"}
    mine = my_runs(reached.cluster, reached.namespace, reached.session.user, all_namespaces=False, all_users=False)
    if any(run.final and run.gpus is None for run in mine):
        yield Finding("runs", "note", "what my runs that are over still hold is not known: pods may not be listed")
        return
    said = 0
    for run in mine:
        left = litter.get(run.uid)
        if not run.final or not run.gpus:
            continue
        said += 1
        message = f"run {run.id} is over ({run.state}) and still holds {run.gpus} GPUs"
        if left is not None and left.action != "look":
            yield Finding("runs", "failed", message, paste(reached.session, run.namespace, "clean"))
        else:
            stop = paste(reached.session, run.namespace, "job", "stop", run.id)
            yield Finding("runs", "note", f"{message}, for a while or on purpose", stop)
    if not said:
        yield Finding("runs", "ok", "no run of mine that is over holds GPUs")


def orphans(reached: Reached) -> Iterator[Finding]:
    """What my runs left behind beside the RayJobs that `runs` names, as `clean` finds it."""
    if not reached.facts().kuberay:
        return
    found = [left for left in _mine(reached) if not (left.kind == "RayJob" and left.holds.gpus)]
    for left in found:
        fix = paste(reached.session, left.namespace, "clean")
        if left.action == "look":
            fix = f"kubectl get {left.kind.lower()} {left.name} -n {left.namespace} -o yaml"
        yield Finding("orphans", "warning", f"{left.words}: {left.why}", fix)
    if unseen := reached.survey().blind:
        yield Finding("orphans", "note", f"may not be listed: {', '.join(sorted(unseen))}")
    elif not found:
        yield Finding("orphans", "ok", "nothing of mine was left behind")


def _mine(reached: Reached) -> list[Leftover]:
    from ..runs import leftovers

    return [left for left in leftovers(reached.survey(), reached.session.user) if left.owner.mine]
