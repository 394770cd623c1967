"""What GRPO optimizes: group-relative advantages, the clipped ratio, and the distance to a reference policy.

The names are NeMo-RL's (``grpo.normalize_rewards``, ``loss_fn.ratio_clip_min`` and so on). The loss is averaged over
digits, NeMo-RL's ``token_level_loss``; all answers are equally long, so nothing else would differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quickstart.task import Floats


@dataclass(frozen=True)
class LossSettings:
    """``ratio_clip_*`` are distances from 1; the penalty weighs the estimated KL divergence."""

    ratio_clip_min: float
    ratio_clip_max: float
    reference_policy_kl_penalty: float


@dataclass(frozen=True)
class Loss:
    """The value, its derivative by each log-probability, and what is worth printing."""

    value: float
    slope: Floats
    kl: float
    clipped: float


def advantages(rewards: Floats, normalize: bool, leave_one_out: bool) -> Floats:
    """How much better each answer is than the others of its group: ``rewards`` is (problems, answers each).

    A group whose answers are all equally good teaches nothing and gets zeros.
    """
    size = rewards.shape[1]
    mean = rewards.mean(axis=1, keepdims=True)
    baseline = (mean * size - rewards) / (size - 1) if leave_one_out else mean
    result = rewards - baseline
    if normalize:
        result = result / (rewards.std(axis=1, keepdims=True) + 1e-6)
    return np.asarray(result)


def grpo_loss(new: Floats, old: Floats, reference: Floats, advantage: Floats, settings: LossSettings) -> Loss:
    """The loss of one mini-batch.

    The first three are log-probabilities of the written digits, (answers, columns): by the policy that learns, by the
    one that wrote them and by the one it started from. ``advantage`` has one value per answer.

    The KL divergence is Schulman's k3 estimate, which is never negative.
    """
    advantage = np.broadcast_to(advantage[:, None], new.shape)
    ratio = np.exp(new - old)
    limited = np.clip(ratio, 1.0 - settings.ratio_clip_min, 1.0 + settings.ratio_clip_max)
    gain = np.minimum(ratio * advantage, limited * advantage)
    free = ratio * advantage <= limited * advantage  # where the clip does not act, and the gradient flows
    apart = reference - new
    kl = np.exp(apart) - apart - 1.0
    slope = np.where(free, -ratio * advantage, 0.0) + settings.reference_policy_kl_penalty * (1.0 - np.exp(apart))
    value = float(np.mean(settings.reference_policy_kl_penalty * kl - gain))
    return Loss(value, slope / new.size, float(kl.mean()), float(np.mean(~free)))
