"""The checks of `doctor` on the way to a cluster: kubectl, the kubeconfig, whether the server answers; and who waits for it.

What looks at the cluster itself stands in doctor_kuberay.py (what it serves) and doctor_namespace.py (what I may and have).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError
from .connecting import namespace_of, open_cluster
from .doctor_finding import PATIENCE, Finding, Probe
from .session import Session

if TYPE_CHECKING:
    from ..api import ClusterFacts
    from ..runs import Survey


def kubectl(env: Mapping[str, str], seconds: float) -> Iterator[Finding]:
    """Whether there is a kubectl, and its version: without one `kubectl-nrl` works and `kubectl nrl` does not."""
    file = shutil.which("kubectl", path=env.get("PATH"))
    if file is None:
        yield Finding("kubectl", "failed", "not on PATH; `kubectl-nrl VERB` works without it",
                      "./install.sh   # in the checkout: it brings one")  # fmt: skip
        return
    words = [file, "version", "--client", "-o", "json"]
    try:
        done = subprocess.run(words, env=dict(env), capture_output=True, timeout=seconds, check=False)
        version = str(json.loads(done.stdout)["clientVersion"]["gitVersion"])
    except subprocess.TimeoutExpired:
        yield Finding("kubectl", "warning", f"{file} does not say its version within {seconds:g} s",
                      f"{file} version --client")  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"{file} does not say its version ({type(error).__name__}): is it kubectl?"
        yield Finding("kubectl", "failed", message, f"{file} version --client")
    else:
        yield Finding("kubectl", "ok", f"{version} ({file})")


class Reached:
    """The cluster, for the checks that need it: they wait until it answered, and say nothing when it does not.

    `cluster` and `namespace` are set once it did.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.cluster: Any = None
        self.namespace = ""
        self._settled = threading.Event()
        self._lock = threading.Lock()

    def look(self) -> Iterator[Finding]:
        """The kubeconfig, then the server it names."""
        try:
            yield from self._reach()
        finally:
            self._settled.set()

    def _reach(self) -> Iterator[Finding]:
        try:
            cluster = open_cluster(self.session)
        except ClusterError as error:
            yield Finding("kubeconfig", "failed", error.message, error.hint)
            return
        where = f"context {cluster.context}" if cluster.context else cluster.server
        self.namespace = namespace_of(self.session, cluster)
        yield Finding("kubeconfig", "ok", f"{where}, namespace {self.namespace}")
        try:
            version = cluster.server_version()
            # Everybody may read the version, and who is not known may read nothing else.
            cluster.served()
        except ClusterError as error:
            yield Finding("cluster", "failed", error.message, error.hint or "kubectl auth whoami")
            return
        self.cluster = cluster
        yield Finding("cluster", "ok", f"{cluster.server} answers: Kubernetes {version}")

    def facts(self) -> ClusterFacts:
        """What it serves, asked for once. Raises `ClusterError`."""
        with self._lock:
            return self._facts

    @cached_property
    def _facts(self) -> ClusterFacts:
        from ..facts import discover

        return discover(self.cluster)

    def survey(self) -> Survey:
        """What the namespace holds of runs, looked at once. Raises `ClusterError`."""
        with self._lock:
            return self._survey

    @cached_property
    def _survey(self) -> Survey:
        from ..runs import survey

        return survey(self.cluster, self.namespace, all_namespaces=False, clock=self.session.clock)

    def probe(self, name: str, look: Callable[[Reached], Iterable[Finding]]) -> Probe:
        """A check that begins when the server answered; a refusal is a note, since it says nothing of what is there."""

        def begin() -> Iterator[Finding]:
            self._settled.wait()
            if self.cluster is None:
                return
            try:
                yield from look(self)
            except ClusterError as error:
                from ..preflight import refusal

                yield Finding(name, "note", f"not known: {refusal(error)}", error.hint)

        late = Finding(name, "warning", f"not known after {PATIENCE:g} s: the cluster is slow", "kubectl nrl doctor")
        return Probe(begin, late, lambda: self.cluster is not None)
