"""Why runs wait, by a real scheduler, real controllers and KubeRay; and what becomes of a run that cannot start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.errors import ClusterError
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster
from command_line import CommandLine, Running, wait_until
from nrl_plugins.dra_computedomain import ComputeDomain
from nrl_plugins.scheduler_default import DefaultScheduler
from nrl_plugins.scheduler_kai import KaiScheduler
from run_files import files
from waiting_rayjobs import Looking, rayjob

pytestmark = pytest.mark.node


@pytest.fixture
def cli(kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path) -> Iterator[CommandLine]:
    yield CommandLine(kwok_cluster, kwok_namespace, tmp_path)


def asks(**requests: str) -> dict[str, Any]:
    amounts = {name.replace("gpu", "nvidia.com/gpu"): value for name, value in requests.items()}
    return {"container": {"resources": {"requests": amounts, "limits": amounts}}}


def volume(claim: str) -> dict[str, object]:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}


def device(template: str) -> dict[str, object]:
    claims = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": template}]}
    return {**claims, "container": {"resources": {"claims": [{"name": "c"}]}}}


def test_what_scheduler_and_controllers_say_is_named(kwok_cluster: Cluster, kwok_namespace: str) -> None:
    """One namespace full of runs that wait, each for another reason."""
    look = Looking(kwok_cluster, kwok_namespace)
    request = {"name": "nic", "exactly": {"deviceClassName": "roce.example", "count": 8}}
    look.create(
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "unbound"},
            "spec": {
                "storageClassName": "nope", "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}},
            },
        },
        {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "nics"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        },
        rayjob("cpu", worker=asks(cpu="999")),
        rayjob("gpu", worker=asks(gpu="8")),
        rayjob("labels", worker={"nodeSelector": {"pool": "gb300"}}),
        rayjob("no-pvc", worker=volume("nope")),
        rayjob("unbound", worker=volume("unbound")),
        rayjob("priority", worker={"priorityClassName": "nope"}),
        rayjob("account", head={"serviceAccountName": "nope"}),
        rayjob("template", worker=device("nope")),
        rayjob("claim", worker=device("nics")),
        rayjob("invalid", worker={"volumes": [{"name": "v", "secret": {"secretName": "x"}, "emptyDir": {}}]}),
        rayjob("scheduler", worker={"schedulerName": "kai-scheduler"}),
        rayjob("refused", suspend=True, shutdownAfterJobFinishes=False),
        rayjob("held", suspend=True),
    )  # fmt: skip
    look.lines(
        {
            "cpu": "2/2 workers of w: Unschedulable, 0/",
            "gpu": "2/2 workers of w: Unschedulable, 0/",
            "labels": "2/2 workers of w: Unschedulable, 0/",
            "no-pvc": '2/2 workers of w: PersistentVolumeClaimNotFound, persistentvolumeclaim "nope" does not exist',
            "unbound": 'PersistentVolumeClaim "unbound": Pending, storageclass.storage.k8s.io "nope" not found',
            "priority": "2/2 workers of w: PriorityClassNotFound, no PriorityClass with name nope was found",
            "account": "head: ServiceAccountNotFound, ",
            "template": '2/2 workers of w: ClaimTemplateNotFound, resource claim template "nope" does not exist',
            "claim": "2 resource claims: Unallocated, nothing can be allocated yet of 8 x roce.example, for workers of w",
            "invalid": "2/2 workers of w: InvalidPod, spec.volumes[0]",
            "refused": "rayjob/refused: ValidationFailed, ",
            "held": "rayjob/held: Suspended, ",
        }
    )
    look.lines({"scheduler": '2/2 workers of w: NotScheduled, scheduler "kai-scheduler"'}, later=60)
    largest = "pods of w: TooLarge, a pod asks for cpu 999, and no node has more than 144, even empty"
    look.lines({"cpu": largest}, providers=(DefaultScheduler(),))
    heals = {
        name: {t.heals for t in look.troubles(name)} for name in ("gpu", "no-pvc", "template", "invalid", "refused")
    }
    assert "by hand" not in heals["gpu"]
    assert "by hand" in heals["no-pvc"] & heals["template"]
    assert "never" in heals["invalid"] & heals["refused"]


def test_a_taint_that_nobody_tolerates_is_named_and_gone_when_it_is(kwok_cluster: Cluster, kwok_namespace: str) -> None:
    node = f"tainted-{kwok_namespace}"
    kwok_cluster.kubectl("create", "-f", "-", stdin=json.dumps(_node(node)))
    try:
        look = Looking(kwok_cluster, kwok_namespace)
        look.create(rayjob("tainted", worker={"nodeSelector": {"kubernetes.io/hostname": node}}))
        look.until("tainted", lambda trouble: "untolerated taint" in trouble.message and trouble.heals == "alone")
        kwok_cluster.kubectl("taint", "node", node, "reserved-")
        wait_until(lambda: not [t for t in look.troubles("tainted") if "taint" in t.message], "the trouble to go")
    finally:
        kwok_cluster.kubectl("delete", "node", node, "--wait=false")


def _node(name: str) -> dict[str, object]:
    from cluster.fake_nodes import fake_node

    return {**fake_node(name), "spec": {"taints": [{"key": "reserved", "value": "x", "effect": "NoSchedule"}]}}


def test_pods_that_admission_refuses_are_named_although_there_are_none(
    kwok_cluster: Cluster, kwok_namespace: str
) -> None:
    """A quota shows in no pod and, in the RayJob, as Initializing for ever."""
    look = Looking(kwok_cluster, kwok_namespace)
    look.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    )
    patch = ["-n", kwok_namespace, "patch", "quota", "q", "-p"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "any"},
        "spec": {"containers": [{"name": "c", "image": "x:1", "resources": asks(cpu="10m")["container"]["resources"]}]},
    }
    _until_refused(kwok_cluster, kwok_namespace, pod, "exceeded quota: q")
    look.create(rayjob("quota"))
    trouble = look.until("quota", lambda trouble: trouble.reason == "QuotaExceeded")
    assert trouble.line.startswith("head: QuotaExceeded, exceeded quota: q")
    kwok_cluster.kubectl(*patch, json.dumps({"spec": {"hard": {"count/rayclusters.ray.io": "0"}}}))
    spec = rayjob("any")["spec"]["rayClusterSpec"]
    raycluster = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "any"}, "spec": spec}
    _until_refused(kwok_cluster, kwok_namespace, raycluster, "exceeded quota: q")
    look.create(rayjob("cluster"))
    look.lines({"cluster": "rayjob/cluster: QuotaExceeded, exceeded quota: q, requested: count/rayclusters.ray.io=1"})
    kwok_cluster.kubectl(*patch, json.dumps({"spec": {"hard": {"pods": "1"}}}))
    trouble = look.until("quota", lambda trouble: "workers" in trouble.who)
    assert trouble.line.startswith("2/2 workers of w: QuotaExceeded")
    kwok_cluster.kubectl("-n", kwok_namespace, "delete", "quota", "q")
    limit = {"limits": [{"type": "Container", "max": {"cpu": "1m"}}]}
    look.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": limit})
    _until_refused(kwok_cluster, kwok_namespace, pod, "maximum cpu usage per Container is 1m")
    look.create(rayjob("limit", head=asks(cpu="10m")))
    look.lines({"limit": "head: LimitRange, maximum cpu usage per Container is 1m"})


def _until_refused(cluster: Cluster, namespace: str, manifest: dict[str, object], words: str) -> None:
    """Wait until admission refuses the object so: it learns of quotas and limits a moment after they are made."""

    def refused() -> bool:
        try:
            cluster.kubectl("-n", namespace, "create", "--dry-run=server", "-f", "-", stdin=json.dumps(manifest))
        except ClusterError as error:
            return words in str(error)
        return False

    wait_until(refused, words)


def test_an_operator_that_is_down_is_named(kwok_cluster: Cluster, kwok_namespace: str) -> None:
    look = Looking(kwok_cluster, kwok_namespace)
    with kwok_cluster.without_kuberay():
        look.create(rayjob("unseen"))
        assert look.troubles("unseen") == []
        [trouble] = look.troubles("unseen", later=25)
        assert trouble.line.startswith(
            "rayjob/unseen: NotReconciled, KubeRay has not looked at it: is the operator running"
        )


def test_a_head_that_was_killed_and_came_back_lost_its_history(kwok_cluster: Cluster, kwok_namespace: str) -> None:
    """Written into the status as kubelet does, since a fake pod runs nothing that could die."""
    look = Looking(kwok_cluster, kwok_namespace)
    look.create(rayjob("killed", submissionMode="InteractiveMode"))
    words = [
        "-n",
        kwok_namespace,
        "get",
        "pods",
        "-l",
        "ray.io/node-type=head",
        "--field-selector",
        "status.phase=Running",
    ]
    wait_until(lambda: bool(kwok_cluster.kubectl(*words, "-o", "name")), "the head")
    killed = {"reason": "OOMKilled", "exitCode": 137, "startedAt": None, "finishedAt": None}
    change = [
        {"op": "replace", "path": "/status/containerStatuses/0/restartCount", "value": 1},
        {"op": "replace", "path": "/status/containerStatuses/0/lastState", "value": {"terminated": killed}},
    ]
    head = kwok_cluster.kubectl(*words, "-o", "name").strip()
    patch = ["patch", head, "--subresource=status", "--type=json", "-p", json.dumps(change)]
    kwok_cluster.kubectl("-n", kwok_namespace, *patch)
    restarted = look.until("killed", lambda trouble: trouble.reason == "Restarted")
    assert restarted.line.startswith("head: Restarted, container ray was restarted after OOMKilled (exit 137)")
    assert restarted.line.endswith("Ray's jobs and their history are lost")


def test_what_kai_and_the_dra_driver_write_is_named(kwok_cluster: Cluster, kwok_namespace: str) -> None:
    """Objects that the real CRDs accept, written as the real controllers write them; they themselves are not here."""
    look = Looking(kwok_cluster, kwok_namespace)
    kai = {"schedulerName": "kai-scheduler"}
    look.create(rayjob("gang", head=kai, worker=kai))
    get = ["-n", kwok_namespace, "get"]
    wait_until(lambda: len(kwok_cluster.kubectl(*get, "pods", "-o", "name").split()) == 3, "the pods")
    uid = kwok_cluster.kubectl(*get, "rayjob", "gang", "-o", "jsonpath={.metadata.uid}")
    owners = [{"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "gang", "uid": uid}]
    group, domain = {"name": "pg-gang", "ownerReferences": owners}, {"name": "domain", "ownerReferences": owners}
    channel = {"resourceClaimTemplate": {"name": "domain"}}
    look.create(
        {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": group, "spec": {"minMember": 3}},
        {
            "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain", "metadata": domain,
            "spec": {"numNodes": 0, "channel": channel},
        },
    )  # fmt: skip
    kwok_cluster.kubectl("-n", kwok_namespace, "annotate", "pods", "--all", "pod-group-name=pg-gang")

    def write(what: str, status: dict[str, object]) -> None:
        words = ["patch", what, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status})]
        kwok_cluster.kubectl("-n", kwok_namespace, *words)

    why = {"reason": "QueueDoesNotExist", "message": "Queue 'nope' does not exist"}
    condition = {"type": "UnschedulableOnNodePool", "nodePool": "default", "status": "True", "reasons": [why]}
    write("podgroup/pg-gang", {"schedulingConditions": [condition]})
    providers = (KaiScheduler(), ComputeDomain())
    lines = {"gang": "PodGroup pg-gang: QueueDoesNotExist, Queue 'nope' does not exist"}
    look.lines(lines, providers=providers)
    write("podgroup/pg-gang", {"schedulingConditions": []})
    look.lines({"gang": "PodGroup pg-gang: GangWaiting, 0/3 pods scheduled"}, providers=providers)
    node = {"name": "n0", "ipAddress": "10.0.0.1", "cliqueID": "c", "index": 0, "status": "NotReady"}
    write("computedomain/domain", {"status": "NotReady", "nodes": [node]})
    look.lines(
        {"gang": "ComputeDomain domain: NotReady, the IMEX daemon is not ready on 1 of 1 nodes: n0"},
        providers=providers,
    )


def claims(cli: CommandLine, claim: str) -> None:
    """The next run's worker mounts that claim."""
    written = files("true", image="none/ray:1", name="k", codePath="/tmp")
    written["infra.yaml"]["kuberay"]["training"]["spec"]["workerGroupSpecs"][0]["template"]["spec"] |= volume(claim)
    for file, data in written.items():
        (cli.directory / file).write_text(yaml.safe_dump(data))


