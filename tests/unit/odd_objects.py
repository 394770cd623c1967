"""Objects of a cluster as they may come: made by other tools and other versions, half written, with anybody's text in them.

What the API server itself guarantees is kept: names, uids and times of creation, labels of the right form, and the types of KubeRay's
and Kubernetes' schemas. Everything else may be absent, null, or odd.
"""

from __future__ import annotations

import base64
import gzip
from typing import Any

from hypothesis import strategies as st

#: Text that nobody here has written: what a terminal obeys, other scripts, JSON, absurd numbers, nothing.
ODD_TEXT = st.sampled_from(
    [
        "", " ", "x", "two\nlines", "\x1b[2J\x1b]52;c;ZWNobw==\x07", "\x9b2J", "tab\tand\rreturn", "\u202egnp.exe", "日本語",
        "🙂", "\x00", "null", "true", "-1", "0", "1e9", "9" * 5000, "²", "{", "[" * 3000, "{}", "[]", '{"line": 3}', "../../x", "a/b",
        ".", "-rf", "$(id)", "'", '"', "2026-01-02T03:04:05", "2026-01-02T03:04:05Z", "not a time", "9999-12-31T23:59:59Z",
        "0001-01-01T00:00:00Z", "ray.io", "sh -c ': nrl x; (echo AAAA | base64 -d | gzip -dc; echo exit 97) | sh'",
        base64.b64encode(gzip.compress(b"[1]")).decode(), base64.b64encode(gzip.compress(b"{")[:12]).decode(),
    ]
) | st.text(max_size=8)  # fmt: skip
TIMES = st.sampled_from(
    ["2026-01-02T02:00:00Z", "2026-01-02T03:04:05Z", "2025-12-01T00:00:00Z", "2026-01-03T00:00:00Z"]
)
COUNTS = st.integers(0, 3) | st.sampled_from([2**31 - 1])
STATES = st.sampled_from(
    ["Complete", "Failed", "Running", "Waiting", "Suspended", "ValidationFailed", "Retrying", "New"]
)
JOB_STATES = st.sampled_from(["SUCCEEDED", "FAILED", "STOPPED", "RUNNING", "PENDING", "New"])
CONDITIONS = [
    "HeadPodReady", "RayClusterProvisioned", "ReplicaFailure", "RayClusterSuspended", "Ready", "PodScheduled", "ContainersReady",
    "DisruptionTarget", "PodReadyToStartContainers",
]  # fmt: skip


@st.composite
def some(draw: st.DrawFn, **fields: st.SearchStrategy[Any]) -> dict[str, Any]:
    """A mapping in which each field may be absent or null, and mostly is neither."""
    made: dict[str, Any] = {}
    for name, value in fields.items():
        chance = draw(st.integers(0, 9))
        if chance:
            made[name] = draw(value) if chance > 1 else None
    return made


