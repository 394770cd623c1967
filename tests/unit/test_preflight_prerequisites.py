"""Whether what pods refer to exists: what is wrong, whom to ask, and that no Secret's value is read into words."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from fake_cluster import FakeCluster

from kubectl_nrl.api import Check
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.facts import ClusterFacts
from kubectl_nrl.preflight.prerequisites import namespace_check, reference_checks
from kubectl_nrl.preflight.references import Reference

FORBIDDEN = ClusterError("forbidden", status=403, reason="Forbidden")


def check(cluster: FakeCluster, *refs: Reference) -> Check:
    (found,) = reference_checks(cluster, "default", ClusterFacts(), refs)
    return found


def holding(kind: str, name: str, **fields: Any) -> FakeCluster:
    cluster = FakeCluster()
    cluster.put({"kind": kind, "metadata": {"name": name, **fields.pop("metadata", {})}, **fields})
    return cluster


def test_keys_of_a_secret_are_named_and_values_never() -> None:
    cluster = holding("Secret", "hf", data={"OTHER": "aGZfZGVtb18xMjM="})
    found = check(cluster, Reference("Secret", "hf", "HF_TOKEN", source="i.yaml:3"), Reference("Secret", "hf"))
    assert found.ok is False
    assert found.title == 'Secret "hf" (i.yaml:3)'
    assert found.detail == 'has no key "HF_TOKEN" (its keys: OTHER)'
    assert found.fix == "kubectl edit secret hf -n default   # add under stringData: HF_TOKEN: VALUE"
    assert "aGZf" not in repr(found)
    assert check(cluster, Reference("Secret", "hf", "OTHER")).ok is True


def test_values_are_not_even_asked_for_where_no_key_is() -> None:
    cluster = holding("Secret", "hf", data={"OTHER": "aGZfZGVtb18xMjM="})
    asked: list[str] = []
    cluster.get = lambda *words, **_: asked.append("values")  # type: ignore[method-assign,assignment]
    cluster.metadata = lambda *words, **_: {"metadata": {"name": "hf"}}  # type: ignore[method-assign,assignment]
    assert check(cluster, Reference("Secret", "hf")).ok is True
    assert asked == []


@pytest.mark.parametrize(
    ("refs", "ok", "blocks", "fix"),
    [
        ([Reference("Secret", "s", "k")], False, True, "kubectl create secret generic s -n default --from-file=k=FILE"),
        (
            [Reference("Secret", "s", "HF_TOKEN")],
            False,
            True,
            "--from-env-file=FILE   # with a line for each of HF_TOKEN",
        ),
        ([Reference("Secret", "s")], False, True, "kubectl create secret generic s -n default --from-env-file=FILE"),
        ([Reference("ConfigMap", "s", "k")], False, True, "kubectl create configmap s -n default --from-file=k=FILE"),
        ([Reference("Secret", "s", use="pull")], False, False, "kubectl create secret docker-registry s -n default"),
        ([Reference("Secret", "s", optional=True)], None, True, ""),
        ([Reference("Secret", "s", optional=True), Reference("Secret", "s", "k")], False, True, "--from-file=k=FILE"),
    ],
)
def test_what_is_absent_fails_unless_it_is_optional(refs: list[Reference], ok: Any, blocks: bool, fix: str) -> None:
    found = check(FakeCluster(), *refs)
    assert (found.ok, found.blocks) == (ok, blocks)
    assert fix in found.fix


@pytest.mark.parametrize(
    "reference",
    [
        Reference("Secret", "$(id)", "a;b"),
        Reference("Secret", "$(id)", use="pull"),
        Reference("ServiceAccount", "$(id)"),
    ],
)
def test_a_name_from_a_file_means_nothing_to_the_shell_that_a_fix_is_pasted_into(reference: Reference) -> None:
    fix = check(FakeCluster(), reference).fix
    pasted = f"kubectl() {{ printf '%s\\n' \"$@\"; }}; {fix}"
    words = subprocess.run(["sh", "-c", pasted], capture_output=True, text=True, check=True).stdout.splitlines()
    assert "$(id)" in words
    assert not reference.key or "--from-file=a;b=FILE" in words


def test_a_missing_optional_key_is_a_note() -> None:
    found = check(holding("ConfigMap", "c", data={}), Reference("ConfigMap", "c", "k", optional=True))
    assert (found.ok, found.fix) == (None, "")


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap", "PersistentVolumeClaim", "ServiceAccount", "ResourceClaim"])
def test_what_may_not_be_read_is_a_note(kind: str) -> None:
    cluster = FakeCluster(faults={("get", kind): FORBIDDEN})
    assert check(cluster, Reference(kind, "x", "k" if kind == "Secret" else "")).ok is None


@pytest.mark.parametrize(
    ("claim", "mode", "ok", "words"),
    [
        ({"status": {"phase": "Bound"}}, "", True, "bound"),
        ({"status": {"phase": "Lost"}}, "", False, "has lost its volume"),
        (
            {"status": {"phase": "Pending"}, "spec": {"storageClassName": "fast"}},
            "WaitForFirstConsumer",
            True,
            "pending",
        ),
        ({"status": {"phase": "Pending"}, "spec": {"storageClassName": "fast"}}, "Immediate", None, "is not bound yet"),
        ({"status": {"phase": "Pending"}}, "", None, "is not bound yet"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "", False, "is being deleted"),
    ],
)
def test_a_claim_that_waits_for_its_first_pod_is_as_good_as_bound(claim: Any, mode: str, ok: Any, words: str) -> None:
    cluster = holding("PersistentVolumeClaim", "data", **claim)
    cluster.put({"kind": "StorageClass", "metadata": {"name": "fast"}, "volumeBindingMode": mode})
    found = check(cluster, Reference("PersistentVolumeClaim", "data"))
    assert (found.ok, words in found.detail) == (ok, True), found


def test_a_storage_class_that_may_not_be_read_is_taken_to_wait() -> None:
    cluster = holding("PersistentVolumeClaim", "data", spec={"storageClassName": "fast"}, status={"phase": "Pending"})
    cluster.faults["get", "StorageClass"] = FORBIDDEN
    assert check(cluster, Reference("PersistentVolumeClaim", "data")).ok is True


def test_a_claim_template_that_is_going_away_and_one_that_is_absent() -> None:
    going = holding("ResourceClaimTemplate", "t", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert "is being deleted" in check(going, Reference("ResourceClaimTemplate", "t")).detail
    assert (
        "kubectl get resourceclaimtemplates -n default"
        in check(FakeCluster(), Reference("ResourceClaimTemplate", "t")).fix
    )


def test_a_kind_that_is_not_served_fails_and_a_broken_server_is_not_swallowed() -> None:
    gone = ClusterError("not served", status=404, reason="NotServed")
    assert check(FakeCluster(faults={("get", "RuntimeClass"): gone}), Reference("RuntimeClass", "r")).ok is False
    with pytest.raises(ClusterError):
        check(FakeCluster(faults={("get", "Secret"): ClusterError("fire", status=500)}), Reference("Secret", "s"))


def test_priority_classes_of_the_system_always_exist() -> None:
    assert check(FakeCluster(), Reference("PriorityClass", "system-node-critical")).ok is True
    assert check(FakeCluster(), Reference("PriorityClass", "typo")).ok is False


def test_a_namespace_that_is_absent_going_or_hidden() -> None:
    (absent,) = namespace_check(FakeCluster(no_namespaces={"rl"}), "rl")
    assert (absent.ok, absent.fix) == (False, "kubectl create namespace rl")
    going = FakeCluster()
    going.put({"kind": "Namespace", "metadata": {"name": "rl"}, "status": {"phase": "Terminating"}})
    (found,) = namespace_check(going, "rl")
    assert found.detail == 'namespace "rl" is being deleted'
    (hidden,) = namespace_check(FakeCluster(faults={("get", "Namespace"): FORBIDDEN}), "rl")
    assert hidden.ok is None
