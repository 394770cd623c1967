"""The gym role: makes up problems, has generation answer them, and scores the answers."""

from __future__ import annotations

import argparse
import random
from typing import Any

from disagg.service import ask, serve


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--generation", required=True, help="URL of the generation role")
    args = parser.parse_args()
    generator = random.Random(7)

    def rollouts(asked: Any) -> dict[str, Any]:
        prompts = [[generator.randrange(50), generator.randrange(50)] for _ in range(int(asked["count"]))]
        answers = ask(f"{args.generation}/generate", {"prompts": prompts})["answers"]
        scored = zip(prompts, answers, strict=True)
        return {"rollouts": [{**found, "reward": 1.0 / (1 + abs(found["answer"] - a - b))} for (a, b), found in scored]}

    print(f"gym: port {args.port}, generation at {args.generation}", flush=True)
    serve(args.port, {"/rollouts": rollouts})


main()