def several(of: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(of, max_size=2)


CONDITION = st.fixed_dictionaries(
    {"type": st.sampled_from(CONDITIONS), "status": st.sampled_from(["True", "False", "Unknown"])},
    optional={"reason": ODD_TEXT, "message": ODD_TEXT, "lastTransitionTime": TIMES | st.none()},
)
QUANTITY = st.sampled_from(["1", "500m", "64Gi", "4", 8, 0.5, "1e3"])
RESOURCES = some(
    limits=st.dictionaries(st.sampled_from(["cpu", "nvidia.com/gpu", "memory"]), QUANTITY, max_size=2),
    requests=st.dictionaries(st.sampled_from(["cpu", "nvidia.com/gpu"]), QUANTITY, max_size=2),
)
CONTAINER = st.fixed_dictionaries(
    {"name": st.sampled_from(["ray", "side"])}, optional={"resources": RESOURCES | st.none()}
)
POD_SPEC = some(
    containers=several(CONTAINER), initContainers=several(CONTAINER), nodeName=st.just("n0"), schedulerName=ODD_TEXT
)
PARAMS = st.dictionaries(st.sampled_from(["num-gpus", "port", "dashboard-port", "temp-dir"]), ODD_TEXT, max_size=2)
TEMPLATE = some(spec=POD_SPEC, metadata=some(labels=st.just({})))
GROUP = some(
    groupName=ODD_TEXT,
    replicas=COUNTS,
    numOfHosts=COUNTS,
    suspend=st.booleans(),
    rayStartParams=PARAMS,
    template=TEMPLATE,
)
CLUSTER_SPEC = some(
    headGroupSpec=some(rayStartParams=PARAMS, template=TEMPLATE), workerGroupSpecs=several(GROUP), suspend=st.booleans()
)
CLUSTER_STATUS = some(
    state=st.sampled_from(["ready", "failed", "suspended", ""]), conditions=several(CONDITION), reason=ODD_TEXT,
    desiredWorkerReplicas=COUNTS, readyWorkerReplicas=COUNTS, desiredGPU=QUANTITY,
    stateTransitionTimes=some(ready=TIMES), head=some(serviceName=ODD_TEXT),
)  # fmt: skip
RULE = some(
    policy=st.sampled_from(["DeleteWorkers", "DeleteCluster", "DeleteSelf", "DeleteNone"]),
    condition=some(jobStatus=JOB_STATES, jobDeploymentStatus=STATES, ttlSeconds=COUNTS),
)
JOB_SPEC = some(
    rayClusterSpec=CLUSTER_SPEC, entrypoint=ODD_TEXT, jobId=ODD_TEXT, shutdownAfterJobFinishes=st.booleans(),
    ttlSecondsAfterFinished=COUNTS,
    deletionStrategy=some(deletionRules=several(RULE)), submissionMode=st.sampled_from(["HTTPMode", "InteractiveMode"]),
    suspend=st.booleans(), preRunningDeadlineSeconds=COUNTS,
)  # fmt: skip
JOB_STATUS = some(
    jobDeploymentStatus=STATES, jobStatus=JOB_STATES, reason=ODD_TEXT, message=ODD_TEXT, jobId=ODD_TEXT, startTime=TIMES, endTime=TIMES,
    rayClusterName=st.sampled_from(["c", "c", "gone", ""]), rayClusterStatus=CLUSTER_STATUS,
)  # fmt: skip
TERMINATED = some(exitCode=st.integers(0, 255), reason=ODD_TEXT, message=ODD_TEXT, finishedAt=TIMES)
STATE = some(
    waiting=some(reason=ODD_TEXT | st.sampled_from(["ImagePullBackOff", "CrashLoopBackOff"]), message=ODD_TEXT),
    running=some(startedAt=TIMES), terminated=TERMINATED,
)  # fmt: skip
CONTAINER_STATUS = some(
    name=ODD_TEXT,
    image=ODD_TEXT,
    ready=st.booleans(),
    restartCount=COUNTS,
    state=STATE,
    lastState=some(terminated=TERMINATED),
)
POD_STATUS = some(
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]), reason=ODD_TEXT, message=ODD_TEXT,
    conditions=several(CONDITION), containerStatuses=several(CONTAINER_STATUS), initContainerStatuses=several(CONTAINER_STATUS),
    startTime=TIMES, resourceClaimStatuses=several(some(name=ODD_TEXT, resourceClaimName=ODD_TEXT)),
)  # fmt: skip
ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        ["kubectl-nrl/user", "kubectl-nrl/last-applied", "kubectl-nrl/submission", "kubectl-nrl/wandb-url", "other/x"]
    ),
    ODD_TEXT,
    max_size=3,
)
#: Whose an object is: labels have a form that the API server sees to.
LABELS = st.fixed_dictionaries(
    {},
    optional={
        "kubectl-nrl/owner": st.sampled_from(["rl-user", "other", ""]),
        "nrl-k8s/owner": st.sampled_from(["rl-user", "other"]),
        "kubectl-nrl/managed": st.just("true"),
        "kubectl-nrl/run": st.sampled_from(["run-1", "run-2", ""]),
        "kubectl-nrl/cluster": st.sampled_from(["c", ""]),
    },
)
OWNER = st.sampled_from(
    [
        {"apiVersion": "ray.io/v1", "kind": kind, "name": "j", "uid": uid}
        for kind in ("RayJob", "Job")
        for uid in ("j", "x")
    ]
)


