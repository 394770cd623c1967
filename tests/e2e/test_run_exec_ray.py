"""A driver that is started by exec in the head of a real Ray cluster, over connections that break."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster
from command_line import CommandLine
from run_files import infra

pytestmark = pytest.mark.node

DRIVER = """
if [ "$NRL_K8S_RUN_ID" = stubborn ]; then
  trap '' TERM
  setsid sleep 3600 &
  echo up
  while :; do sleep 1; done
fi
python3 -u - 2>/dev/null <<'EOF'
import os, ray, time
ray.init(log_to_driver=False)
print("run", os.environ["NRL_K8S_RUN_ID"], os.environ["RAY_JOB_SUBMISSION_ID"], "nodes", len(ray.nodes()))
for number in range(150):
    print("line", number)
    time.sleep(0.05)
raise SystemExit(3)
EOF
"""


def test_a_driver_outlives_its_connections_and_ends_as_it_is_asked_to(
    node_cluster: Cluster, node_namespace: str, tmp_path: Path
) -> None:
    shell = CommandLine(node_cluster, node_namespace, tmp_path)
    data = infra(DRIVER, image=node_cluster.ray_image, name="exec", codePath="/tmp")
    data["submit"] = {"submitter": "exec", "execTmpDir": "/tmp/drivers"}
    del data["kuberay"]["training"]["spec"]["workerGroupSpecs"]
    (tmp_path / "infra.yaml").write_text(yaml.safe_dump(data))
    (tmp_path / "recipe.yaml").write_text("cluster: {num_nodes: 1, gpus_per_node: 0}\n")
    line = "run recipe.yaml --infra infra.yaml --raycluster"

    with FaultProxy(node_cluster.kubeconfig) as proxy:
        followed = shell.start(f"{line} --run-id cut", KUBECONFIG=str(proxy.kubeconfig))
        for number in (1, 40, 80):
            wanted = f"line {number}\n"
            followed.until(lambda wanted=wanted: wanted in followed.out, wanted)  # type: ignore[misc]
            assert proxy.cut() >= 1
        assert followed.end() == 1, followed
    own = [line for line in followed.out.splitlines() if not line.startswith("\x1b")]  # Ray has its say, in colour
    assert own == ["run cut cut nodes 1", *(f"line {number}" for number in range(150))], followed
    assert "the driver ended with exit status 3" in followed.err

    shell.run(f"{line} --no-wait --run-id stubborn")
    listed = {job["id"]: (job["state"], job["owner"]) for job in json.loads(shell.run("job list -o json").out)}
    assert listed == {"cut": ("FAILED", "e2e"), "stubborn": ("RUNNING", "e2e")}
    assert "STOPPED" in shell.run("job stop stubborn").out
    head = node_cluster.kubectl("-n", node_namespace, "get", "pods", "-o", "name").split()[0]
    look = "ls /tmp/drivers/nrl-e2e; ps -eo stat,args | grep '[s]leep 3600' | grep -v ^Z || :"
    left = node_cluster.kubectl("-n", node_namespace, "exec", head, "--", "sh", "-c", look)
    assert left.split() == ["cut", "stubborn"]
    shell.run("cluster down exec")
