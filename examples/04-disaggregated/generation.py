"""The generation role: answers prompts with the newest weights, by engines that are actors of its own Ray cluster."""

from __future__ import annotations

import argparse
import itertools
import random
from typing import Any

import ray
from disagg.policy import OFFSETS, sample
from disagg.service import serve


@ray.remote(num_cpus=0)
class Engine:
    def __init__(self, seed: int) -> None:
        self._logits = [0.0] * len(OFFSETS)
        self._random = random.Random(seed)

    def load(self, logits: list[float]) -> None:
        self._logits = logits

    def answer(self, prompts: list[list[int]]) -> list[dict[str, int]]:
        choices = sample(self._logits, len(prompts), self._random)
        return [{"choice": c, "answer": a + b + OFFSETS[c]} for (a, b), c in zip(prompts, choices, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--engines", type=int, default=2)
    args = parser.parse_args()
    ray.init()
    engines = [Engine.remote(seed) for seed in range(args.engines)]
    turn = itertools.cycle(engines)

    def generate(asked: Any) -> dict[str, Any]:
        return {"answers": ray.get(next(turn).answer.remote(asked["prompts"]))}

    def weights(asked: Any) -> dict[str, Any]:
        ray.get([engine.load.remote(asked["logits"]) for engine in engines])
        return {"engines": len(engines)}

    generate({"prompts": [[1, 1]]})  # the engines are there before it says that it is
    print(f"generation: {len(engines)} engines, port {args.port}", flush=True)
    serve(args.port, {"/generate": generate, "/weights": weights})


main()
