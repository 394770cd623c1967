"""The training role: takes scored rollouts from the gym, improves the policy, and gives generation the new weights."""

from __future__ import annotations

import argparse
from pathlib import Path

import yaml
from disagg.policy import OFFSETS, chances, improved
from disagg.service import ask


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--gym", required=True)
    parser.add_argument("--generation", required=True)
    args = parser.parse_args()
    recipe = yaml.safe_load(Path(args.config).read_text(encoding="utf-8"))
    steps, batch = int(recipe["grpo"]["max_num_steps"]), int(recipe["grpo"]["num_generations_per_prompt"])
    rate = float(recipe["policy"]["optimizer"]["kwargs"]["lr"])
    logits = [0.0] * len(OFFSETS)
    ask(f"{args.generation}/weights", {"logits": logits})
    for step in range(1, steps + 1):
        rollouts = ask(f"{args.gym}/rollouts", {"count": batch})["rollouts"]
        rewards = [float(found["reward"]) for found in rollouts]
        logits = improved(logits, [int(found["choice"]) for found in rollouts], rewards, rate)
        engines = ask(f"{args.generation}/weights", {"logits": logits})["engines"]
        print(f"step {step}/{steps} reward {sum(rewards) / batch:.3f}, weights sent to {engines} engines", flush=True)
    right = chances(logits)[OFFSETS.index(0)]
    print(f"result: the right sum with a chance of {right:.3f}", flush=True)


main()
