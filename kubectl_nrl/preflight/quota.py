"""ResourceQuotas and LimitRanges against what the pods of a Plan ask for together.

A quota that is used up heals when others finish, and is a note; one that is smaller than the Plan never admits it.
Sources: Kubernetes' pkg/quota/v1/evaluator/core/pods.go, plugin/pkg/admission/limitranger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ..api import Check
from ..manifests.amounts import Amounts, amounts, container_amounts, plus, pod_amounts, show
from ..manifests.pods import PodSet, pod_sets

if TYPE_CHECKING:
    from ..plan.model import Plan

_BARE = ("cpu", "memory", "ephemeral-storage")


def quota_checks(cluster: Any, plan: Plan) -> Iterator[Check]:
    """One check for each quota and each limit range that says something of this Plan."""
    limits = cluster.list("v1", "LimitRange", plan.namespace)
    pods = [with_defaults(p, limits) for obj in plan.objects for p in pod_sets(obj.manifest)]
    yield from limit_checks(pods, limits, plan.namespace)
    for quota in cluster.list("v1", "ResourceQuota", plan.namespace):
        yield quota_check(quota, plan, pods)


def quota_check(quota: Mapping[str, Any], plan: Plan, pods: Sequence[PodSet]) -> Check:
    """Whether the quota has what the Plan's pods ask for, now or ever."""
    name, title = quota["metadata"]["name"], f'quota "{quota["metadata"]["name"]}"'
    describe = f"kubectl describe quota {name} -n {plan.namespace}"
    status = quota.get("status") or {}
    hard = amounts(status.get("hard") or (quota.get("spec") or {}).get("hard"))
    used = amounts(status.get("used"))
    counted = [p for p in pods if _in_scope(quota, p.spec)]
    if unsaid := next(_unsaid(hard, counted), ""):
        return Check(title, False, f"{unsaid}, so its pods are refused", describe)
    asked = _charged(plan, counted)
    never = [_words(key, asked[key], hard[key], "allows") for key in hard if asked.get(key, 0) > hard[key]]
    if never:
        return Check(title, False, "; ".join(never), f"{describe}   # ask its admin for more, or use fewer nodes")
    left = {key: hard[key] - used.get(key, Fraction(0)) for key in hard}
    later = [_words(key, asked[key], left[key], "has left") for key in hard if asked.get(key, 0) > left[key]]
    if later:
        return Check(title, None, f"{'; '.join(later)}: pods wait until others end", describe)
    return Check(title, True)


def _words(key: str, asked: Fraction, there: Fraction, verb: str) -> str:
    name = key.removeprefix("requests.")
    return f"the run needs {show(key, asked)} {name}, the quota {verb} {show(key, max(there, Fraction(0)))}"


def _charged(plan: Plan, pods: Sequence[PodSet]) -> Amounts:
    """What a quota counts of the Plan: pods, their requests and limits, and the objects themselves."""
    total: Amounts = {}
    for p in pods:
        requests, limits = pod_amounts(p.spec), pod_amounts(p.spec, "limits")
        each = {f"requests.{name}": amount for name, amount in requests.items()}
        each |= {f"limits.{name}": amount for name, amount in limits.items()}
        each |= {name: requests[name] for name in _BARE if name in requests}
        total = plus(total, {**each, "pods": Fraction(1), "count/pods": Fraction(1)}, p.count)
    kinds = [(obj.kind, obj.api_version.rpartition("/")[0]) for obj in plan.objects]
    # KubeRay makes a RayCluster of each RayJob, and is refused it where the quota has none left.
    kinds += [("RayCluster", group) for kind, group in kinds if kind == "RayJob"]
    for kind, group in kinds:
        total = plus(total, {f"count/{kind.lower()}s" + (f".{group}" if group else ""): Fraction(1)})
    return total


