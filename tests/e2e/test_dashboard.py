"""Ray's dashboard in a real browser: blank where its files are symlinks, repaired, rendered, and back when its head was replaced."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster import images, packages
from cluster.fixtures import Cluster
from command_line import CommandLine, wait_until

pytestmark = pytest.mark.node

#: What may look at a dashboard and not exec.
READER = [
    {"apiGroups": ["ray.io"], "resources": ["rayclusters", "rayjobs"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["pods", "secrets", "configmaps"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create"]},
]
#: Words that the page shows once its script ran.
SHOWN = ("Overview", "Jobs", "Cluster", "Actors")


def raycluster(image: str) -> str:
    container = {
        "name": "ray",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": {"cpu": "200m", "memory": "1Gi"}},
    }
    pod = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    head = {"rayStartParams": {"num-cpus": "1", "num-gpus": "0"}, "template": pod}
    spec = {"rayVersion": "2.52.0", "authOptions": {"mode": "token"}, "headGroupSpec": head}
    return json.dumps({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "blank"}, "spec": spec})


def rendered(browser: Path, url: str) -> str:
    """The text of a page after its scripts have run, in a browser that can reach this machine alone."""
    quiet = ("quic", "gpu", "background-networking", "component-update", "sync")
    profile = tempfile.mkdtemp(prefix="nrl-browser-")
    try:
        words = [browser, "--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in quiet)]
        words += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={profile}"]
        words += ["--virtual-time-budget=20000", "--dump-dom", url]
        page = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout
    finally:
        shutil.rmtree(profile, ignore_errors=True)
    assert "<title>" in page
    return re.sub(r"<[^>]+>", " ", page[page.find("<body") :])


@contextmanager
def bare_forward(cluster: Cluster, namespace: str, pod: str) -> Iterator[str]:
    """The dashboard as `kubectl port-forward` shows it."""
    words = [packages.kubectl(), f"--kubeconfig={cluster.kubeconfig}", "-n", namespace, "port-forward", pod, ":8265"]
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield f"http://127.0.0.1:{line.split('127.0.0.1:')[1].split()[0]}/"
    finally:
        process.terminate()
        process.communicate(timeout=60)


def version_status(url: str, token: str = "") -> int:
    headers = {"x-ray-authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"{url}/api/version", headers=headers), timeout=60
        ) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


def test_a_blank_dashboard_is_repaired_and_shown_and_outlives_its_head(
    node_cluster: Cluster, node_namespace: str, browser: Path, tmp_path: Path
) -> None:
    image = node_cluster.image(images.symlink_image(), "NRL_E2E_RAY_SYMLINK_IMAGE")
    node_cluster.kubectl("-n", node_namespace, "create", "-f", "-", stdin=raycluster(image))
    shell = CommandLine(node_cluster, node_namespace, tmp_path)
    line = "cluster dashboard blank --no-open"

    reader = node_cluster.user(node_namespace, READER)
    refused = shell.run(line, expect=3, KUBECONFIG=str(reader))
    assert "the dashboard stays blank" in refused.err
    assert "you may not exec into the head" in refused.err
    assert "ENV UV_LINK_MODE=copy" in refused.err
    head = node_cluster.kubectl("-n", node_namespace, "get", "pods", "-o", "name").strip()
    with bare_forward(node_cluster, node_namespace, head) as bare:
        assert not [word for word in SHOWN if word in rendered(browser, bare)]

    running = shell.start(line)
    running.until(lambda: "/127.0.0.1:" in running.out and "Ctrl-C" in running.err, "the dashboard is open")
    assert "were replaced by copies in /opt/ray/ray/dashboard/client/build" in running.err
    url = running.out.splitlines()[0]
    text = rendered(browser, url)
    assert all(word in text for word in SHOWN), text

    command = running.out.split("which this prints: ")[1].splitlines()[0]
    words = command.replace("kubectl ", f"{packages.kubectl()} ", 1)
    token = subprocess.run(
        ["bash", "-c", words], env=shell.env, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert token
    assert (version_status(url), version_status(url, token)) == (401, 200)

    node_cluster.kubectl("-n", node_namespace, "delete", head, "--wait=false")
    running.until(lambda: "the head was replaced" in running.err, "the next head is found")
    wait_until(lambda: version_status(url, token) == 200, "the next head's dashboard answers at the same address")
    assert running.interrupt() == 0
    assert token not in running.out + running.err
