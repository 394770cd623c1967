"""The kinds that every cluster here serves beside Kubernetes' own, and an etcd that holds them already.

Creating KubeRay's CRDs costs the API server more than its whole start (it describes its API anew after each), so that is
done once per machine and every cluster begins with a copy of the data.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from . import control_plane, go_builds, processes
from .cache import cached, content_key
from .control_plane import kubectl
from .errors import ClusterError
from .state import State

_OURS = Path(__file__).resolve().parent / "crds"


def up(state: State) -> None:
    """Create the CRDs that are missing and wait until all are served."""
    _create_missing(state, go_builds.kuberay_crds(), _OURS)


def plant(state: State) -> None:
    """Give a cluster that has no data yet the data of one that has just got its CRDs."""
    data = state.root / "etcd"
    if not data.exists():
        draft = data.with_name("etcd.draft")
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(_seed(), draft)
        os.rename(draft, data)


def _seed() -> Path:
    def build(target: Path) -> None:
        state = State(target.with_name("seed"), "api")
        state.claim()
        try:
            control_plane.serve(state)
            up(state)
        finally:
            for name in ("apiserver", "etcd"):
                processes.stop(state, name)
        for spare in (state.root / "etcd").glob("member/wal/*.tmp"):
            spare.unlink()  # 64 MB that etcd sets aside for its next log
        os.rename(state.root / "etcd", target)

    sources = (go_builds.KUBERNETES_SOURCE, go_builds.ETCD_SOURCE, go_builds.kuberay_crds(), _OURS)
    return cached("etcd-data", content_key(*sources), build)


def _create_missing(state: State, *directories: Path) -> None:
    """Create the CRDs in those directories that are not there yet, and wait until all are served.

    `kubectl create`, never `apply`: KubeRay's CRDs are larger than the annotation in which apply keeps them.
    """
    wanted = {_crd_name(path): path for directory in directories for path in sorted(directory.glob("*.yaml"))}
    absent = wanted.keys() - _crds(state).keys()
    if absent:
        kubectl(state, "create", "--validate=false", *(f"--filename={wanted[name]}" for name in sorted(absent)))

    def served() -> bool:
        established = _crds(state)
        return all(established.get(name) == "True" for name in wanted)

    processes.wait_until(state, "apiserver", served)


def _crds(state: State) -> dict[str, str]:
    """Return each CRD's name and its condition Established, empty while a new one has no conditions yet."""
    condition = '{{range .status.conditions}}{{if eq .type "Established"}}{{.status}}{{end}}{{end}}'
    template = "{{range .items}}{{.metadata.name}} " + condition + r'{{"\n"}}{{end}}'
    lines = kubectl(state, "get", "crds", "-o", f"go-template={template}").splitlines()
    return {name: status for name, _, status in (line.partition(" ") for line in lines)}


def _crd_name(path: Path) -> str:
    """Return `plural.group` of a CRD file, which is also its metadata.name."""
    lines = path.read_text().splitlines()
    for line in lines[lines.index("metadata:") :]:
        if line.startswith("  name: "):
            return line.split()[1]
    raise ClusterError(f"{path} has no metadata.name")
