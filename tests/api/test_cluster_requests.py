"""The API client against a real API server: its own words for what is there, what is not, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster as Harness

from kubectl_nrl.cluster import Cluster
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.facts import discover

pytestmark = pytest.mark.api


@pytest.fixture
def cluster(api_cluster: Harness) -> Iterator[Cluster]:
    with Cluster.connect(kubeconfig=str(api_cluster.kubeconfig)) as connected:
        yield connected


@pytest.fixture
def proxy(api_cluster: Harness) -> Iterator[FaultProxy]:
    with FaultProxy(api_cluster.kubeconfig) as running:
        yield running


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"test": "yes"}},
        "data": data,
    }


RAYJOB: dict[str, Any] = {
    "apiVersion": "ray.io/v1",
    "kind": "RayJob",
    "metadata": {"name": "a"},
    "spec": {
        "entrypoint": "true",
        "rayClusterSpec": {
            "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "h", "image": "i"}]}}}
        },
    },
}


def test_the_life_of_an_object(cluster: Cluster, api_namespace: str) -> None:
    where = ("v1", "ConfigMap", "a", api_namespace)
    assert cluster.get(*where) is None
    assert cluster.create(config_map("a", x="1"), namespace=api_namespace, dry_run=True)["data"] == {"x": "1"}
    assert cluster.get(*where) is None
    made = cluster.create(config_map("a", x="1"), namespace=api_namespace)
    assert (cluster.get(*where) or {})["metadata"]["uid"] == made["metadata"]["uid"]
    assert made["metadata"]["managedFields"][0]["manager"] == "kubectl-nrl"
    assert cluster.patch(*where, {"data": {"x": None, "y": "2"}})["data"] == {"y": "2"}
    found = cluster.list("v1", "ConfigMap", api_namespace, label_selector="test=yes")
    assert [(item["kind"], item["metadata"]["name"]) for item in found] == [("ConfigMap", "a")]
    assert cluster.list("v1", "ConfigMap", api_namespace, field_selector="metadata.name=other") == []
    assert not cluster.delete(*where, uid="11111111-1111-1111-1111-111111111111")
    assert cluster.delete(*where, uid=made["metadata"]["uid"])
    assert not cluster.delete(*where)


def test_apply_keeps_what_others_wrote_and_conflicts_by_name(cluster: Cluster, api_namespace: str) -> None:
    cluster.create(config_map("a", x="1", y="1"), namespace=api_namespace)
    with pytest.raises(ClusterError, match="conflict") as caught:
        cluster.apply(config_map("a", x="2"), namespace=api_namespace)
    assert caught.value.status == 409
    assert cluster.apply(config_map("a", x="2"), namespace=api_namespace, force=True)["data"] == {"x": "2", "y": "1"}


@pytest.mark.parametrize(
    ("manifest", "reason", "words"),
    [
        ({**config_map("a"), "dat": {}}, "BadRequest", 'strict decoding error: unknown field "dat"'),
        (config_map("A_b"), "Invalid", 'create configmaps "A_b" in namespace .* Invalid value: "A_b"'),
        ({**RAYJOB, "spec": {**RAYJOB["spec"], "entrypint": "x"}}, "BadRequest", 'unknown field "spec.entrypint"'),
        ({**RAYJOB, "apiVersion": "ray.io/v9"}, "NotServed", "does not serve"),
        ({**config_map("a"), "kind": "ConfigMapp"}, "NotServed", "kind ConfigMapp of v1"),
    ],
)
def test_what_is_refused_on_create(
    cluster: Cluster, api_namespace: str, manifest: dict[str, Any], reason: str, words: str
) -> None:
    with pytest.raises(ClusterError, match=words) as caught:
        cluster.create(manifest, namespace=api_namespace)
    assert caught.value.reason == reason


def test_a_name_that_exists_and_a_namespace_that_does_not(cluster: Cluster, api_namespace: str) -> None:
    cluster.create(RAYJOB, namespace=api_namespace)
    with pytest.raises(ClusterError) as caught:
        cluster.create(RAYJOB, namespace=api_namespace)
    assert (caught.value.status, caught.value.reason) == (409, "AlreadyExists")
    with pytest.raises(ClusterError, match='namespaces "no-such" not found') as caught:
        cluster.create(RAYJOB, namespace="no-such")
    assert caught.value.reason == "NotFound"
    assert cluster.get("ray.io/v1", "RayJob", "a", "no-such") is None


@pytest.mark.parametrize(
    ("api_version", "kind"), [("ray.io/v9", "RayJob"), ("nothing.example/v1", "Thing"), ("ray.io/v1", "RayThing")]
)
def test_a_kind_that_is_not_served_is_not_an_absent_object(cluster: Cluster, api_version: str, kind: str) -> None:
    for ask in (cluster.get, cluster.delete):
        with pytest.raises(ClusterError) as caught:
            ask(api_version, kind, "a")
        assert caught.value.reason == "NotServed"


def test_more_objects_than_a_page_holds(cluster: Cluster, api_namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubectl_nrl.cluster import objects as module

    monkeypatch.setattr(module, "PAGE", 3)
    names = [f"c{number:02}" for number in range(10)]
    for name in names:
        cluster.create(config_map(name), namespace=api_namespace)
    found = cluster.list("v1", "ConfigMap", api_namespace, label_selector="test")
    assert [item["metadata"]["name"] for item in found] == names


def test_a_missing_permission_is_one_line_that_names_it(api_cluster: Harness, api_namespace: str) -> None:
    rules = [{"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": ["get"]}]
    limited = api_cluster.user(api_namespace, rules)
    with Cluster.connect(kubeconfig=str(limited)) as cluster:
        assert cluster.namespace == api_namespace
        assert cluster.get("ray.io/v1", "RayJob", "a") is None
        with pytest.raises(ClusterError) as caught:
            cluster.create(RAYJOB)
        assert caught.value.message.startswith(f'cannot create rayjobs.ray.io "a" in namespace "{api_namespace}": ')
        assert "\n" not in caught.value.message
        assert caught.value.hint.endswith(f"kubectl auth can-i create rayjobs.ray.io -n {api_namespace}")
        assert (caught.value.status, caught.value.reason, caught.value.exit_code) == (403, "Forbidden", 3)
        asked = [cluster.can_i(verb, "ray.io", "rayjobs", api_namespace) for verb in ("get", "create")]
        assert asked == [True, False]
        assert cluster.can_i("create", "", "pods", api_namespace, subresource="portforward") is False
        with pytest.raises(ClusterError, match="cannot list rayjobs"):
            list(cluster.watch("ray.io/v1", "RayJob"))


def test_wrong_credentials(api_cluster: Harness, tmp_path: Any) -> None:
    import json

    config = json.loads(api_cluster.kubectl("config", "view", "--raw", "--flatten", "--output=json"))
    config["users"][0]["user"] = {"token": "wr0ng-token"}
    (tmp_path / "c").write_text(json.dumps(config))
    with Cluster.connect(kubeconfig=str(tmp_path / "c")) as cluster, pytest.raises(ClusterError, match="401") as caught:
        cluster.list("v1", "Pod")
    assert "wr0ng" not in caught.value.message


def test_a_server_that_is_not_the_one_of_the_certificate(api_cluster: Harness, tmp_path: Any) -> None:
    import base64
    import json

    config = json.loads(api_cluster.kubectl("config", "view", "--raw", "--flatten", "--output=json"))
    entry = config["clusters"][0]["cluster"]
    trusted = entry["certificate-authority-data"]
    del entry["certificate-authority-data"]
    (tmp_path / "c").write_text(json.dumps(config))
    with Cluster.connect(kubeconfig=str(tmp_path / "c")) as cluster:
        with pytest.raises(ClusterError, match=r"certificate of .* is not trusted") as caught:
            cluster.list("v1", "Pod")
        assert caught.value.reason == "Unreachable"
    entry["certificate-authority-data"] = trusted
    entry["tls-server-name"] = "other.example"
    (tmp_path / "c").write_text(json.dumps(config))
    with (
        Cluster.connect(kubeconfig=str(tmp_path / "c")) as cluster,
        pytest.raises(ClusterError, match=r"other\.example"),
    ):
        cluster.list("v1", "Pod")
    entry["certificate-authority-data"] = base64.b64encode(b"no certificate").decode()
    (tmp_path / "c").write_text(json.dumps(config))
    with (
        Cluster.connect(kubeconfig=str(tmp_path / "c")) as cluster,
        pytest.raises(ClusterError, match="the kubeconfig cannot be used: certificate authority of the cluster"),
    ):
        cluster.list("v1", "Pod")


def test_faults_on_the_way(proxy: FaultProxy, api_namespace: str) -> None:
    with Cluster.connect(kubeconfig=str(proxy.kubeconfig)) as cluster:
        assert cluster.get("v1", "ConfigMap", "none", api_namespace) is None
        for status in (500, 503, 504, 429):
            rule = proxy.answer(status, path="/configmaps")
            assert cluster.get("v1", "ConfigMap", "none", api_namespace) is None
            assert rule.hits == 1
        rule = proxy.cut_after(5, path="/configmaps")
        assert cluster.get("v1", "ConfigMap", "none", api_namespace) is None
        assert rule.hits == 1
        proxy.cut()
        assert cluster.create(config_map("a"), namespace=api_namespace)["metadata"]["name"] == "a"
        rule = proxy.answer(503, times=None, method="POST")
        with pytest.raises(ClusterError) as caught:
            cluster.create(config_map("b"), namespace=api_namespace)
        assert (caught.value.status, rule.hits) == (503, 1)


def test_a_create_whose_answer_was_cut_is_unknown_and_not_repeated(proxy: FaultProxy, api_namespace: str) -> None:
    with Cluster.connect(kubeconfig=str(proxy.kubeconfig)) as cluster:
        rule = proxy.cut_after(5, method="POST", path="/configmaps")
        with pytest.raises(ClusterError) as caught:
            cluster.create(config_map("a"), namespace=api_namespace)
        assert (caught.value.reason, rule.hits) == ("ConnectionLost", 1)
        assert cluster.get("v1", "ConfigMap", "a", api_namespace) is not None


def test_many_threads_share_one_client(cluster: Cluster, api_namespace: str) -> None:
    failed: list[Exception] = []

    def work(number: int) -> None:
        try:
            for count in range(5):
                name = f"t{number}-{count}"
                cluster.create(config_map(name), namespace=api_namespace)
                assert cluster.delete("v1", "ConfigMap", name, api_namespace)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_discovery(cluster: Cluster) -> None:
    facts = discover(cluster)
    assert facts.source == "cluster" and facts.kubernetes == "1.34"
    assert facts.kuberay and facts.deletion_rules and facts.pre_running_deadline
    assert {"entrypoint", "rayClusterSpec", "jobId"} <= facts.rayjob_fields
    assert (facts.dra_version, facts.compute_domain_version) == ("v1", "v1beta1")
    assert facts.kai and facts.kai_version is None and not facts.kueue
    assert cluster.openapi_fields("ray.io", "v1", "RayJob", ("spec", "no", "such")) == frozenset()
    assert "template" in cluster.openapi_fields("apps", "v1", "Deployment", ("spec",))
    assert "image" in cluster.openapi_fields("", "v1", "Pod", ("spec", "containers"))


def test_discovery_as_a_user_who_may_do_nothing(api_cluster: Harness, api_namespace: str) -> None:
    with Cluster.connect(kubeconfig=str(api_cluster.user(api_namespace, [], "nobody"))) as cluster:
        facts = discover(cluster)
    assert facts.kuberay and facts.deletion_rules and facts.kai and facts.kai_version is None
