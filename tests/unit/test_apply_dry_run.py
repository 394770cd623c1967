"""Asking the API server first: everything at once, each distinct pod template once, and what counts as a verdict."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster
from plans import plan, planned, pod_template, rayjob

from kubectl_nrl.apply import dry_run, pod_templates
from kubectl_nrl.errors import ClusterError


def group(name: str, **template: Any) -> dict[str, Any]:
    return {"groupName": name, "template": pod_template(**template)}


def test_equal_templates_of_segments_are_asked_about_once() -> None:
    segments = [group(f"gpu-segment-{i}", image="w:1") for i in range(4)] + [group("judge", image="j:1")]
    words = [pods.words for _, pods in pod_templates(plan(rayjob(groups=segments)))]
    assert words == [
        "head pod of rayjob/demo",
        "pods of group gpu-segment-0 of rayjob/demo",
        "pods of group judge of rayjob/demo",
    ]


def test_a_submitter_pod_is_a_template_too() -> None:
    job = rayjob(submitterPodTemplate=pod_template(image="s:1"))
    assert next(pods.words for _, pods in pod_templates(plan(job))) == "submitter pod of rayjob/demo"


def test_everything_is_asked_and_nothing_is_made() -> None:
    cluster = FakeCluster()
    result = dry_run(plan(planned("ConfigMap", "script"), rayjob()), cluster)
    assert result.refusals == ()
    assert result.checked == (
        "configmap/script",
        "rayjob/demo",
        "head pod of rayjob/demo",
        "pods of group w of rayjob/demo",
    )
    assert cluster.objects == {}
    assert not [c for c in cluster.calls if c[0] == "create"]


def test_all_refusals_come_at_once() -> None:
    cluster = FakeCluster()
    cluster.faults["dry-run", "RayJob"] = ClusterError("unknown field spec.x", status=400, reason="BadRequest")
    cluster.faults["dry-run", "Pod"] = ClusterError("volumeMounts[0] not found", status=422, reason="Invalid")
    result = dry_run(plan(), cluster)
    assert [r.subject for r in result.refusals] == [
        "rayjob/demo",
        "head pod of rayjob/demo",
        "pods of group w of rayjob/demo",
    ]
    assert result.refusals[0].message == "unknown field spec.x"


@pytest.mark.parametrize(
    ("message", "reason", "refused", "note"),
    [
        ('pods "x" is forbidden: exceeded quota: q, requested: cpu=2', "Forbidden", 0, "would wait"),
        ('admission webhook "w" does not support dry run', "BadRequest", 0, "was not checked"),
        ('violates PodSecurity "restricted"', "Forbidden", 2, ""),
        ('error looking up service account: serviceaccount "x" not found', "Forbidden", 2, ""),
        ("already exists", "AlreadyExists", 0, ""),
    ],
)
def test_what_counts_as_a_verdict(message: str, reason: str, refused: int, note: str) -> None:
    cluster = FakeCluster()
    cluster.faults["dry-run", "Pod"] = ClusterError(message, status=403, reason=reason)
    result = dry_run(plan(), cluster)
    assert len(result.refusals) == refused
    assert all(note in n for n in result.notes)
    assert bool(result.notes) == bool(note)


def test_who_may_not_make_pods_is_told_that_templates_went_unchecked() -> None:
    cluster = FakeCluster(denied={("create", "pods")})
    result = dry_run(plan(), cluster)
    assert result.checked == ("rayjob/demo",)
    assert "you may not create pods" in result.notes[0]


def test_an_api_server_that_does_not_answer_is_an_error_of_its_own() -> None:
    cluster = FakeCluster()
    cluster.faults["dry-run", "RayJob"] = ClusterError("connection refused")
    with pytest.raises(ClusterError, match="connection refused"):
        dry_run(plan(), cluster)
