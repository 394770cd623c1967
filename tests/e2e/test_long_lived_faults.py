"""Runs on long-lived clusters through a network that cuts connections."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import yaml
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster
from command_line import CommandLine
from run_files import infra

pytestmark = pytest.mark.node

RUN = "run recipe.yaml --infra infra.yaml --raycluster"
LINES = 150


@pytest.fixture
def shell(kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path) -> CommandLine:
    made = CommandLine(kwok_cluster, kwok_namespace, tmp_path)
    entrypoint = f"for n in $(seq 1 {LINES}); do echo line $n; sleep 0.05; done"
    (tmp_path / "infra.yaml").write_text(yaml.safe_dump(infra(entrypoint, codePath="/tmp")))
    (tmp_path / "recipe.yaml").write_text("cluster: {num_nodes: 1, gpus_per_node: 0}\n")
    return made


def test_each_line_comes_once_through_ten_cuts_and_an_outage(shell: CommandLine) -> None:
    with FaultProxy(shell.cluster.kubeconfig) as proxy:
        run = shell.start(RUN, KUBECONFIG=str(proxy.kubeconfig))
        run.until(lambda: "line 3\n" in run.out, "the driver's first lines")
        over = threading.Event()
        for _ in range(10):
            proxy.cut()
            over.wait(0.3)
        proxy.refuse(2.0)
        assert run.end() == 0, str(run)
    assert run.out.splitlines() == [f"line {n}" for n in range(1, LINES + 1)]
