"""Whether pods of several roles may tell one another where they are: NeMo-RL writes that into ConfigMaps.

The ConfigMaps are named `nemo-rl-endpoints-<job id>`, and the pods write them with their own service account (NeMo-RL's
infra/examples/endpoint-registry-rbac.yaml lists the verbs).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..api import Check
from ..errors import ClusterError
from ..manifests.pods import pod_sets

if TYPE_CHECKING:
    from ..plan.model import Plan

_VERBS = ("get", "create", "update", "patch", "delete")
ROLE = "nemo-rl-endpoints"
#: How the training is told the id: `env.disagg_job_id` of the recipe, or the environment.
_ID = re.compile(r"disagg_job_id", re.IGNORECASE)


def endpoint_checks(cluster: Any, plan: Plan) -> Iterator[Check]:
    """One check for each service account of the Ray pods of a Plan whose roles exchange their URLs so, by an id that all are given."""
    told = any(daemon.rendezvous for daemon in plan.daemons) or _ID.search(plan.launch.script)
    if len(plan.roles) + len(plan.attached) < 2 or not told:
        return
    ray = (p for o in plan.objects if o.kind in ("RayJob", "RayCluster") for p in pod_sets(o.manifest))
    for account in sorted({str(p.spec.get("serviceAccountName") or "default") for p in ray}):
        yield _account(cluster, plan.namespace, account)


def _account(cluster: Any, namespace: str, account: str) -> Check:
    title = f'service account "{account}" writes nemo-rl-endpoints-* ConfigMaps'
    try:
        missing = [verb for verb in _VERBS if not cluster.may_account(verb, "", "configmaps", namespace, account)]
    except ClusterError as error:
        if error.status != 403:
            raise
        return Check(title, None, "you may not ask what a service account may do", grant(namespace, account))
    if missing:
        detail = f"the pods' service account may not {', '.join(missing)} configmaps: roles would not find one another"
        return Check(title, False, detail, grant(namespace, account), False)
    return Check(title, True)


def grant(namespace: str, account: str) -> str:
    """The RBAC to apply, as one line to paste."""
    namespace, account = shlex.quote(namespace), shlex.quote(account)
    role = f"kubectl create role {ROLE} -n {namespace} --resource=configmaps --verb={','.join(_VERBS)}"
    binding = f"kubectl create rolebinding {ROLE} -n {namespace} --role={ROLE} --serviceaccount={namespace}:{account}"
    return f"{role} && {binding}"
