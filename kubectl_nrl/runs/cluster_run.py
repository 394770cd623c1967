"""The record of a run on a long-lived cluster: a ConfigMap that its RayCluster owns.

Ray forgets its jobs when its head restarts, and a RayCluster knows nothing of jobs at all, so what was submitted is written down
before it is: a run is then found from any laptop, whatever became of its head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..api import User
from ..errors import ClusterError
from ..labels import CLUSTER, MANAGED, OWNER, RAW_USER, RECORD, RUN, UPSTREAM_OWNER, annotations_of, labels_of
from ..manifests.names import cut, dns_label, label_value
from ..rayjob_state import parse_time
from .named import Owned

#: Longest name of a ConfigMap (a DNS subdomain), far below what Kubernetes allows, so that it can be read.
NAME_MAX = 100


@dataclass(frozen=True)
class ClusterRun(Owned):
    """A run as its record tells it. `state` is Ray's last known word, empty while nobody has seen an end."""

    @property
    def config_map(self) -> Mapping[str, Any]:
        return self.manifest

    @property
    def _data(self) -> Mapping[str, str]:
        return self.config_map.get("data") or {}

    @property
    def id(self) -> str:
        return str(self._data.get("id") or labels_of(self.config_map).get(RUN) or "")

    @property
    def ray_cluster(self) -> str:
        return str(self._data.get("rayCluster") or "")

    @property
    def ray_cluster_uid(self) -> str:
        return str(self._data.get("rayClusterUid") or "")

    @property
    def submitter(self) -> str:
        return str(self._data.get("submitter") or "")

    @property
    def submission_id(self) -> str:
        return str(self._data.get("submissionId") or self.id)

    @property
    def place(self) -> str:
        """Where its submitter keeps it (`Submitter.place`)."""
        return str(self._data.get("place") or "")

    @property
    def pod(self) -> str:
        """The head's pod when it was submitted; recorded for a run that its submitter keeps in a place of its own."""
        return str(self._data.get("pod") or "")

    @property
    def recipe(self) -> str:
        return str(self._data.get("recipe") or "")

    @property
    def state(self) -> str:
        return str(self._data.get("state") or "")

    @property
    def reason(self) -> str:
        return str(self._data.get("reason") or "")

    @property
    def message(self) -> str:
        return str(self._data.get("message") or "")

    @property
    def wandb(self) -> str:
        return str(self._data.get("wandbUrl") or "")

    @property
    def expects(self) -> Mapping[str, str]:
        """What was launched, in the words of `evidence.Launched`."""
        return self._data

    @property
    def raw_user(self) -> str:
        return annotations_of(self.config_map).get(RAW_USER, "")

    @property
    def started(self) -> datetime | None:
        return parse_time(self._data.get("startTime"))

    @property
    def ended(self) -> datetime | None:
        return parse_time(self._data.get("endTime"))

    def seconds(self, now: datetime) -> float | None:
        """Seconds from its submission to its end, or to now."""
        return max(0.0, ((self.ended or now) - self.started).total_seconds()) if self.started else None


def record_name(run_id: str) -> str:
    """The ConfigMap's name. An id is no DNS name: two that map alike are told apart by a hash."""
    label = dns_label(run_id)
    plain = label in (run_id, f"x-{run_id}")
    return cut(f"nrl-run-{run_id if plain else label + '-' + _hash(run_id)}", NAME_MAX)


def new_record(
    run_id: str, raycluster: Mapping[str, Any], user: User, *, cluster_label: str, submitter: str, submission_id: str,
    recipe: str, started: datetime, pod: str = "", place: str = "", expects: Mapping[str, str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The record of a run that is about to be submitted to that RayCluster.

    `pod` is its head's; `place` is where the submitter keeps the run, if it says so; `expects` is what the end of the run is to show
    (`evidence.Launched.words`).
    """
    meta = raycluster["metadata"]
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": record_name(run_id),
            "namespace": meta["namespace"],
            "labels": {
                MANAGED: "true",
                "app.kubernetes.io/managed-by": "kubectl-nrl",
                OWNER: user.name,
                UPSTREAM_OWNER: user.name,
                CLUSTER: label_value(cluster_label),
                RUN: run_id,
                RECORD: "run",
            },
            "annotations": {RAW_USER: user.raw},
            "ownerReferences": [owner],
        },
        "data": {
            "id": run_id,
            "submitter": submitter,
            "submissionId": submission_id,
            "rayCluster": meta["name"],
            "rayClusterUid": meta["uid"],
            "recipe": recipe,
            "startTime": _text(started),
            **({"pod": pod, "place": place} if place else {}),
            **(expects or {}),
        },
    }


def write_record(cluster: Any, record: Mapping[str, Any]) -> ClusterRun:
    """Write it down. Raises `ClusterError`, with status 409 for an id that another run has."""
    try:
        return ClusterRun(cluster.create(record, namespace=record["metadata"]["namespace"]))
    except ClusterError as error:
        if error.reason != "AlreadyExists":
            raise
        run_id = record["data"]["id"]
        known = find_cluster_run(cluster, record["metadata"]["namespace"], run_id)
        where = f" on raycluster/{known.ray_cluster} ({known.state or 'no end was seen'})" if known else ""
        raise ClusterError(
            f'run id "{run_id}" is taken by a run{where}', "choose another --run-id, or leave it out", status=409,
            reason="AlreadyExists",
        ) from error  # fmt: skip


def note(cluster: Any, run: ClusterRun, *, ended: datetime | None = None, **values: str) -> ClusterRun:
    """Add to a record (`state`, `reason`, `message`, `wandbUrl`); the record as it is then. Raises `ClusterError`."""
    data = {**values, **({"endTime": _text(ended)} if ended else {})}
    return ClusterRun(cluster.patch("v1", "ConfigMap", run.name, run.namespace, {"data": data}))


def find_cluster_run(cluster: Any, namespace: str, run_id: str) -> ClusterRun | None:
    """The record of that id; None when there is none, or records may not be read."""
    try:
        live = cluster.get("v1", "ConfigMap", record_name(run_id), namespace)
    except ClusterError as error:
        if error.status != 403:
            raise
        return None
    return ClusterRun(live) if live is not None and labels_of(live).get(RECORD) == "run" else None


def cluster_runs(
    cluster: Any, namespace: str, user: User, *, all_namespaces: bool = False, all_users: bool = False
) -> list[ClusterRun]:
    """My records, or everybody's; newest first."""
    selector = f"{RECORD}=run" + ("" if all_users else f",{OWNER}={user.name}")
    found = cluster.list("v1", "ConfigMap", namespace, label_selector=selector, all_namespaces=all_namespaces)
    runs = [ClusterRun(item) for item in found]
    mine = [run for run in runs if all_users or run.raw_user in ("", user.raw)]
    return sorted(mine, key=lambda run: (run.started.timestamp() if run.started else 0.0, run.id), reverse=True)


def runs_on(cluster: Any, raycluster: Mapping[str, Any]) -> list[ClusterRun]:
    """The records of that very cluster's runs, everybody's. Raises `ClusterError`."""
    meta = raycluster["metadata"]
    found = cluster.list("v1", "ConfigMap", meta["namespace"], label_selector=f"{RECORD}=run")
    return [run for run in map(ClusterRun, found) if run.ray_cluster_uid == meta["uid"]]


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _hash(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:6]