@contextmanager
def claims_out_of_sight(cli: CommandLine) -> Iterator[dict[str, str]]:
    """The environment of somebody who may not look at volume claims beforehand: else their absence is said before anything exists."""
    with FaultProxy(cli.cluster.kubeconfig) as proxy:
        proxy.answer(403, times=1, method="GET", path="/persistentvolumeclaims/")
        yield {"KUBECONFIG": str(proxy.kubeconfig)}


def test_a_start_that_waits_for_a_hand_too_long_is_given_up_and_gives_all_back(cli: CommandLine) -> None:
    """A typo must not hold a rack of GPUs over a weekend: here the head runs while its worker can never."""
    claims(cli, "nope")
    with claims_out_of_sight(cli) as through:
        running = cli.start("run recipe.yaml --infra infra.yaml --start-timeout 4 -o json", **through)
        assert running.end() == 4, running
    # Its pods are gone by now, KubeRay's word for what it made is not.
    events = cli.cluster.kubectl("-n", cli.namespace, "get", "events", "-o", "jsonpath={.items[*].reason}").split()
    assert {"CreatedHeadPod", "CreatedWorkerPod"} <= set(events)
    assert cli.pods() == []
    assert cli.rayjobs() == []
    assert "gave up: it cannot start after" in running.err
    assert "hint: kubectl get pvc -n" in running.err
    result = json.loads(running.out)
    assert (result["exitCode"], result["reason"], result["notGone"]) == (4, "PersistentVolumeClaimNotFound", [])


def test_a_cause_that_somebody_mends_lets_the_run_go_on(cli: CommandLine) -> None:
    claims(cli, "late")
    with claims_out_of_sight(cli) as through:
        running = cli.start("run recipe.yaml --infra infra.yaml --start-timeout 3600", **through)
        mend_late(cli, running)


def mend_late(cli: CommandLine, running: Running) -> None:
    running.until(lambda: '"late" does not exist' in running.err, "the cause")
    name = f"late-{cli.namespace}"
    size = {"storage": "1Mi"}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": name}
    volumes = [
        {
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {**spec, "capacity": size, "hostPath": {"path": "/tmp"}},
        },
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "late"},
            "spec": {**spec, "resources": {"requests": size}},
        },
    ]
    try:
        items = [{"apiVersion": "v1", **volume} for volume in volumes]
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        cli.cluster.kubectl("-n", cli.namespace, "create", "-f", "-", stdin=listed)
        assert running.end() == 0, running
        assert running.err.count('"late" does not exist') == 1
    finally:
        cli.cluster.kubectl("delete", "pv", name, "--wait=false")