def metadata(name: str, **labels: str) -> st.SearchStrategy[dict[str, Any]]:
    """What every object has, and what it may have; `labels` are there in any case."""
    return st.fixed_dictionaries(
        {
            "name": st.just(name),
            "namespace": st.just("default"),
            "uid": st.just(name),
            "creationTimestamp": TIMES,
            "labels": LABELS.map(lambda found: {**found, **labels}),
        },
        optional={
            "annotations": ANNOTATIONS | st.none(),
            "deletionTimestamp": TIMES,
            "finalizers": several(ODD_TEXT) | st.none(),
            "ownerReferences": several(OWNER) | st.none(),
        },
    )


def whole(
    kind: str, meta: st.SearchStrategy[Any], **parts: st.SearchStrategy[Any]
) -> st.SearchStrategy[dict[str, Any]]:
    """An object; each part may be absent or null."""
    return st.tuples(meta, some(**parts)).map(
        lambda found: {
            "apiVersion": "ray.io/v1" if kind.startswith("Ray") else "v1",
            "kind": kind,
            "metadata": found[0],
            **found[1],
        }
    )


RAYJOB = whole("RayJob", metadata("j"), spec=JOB_SPEC, status=JOB_STATUS)
RAYCLUSTER = whole("RayCluster", metadata("c"), spec=CLUSTER_SPEC, status=CLUSTER_STATUS)
POD = st.sampled_from(["head", "worker"]).flatmap(
    lambda kind: whole(
        "Pod",
        metadata(f"c-{kind}", **{"ray.io/cluster": "c", "ray.io/node-type": kind}),
        spec=POD_SPEC,
        status=POD_STATUS,
    )
)
#: The record of a run on a long-lived cluster: a ConfigMap's values are anybody's text.
RECORD = st.dictionaries(
    st.sampled_from(
        [
            "id",
            "submitter",
            "submissionId",
            "rayCluster",
            "rayClusterUid",
            "recipe",
            "startTime",
            "endTime",
            "state",
            "message",
            "place",
        ]
    ),
    ODD_TEXT | st.sampled_from(["c", "SUCCEEDED", "exec"]),
    max_size=6,
).flatmap(
    lambda data: whole("ConfigMap", metadata("nrl-run-run-2", **{"kubectl-nrl/record": "run"}), data=st.just(data))
)
EVENT = st.fixed_dictionaries(
    {"metadata": metadata("e"), "kind": st.just("Event")},
    optional={
        "reason": ODD_TEXT
        | st.sampled_from(["FailedMount", "FailedScheduling", "FailedToCreateHeadPod", "InvalidRayJobSpec"]),
        "message": ODD_TEXT,
        "type": st.just("Warning"),
        "lastTimestamp": TIMES | st.none(),
        "series": some(lastObservedTime=TIMES) | st.none(),
        "involvedObject": some(uid=st.sampled_from(["j", "c", "c-head"])),
    },
)
#: A job as a head's Jobs API tells it: what its metadata holds is the submitter's.
RAY_JOB = some(
    submission_id=ODD_TEXT | st.just("run-2"), job_id=ODD_TEXT, status=JOB_STATES, message=ODD_TEXT, entrypoint=ODD_TEXT,
    start_time=st.integers(-1, 2**70), end_time=st.integers(-1, 2**70), driver_info=some(pid=ODD_TEXT),
    metadata=st.dictionaries(
        st.sampled_from(["user", "kubectl-nrl/daemon", "kubectl-nrl/role", "kubectl-nrl/health-url"]), ODD_TEXT, max_size=3
    ),
)  # fmt: skip
