"""One forward under load: a package as large as Ray takes, beside requests of many threads, and after a connection was forgotten."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import pytest
from cluster.fake_ray import BODY_MAX
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster as Harness
from command_line import CommandLine
from waiting import PATIENCE

from kubectl_nrl import ray_jobs
from kubectl_nrl.cluster import Cluster
from kubectl_nrl.ray_jobs import RayJobs

pytestmark = pytest.mark.node

LINES = b"".join(b"line %d\n" % n for n in range(20_000))


class Zeros:
    """A body of a length, made as it is sent."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        piece = bytes(256 * 1024)
        for start in range(0, self._size, len(piece)):
            yield piece[: self._size - start]


@pytest.fixture(scope="module")
def jobs(kwok_cluster: Harness, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RayJobs, FaultProxy]]:
    """A head with a finished job's log, through the fault proxy."""
    folder, namespace = tmp_path_factory.mktemp("load"), kwok_cluster.namespace()
    cli = CommandLine(kwok_cluster, namespace, folder)
    (folder / "lines").write_bytes(LINES)
    cli.write(f"cat {folder}/lines", codePath="/")
    cli.run("run recipe.yaml --infra infra.yaml --run-id load")
    with FaultProxy(kwok_cluster.kubeconfig) as proxy, Cluster.connect(kubeconfig=str(proxy.kubeconfig)) as cluster:
        (raycluster,) = cluster.list("ray.io/v1", "RayCluster", namespace)
        with ray_jobs.connect(cluster, raycluster) as connected:
            yield connected, proxy
    kwok_cluster.delete_namespace(namespace)


def test_a_full_upload_beside_many_requests(jobs: tuple[RayJobs, FaultProxy]) -> None:
    connected, _ = jobs
    name = f"full-{uuid.uuid4().hex}.zip"
    wrong: list[object] = []
    over = threading.Event()

    def read() -> None:
        try:
            while not over.is_set():
                got = b""
                while chunk := connected.log_chunk("load", len(got), limit=30_000):
                    got += chunk
                if got != LINES or (connected.get("load") or {}).get("status") != "SUCCEEDED":
                    wrong.append(got)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    try:
        told: list[int] = []
        assert connected.upload_package(name, Zeros(BODY_MAX), told.append) == BODY_MAX
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert told[-1] == BODY_MAX and told == sorted(told)
    assert connected.upload_package(name, Zeros(BODY_MAX)) == 0


def test_connections_that_were_idle_and_forgotten_are_replaced(
    jobs: tuple[RayJobs, FaultProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a firewall does in an idle hour: the connection is gone, and nobody is told."""
    connected, proxy = jobs
    monkeypatch.setattr("kubectl_nrl.cluster.pool.REUSED_SILENCE", PATIENCE)  # a slow answer is no silence
    assert connected.log_chunk("load", 0) == LINES
    opened = [seen.target for seen in proxy.seen if "/portforward" in seen.target]
    assert connected.log_chunk("load", 0) == LINES
    assert [seen.target for seen in proxy.seen if "/portforward" in seen.target] == opened, "it was used again"
    monkeypatch.setattr("kubectl_nrl.cluster.pool.REUSED_SILENCE", 1.0)
    proxy.freeze()
    assert connected.log_chunk("load", 0) == LINES
    assert connected.get("load") is not None
