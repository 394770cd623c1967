"""What the test cluster makes of Kueue's own manifests: webhooks that this machine answers, at its address."""

from __future__ import annotations

from typing import Any

import pytest
from cluster import kueue, lifecycle
from cluster.errors import ClusterError
from cluster.state import State


def webhook(group: str, *resources: str) -> dict[str, Any]:
    return {"rules": [{"apiGroups": [group], "resources": list(resources)}]}


@pytest.mark.parametrize(
    ("hook", "kept"),
    [
        (webhook("kueue.x-k8s.io", "workloads", "workloads/status"), True),
        (webhook("ray.io", "rayjobs"), True),
        (webhook("batch", "jobs"), True),
        (webhook("", "pods"), False),
        (webhook("apps", "deployments"), False),
        (webhook("ray.io", "rayservices"), False),
    ],
)
def test_only_webhooks_that_somebody_answers_are_kept(hook: dict[str, Any], kept: bool) -> None:
    """One of a kind that this Kueue does not manage would refuse every pod of the cluster."""
    assert kueue._answered(hook) is kept


def test_every_webhook_of_a_manifest_is_led_to_this_machine() -> None:
    crd = {"spec": {"conversion": {"webhook": {"clientConfig": {"service": {"name": "a"}}}}}}
    config = {"webhooks": [{"clientConfig": {"service": {"name": "b"}}}, {"clientConfig": {"service": {"name": "c"}}}]}
    assert [service["name"] for manifest in (crd, config) for service in kueue._services(manifest)] == ["a", "b", "c"]


def test_kubectls_objects_are_read_whether_it_lists_them_or_not() -> None:
    text = '{"kind": "List", "items": [{"kind": "A"}, {"kind": "B"}]}\n{"kind": "C"}\n'
    assert [found["kind"] for found in kueue._decoded(text)] == ["A", "B", "C"]


def test_objects_are_named_as_kubectl_names_them() -> None:
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "x.y"}}
    assert kueue._resource(crd) == "customresourcedefinition.apiextensions.k8s.io/x.y"
    assert kueue._resource({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}) == "secret/s"


def test_kueue_is_refused_where_nothing_runs(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match="is not up"):
        lifecycle.queues(State(tmp_path / "kwok", "kwok"), "start")
    monkeypatch.setattr("cluster.processes.running", lambda state, name: True)
    with pytest.raises(ClusterError, match="nothing runs at api depth"):
        lifecycle.queues(State(tmp_path / "api", "api"), "start")
