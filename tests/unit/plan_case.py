"""Plans for tests: files written to a directory, a fixed run, and short ways to look into what was rendered."""

from __future__ import annotations

import textwrap
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from kubectl_nrl import plan as planning
from kubectl_nrl.api import RunInfo
from kubectl_nrl.config import load
from kubectl_nrl.errors import ConfigError
from kubectl_nrl.facts import OFFLINE
from kubectl_nrl.manager import Manager

RUN_ID = "20261130-120000-ab12"
CPU = "cluster: {num_nodes: 1, gpus_per_node: 0}\n"
SHORT = """
profile: generic
image: reg.example/ray:1
launch: {codeSource: image, codePath: /opt/code, entrypoint: python run.py --config recipe.yaml}
"""
WRITTEN = """
image: reg.example/ray:1
launch: {codeSource: image, codePath: /opt/code, entrypoint: python run.py --config recipe.yaml}
kuberay:
  training:
    name: train
    spec:
      headGroupSpec:
        rayStartParams: {num-gpus: "0"}
        template: {spec: {containers: [{name: head}]}}
      workerGroupSpecs:
      - groupName: gpu
        replicas: 2
        template:
          spec:
            containers:
            - name: ray
              resources: {limits: {nvidia.com/gpu: 4}}
"""


class Case:
    """One directory of files and the Plan made of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"USER": "jdoe", "HOME": str(folder)}

    def plan(
        self, infra: str = SHORT, recipe: str = CPU, *overrides: str, options: Any = None, facts: Any = OFFLINE,
        manager: Any = None, run_id: str = RUN_ID, **files: str,
    ) -> Any:  # fmt: skip
        (self.folder / "grpo.yaml").write_text(textwrap.dedent(recipe))
        (self.folder / "i.yaml").write_text(textwrap.dedent(infra))
        for name, text in files.items():
            (self.folder / name.replace("__", ".")).write_text(textwrap.dedent(text))
        config = load("grpo.yaml", "i.yaml", overrides, env=self.env, cwd=self.folder)
        run = RunInfo(run_id, datetime(2026, 11, 30, 12, tzinfo=timezone.utc), config.user)
        manager = manager or Manager.load((), self.env)
        return planning.build(config, run, facts, options or planning.Options(), manager)

    def problems(self, *args: Any, **kwargs: Any) -> list[str]:
        """Every problem as its line: of the error when it is refused, else the Plan's warnings and notes."""
        try:
            return [str(p) for p in self.plan(*args, **kwargs).problems]
        except ConfigError as error:
            return [str(p) for p in error.problems]


def spec(plan: Any, role: str = "training") -> dict[str, Any]:
    """The RayCluster spec of a role, wherever it stands."""
    found = plan.workload(role).manifest["spec"]
    return found.get("rayClusterSpec", found)


def head(plan: Any, role: str = "training") -> dict[str, Any]:
    return spec(plan, role)["headGroupSpec"]["template"]["spec"]


def worker(plan: Any, index: int = 0, role: str = "training") -> dict[str, Any]:
    return spec(plan, role)["workerGroupSpecs"][index]["template"]["spec"]


def env(pod: dict[str, Any], container: int = 0) -> dict[str, Any]:
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in pod["containers"][container].get("env", [])}
