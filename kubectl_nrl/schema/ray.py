"""What KubeRay's operator demands of RayClusters and RayJobs after the API server has accepted them.

It reports these only in a status or an event, and a RayJob that fails them ends in ValidationFailed, which nothing
leaves. Rules and wording follow ray-operator/controllers/ray/utils/validation.go of 1.6.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from .engine import Fault
from .names import is_dns_label, label_faults
from .pods import mapping, mappings, pod_faults, present
from .words import Path, either, show

#: rayStartParams that the group's own `resources` map takes over.
_RESOURCES = ("num-cpus", "num-gpus", "memory", "resources")


def cluster_faults(
    spec: Any, path: Path = (), *, rendered: bool, volumes: Collection[str] = (), job: bool = False
) -> Iterator[Fault]:
    """Faults of a RayCluster spec; `job`: a RayJob makes the cluster. For the rest see `pod_faults`."""
    head, where = mapping(spec, "headGroupSpec"), (*path, "headGroupSpec")
    yield from _group(head, where)
    yield from _head_ports(head, where)
    yield from pod_faults(head.get("template"), (*where, "template"), ray=True, rendered=rendered, volumes=volumes)
    names: set[str] = set()
    for place, group in mappings(mapping(spec).get("workerGroupSpecs"), (*path, "workerGroupSpecs")):
        yield from _group(group, place)
        yield from _group_name(group, place, names)
        yield from _replicas(group, place)
        if group.get("suspend") and mapping(spec).get("enableInTreeAutoscaling"):
            yield Fault((*place, "suspend"), "is not possible with enableInTreeAutoscaling")
        yield from pod_faults(group.get("template"), (*place, "template"), ray=True, rendered=rendered, volumes=volumes)
    yield from _cluster(mapping(spec), path, rendered=rendered, job=job)


def _group(group: Mapping[Any, Any], where: Path) -> Iterator[Fault]:
    parameters = mapping(group, "rayStartParams")
    if "labels" in parameters:
        yield Fault((*where, "rayStartParams", "labels"), "is refused by KubeRay: write the group's `labels`")
    if present(mapping(group, "resources")):
        for key in present(parameters, _RESOURCES):
            yield Fault((*where, "rayStartParams", key), "is refused by KubeRay beside the group's `resources`")
    yield from label_faults(group, where)


def _head_ports(head: Mapping[Any, Any], where: Path) -> Iterator[Fault]:
    """Once any port is declared, the head's Service has those only, and submission needs the dashboard's."""
    place = (*where, "template", "spec", "containers")
    for here, container in [*mappings(mapping(head, "template", "spec").get("containers"), place)][:1]:
        ports = [port for _, port in mappings(container.get("ports"), here)]
        if ports and not any(port.get("name") == "dashboard" for port in ports):
            yield Fault((*here, "ports"), "must name one `dashboard` (8265): KubeRay submits through it")


def _group_name(group: Mapping[Any, Any], where: Path, names: set[str]) -> Iterator[Fault]:
    name = group.get("groupName")
    if not isinstance(name, str):
        return
    if not is_dns_label(name):
        yield Fault((*where, "groupName"), f"is {show(name)}, must be lower-case letters, digits and `-`, at most 63")
    if name in names:
        yield Fault((*where, "groupName"), f"is {show(name)}, the name of another group: KubeRay would mix their pods")
    names.add(name)


def _replicas(group: Mapping[Any, Any], where: Path) -> Iterator[Fault]:
    count = {key: group.get(key) for key in ("replicas", "minReplicas", "maxReplicas", "numOfHosts")}
    whole = {key: n for key, n in count.items() if isinstance(n, int) and not isinstance(n, bool)}
    for key, number in whole.items():
        if number < (1 if key == "numOfHosts" else 0):
            yield Fault((*where, key), f"is {show(number)}, must be at least {1 if key == 'numOfHosts' else 0}")
    low, high, wanted = whole.get("minReplicas"), whole.get("maxReplicas"), whole.get("replicas")
    if low is not None and high is not None and low > high:
        yield Fault((*where, "minReplicas"), f"is {low}, more than maxReplicas {high}")
    elif wanted is not None and low is not None and wanted < low:
        yield Fault((*where, "replicas"), f"is {wanted}, less than minReplicas {low}")
    elif wanted is not None and high is not None and wanted > high:
        yield Fault((*where, "replicas"), f"is {wanted}, more than maxReplicas {high}")


def _cluster(spec: Mapping[Any, Any], path: Path, *, rendered: bool, job: bool) -> Iterator[Fault]:
    authentication = mapping(spec, "authOptions")
    if job and authentication.get("enableK8sTokenAuth"):
        yield Fault((*path, "authOptions", "enableK8sTokenAuth"), "is refused by KubeRay for a RayJob")
    if rendered and authentication.get("mode") == "token" and _version(spec.get("rayVersion")) < (2, 52):
        yield Fault((*path, "authOptions", "mode"), "is token, which needs rayVersion 2.52.0 or later")
    if job and spec.get("upgradeStrategy") is not None:
        yield Fault((*path, "upgradeStrategy"), "is refused by KubeRay for the cluster of a RayJob")


def _version(text: Any) -> tuple[int, ...]:
    numbers = text.split(".")[:2] if isinstance(text, str) else []
    return tuple(int(n) for n in numbers) if all(n.isdecimal() and len(n) < 9 for n in numbers) else ()


def job_faults(spec: Any, path: Path = (), *, rendered: bool, volumes: Collection[str] = ()) -> Iterator[Fault]:
    """Faults of a RayJob spec, its cluster's included."""
    job = mapping(spec)
    yield from _lifetime(job, path)
    yield from _submission(job, path)
    if not present(job, ("rayClusterSpec", "clusterSelector")):
        yield Fault((*path, "rayClusterSpec"), "is required", missing=True)
    where = (*path, "rayClusterSpec")
    yield from cluster_faults(job.get("rayClusterSpec"), where, rendered=rendered, volumes=volumes, job=True)
    template = job.get("submitterPodTemplate")
    if template is not None:
        yield from pod_faults(template, (*path, "submitterPodTemplate"), ray=False, rendered=False, volumes=volumes)