def _containers(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Quotas and limit ranges look at init containers as well."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _unsaid(hard: Mapping[str, Fraction], pods: Sequence[PodSet]) -> Iterator[str]:
    """Containers that do not say what a quota counts: Kubernetes refuses such pods ("must specify")."""
    for key in hard:
        which, _, name = (
            key.rpartition(".") if key.partition(".")[0] in ("requests", "limits") else ("requests", "", key)
        )
        if name not in _BARE:
            continue
        for p in pods:
            for container in _containers(p.spec):
                if name not in container_amounts(container, "limits" if which == "limits" else "requests"):
                    yield f'container "{container.get("name")}" of the {p.words} has no {name} {which[:-1]}'


def _in_scope(quota: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    spec = quota.get("spec") or {}
    selectors = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    selectors += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return all(_scope(selector, pod) for selector in selectors)


def _scope(selector: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    name, ends = selector.get("scopeName"), pod.get("activeDeadlineSeconds") is not None
    best_effort = not pod_amounts(pod) and not pod_amounts(pod, "limits")
    if name == "PriorityClass":
        there, values = pod.get("priorityClassName"), selector.get("values") or ()
        found = {"In": there in values, "NotIn": there not in values, "Exists": bool(there), "DoesNotExist": not there}
        return found.get(str(selector.get("operator")), False)
    known = {
        "Terminating": ends,
        "NotTerminating": not ends,
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
    }
    return known.get(str(name), False)


def with_defaults(pods: PodSet, ranges: Sequence[Mapping[str, Any]]) -> PodSet:
    """The pods as the LimitRanger admission would leave them: what a container does not say gets the namespace's default."""
    import copy
    from dataclasses import replace

    template = copy.deepcopy(dict(pods.template))
    for limit in _limits(ranges, "Container"):
        for container in _containers(template.get("spec") or {}):
            resources = container.setdefault("resources", {})
            default, own = limit.get("default") or {}, resources.get("limits") or {}
            wanted = {**default, **(limit.get("defaultRequest") or {}), **own, **(resources.get("requests") or {})}
            container["resources"] = {**resources, "limits": {**default, **own}, "requests": wanted}
    return replace(pods, template=template)


def limit_checks(pods: Sequence[PodSet], ranges: Sequence[Mapping[str, Any]], namespace: str) -> Iterator[Check]:
    """What a LimitRange forbids a container or a pod to ask for; nothing where all is within it."""
    for limits in ranges:
        name = limits["metadata"]["name"]
        broken = [*dict.fromkeys(words for p in pods for words in _outside(p, limits))]
        if broken:
            fix = f"kubectl describe limitrange {name} -n {namespace}   # ask for less, or ask its admin"
            yield Check(f'limit range "{name}"', False, "; ".join(broken), fix)


def _outside(pods: PodSet, limits: Mapping[str, Any]) -> Iterator[str]:
    for limit in _limits([limits], "Container"):
        for container in _containers(pods.spec):
            who = f'container "{container.get("name")}" of the {pods.words}'
            yield from _beyond(
                who, container_amounts(container, "requests"), container_amounts(container, "limits"), limit
            )
    for limit in _limits([limits], "Pod"):
        yield from _beyond(f"the {pods.words}", pod_amounts(pods.spec), pod_amounts(pods.spec, "limits"), limit)


def _beyond(who: str, requests: Amounts, upper: Amounts, limit: Mapping[str, Any]) -> Iterator[str]:
    for name, most in amounts(limit.get("max")).items():
        if upper.get(name, requests.get(name, Fraction(0))) > most:
            asked = upper.get(name) or requests[name]
            yield f"{who}: {show(name, asked)} {name} is more than the {show(name, most)} that are allowed"
    for name, least in amounts(limit.get("min")).items():
        if name in requests and requests[name] < least:
            yield f"{who}: {show(name, requests[name])} {name} is less than the {show(name, least)} that are asked for"


def _limits(ranges: Sequence[Mapping[str, Any]], kind: str) -> Iterator[Mapping[str, Any]]:
    for limits in ranges:
        for limit in (limits.get("spec") or {}).get("limits") or ():
            if limit.get("type") == kind:
                yield limit
