"""What pods refer to by name is found wherever it stands, once, with who wrote it, and without what the Plan itself makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plan_case import CPU, SHORT, WRITTEN, Case

from kubectl_nrl.preflight.references import references, twice_claimed

POD = """
        template:
          spec:
            serviceAccountName: trainer
            priorityClassName: high
            runtimeClassName: nvidia
            imagePullSecrets: [{name: registry}]
            resourceClaims:
            - {name: own, resourceClaimTemplateName: mine}
            - {name: shared, resourceClaimName: one}
            volumes:
            - {name: a, secret: {secretName: files, items: [{key: k, path: p}]}}
            - {name: b, configMap: {name: conf, optional: true}}
            - {name: c, persistentVolumeClaim: {claimName: data}}
            - name: d
              projected:
                sources: [{secret: {name: inner}}, {configMap: {name: innerconf, items: [{key: x, path: x}]}}]
            initContainers:
            - name: init
              image: x
              env: [{name: A, valueFrom: {secretKeyRef: {name: early, key: e, optional: true}}}]
            containers:
            - name: ray
              volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /b}, {name: c, mountPath: /c}, {name: d, mountPath: /d}]
              env: [{name: B, valueFrom: {configMapKeyRef: {name: conf, key: c}}}]
              envFrom: [{secretRef: {name: tokens}}, {configMapRef: {name: words, optional: true}}]
              resources: {limits: {nvidia.com/gpu: 4}}
"""


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def with_pod(pod: str = POD) -> str:
    start = WRITTEN.index("        template:\n          spec:\n            containers:\n            - name: ray\n")
    return WRITTEN[:start] + pod.lstrip("\n")


RECIPE = "cluster: {num_nodes: 2, gpus_per_node: 4}\n"


def found(plan: Any) -> set[tuple[str, str, str, bool, str]]:
    return {(r.kind, r.name, r.key, r.optional, r.use) for r in references(plan)}


def test_every_place_of_a_pod_is_read(case: Case) -> None:
    assert found(case.plan(with_pod(), RECIPE)) == {
        ("ServiceAccount", "trainer", "", False, ""),
        ("PriorityClass", "high", "", False, ""),
        ("RuntimeClass", "nvidia", "", False, ""),
        ("Secret", "registry", "", False, "pull"),
        ("ResourceClaimTemplate", "mine", "", False, ""),
        ("ResourceClaim", "one", "", False, ""),
        ("Secret", "files", "", False, ""),
        ("Secret", "files", "k", False, ""),
        ("ConfigMap", "conf", "", True, ""),
        ("ConfigMap", "conf", "c", False, ""),
        ("PersistentVolumeClaim", "data", "", False, ""),
        ("Secret", "inner", "", False, ""),
        ("ConfigMap", "innerconf", "", False, ""),
        ("ConfigMap", "innerconf", "x", False, ""),
        ("Secret", "early", "e", True, ""),
        ("Secret", "tokens", "", False, ""),
        ("ConfigMap", "words", "", True, ""),
    }


def test_a_reference_says_who_wrote_it(case: Case) -> None:
    refs = {r.name: r.source for r in references(case.plan(with_pod(), RECIPE))}
    assert refs["trainer"].startswith("i.yaml:")
    short = case.plan(SHORT + "workspace: {kind: pvc, pvcName: work}\n", CPU)
    (claim,) = (r for r in references(short) if r.kind == "PersistentVolumeClaim")
    assert claim.source == "workspace (i.yaml:5)"


def test_the_passwords_of_an_external_redis_are_looked_for(case: Case) -> None:
    redis = "      gcsFaultToleranceOptions:\n        redisAddress: redis:6379\n        redisPassword:\n"
    redis += "          valueFrom: {secretKeyRef: {name: redis, key: password}}\n"
    plan = case.plan(WRITTEN.replace("    spec:\n", "    spec:\n" + redis, 1), RECIPE)
    assert ("Secret", "redis", "password", False, "") in found(plan)


def test_what_the_plan_makes_or_has_made_is_no_reference(case: Case) -> None:
    claims = "            resourceClaims: [{name: compute-domain-channel}, {name: roce-channel}]\n"
    infra = WRITTEN.replace(
        "          spec:\n            containers:\n            - name: ray",
        f"          spec:\n{claims}            containers:\n            - name: ray",
    )
    plan = case.plan(infra, RECIPE)
    assert {o.kind for o in plan.objects} >= {"ComputeDomain", "ResourceClaimTemplate"}
    assert found(plan) == set()


def test_two_volumes_of_one_claim_are_found(case: Case) -> None:
    volumes = "".join(f"            - {{name: {n}, persistentVolumeClaim: {{claimName: data}}}}\n" for n in "xy")
    mounts = "              volumeMounts: [{name: x, mountPath: /x}, {name: y, mountPath: /y}]\n"
    infra = WRITTEN.replace(
        "          spec:\n            containers:\n            - name: ray\n",
        f"          spec:\n            volumes:\n{volumes}            containers:\n            - name: ray\n{mounts}",
    )
    ((words, claim, source),) = twice_claimed(case.plan(infra, RECIPE))
    assert words.startswith("pods of group gpu") and claim == "data" and source.startswith("i.yaml:")
    assert list(twice_claimed(case.plan(WRITTEN, RECIPE))) == []
