"""Every key that the infra schema accepts does something, or is listed as deprecated and says so.

A key acts when setting it changes the Plan: an object, the launch, a daemon, a health check. How each is tried stands
in one table, and a key of the schema that is not in the table fails, so no key is added that nobody reads.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_nrl import config, plan
from kubectl_nrl.api import RunInfo
from kubectl_nrl.facts import OFFLINE
from kubectl_nrl.manager import Manager
from kubectl_nrl.plan.model import Options
from kubectl_nrl.schema import builtin_fragments, infra_schema, property_paths

ENV = {"NRL_K8S_USER": "rl-user", "HOME": "/nowhere"}
ROLES = ("training", "generation", "gym")

POD = {"spec": {"containers": [{"name": "ray"}]}}
SPEC = {
    "headGroupSpec": {"rayStartParams": {}, "template": POD},
    "workerGroupSpecs": [{"groupName": "w", "replicas": 4, "rayStartParams": {}, "template": POD}],
}
DAEMON = {"entrypoint": "serve"}
LAUNCH = {"entrypoint": "python run.py --config r.yaml"}
#: Made from a profile, one role: a RayJob.
SHORT = {"profile": "generic", "image": "i:1", "launch": LAUNCH}
#: Three roles, made from a profile: long-lived.
WORKERS = {"training": {"workers": 4}, "generation": {"workers": 4}, "gym": {"workers": 4}}
MANY = {**SHORT, "kuberay": WORKERS}
#: One long-lived role.
LONG = {**SHORT, "submit": {}}
KAI = {**SHORT, "scheduler": {"kind": "kai", "queue": "q", "topology": "t", "requiredPlacement": "rack"}}
APP = {"app": "d"}
PORTS = {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}}
DEPLOYMENT = {"selector": {"matchLabels": APP}, "template": {"metadata": {"labels": APP}, **PORTS}}
DEPLOYMENTS = {"d": {"spec": DEPLOYMENT}}
BESIDE = {**SHORT, "deployments": DEPLOYMENTS}


def short(path: str, value: Any, **rest: Any) -> Try:
    return Try(path, value, {**SHORT, **rest})


@dataclass(frozen=True)
class Try:
    """Set `value` at `path` of `base`. `mode` is the life cycle that is asked for."""

    path: str
    value: Any
    base: Mapping[str, Any] = field(default_factory=lambda: SHORT)
    mode: str | None = None


CLAIM = {"kind": "pvc", "pvcName": "a"}

TRIES = [
    short("namespace", "other"),
    short("image", "i:2"),
    short("imagePullSecrets", ["s"]),
    short("rayVersion", "2.55.0"),
    short("serviceAccount", "sa"),
    short("labels", {"a": "b"}),
    short("annotations", {"a": "b"}),
    short("profile", "gb300"),
    short("dra", ["roce"], profile="gb300"),
    short("secrets", ["s"]),
    short("policies.nemorl", False),
    short("scheduler.kind", "kai", scheduler={"queue": "q"}),
    Try("scheduler.queue", "other", KAI),
    Try("scheduler.topology", "other", KAI),
    Try("scheduler.requiredPlacement", "other", KAI),
    Try("scheduler.preferredPlacement", "host", KAI),
    Try("scheduler.priority", "build", KAI),
    short("placement.nodeSelector", {"a": "b"}),
    short("placement.tolerations", [{"operator": "Exists"}]),
    short("placement.affinity", {"podAntiAffinity": {}}),
    short("networking.hostNetwork", True),
    short("networking.gloo_socket_ifname", "eth1"),
    short("networking.nccl_socket_ifname", "eth1"),
    short("networking.nccl_ib_disable", True),
    short("networking.nccl_net", "OFI"),
    short("networking.extra_env", {"A": "b"}),
    short("workspace.kind", "pvc", workspace={"pvcName": "a"}),
    short("workspace.pvcName", "b", workspace=CLAIM),
    short("workspace.mountPath", "/b", workspace=CLAIM),
    short("workspace.hostPath", "/b", workspace={"kind": "hostPath", "hostPath": "/a"}),
    short(
        "workspace.codeSubPath",
        "b",
        workspace=CLAIM,
        launch={**LAUNCH, "codeSource": "lustre", "codePath": "/opt/code"},
    ),
    short("hf_cache.kind", "pvc", hf_cache={"pvcName": "a"}),
    short("hf_cache.pvcName", "b", hf_cache=CLAIM),
    short("hf_cache.mountPath", "/b", hf_cache=CLAIM),
    short("checkpoints.kind", "pvc", checkpoints={"pvcName": "a"}),
    short("checkpoints.pvcName", "b", checkpoints=CLAIM),
    short("checkpoints.mountPath", "/b", checkpoints=CLAIM),
    *(
        Try(f"resources.{role}.{pod}.{name}", value, MANY)
        for role in ROLES
        for pod in ("head", "worker")
        for name, value in (("cpu", "7"), ("memory", "7Gi"), ("gpu", 2))
    ),
    Try(
        "submit.submitter",
        "exec",
        {**LONG, "launch": {**LAUNCH, "codeSource": "image", "codePath": "/opt"}},
        "raycluster",
    ),
    short("submit.submissionMode", "SidecarMode"),
    Try("submit.localDashboardPort", 18000, LONG, "raycluster"),
    Try("submit.execTmpDir", "/mnt/tmp", LONG, "raycluster"),
    short("launch.entrypoint", "python other.py --config r.yaml"),
    short("launch.env", {"A": "b"}),
    Try("launch.runMode", "batch", {**LONG, "launch": {**LAUNCH, "codePath": "/opt/code"}}, "raycluster"),
    short("launch.codeSource", "image", launch={**LAUNCH, "codePath": "/opt/code"}),
    short("launch.codePath", "/opt/other", launch={**LAUNCH, "codeSource": "image", "codePath": "/opt/code"}),
    short("launch.recipeSource", "pod"),
    Try("launch.rayUploadPaths", ["src"], LONG, "raycluster"),
    Try("launch.attach.training", "theirs", {**SHORT, "kuberay": {"gym": {}}}, "raycluster"),
    Try("launch.attach.generation", "theirs", LONG, "raycluster"),
    Try("launch.attach.gym", "theirs", LONG, "raycluster"),
    Try("launch.peerWatcher", False, MANY),
    short("launch.logDir", "/mnt/logs"),
    short("launch.deadlineSeconds", 60),
    short("launch.preRunningDeadlineSeconds", 60),
    short("launch.backoffLimit", 2),
    *(
        Try(f"kuberay.{role}.{key}", value, MANY)
        for role in ROLES
        for key, value in (
            ("name", "other"),
            ("spec", SPEC),
            ("workers", 8),
            ("labels", {"a": "b"}),
            ("annotations", {"a": "b"}),
            ("segmentSize", 2),
            ("daemon.entrypoint", "serve other"),
        )
    ),
    *(
        Try(
            f"kuberay.{role}.daemon.{key}",
            value,
            {**SHORT, "kuberay": {**WORKERS, role: {**WORKERS[role], "daemon": daemon}}},
        )
        for role in ROLES
        for key, value, daemon in (
            ("submissionId", "other", DAEMON),
            ("env", {"A": "b"}, DAEMON),
            ("healthCheckUrl", "http://x:1/", DAEMON),
            ("healthCheckTimeoutS", 7, {**DAEMON, "healthCheckUrl": "http://x:1/"}),
            ("rayUploadPaths", ["src"], DAEMON),
        )
    ),
    Try("deployments.*.name", "other", BESIDE),
    Try("deployments.*.spec", {"replicas": 3, **DEPLOYMENT}, BESIDE),
    Try("deployments.*.labels", {"a": "b"}, BESIDE),
    Try("deployments.*.annotations", {"a": "b"}, BESIDE),
    Try("deployments.*.healthCheckUrl", "http://x:1/", BESIDE),
    Try(
        "deployments.*.healthCheckTimeoutS",
        7,
        {**SHORT, "deployments": {"d": {"spec": DEPLOYMENT, "healthCheckUrl": "http://x:1/"}}},
    ),
]

#: Accepted for upstream's sake; each draws a note with the reason.
DEPRECATED = {
    "submit.kind": "rayjob",
    "submit.portForward": "auto",
    "submit.devPod": "skip",
    "launch.mode": "attach",
    "workspace.repoSubdir": "elsewhere",
    "workspace.size": "10Gi",
}
WARNS_ONLY = {"policies.nemorl"}
BOTH_BACKENDS = {"policy": {"megatron_cfg": {"enabled": True}, "dtensor_cfg": {"enabled": True}}}


def _set(base: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    result: dict[str, Any] = copy.deepcopy(dict(base))
    *parents, last = path.replace("deployments.*", "deployments.d").split(".")
    at = result
    for key in parents:
        at = at.setdefault(key, {})
    at[last] = value
    return result


def _plan(folder: Path, infra: Mapping[str, Any], mode: str | None) -> plan.Plan:
    recipe = {"cluster": {"num_nodes": 4}, "checkpointing": {"enabled": False}, **BOTH_BACKENDS}
    (folder / "r.yaml").write_text(yaml.safe_dump(recipe))
    (folder / "i.yaml").write_text(yaml.safe_dump(dict(infra)))
    loaded = config.load("r.yaml", "i.yaml", [], env=ENV, cwd=folder)
    run = RunInfo("20260102-030405-test", datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc), loaded.user)
    return plan.build(loaded, run, OFFLINE, Options(mode=mode), MANAGER)  # type: ignore[arg-type]


MANAGER = Manager.load([], ENV)


def _acts(made: plan.Plan) -> Any:
    """What of a Plan reaches a cluster."""
    fields = (made.kind, made.namespace, made.launch, made.daemons, made.health_checks, made.attached, made.wait)
    return fields, [made_object.manifest for made_object in made.objects]


@pytest.mark.parametrize("attempt", TRIES, ids=[attempt.path for attempt in TRIES])
def test_the_key_acts(tmp_path: Path, attempt: Try) -> None:
    before = _plan(tmp_path, attempt.base, attempt.mode)
    after = _plan(tmp_path, _set(attempt.base, attempt.path, attempt.value), attempt.mode)
    if attempt.path in WARNS_ONLY:
        assert before.problems != after.problems
    else:
        assert _acts(before) != _acts(after)


@pytest.mark.parametrize("path", DEPRECATED)
def test_a_deprecated_key_changes_nothing_and_says_so(tmp_path: Path, path: str) -> None:
    base = {**SHORT, "workspace": CLAIM}
    before = _plan(tmp_path, base, None)
    after = _plan(tmp_path, _set(base, path, DEPRECATED[path]), None)
    assert _acts(before) == _acts(after)
    (said,) = set(after.problems) - set(before.problems)
    assert said.severity == "note"
    assert said.message.startswith(f"{path} is accepted and has no effect: ")


def test_the_tables_hold_every_key_of_the_schema() -> None:
    schemas = dict(property_paths(infra_schema(builtin_fragments())))
    # A key with keys of its own acts through them.
    keys = {path for path in schemas if not any(other.startswith(f"{path}.") for other in schemas)}
    tried = {attempt.path for attempt in TRIES}
    assert keys - tried - set(DEPRECATED) == set()
    assert tried - keys == set()
    assert {path for path, schema in schemas.items() if schema.get("deprecated")} == set(DEPRECATED)


def test_a_key_that_nobody_reads_would_be_found(tmp_path: Path) -> None:
    """The comparison itself: a key that is dropped (its name starts with `_`) changes nothing of what acts."""
    assert _acts(_plan(tmp_path, SHORT, None)) == _acts(_plan(tmp_path, {**SHORT, "_ignored": 1}, None))
