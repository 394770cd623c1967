"""Infra files as the schema's tests need them: a Config without files, a value for every key, and ways to misspell one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kubectl_nrl.errors import Origin, Problem
from kubectl_nrl.schema import builtin_fragments, check_infra, infra_schema, property_paths

#: A value for each key that is accepted, by its dotted path.
VALUES: dict[str, Any] = {
    "namespace": "rl",
    "image": "registry.example/nemo-rl:v1",
    "imagePullSecrets": ["registry-secret"],
    "rayVersion": "2.52.0",
    "serviceAccount": "trainer",
    "labels": {"team": "rl", "example.com/cost-centre": "7"},
    "annotations": {"note": "anything, really: 1/2"},
    "profile": "gb300",
    "dra": ["computedomain", "roce"],
    "secrets": ["ada-secrets"],
    "scheduler.kind": "kai",
    "scheduler.queue": "rl",
    "scheduler.topology": "gb300-topology",
    "scheduler.requiredPlacement": "nvidia.com/gpu.clique",
    "scheduler.preferredPlacement": "kubernetes.io/hostname",
    "scheduler.priority": "train",
    "placement.nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-GB300"},
    "placement.tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "placement.affinity": {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    },
    "networking.hostNetwork": True,
    "networking.gloo_socket_ifname": "eth0",
    "networking.nccl_socket_ifname": "eth0",
    "networking.nccl_ib_disable": False,
    "networking.nccl_net": "IB",
    "networking.extra_env": {"NCCL_DEBUG": "INFO", "NCCL_MIN_NCHANNELS": 4, "FLAG": True},
    "workspace.kind": "lustre",
    "workspace.pvcName": "rl-workspace",
    "workspace.mountPath": "/mnt/rl",
    "workspace.repoSubdir": "workdirs",
    "workspace.size": "500Gi",
    "workspace.hostPath": "/data",
    "workspace.codeSubPath": "ada/nemo-rl",
    "hf_cache.kind": "pvc",
    "hf_cache.pvcName": "hf",
    "hf_cache.mountPath": "/hf",
    "checkpoints.kind": "lustre",
    "checkpoints.pvcName": "checkpoints",
    "checkpoints.mountPath": "/checkpoints",
    "submit.submitter": "exec",
    "submit.submissionMode": "SidecarMode",
    "submit.localDashboardPort": 18265,
    "submit.execTmpDir": "/var/tmp",
    "submit.kind": "sdk",
    "submit.portForward": "auto",
    "submit.devPod": "skip",
    "launch.entrypoint": "set -eu\npython -u examples/run_grpo.py --config recipe.yaml | tee log",
    "launch.env": {"NCCL_DEBUG": "WARN", "COUNT": 3, "RATE": 1e-4, "ON": True},
    "launch.runMode": "batch",
    "launch.codeSource": "lustre",
    "launch.codePath": "/opt/nemo-rl",
    "launch.recipeSource": "pod",
    "launch.rayUploadPaths": ["nemo_rl", "examples"],
    "launch.attach.training": "training-1",
    "launch.attach.generation": "generation-1",
    "launch.attach.gym": "gym-1",
    "launch.mode": "attach",
    "launch.peerWatcher": False,
    "launch.logDir": "/mnt/rl/logs",
    "launch.deadlineSeconds": 86400,
    "launch.preRunningDeadlineSeconds": 3600,
    "launch.backoffLimit": 1,
    "deployments.judge.name": "judge",
    "deployments.judge.spec": {"replicas": 1},
    "deployments.judge.labels": {"app": "judge"},
    "deployments.judge.annotations": {"a": "b"},
    "deployments.judge.healthCheckUrl": "http://judge:8000/health",
    "deployments.judge.healthCheckTimeoutS": 60,
    "policies.nemorl": False,
}
_ROLE_VALUES: dict[str, Any] = {
    "spec": {"headGroupSpec": {}},
    "workers": 4,
    "labels": {"role": "x"},
    "annotations": {"a": "b"},
    "segmentSize": 16,
    "daemon.entrypoint": "python serve.py",
    "daemon.submissionId": "server",
    "daemon.env": {"PORT": 8000},
    "daemon.healthCheckUrl": "https://server:8000/health",
    "daemon.healthCheckTimeoutS": 60,
    "daemon.rayUploadPaths": ["nemo_rl"],
}
for _role in ("training", "generation", "gym"):
    VALUES[f"kuberay.{_role}.name"] = f"{_role}-1"
    VALUES.update({f"kuberay.{_role}.{key}": value for key, value in _ROLE_VALUES.items()})
    for _pod in ("head", "worker"):
        VALUES.update(
            {f"resources.{_role}.{_pod}.{key}": v for key, v in (("cpu", "16"), ("memory", "64Gi"), ("gpu", 4))}
        )

#: Keys without effect: each says why.
IDLE = {
    "submit.kind", "submit.portForward", "submit.devPod", "launch.mode", "workspace.repoSubdir", "workspace.size",
}  # fmt: skip


class NoOrigins:
    """Origins of a tree that was never a file: each value's is its path, so that order and place can be asserted."""

    def get(self, path: tuple[Any, ...]) -> Origin | None:
        return Origin("/".join(map(str, path)))


@dataclass(frozen=True)
class Written:
    """What `check_infra` reads of a Config."""

    infra: Any
    infra_origins: NoOrigins = field(default_factory=NoOrigins)


def problems(infra: Any, **options: Any) -> list[Problem]:
    """The problems of an infra file with the built-in providers."""
    return check_infra(Written(infra), options.pop("fragments", None) or builtin_fragments(), **options)  # type: ignore[arg-type]


def texts(found: list[Problem], severity: str = "error") -> list[str]:
    return [problem.message for problem in found if problem.severity == severity]


def nested(path: str, value: Any) -> dict[str, Any]:
    """A value at a dotted path."""
    for step in reversed(path.split(".")):
        value = {step: value}
    return value


def at(value: Any, path: str) -> Any:
    for step in path.split(".") if path else ():
        value = value[step]
    return value


def whole() -> dict[str, Any]:
    """An infra file that holds every key at once."""
    infra: dict[str, Any] = {}
    for path, value in VALUES.items():
        place = infra
        *steps, last = path.split(".")
        for step in steps:
            place = place.setdefault(step, {})
        place[last] = value
    return infra


def known_paths() -> list[str]:
    """Every key of the schema, with `judge` for a deployment's name."""
    return [path.replace("*", "judge") for path, _ in property_paths(infra_schema(builtin_fragments()))]


def misspellings(word: str) -> Iterator[str]:
    """A letter left out, two swapped, one doubled, one wrong; and the other way to join words."""
    middle = len(word) // 2
    yield word[:middle] + word[middle + 1 :]
    yield word[: middle - 1] + word[middle] + word[middle - 1] + word[middle + 1 :]
    yield word[:middle] + word[middle] + word[middle:]
    yield word[:middle] + "x" + word[middle + 1 :]
    yield "".join("_" + c.lower() if c.isupper() else c for c in word) if word != word.lower() else word.upper()
