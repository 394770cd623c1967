"""Test clusters for pytest: `api_cluster` and `node_cluster`, brought up when needed and left up for the next run.

A host that cannot run a depth skips its tests with the reason and the command that would run them; where CI is set
nothing is skipped. With NRL_E2E_KUBECONFIG (and NRL_E2E_RAY_IMAGE) `node_cluster` is that cluster, whatever runs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from waiting import wait_until

from . import containers, images, lifecycle, packages
from .errors import checked
from .state import CHECKOUT, State, state_for

_SCRIPTS = CHECKOUT / "tests" / "cluster"


@dataclass
class Cluster:
    """A cluster that tests may use: the administrator's kubeconfig and what tests do with it."""

    kubeconfig: Path
    ray_image: str = ""  # the name of an image with Ray and the quickstart; empty at api depth
    state: State | None = None  # None for a cluster that was given by the environment
    _namespaces: list[str] = field(default_factory=list)

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """Run kubectl as the administrator and return its stdout; a failure raises with its words."""
        return checked([packages.kubectl(), f"--kubeconfig={self.kubeconfig}", *args], stdin=stdin)

    def image(self, image: images.Image, variable: str) -> str:
        """Give the node one more image and return its name; on a cluster that was given, `variable` names one like it, or this skips."""
        if self.state is not None:
            containers.ensure_image(self.state, image)
            return image.name
        given = os.environ.get(variable)
        if not given:
            pytest.skip(
                f"{variable} names no image like {image.name} for this cluster; the test cluster has it: tests/run --node"
            )
        return given

    def namespace(self, prefix: str = "test") -> str:
        """Make a namespace that nobody else uses and return its name; it goes with the session, if not before.

        Its service account is there: a controller makes it a moment later, and refuses no pod only from then on.
        """
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        self.kubectl("create", "namespace", name)
        self._namespaces.append(name)
        account = [f"--namespace={name}", "get", "serviceaccount", "default", "--ignore-not-found", "--output=name"]
        wait_until(lambda: self.kubectl(*account), f"the service account of namespace {name}")
        return name

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace and all in it, without waiting for the end."""
        self._namespaces.remove(name)
        self.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")

    def user(self, namespace: str, rules: Sequence[dict[str, list[str]]], name: str = "limited") -> Path:
        """Make a service account that may do only what the rules of a Role say, and return its kubeconfig.

        `rules` as in rbac.authorization.k8s.io/v1: `[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]`.
        They are in force: the API server learns of a new Role and its binding by watches of its own.
        """
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": name, "namespace": namespace},
            "rules": list(rules),
        }
        self.kubectl("create", "serviceaccount", name, f"--namespace={namespace}")
        self.kubectl("create", "--filename=-", stdin=json.dumps(role))
        binding = [f"--role={name}", f"--serviceaccount={namespace}:{name}", f"--namespace={namespace}"]
        self.kubectl("create", "rolebinding", name, *binding)
        if rules:
            wait_until(lambda: self._may(f"system:serviceaccount:{namespace}:{name}", namespace, rules[0]), "the Role")
        token = self.kubectl("create", "token", name, f"--namespace={namespace}").strip()
        config = json.loads(self.kubectl("config", "view", "--raw", "--flatten", "--minify", "--output=json"))
        config["users"][0]["user"] = {"token": token}
        config["contexts"][0]["context"]["namespace"] = namespace
        path = self.kubeconfig.with_name(f"{namespace}-{name}.kubeconfig")
        path.write_text(json.dumps(config))  # JSON is YAML
        path.chmod(0o600)
        return path

    def _may(self, user: str, namespace: str, rule: dict[str, list[str]]) -> bool:
        """Ask the API server whether the user may do the first thing that the rule allows."""
        resource, _, subresource = rule["resources"][0].partition("/")
        asked = {
            "namespace": namespace,
            "verb": rule["verbs"][0],
            "group": rule["apiGroups"][0],
            "resource": resource,
            "subresource": subresource,
            "name": rule.get("resourceNames", [""])[0],
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": asked},
        }
        words = ["create", "--filename=-", "--output=jsonpath={.status.allowed}"]
        return self.kubectl(*words, stdin=json.dumps(review)) == "true"

    @contextmanager
    def without_kuberay(self) -> Iterator[None]:
        """Stop the KubeRay operator for the time of a `with`; skips on a cluster that is not ours to disturb."""
        if self.state is None:
            pytest.skip("stops the KubeRay operator, which is only done to the test cluster: tests/cluster/up")
        lifecycle.operator(self.state, "stop")
        try:
            yield
        finally:
            lifecycle.operator(self.state, "start")

    @contextmanager
    def kueue(self) -> Iterator[None]:
        """Run Kueue for the time of a `with`; skips on a cluster that is not ours to change, or where it is not built."""
        if self.state is None:
            pytest.skip("starts Kueue, which is only done to the test cluster: tests/cluster/up --depth kwok")
        of_this = ["--depth", self.state.depth, "--state", str(self.state.root)]
        _script("Kueue", "kueue", "start", *of_this)
        try:
            yield
        finally:
            _script("Kueue", "kueue", "stop", *of_this)

    def close(self) -> None:
        """Delete the namespaces that were made here and not deleted."""
        for name in list(self._namespaces):
            self.delete_namespace(name)


def started(depth: str, directory: Path | None = None) -> Cluster:
    """Bring a cluster of that depth up (or find it up) and return it; skips, or in CI fails, where that cannot be.

    `directory` makes it one more cluster, independent of the shared one: for tests that delete CRDs or stop things.
    Whoever asks for one stops it again, with `stopped`.
    """
    _script(f"{depth} depth", "up", "--depth", depth, *(["--state", str(directory)] if directory else []))
    state = state_for(depth, directory)
    return Cluster(state.kubeconfig, images.RAY_IMAGE if depth == "node" else "", state)


def _script(what: str, name: str, *words: str) -> None:
    """Run a script of this directory; skips, or in CI fails, where this host cannot or has not built what it needs."""
    command = [str(_SCRIPTS / name), *words]
    in_ci = bool(os.environ.get("CI"))
    env = {**os.environ, **({} if in_ci else {"NRL_CLUSTER_NO_BUILD": "1"})}
    done = subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, check=False)
    if done.returncode == 3 and not in_ci:
        pytest.skip(f"{what}: {done.stderr.strip()}; to run these tests: {' '.join(command)}")
    if done.returncode:
        pytest.fail(f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr.strip()}", pytrace=False)


def stopped(cluster: Cluster) -> None:
    """Stop a cluster of one's own."""
    assert cluster.state is not None
    down = [str(_SCRIPTS / "down"), "--depth", cluster.state.depth, "--state", str(cluster.state.root)]
    checked([sys.executable, *down])


