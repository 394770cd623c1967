"""The same workers as Ray actors, spread over a Ray cluster.

An actor asks for a quarter of a CPU: all of them fit into one CPU per node, so the smallest clusters can run this. The
placement group prefers one node (colocated) or many, and never insists: it is the same program either way.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import ray
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from quickstart.recipe import RecipeError
from quickstart.settings import Settings
from quickstart.task import Floats, Ints, Problems
from quickstart.workers import GenerationWorker, PolicyWorker, RewardWorker

CPUS_PER_ACTOR = 0.25
GENERATORS_PER_NODE = 2
PATIENCE_SECONDS = 120.0


def connect(nodes: int, log: Callable[[str], None]) -> None:
    """Join the Ray cluster at ``RAY_ADDRESS``, else one that runs on this machine, else start one; wait for its nodes.

    Raises RecipeError when fewer than ``nodes`` nodes appear in time.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray warns of a change that concerns GPUs
    ray.init(logging_level="warning")
    deadline = time.monotonic() + PATIENCE_SECONDS
    alive = _alive_nodes()
    if len(alive) < nodes:
        log(f"waiting for Ray nodes: {len(alive)} of {nodes} are there")
    while len(alive) < nodes:
        if time.monotonic() > deadline:
            raise RecipeError(f"cluster.num_nodes is {nodes}, but Ray has {len(alive)} node(s)")
        time.sleep(1.0)
        alive = _alive_nodes()
    cpus = ray.cluster_resources().get("CPU", 0.0)
    log(f"Ray {ray.__version__}: {len(alive)} node(s), {cpus:g} CPUs")


class RayCrew:
    """A policy actor, a reward actor, and two generation actors for each of ``cluster.num_nodes``."""

    def __init__(self, settings: Settings) -> None:
        generators = GENERATORS_PER_NODE * settings.nodes
        self._group = _reserve(2 + generators, "PACK" if settings.colocated else "SPREAD")
        self._policy = self._start(PolicyWorker, 0, settings.policy, settings.seed)
        self._reward = self._start(RewardWorker, 1)
        self._generators = [
            self._start(GenerationWorker, 2 + index, settings.generations, settings.policy.temperature, settings.seed)
            for index in range(generators)
        ]
        self._share_weights()

    def where(self) -> str:
        """How many nodes the actors landed on, in words."""
        nodes = set(placement_group_table(self._group)["bundles_to_node_id"].values())
        return f"1 policy, 1 reward and {len(self._generators)} generation actors on {len(nodes)} node(s)"

    def generate(self, problems: Problems, step: int) -> tuple[Ints, Floats]:
        pending = []
        for generator, rows in self._shares(problems):
            first = int(rows[0])
            pending.append(generator.generate.remote(problems.take(rows), first, step))
        written, chosen = zip(*ray.get(pending), strict=True)
        return np.concatenate(written), np.concatenate(chosen)

    def judge(self, problems: Problems, written: Ints) -> tuple[Floats, float]:
        verdict: tuple[Floats, float] = ray.get(self._reward.judge.remote(problems, written))
        return verdict

    def train(self, digits: Ints, written: Ints, old: Floats, advantage: Floats, step: int) -> dict[str, float]:
        metrics: dict[str, float] = ray.get(self._policy.train.remote(digits, written, old, advantage, step))
        self._share_weights()
        return metrics

    def best(self, problems: Problems) -> Ints:
        return np.concatenate(
            ray.get([generator.best.remote(problems.take(rows)) for generator, rows in self._shares(problems)])
        )

    def state(self) -> Mapping[str, Floats]:
        state: Mapping[str, Floats] = ray.get(self._policy.state.remote())
        return state

    def restore(self, state: Mapping[str, Floats]) -> None:
        ray.get(self._policy.restore.remote(state))
        self._share_weights()

    def _start(self, worker: type, bundle: int, *arguments: Any) -> Any:
        strategy = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=bundle)
        actor: Any = ray.remote(num_cpus=CPUS_PER_ACTOR, scheduling_strategy=strategy)(worker)
        return actor.remote(*arguments)

    def _share_weights(self) -> None:
        """Policy to generators through Ray's object store: the weights never pass through this process."""
        weights = self._policy.current_weights.remote()
        ray.get([generator.set_weights.remote(weights) for generator in self._generators])

    def _shares(self, problems: Problems) -> list[tuple[Any, Ints]]:
        shares = np.array_split(np.arange(len(problems)), len(self._generators))
        return [(generator, rows) for generator, rows in zip(self._generators, shares, strict=True) if len(rows)]


def _alive_nodes() -> list[str]:
    return [node["NodeID"] for node in ray.nodes() if node["Alive"]]


def _reserve(actors: int, strategy: str) -> PlacementGroup:
    group: PlacementGroup = placement_group([{"CPU": CPUS_PER_ACTOR}] * actors, strategy=strategy)
    if not group.wait(PATIENCE_SECONDS):
        free = ray.available_resources().get("CPU", 0.0)
        raise RecipeError(f"{actors} actors need {actors * CPUS_PER_ACTOR:g} CPUs, but Ray has {free:g} free")
    return group