def _lifetime(job: Mapping[Any, Any], path: Path) -> Iterator[Fault]:
    shutdown = bool(job.get("shutdownAfterJobFinishes"))
    ttl = _number(job.get("ttlSecondsAfterFinished"))
    if ttl < 0 or (ttl > 0 and not shutdown):
        yield Fault(
            (*path, "ttlSecondsAfterFinished"), "may be above 0 only with shutdownAfterJobFinishes, and never below"
        )
    if job.get("suspend") and not shutdown:
        yield Fault((*path, "suspend"), "needs shutdownAfterJobFinishes")
    if job.get("activeDeadlineSeconds") is not None and _number(job["activeDeadlineSeconds"]) <= 0:
        yield Fault((*path, "activeDeadlineSeconds"), "must be above 0")
    if _number(job.get("backoffLimit")) < 0:
        yield Fault((*path, "backoffLimit"), "must not be below 0")
    strategy, where = mapping(job, "deletionStrategy"), (*path, "deletionStrategy")
    rules = strategy.get("deletionRules")
    if rules and shutdown:
        yield Fault((*where, "deletionRules"), "and shutdownAfterJobFinishes exclude each other")
    if rules and present(strategy, ("onSuccess", "onFailure")):
        yield Fault((*where, "deletionRules"), "and onSuccess / onFailure exclude each other")
    yield from _rules(rules, (*where, "deletionRules"))


def _rules(rules: Any, where: Path) -> Iterator[Fault]:
    """Rules: one condition each, no pair twice, and what holds the other is deleted no earlier."""
    order = ("DeleteWorkers", "DeleteCluster", "DeleteSelf")
    seconds: dict[tuple[str, str], dict[str, float]] = {}
    for place, rule in mappings(rules, where):
        condition = mapping(rule, "condition")
        words = present(condition, ("jobStatus", "jobDeploymentStatus"))
        if len(words) != 1:
            yield Fault((*place, "condition"), "must have one of jobStatus and jobDeploymentStatus")
            continue
        policy, state = str(rule.get("policy")), (words[0], str(condition[words[0]]))
        known = seconds.setdefault(state, {})
        if policy in known:
            yield Fault((*place, "policy"), f"is {policy} for {state[1]} a second time")
        known[policy] = _number(condition.get("ttlSeconds"))
    for (_, word), known in seconds.items():
        times = [known[policy] for policy in order if policy in known]
        if times != sorted(times):
            yield Fault(
                where, f"for {word} must not delete the cluster before its workers, or the RayJob before its cluster"
            )


def _submission(job: Mapping[Any, Any], path: Path) -> Iterator[Fault]:
    mode = job.get("submissionMode")
    if mode == "InteractiveMode" and _number(job.get("backoffLimit")) > 0:
        yield Fault((*path, "backoffLimit"), "must be 0 in InteractiveMode")
    if mode == "SidecarMode":
        for key in present(job, ("submitterPodTemplate", "submitterConfig", "clusterSelector")):
            yield Fault((*path, key), "is refused by KubeRay in SidecarMode")
        template = mapping(job, "rayClusterSpec", "headGroupSpec", "template", "spec")
        if template.get("restartPolicy") not in (None, "Never"):
            place = (*path, "rayClusterSpec", "headGroupSpec", "template", "spec", "restartPolicy")
            yield Fault(place, "must be Never in SidecarMode")
    managers = ("ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue")
    if job.get("managedBy") not in (None, *managers):
        yield Fault((*path, "managedBy"), f"must be {either(managers)}")
    yield from _runtime_env(job.get("runtimeEnvYAML"), (*path, "runtimeEnvYAML"))


def _runtime_env(text: Any, path: Path) -> Iterator[Fault]:
    if not isinstance(text, str):
        return
    import yaml

    try:
        yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        yield Fault(path, "is no YAML")


def _number(value: Any) -> float:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0