@pytest.fixture(scope="session")
def api_cluster() -> Iterator[Cluster]:
    """A real API server with KubeRay's, KAI's and NVIDIA's kinds; nothing acts on objects."""
    cluster = started("api")
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def node_cluster() -> Iterator[Cluster]:
    """A cluster that runs RayJobs: ours, or the one that NRL_E2E_KUBECONFIG names."""
    given = os.environ.get("NRL_E2E_KUBECONFIG")
    if given:
        cluster = Cluster(Path(given).absolute(), os.environ.get("NRL_E2E_RAY_IMAGE") or images.RAY_IMAGE)
    else:
        cluster = started("node")
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def kwok_cluster() -> Iterator[Cluster]:
    """Real KubeRay over fake nodes, see fake_nodes.py; stopped again unless it was up."""
    if os.environ.get("NRL_E2E_KUBECONFIG"):
        pytest.skip("fake nodes belong to the test cluster; to run these tests: tests/run --node")
    was_up = lifecycle.is_up(state_for("kwok"))
    cluster = started("kwok")
    yield cluster
    cluster.close()
    if not was_up:
        stopped(cluster)


@pytest.fixture(scope="session")
def browser() -> Path:
    """A Chromium; in CI it is installed where it is absent."""
    if os.environ.get("CI"):
        return packages.browser()
    return packages.found_browser() or pytest.skip(f"no Chromium; to have one: {_SCRIPTS / 'build'} --depth node")


@pytest.fixture
def kwok_namespace(kwok_cluster: Cluster) -> Iterator[str]:
    """A namespace of this test's own on the fake nodes."""
    name = kwok_cluster.namespace()
    yield name
    kwok_cluster.delete_namespace(name)


@pytest.fixture
def api_namespace(api_cluster: Cluster) -> Iterator[str]:
    """A namespace of this test's own at api depth."""
    name = api_cluster.namespace()
    yield name
    api_cluster.delete_namespace(name)


@pytest.fixture
def node_namespace(node_cluster: Cluster) -> Iterator[str]:
    """A namespace of this test's own on the cluster that runs RayJobs."""
    name = node_cluster.namespace()
    yield name
    node_cluster.delete_namespace(name)
