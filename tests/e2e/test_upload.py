"""Code of this machine on a real Ray: what is edited here is what runs there, sent once, whole, whatever breaks on the way."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster
from command_line import CommandLine, wait_until
from run_files import infra

from kubectl_nrl import ray_jobs
from kubectl_nrl.cluster import Cluster as Client
from kubectl_nrl.upload import Package, pack, select

pytestmark = pytest.mark.node

QUICKSTART = Path(__file__).parents[2] / "examples" / "01-quickstart"
MIB = 1024 * 1024


@dataclass
class Kept:
    """A run of the uploaded quickstart that has ended, and whose head is kept."""

    cli: CommandLine
    result: Mapping[str, Any]
    err: str

    def jobs(self, kubeconfig: Path) -> ray_jobs.RayJobs:
        client = Client.connect(kubeconfig=str(kubeconfig), context=None)
        live = client.get("ray.io/v1", "RayCluster", self.result["rayCluster"], self.cli.namespace)
        assert live is not None
        return ray_jobs.connect(client, live)


@pytest.fixture(scope="module")
def kept(node_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """One real run serves all tests here: it takes half a minute."""
    namespace = node_cluster.namespace("upload")
    directory = tmp_path_factory.mktemp("upload")
    cli = CommandLine(node_cluster, namespace, directory)
    data = infra(
        "python3 -u grpo.py --config recipe.yaml", image=node_cluster.ray_image, name="up", codeSource="upload"
    )
    del data["launch"]["codePath"]
    (directory / "infra.yaml").write_text(yaml.safe_dump(data))
    code = directory / "code"
    code.mkdir()
    for source in (QUICKSTART / "grpo.py", *sorted((QUICKSTART / "quickstart").glob("*.py"))):
        target = code / source.relative_to(QUICKSTART)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(source.read_bytes())
    grpo = code / "grpo.py"
    grpo.write_text(grpo.read_text().replace("\nif __name__", '\nprint("edited on the laptop")\n\nif __name__', 1))
    done = cli.run(
        f"run {QUICKSTART / 'recipe.yaml'} --infra infra.yaml --repo-root code cluster.gpus_per_node=0 grpo.max_num_steps=3 "
        "--ttl 600 -o json"
    )
    yield Kept(cli, json.loads(done.out), done.err)
    node_cluster.delete_namespace(namespace)


def test_the_code_and_the_override_of_the_laptop_are_what_runs(kept: Kept) -> None:
    assert (kept.result["state"], kept.result["exitCode"]) == ("SUCCEEDED", 0)
    log = Path(kept.result["log"]["path"]).read_text()
    assert "edited on the laptop" in log
    assert "step 3/3 " in log
    assert "step 4/" not in log
    assert re.search(r"uploading [\d.]+ KiB, \d+ files", kept.err)
    assert re.search(r"uploaded [\d.]+ KiB in ", kept.err)


def test_unchanged_code_sends_no_byte(node_cluster: Cluster, kept: Kept) -> None:
    recipe = next(iter(_sent_recipes(kept)))
    with pack(select(kept.cli.directory / "code"), recipe) as package, kept.jobs(node_cluster.kubeconfig) as jobs:
        assert jobs.upload_package(package.name, package) == 0


def _sent_recipes(kept: Kept) -> Iterator[str]:
    from kubectl_nrl.labels import SUBMISSION
    from kubectl_nrl.script import decode, embedded

    text = kept.cli.cluster.kubectl("-n", kept.cli.namespace, "get", "rayjob", kept.result["rayjob"], "-o", "json")
    script = decode(json.loads(json.loads(text)["metadata"]["annotations"][SUBMISSION])["line"])
    assert script is not None
    yield embedded(script, "recipe.yaml")


def noise(directory: Path, size: int) -> Package:
    directory.mkdir()
    (directory / "noise.bin").write_bytes(os.urandom(size))
    return pack(select(directory), "a: 1\n")


def test_an_upload_that_is_cut_arrives_whole(node_cluster: Cluster, kept: Kept, tmp_path: Path) -> None:
    """The proxy cuts everything in the middle; what Ray then unpacks has the checksum of what was sent."""
    with noise(tmp_path / "n", 12 * MIB) as package, FaultProxy(node_cluster.kubeconfig) as proxy:
        cuts: list[int] = []

        def cut_in_the_middle(sent: int) -> None:
            if sent > package.size / 2 and len(cuts) < 2:
                cuts.append(sent)
                proxy.cut()

        with kept.jobs(proxy.kubeconfig) as jobs:
            assert jobs.upload_package(package.name, package, cut_in_the_middle) == package.size
            assert len(cuts) == 2
            submission = f"whole-{time.time_ns()}"
            assert jobs.submit(
                "sha256sum noise.bin nrl_k8s_run.yaml",
                submission,
                runtime_env={"working_dir": package.uri},
                metadata={},
            )
            wait_until(lambda: (jobs.get(submission) or {}).get("status") == "SUCCEEDED", "the checksum")
            log = jobs.log_chunk(submission, 0).decode()
        import hashlib

        content = (tmp_path / "n" / "noise.bin").read_bytes()
        assert f"{hashlib.sha256(content).hexdigest()}  noise.bin" in log


def test_a_submission_is_made_once_through_outages(node_cluster: Cluster, kept: Kept, tmp_path: Path) -> None:
    """Connections break the moment the submission is on its way, time and again."""
    with FaultProxy(node_cluster.kubeconfig) as proxy, kept.jobs(proxy.kubeconfig) as jobs:
        assert jobs.version()
        submission = f"once-{time.time_ns()}"
        stop = threading.Event()

        def trouble() -> None:
            for _ in range(4):
                if stop.wait(0.03):
                    return
                proxy.cut()

        breaking = threading.Thread(target=trouble)
        breaking.start()
        try:
            jobs.submit("echo hello", submission, runtime_env={}, metadata={"who": "me"})
        finally:
            stop.set()
            breaking.join()
        found = [job for job in jobs.list() if job["submission_id"] == submission]
        assert len(found) == 1
        with pytest.raises(Exception, match="already exists"):
            jobs.submit("echo again", submission, runtime_env={}, metadata={})
