"""What the end of a run is judged by: what was launched, lines of its log, and a RayJob's objects, pods and claims.

Reading is apart from judging (`checklist`); what may not be looked at is None there, never taken for absent.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..child_kinds import DRA_GROUP, child_kinds, newest
from ..config import Config, load
from ..config.entrypoint import config_commands
from ..errors import ClusterError, NrlError
from ..labels import FROM_KIND, FROM_NAME, RAY_API, RAY_CLUSTER, RUN, labels_of
from ..script import embedded
from .launched import script_of
from .record import RunRecord

Objects = tuple[Mapping[str, Any], ...]

_OFFLINE = re.compile(r"^export WANDB_MODE=['\"]?(offline|disabled|dryrun)\b", re.MULTILINE)
#: What NeMo-RL and vLLM print once a generation is finished: vLLM's bar at its end (vllm/entrypoints/llm.py), the rollout's
#: (nemo_rl/experience/rollouts.py), and the step's results and timing (nemo_rl/algorithms/grpo.py).
_GENERATED = re.compile(
    rb"Processed prompts:\s*100%|Collecting rollouts:\s*100%|Mean Generation Length:\s*\d|\bgeneration: +\d[\d.]*s"
)
#: The longest part of a line that is looked at.
_LINE = 64 * 1024


@dataclass(frozen=True)
class Launched:
    """What the run's own files say: None where they do not, or cannot be read. `offline` is wandb's mode without a page."""

    wandb: bool | None = None
    backend: str | None = None
    offline: str = ""

    def words(self) -> dict[str, str]:
        """What is known of it, as a run's record holds it."""
        known = {"wandbEnabled": "" if self.wandb is None else str(self.wandb).lower()}
        known |= {"wandbMode": self.offline, "generationBackend": self.backend or ""}
        return {name: value for name, value in known.items() if value}

    @classmethod
    def of(cls, words: Mapping[str, str]) -> Launched:
        """What `words` wrote down."""
        known = {name: str(words.get(name) or "") for name in ("wandbEnabled", "generationBackend", "wandbMode")}
        wandb = {"true": True, "false": False}.get(known["wandbEnabled"])
        return cls(wandb, known["generationBackend"] or None, known["wandbMode"])


@dataclass(frozen=True)
class LogFound:
    """What was found in the log. `complete`: all of it was read; `why` it was not."""

    wandb: str
    generated: str
    complete: bool
    why: str = ""


@dataclass(frozen=True)
class Seen:
    """Objects of a RayJob; None where they may not be listed, and `unseen` says why.

    `rayclusters` bear the RayJob's name in their labels, `children` its run's id; `pods` and `claims` are what is left of
    its clusters.
    """

    rayclusters: Objects | None
    pods: Objects | None
    claims: Objects | None
    children: Objects
    unseen: Mapping[str, str]


class LogLines:
    """Looks for evidence in a log's bytes as they pass; `generated` is the first line of a finished generation."""

    def __init__(self) -> None:
        self.generated = ""
        self._part = b""

    def feed(self, data: bytes) -> None:
        if self.generated:
            return
        # A progress bar moves by carriage returns: each of its states is a line.
        *whole, self._part = re.split(rb"[\r\n]", self._part + data)
        self._part = self._part[-_LINE:]
        for line in whole:
            self._look(line)

    def end(self) -> None:
        self._look(self._part)

    def _look(self, line: bytes) -> None:
        found = _GENERATED.search(line) if not self.generated else None
        if found:
            text = line[max(0, found.start() - 40) : found.end() + 60].decode("utf-8", "replace")
            self.generated = " ".join(text.split())


def launched(cluster: Any, run: RunRecord, env: Mapping[str, str]) -> Launched:
    """What a RayJob runs, as `of_script` reads it."""
    try:
        script = script_of(cluster, run)
    except NrlError:
        return Launched()
    return Launched() if script is None else of_script(script, env)


def of_script(script: str, env: Mapping[str, str]) -> Launched:
    """What the composed recipe in a launch script says, with the words of its entrypoint that override it, as the training
    program reads both."""
    try:
        recipe, entrypoint = embedded(script, "recipe.yaml"), embedded(script, "entrypoint.sh")
    except ValueError:
        return Launched()
    words = [w.value for command in config_commands(entrypoint) for w in command.overrides if w.value is not None]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "recipe.yaml")
        file.write_text(recipe, encoding="utf-8")
        try:
            return expected(load(str(file), None, words, env=env), script)
        except NrlError:
            return Launched(offline=_offline(script))


def expected(config: Config, script: str, env: Mapping[str, str] | None = None) -> Launched:
    """What a run of that recipe and launch script is to show: for its record, when it is launched.

    An entrypoint that reads another recipe (`launch.recipeSource: pod`), or none, says nothing of it. `env` is the environment that
    the driver inherits, where that is this machine's.
    """
    offline = _offline(script) or _offline(f"export WANDB_MODE={(env or {}).get('WANDB_MODE', '')}")
    if "NRL_RECIPE" not in embedded(script, "entrypoint.sh"):
        return Launched(offline=offline)
    wandb, backend = _value(config, "logger.wandb_enabled"), _value(config, "policy.generation.backend")
    return Launched(_truth(wandb), _text(backend), offline)


def _value(config: Config, path: str) -> Any:
    """A value of the composed recipe; None when it is not there or depends on what only a pod knows."""
    try:
        return config.recipe_value(path)
    except NrlError:
        return None


def _offline(script: str) -> str:
    found = _OFFLINE.search(script)
    return found[1] if found else ""


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def seen(cluster: Any, run: RunRecord) -> Seen:
    """Look at the cluster for a RayJob's objects. Raises `ClusterError` when it is out of reach; what is forbidden is only noted."""
    unseen: dict[str, str] = {}

    def items(api_version: str, kind: str, selector: str = "") -> Objects | None:
        try:
            return tuple(cluster.list(api_version, kind, run.namespace, label_selector=selector))
        except ClusterError as error:
            if error.reason == "NotServed":
                return ()
            if error.status != 403:
                raise
            unseen[kind] = error.message
            return None

    made = f"{FROM_KIND}=RayJob,{FROM_NAME}={run.name}"
    rayclusters = items(RAY_API, "RayCluster", made)
    names = {c["metadata"]["name"] for c in rayclusters or ()}
    names |= {run.ray_cluster} - {""} if not run.borrows else set()
    every_pod = items("v1", "Pod", RAY_CLUSTER)
    pods = None if every_pod is None else tuple(p for p in every_pod if labels_of(p)[RAY_CLUSTER] in names)
    served = cluster.served()
    dra = newest(served, DRA_GROUP)
    every_claim = items(dra, "ResourceClaim") if dra else ()
    claims = None if every_claim is None else tuple(c for c in every_claim if _of_pods(c, names))
    children = [
        child for kind, api in child_kinds(served).items() for child in items(api, kind, f"{RUN}={run.id}") or ()
    ]
    return Seen(rayclusters, pods, claims, tuple(children), unseen)


def _of_pods(claim: Mapping[str, Any], ray_clusters: Iterable[str]) -> bool:
    """Whether a claim was made for a pod of these clusters: KubeRay's pods begin with the cluster's name, cut at 50."""
    owners = [
        str(ref.get("name")) for ref in claim["metadata"].get("ownerReferences") or () if ref.get("kind") == "Pod"
    ]
    return any(owner.startswith(f"{name[:50]}-") for owner in owners for name in ray_clusters)
