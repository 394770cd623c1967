"""What Kubernetes demands of a pod beyond its fields' types: the faults its API server finds in pods, not in a RayJob.

The API server does not look into a RayJob's or RayCluster's templates, so a template with such a fault is accepted,
and its pods are refused one by one later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from .engine import Fault
from .names import is_dns_label, label_faults
from .quantities import quantity
from .words import Path, show

#: KubeRay appends these after the user's list, whatever it holds (ray-operator/controllers/ray/common/pod.go,
#: setContainerEnvVars).
KUBERAY_ENV = frozenset({
    "FQ_RAY_IP", "RAY_IP", "RAY_CLUSTER_NAME", "RAY_CLUSTER_NAMESPACE", "RAY_CLOUD_INSTANCE_ID", "RAY_NODE_TYPE_NAME",
    "KUBERAY_GEN_RAY_START_CMD",
})  # fmt: skip
_CONTAINERS = ("initContainers", "containers")
_HANDLERS = ("exec", "grpc", "httpGet", "tcpSocket")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def mappings(value: Any, path: Path) -> Iterator[tuple[Path, Mapping[Any, Any]]]:
    """The mappings in a list, each with its path; nothing where there is no list."""
    for index, item in enumerate(value) if isinstance(value, (list, tuple)) else ():
        if isinstance(item, Mapping):
            yield (*path, index), item


def mapping(value: Any, *steps: str) -> Mapping[Any, Any]:
    """The mapping at a path; an empty one where there is none."""
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def present(value: Mapping[Any, Any], keys: Collection[Any] | None = None) -> list[str]:
    """The keys that are written and not null, in the order written."""
    return [key for key, item in value.items() if item is not None and (keys is None or key in keys)]


def pod_faults(
    template: Any, path: Path = (), *, ray: bool, rendered: bool, volumes: Collection[str] = ()
) -> Iterator[Fault]:
    """Faults of a pod template. `ray`: KubeRay starts it. `rendered`: nothing is added to it any more.

    `volumes` are names of volumes that are added later, which mounts may name already, as they may `nrl-...`: the names
    of the volumes of sections.
    """
    yield from label_faults(mapping(template, "metadata"), (*path, "metadata"))
    spec, where = mapping(template, "spec"), (*path, "spec")
    if isinstance(spec.get("containers"), (list, tuple)) and not spec["containers"]:
        yield Fault((*where, "containers"), "needs at least one container")
    yield from _volumes(spec, where, volumes)
    yield from _tolerations(spec, where)
    if rendered:
        yield from _claims(spec, where)
    names: set[str] = set()
    for kind in _CONTAINERS:
        for place, container in mappings(spec.get(kind), (*where, kind)):
            yield from _unique(container.get("name"), names, (*place, "name"), "container")
            yield from _container(container, place, rendered)
    if ray:
        yield from _kuberay_env(spec, where)


def _unique(name: Any, names: set[str], path: Path, what: str) -> Iterator[Fault]:
    if not isinstance(name, str):
        return
    if not is_dns_label(name):
        yield Fault(path, f"is {show(name)}, no {what} name: lower-case letters, digits and `-`, at most 63")
    if name in names:
        yield Fault(path, f"is {show(name)}, the name of another {what} of the pod")
    names.add(name)


def _volumes(spec: Mapping[Any, Any], where: Path, later: Collection[str]) -> Iterator[Fault]:
    names: set[str] = set()
    for place, volume in mappings(spec.get("volumes"), (*where, "volumes")):
        yield from _unique(volume.get("name"), names, (*place, "name"), "volume")
        sources = [key for key in present(volume) if key != "name"]
        if len(sources) != 1:
            yield Fault(place, f"must have one source, and has {' and '.join(map(str, sources)) or 'none'}")
    for kind in _CONTAINERS:
        for place, container in mappings(spec.get(kind), (*where, kind)):
            yield from _mounts(container, place, names | set(later))


def _mounts(container: Mapping[Any, Any], where: Path, names: Collection[str]) -> Iterator[Fault]:
    taken: set[str] = set()
    for place, mount in mappings(container.get("volumeMounts"), (*where, "volumeMounts")):
        name, path = mount.get("name"), mount.get("mountPath")
        if isinstance(name, str) and name not in names and not name.startswith("nrl-"):
            yield Fault((*place, "name"), f"is {show(name)}, and the pod has no volume of that name")
        if isinstance(path, str) and path in taken:
            yield Fault((*place, "mountPath"), f"is {show(path)}, where another volume is mounted")
        taken.add(str(path))


def _tolerations(spec: Mapping[Any, Any], where: Path) -> Iterator[Fault]:
    for place, toleration in mappings(spec.get("tolerations"), (*where, "tolerations")):
        if toleration.get("operator") == "Exists" and toleration.get("value"):
            yield Fault((*place, "value"), "must be left out when operator is Exists")
        if not toleration.get("key") and toleration.get("operator") != "Exists":
            yield Fault(place, "has no key: then operator must be Exists")


def _claims(spec: Mapping[Any, Any], where: Path) -> Iterator[Fault]:
    names: set[str] = set()
    for place, claim in mappings(spec.get("resourceClaims"), (*where, "resourceClaims")):
        yield from _unique(claim.get("name"), names, (*place, "name"), "claim")
        sources = present(claim, ("resourceClaimName", "resourceClaimTemplateName"))
        if len(sources) != 1:
            yield Fault(place, "must have one of resourceClaimName and resourceClaimTemplateName")
    for kind in _CONTAINERS:
        for place, container in mappings(spec.get(kind), (*where, kind)):
            used = mapping(container, "resources").get("claims")
            for here, claim in mappings(used, (*place, "resources", "claims")):
                if isinstance(claim.get("name"), str) and claim["name"] not in names:
                    yield Fault((*here, "name"), f"is {show(claim['name'])}, and the pod has no claim of that name")


def _container(container: Mapping[Any, Any], where: Path, rendered: bool) -> Iterator[Fault]:
    if rendered and not container.get("image"):
        yield Fault((*where, "image"), "is required", missing=True)
    for place, variable in mappings(container.get("env"), (*where, "env")):
        yield from _variable(variable, place)
    for probe in _PROBES:
        handlers = present(mapping(container, probe), _HANDLERS)
        if len(handlers) > 1:
            yield Fault((*where, probe), f"must have one handler, and has {' and '.join(handlers)}")
    yield from _ports(container, where)
    yield from _resources(container, where)


def _variable(variable: Mapping[Any, Any], where: Path) -> Iterator[Fault]:
    source = variable.get("valueFrom")
    if variable.get("value") not in (None, "") and source is not None:
        yield Fault(where, "has both value and valueFrom")
    if isinstance(source, Mapping) and len(present(source)) != 1:
        yield Fault((*where, "valueFrom"), f"must have one source, and has {' and '.join(present(source)) or 'none'}")
    name = variable.get("name")
    if isinstance(name, str) and (not name or "=" in name or not name.isprintable()):
        yield Fault((*where, "name"), f"is {show(name)}, no name of an environment variable")


def _ports(container: Mapping[Any, Any], where: Path) -> Iterator[Fault]:
    names: set[Any] = set()
    for place, port in mappings(container.get("ports"), (*where, "ports")):
        number, name = port.get("containerPort"), port.get("name")
        if isinstance(number, int) and not 0 < number < 65536:
            yield Fault((*place, "containerPort"), f"is {show(number)}, must be between 1 and 65535")
        if isinstance(name, str):
            if name in names:
                yield Fault((*place, "name"), f"is {show(name)}, the name of another port")
            names.add(name)


def _resources(container: Mapping[Any, Any], where: Path) -> Iterator[Fault]:
    """A request above its limit; and for devices, which cannot be overcommitted, any that differs."""
    limits, requests = mapping(container, "resources", "limits"), mapping(container, "resources", "requests")
    for name, request in requests.items():
        asked, limit = quantity(request), quantity(limits.get(name))
        if asked is None or limit is None or not isinstance(name, str):
            continue
        place = (*where, "resources", "requests", name)
        if asked > limit:
            yield Fault(place, f"is {show(request)}, more than its limit {show(limits[name])}")
        elif asked < limit and "/" in name:
            yield Fault(place, f"is {show(request)}, must equal its limit {show(limits[name])}")


def _kuberay_env(spec: Mapping[Any, Any], where: Path) -> Iterator[Fault]:
    """Variables of the Ray container (container 0) that KubeRay sets itself."""
    for place, container in [*mappings(spec.get("containers"), (*where, "containers"))][:1]:
        for here, variable in mappings(container.get("env"), (*place, "env")):
            name = variable.get("name")
            if isinstance(name, str) and (name in KUBERAY_ENV or name.startswith("KUBERAY_GEN_")):
                yield Fault((*here, "name"), f"is {show(name)}, which KubeRay sets itself: leave it out")
