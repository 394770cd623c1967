"""What a recipe means to this program: one frozen value, checked, so that nothing impossible reaches an actor.

The keys are NeMo-RL's, and those that this program cannot serve (a GPU, another model) are refused rather than ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from quickstart.objective import LossSettings
from quickstart.recipe import RecipeError, Tree, Values
from quickstart.task import DATASETS, problem_count

METRICS = ("val:reward", "val:accuracy", "train:reward")


@dataclass(frozen=True)
class PolicySettings:
    """``batch`` is the number of answers in one optimizer step."""

    hidden: int
    batch: int
    lr: float
    weight_decay: float
    max_grad_norm: float
    temperature: float
    loss: LossSettings


@dataclass(frozen=True)
class CheckpointSettings:
    """``resume`` continues from the newest checkpoint of the directory; otherwise older ones are set aside."""

    directory: Path
    save_period: int
    keep_top_k: int
    metric: str
    higher_is_better: bool
    resume: bool


@dataclass(frozen=True)
class WandbSettings:
    project: str
    name: str


@dataclass(frozen=True)
class Settings:
    """``nodes`` is how many Ray nodes the run wants; ``colocated`` keeps generation on the policy's node."""

    seed: int
    steps: int
    prompts: int
    generations: int
    normalize_rewards: bool
    leave_one_out: bool
    val_period: int
    val_samples: int
    dataset: str
    num_digits: int
    policy: PolicySettings
    colocated: bool
    nodes: int
    checkpoints: CheckpointSettings | None
    log_dir: Path
    wandb: WandbSettings | None


def read_settings(tree: Tree) -> Settings:
    """Check a composed recipe. Raises RecipeError for the first value that is missing, unknown or impossible."""
    values = Values(tree)
    if values.integer("cluster.gpus_per_node", least=0) != 0:
        raise RecipeError("cluster.gpus_per_node must be 0: the policy is numpy and uses no GPU")
    checkpoints = _checkpoints(values)
    wandb = WandbSettings(values.text("logger.wandb.project"), values.text("logger.wandb.name"))
    settings = Settings(
        seed=values.integer("grpo.seed", least=0),
        steps=values.integer("grpo.max_num_steps"),
        prompts=values.integer("grpo.num_prompts_per_step"),
        generations=values.integer("grpo.num_generations_per_prompt", least=2),
        normalize_rewards=values.flag("grpo.normalize_rewards"),
        leave_one_out=values.flag("grpo.use_leave_one_out_baseline"),
        val_period=values.integer("grpo.val_period"),
        val_samples=values.integer("grpo.max_val_samples"),
        dataset=values.text("data.dataset_name", DATASETS),
        num_digits=values.integer("data.num_digits"),
        policy=_policy(values),
        colocated=values.flag("policy.generation.colocated.enabled"),
        nodes=values.integer("cluster.num_nodes"),
        checkpoints=checkpoints if values.flag("checkpointing.enabled") else None,
        log_dir=Path(values.text("logger.log_dir")),
        wandb=wandb if values.flag("logger.wandb_enabled") else None,
    )
    values.finish()
    _fit_together(settings)
    return settings


def _policy(values: Values) -> PolicySettings:
    name = values.text("policy.model_name")
    size = re.fullmatch(r"digits-mlp-([1-9]\d{0,3})", name)
    if not size:
        raise RecipeError(f"policy.model_name must be digits-mlp-SIZE (for instance digits-mlp-128), not {name}")
    return PolicySettings(
        hidden=int(size.group(1)),
        batch=values.integer("policy.train_global_batch_size"),
        lr=values.number("policy.optimizer.kwargs.lr", above=0),
        weight_decay=values.number("policy.optimizer.kwargs.weight_decay", least=0),
        max_grad_norm=values.number("policy.max_grad_norm", above=0),
        temperature=values.number("policy.generation.temperature", above=0),
        loss=LossSettings(
            ratio_clip_min=values.number("loss_fn.ratio_clip_min", above=0, below=1),
            ratio_clip_max=values.number("loss_fn.ratio_clip_max", above=0),
            reference_policy_kl_penalty=values.number("loss_fn.reference_policy_kl_penalty", least=0),
        ),
    )


def _checkpoints(values: Values) -> CheckpointSettings:
    return CheckpointSettings(
        directory=Path(values.text("checkpointing.checkpoint_dir")),
        save_period=values.integer("checkpointing.save_period"),
        keep_top_k=values.integer("checkpointing.keep_top_k"),
        metric=values.text("checkpointing.metric_name", METRICS),
        higher_is_better=values.flag("checkpointing.higher_is_better"),
        resume=values.flag("checkpointing.resume"),
    )


def _fit_together(settings: Settings) -> None:
    """Values that are fine alone and impossible together."""
    if settings.num_digits > 3:
        raise RecipeError(f"data.num_digits must be at most 3, not {settings.num_digits}")
    problems = problem_count(settings.dataset, settings.num_digits)
    if settings.val_samples + settings.prompts > problems:
        raise RecipeError(
            f"grpo.max_val_samples {settings.val_samples} and grpo.num_prompts_per_step {settings.prompts} do not fit: "
            f"{settings.dataset} with data.num_digits {settings.num_digits} has {problems} problems"
        )
    answers = settings.prompts * settings.generations
    if answers % settings.policy.batch:
        raise RecipeError(
            f"policy.train_global_batch_size {settings.policy.batch} must divide the {answers} answers of a step "
            "(grpo.num_prompts_per_step x grpo.num_generations_per_prompt)"
        )
    saved = settings.checkpoints
    if saved and saved.metric.startswith("val:") and saved.save_period % settings.val_period:
        raise RecipeError(
            f"checkpointing.save_period {saved.save_period} must be a multiple of grpo.val_period "
            f"{settings.val_period}: {saved.metric} is known only after a validation"
        )
