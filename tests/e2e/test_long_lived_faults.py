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
    write(made, f"for n in $(seq 1 {LINES}); do echo line $n; sleep 0.05; done")
    (tmp_path / "recipe.yaml").write_text("cluster: {num_nodes: 1, gpus_per_node: 0}\n")
    return made


def write(shell: CommandLine, entrypoint: str) -> None:
    (shell.directory / "infra.yaml").write_text(yaml.safe_dump(infra(entrypoint, codePath="/tmp")))


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


@pytest.mark.parametrize(("form", "kind"), [("--raycluster", "raycluster"), ("--rayjob", "rayjob")])
def test_a_followed_run_that_somebody_deletes_ends_with_that_and_its_log_stays_here(
    shell: CommandLine, form: str, kind: str
) -> None:
    mark = f"d-{shell.namespace.rpartition('-')[2]}-{kind}"
    flag = shell.directory / "stop"
    write(shell, f"n=0; while [ ! -e {flag} ]; do n=$((n+1)); echo line $n; sleep 0.05; done")
    with FaultProxy(shell.cluster.kubeconfig) as proxy:
        run = shell.start(
            f"run recipe.yaml --infra infra.yaml {form} --run-id {mark}", KUBECONFIG=str(proxy.kubeconfig)
        )
        run.until(lambda: "line 9\n" in run.out, "the driver's first lines")
        shell.cluster.kubectl("-n", shell.namespace, "delete", f"{kind}s", "--all", "--wait=false")
        shell.pods_become()
        proxy.cut()  # as a head's end does; a fake one goes on answering who is connected to it
        try:
            assert run.end() == 5, str(run)
        finally:
            flag.touch()  # and its driver runs on
    assert "ended, not by this command; nothing of it runs any more" in run.err, str(run)
    again = shell.run(f"job logs {mark}")
    assert again.out == run.out
    assert "this is the copy on this machine" in again.err
