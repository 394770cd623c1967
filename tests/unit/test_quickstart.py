"""examples/01-quickstart without Ray: its task, its mathematics, and training runs in this process."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "01-quickstart"))

import grpo
from quickstart import objective, policy, recipe, task
from quickstart.checkpoints import Checkpoints
from quickstart.crew import LocalCrew
from quickstart.journal import Journal
from quickstart.settings import CheckpointSettings, Settings, read_settings
from quickstart.training import Outcome, show_examples, train
from quickstart.workers import GenerationWorker

RECIPE = Path(grpo.__file__).with_name("recipe.yaml")
SMALL = ["grpo.num_prompts_per_step=16", "grpo.num_generations_per_prompt=4", "policy.train_global_batch_size=32"]
SMALL += ["policy.model_name=digits-mlp-8", "grpo.max_val_samples=20"]


# What is learnt


@pytest.mark.parametrize(("dataset", "sign"), [("addition", 1), ("subtraction", -1)])
def test_answers_are_the_results(dataset: str, sign: int) -> None:
    everything = task.make_task(dataset, 2, validation=500, seed=3)
    for problems in (everything.train, everything.validation):
        for (left, right), answer in zip(problems.digits[:200], problems.answers[:200], strict=True):
            assert task.number(answer) == task.number(left) + sign * task.number(right)
    assert len(everything.train) + len(everything.validation) == task.problem_count(dataset, 2)


def test_held_out_problems_are_never_trained_on() -> None:
    everything = task.make_task("addition", 2, validation=500, seed=3)
    trained, held_out = ({row.tobytes() for row in part.digits} for part in (everything.train, everything.validation))
    assert len(trained) == 9500
    assert len(held_out) == 500
    assert not trained & held_out


def test_a_batch_depends_on_seed_and_step_alone_and_repeats_nothing() -> None:
    everything = task.make_task("addition", 2, validation=500, seed=3)
    batch = everything.batch(seed=3, step=7, count=256)
    assert np.array_equal(batch.digits, everything.batch(seed=3, step=7, count=256).digits)
    assert not np.array_equal(batch.digits, everything.batch(seed=3, step=8, count=256).digits)
    assert len({row.tobytes() for row in batch.digits}) == 256


def test_the_reward_is_the_share_of_right_digits() -> None:
    problems = task.Problems(np.zeros((1, 2, 3), dtype=np.int64), np.array([[2, 4, 1]]))
    written = np.array([[[2, 4, 1], [2, 0, 1], [0, 0, 0]]])
    assert task.rewards(problems, written).tolist() == [[1.0, 2 / 3, 0.0]]
    assert task.solved(problems, written) == pytest.approx(1 / 3)


def test_an_untrained_policy_guesses() -> None:
    settings = _settings()
    problems = _task(settings).batch(1, 1, 256)
    written, _ = LocalCrew(settings).generate(problems, 1)
    assert float(task.rewards(problems, written).mean()) == pytest.approx(0.1, abs=0.01)


# Mathematics


def test_advantages_compare_within_the_group() -> None:
    rewards = np.array([[1.0, 0.0, 0.5, 0.5], [0.3, 0.3, 0.3, 0.3]])
    plain = objective.advantages(rewards, normalize=False, leave_one_out=False)
    assert plain[0].tolist() == [0.5, -0.5, 0.0, 0.0]
    others = objective.advantages(rewards, normalize=False, leave_one_out=True)
    assert others[0] == pytest.approx([1 - 1 / 3, -2 / 3, 0.0, 0.0])
    normalized = objective.advantages(rewards, normalize=True, leave_one_out=False)
    assert normalized[0].std() == pytest.approx(1.0, abs=1e-4)
    assert all(not row[1].any() for row in (plain, others)), "equally good answers teach nothing"
    assert normalized[1] == pytest.approx(0.0, abs=1e-6)


def test_the_clip_stops_the_gradient_only_where_the_ratio_went_far_enough() -> None:
    old = np.zeros((4, 1))
    new = np.log(np.array([[1.5], [1.5], [0.5], [0.5]]))
    advantage = np.array([1.0, -1.0, 1.0, -1.0])
    loss = objective.grpo_loss(new, old, new, advantage, objective.LossSettings(0.2, 0.2, 0.0))
    assert (loss.slope[:, 0] * 4).tolist() == pytest.approx([0.0, 1.5, -0.5, 0.0])
    assert loss.value == pytest.approx(-(1.2 - 1.5 + 0.5 - 0.8) / 4)
    assert loss.clipped == 0.5


def test_the_kl_estimate_is_zero_at_the_reference_and_positive_elsewhere() -> None:
    zeros, settings = np.zeros((2, 3)), objective.LossSettings(0.2, 0.2, 1.0)
    assert objective.grpo_loss(zeros, zeros, zeros, np.zeros(2), settings).kl == 0.0
    apart = objective.grpo_loss(zeros, zeros, zeros - 0.7, np.zeros(2), settings)
    assert apart.kl == pytest.approx(np.exp(-0.7) + 0.7 - 1)
    assert apart.value == pytest.approx(apart.kl)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_the_gradient_agrees_with_finite_differences(temperature: float) -> None:
    rng = np.random.default_rng(5)
    weights = {name: rng.normal(0, 0.5, value.shape) for name, value in policy.initial_weights(6, 5).items()}
    problems = task.make_task("addition", 2, validation=0, seed=5).train.take(np.arange(12))
    written, old = policy.sample(weights, problems.digits, rng.random((12, 3)), temperature)
    old += rng.normal(0, 0.3, old.shape)  # some ratios beyond the clip
    reference, advantage = old + rng.normal(0, 0.3, old.shape), rng.normal(0, 1, 12)
    seen, settings = policy.windows(problems.digits, written), objective.LossSettings(0.2, 0.2, 0.1)

    def loss() -> tuple[objective.Loss, tuple[task.Floats, task.Floats]]:
        forward = policy.logprobs(weights, seen, temperature)
        new = np.take_along_axis(forward[0], written[..., None], -1)[..., 0]
        return objective.grpo_loss(new, old, reference, advantage, settings), forward

    value, forward = loss()
    assert 0.1 < value.clipped < 0.9
    slopes = policy.gradient(weights, seen, written, value.slope, temperature, forward)
    for name, weight in weights.items():
        numeric = np.zeros(weight.shape)
        for index in np.ndindex(*weight.shape):
            kept, ends = weight[index], []
            for step in (1e-6, -1e-6):
                weight[index] = kept + step
                ends.append(loss()[0].value)
            weight[index] = kept
            numeric[index] = (ends[0] - ends[1]) / 2e-6
        assert np.abs(numeric).max() > 1e-3, name
        np.testing.assert_allclose(slopes[name], numeric, atol=2e-8, err_msg=name)


def test_log_probabilities_of_a_sample_are_those_of_a_later_look() -> None:
    """Otherwise the first ratio would not be 1, and the clip would act on noise."""
    weights = policy.initial_weights(16, 2)
    weights["w2"] *= 100
    problems = task.make_task("addition", 2, validation=0, seed=2).train.take(np.arange(50))
    written, chosen = policy.sample(weights, problems.digits, np.random.default_rng(2).random((50, 3)), 0.8)
    table, _ = policy.logprobs(weights, policy.windows(problems.digits, written), 0.8)
    again = np.take_along_axis(table, written[..., None], -1)[..., 0]
    np.testing.assert_allclose(chosen, again, atol=1e-12)
    np.testing.assert_allclose(np.exp(table).sum(-1), 1.0)


def test_samples_follow_the_probabilities() -> None:
    weights = policy.initial_weights(4, 2)
    weights["b2"] = np.log(np.arange(1.0, 11.0))
    digits = np.zeros((20000, 2, 1), dtype=np.int64)
    written, _ = policy.sample(weights, digits, np.random.default_rng(1).random((20000, 1)), 1.0)
    expected = np.exp(policy.logprobs(weights, policy.windows(digits[:1], written[:1]), 1.0)[0][0, 0])
    np.testing.assert_allclose(np.bincount(written[:, 0], minlength=10) / 20000, expected, atol=0.01)


def test_a_column_never_sees_what_is_written_later() -> None:
    digits = np.array([[[1, 2, 0], [3, 4, 0]]])
    seen = policy.windows(digits, np.array([[4, 6, 9]]))[0]
    blank = policy.BLANK
    assert seen.tolist() == [[1, 3, blank, blank, blank], [2, 4, 1, 3, 4], [0, 0, 2, 4, 6]]


def test_the_optimizer_clips_by_the_global_norm_and_decays_weights() -> None:
    weights = {"a": np.array([1.0, 1.0]), "b": np.array([2.0])}
    optimizer = policy.AdamW(weights, lr=0.1, weight_decay=0.5, max_grad_norm=1.0)
    norm = optimizer.update(weights, {"a": np.array([3.0, 0.0]), "b": np.array([-4.0])})
    assert norm == 5.0
    assert optimizer.mean["a"][0] == pytest.approx(0.1 * 3 / 5)
    # The first step of Adam is lr in each direction, whatever the size of the gradient.
    assert weights["a"] == pytest.approx([1 - 0.1 - 0.05, 1 - 0.05])
    assert weights["b"] == pytest.approx([2 + 0.1 - 0.1])


def test_answers_do_not_depend_on_how_problems_are_spread_over_workers() -> None:
    settings = _settings()
    problems = _task(settings).batch(1, 1, 16)
    workers = [GenerationWorker(4, 1.0, seed=9) for _ in range(2)]
    for worker in workers:
        worker.set_weights(policy.initial_weights(8, 9))
    whole, chosen = workers[0].generate(problems, 0, step=3)
    parts = [
        worker.generate(problems.take(rows), int(rows[0]), step=3)
        for worker, rows in zip(workers, (np.arange(5), np.arange(5, 16)), strict=True)
    ]
    assert np.array_equal(whole, np.concatenate([part[0] for part in parts]))
    np.testing.assert_allclose(chosen, np.concatenate([part[1] for part in parts]), atol=1e-12)


# A run, and what it leaves


def test_it_learns_from_chance_to_above_nine_tenths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = _settings("grpo.max_num_steps=40", *_into(tmp_path))
    outcome, crew = _train(settings)
    rows = [json.loads(line) for line in (tmp_path / "logs/exp_001/metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, 41))
    assert rows[0]["train:reward"] == pytest.approx(0.1, abs=0.02)
    assert rows[-1]["train:reward"] > 0.85
    assert outcome.reward > 0.95
    assert outcome.accuracy > 0.9
    assert outcome.checkpoint == tmp_path / "checkpoints/step_40"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("step 1/40 reward 0.1")
    assert sum("validation: reward" in line for line in lines) == 4
    show_examples(_task(settings), crew, "+")
    assert capsys.readouterr().out.count("(right)") == 3


def test_the_same_seed_gives_the_same_run_and_another_seed_another(tmp_path: Path) -> None:
    runs = [
        _train(_settings(*SMALL, "grpo.max_num_steps=4", f"grpo.seed={seed}", *_into(tmp_path / name)))[1].state()
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert all(np.array_equal(runs[0][name], runs[1][name]) for name in runs[0])
    assert not np.array_equal(runs[0]["weights.w1"], runs[2]["weights.w1"])


def test_a_resumed_run_is_the_run_that_never_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = ["checkpointing.save_period=10", *SMALL]
    whole = _train(_settings("grpo.max_num_steps=20", *steps, *_into(tmp_path / "whole")))[1].state()
    _train(_settings("grpo.max_num_steps=10", *steps, *_into(tmp_path / "parts")))
    resume = ["grpo.max_num_steps=20", "checkpointing.resume=true", *steps, *_into(tmp_path / "parts")]
    resumed = _train(_settings(*resume))[1].state()
    assert "resuming after step 10" in capsys.readouterr().out
    assert all(np.array_equal(whole[name], resumed[name]) for name in whole)
    with pytest.raises(recipe.RecipeError, match=r"of step 20 .* is 20: nothing to do"):
        _train(_settings(*resume))
    with pytest.raises(recipe.RecipeError, match="of another policy"):
        _train(_settings(*resume, "grpo.max_num_steps=30", "policy.model_name=digits-mlp-9"))


def test_the_best_checkpoints_and_the_newest_stay(tmp_path: Path) -> None:
    kept = _checkpoints(tmp_path)
    state = {"weights.w": np.array([1.0])}
    for step, accuracy in ((10, 0.9), (20, 0.5), (30, 0.8), (40, 0.1)):
        kept.save(step, state, {"val:accuracy": accuracy})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_10", "step_30", "step_40"]
    assert json.loads((tmp_path / "step_30/training_info.json").read_text()) == {"step": 30, "val:accuracy": 0.8}
    assert (tmp_path / "step_30/config.yaml").read_text() == "key: 1\n"
    newest = kept.newest()
    assert newest
    assert newest[0] == 40
    assert newest[1]["weights.w"].tolist() == [1.0]
    lower = _checkpoints(tmp_path / "lower", higher_is_better=False)
    for step, accuracy in ((1, 0.9), (2, 0.5), (3, 0.8)):
        lower.save(step, state, {"val:accuracy": accuracy})
    assert sorted(path.name for path in (tmp_path / "lower").iterdir()) == ["step_2", "step_3"]


def test_checkpoints_of_an_earlier_run_are_set_aside(tmp_path: Path) -> None:
    for accuracy in (0.9, 0.1):
        _checkpoints(tmp_path).save(10, {}, {"val:accuracy": accuracy})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["earlier_001", "step_10"]
    assert "0.9" in (tmp_path / "earlier_001/step_10/training_info.json").read_text()
    assert "0.1" in (tmp_path / "step_10/training_info.json").read_text()


def test_a_broken_checkpoint_and_a_forbidden_directory_are_one_line(tmp_path: Path) -> None:
    _checkpoints(tmp_path).save(10, {}, {"val:accuracy": 0.9})
    (tmp_path / "step_10/policy.npz").write_bytes(b"half")
    with pytest.raises(recipe.RecipeError, match=r"cannot resume from .*step_10/policy.npz"):
        _checkpoints(tmp_path, resume=True).newest()
    (tmp_path / "file").write_text("")
    with pytest.raises(recipe.RecipeError, match="cannot make the directory"):
        _checkpoints(tmp_path / "file/below")


def test_wandb_gets_what_the_log_says_and_its_absence_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = _settings("logger.wandb_enabled=true", *_into(tmp_path))
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(recipe.RecipeError, match="this image has no wandb"):
        Journal(settings, {})
    calls: list[Any] = []
    run = types.SimpleNamespace(
        log=lambda metrics, step: calls.append((step, metrics["train:reward"])), finish=lambda: calls.append("finished")
    )

    def init(**given: Any) -> Any:
        calls.append(given)
        return run

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    journal = Journal(settings, {"a": 1})
    journal.step(1, 0.5, {f"train:{name}": 0.1 for name in ("reward", "accuracy", "loss", "kl", "clipped")})
    journal.close()
    started = {"project": "nrl-quickstart", "name": "addition-digits-mlp-128", "config": {"a": 1}}
    assert calls == [{**started, "dir": str(tmp_path / "logs")}, (1, 0.1), "finished"]


def _settings(*overrides: str) -> Settings:
    return read_settings(recipe.load(RECIPE, overrides))


def _into(directory: Path) -> list[str]:
    return [f"checkpointing.checkpoint_dir={directory / 'checkpoints'}", f"logger.log_dir={directory / 'logs'}"]


def _task(settings: Settings) -> task.Task:
    return task.make_task(settings.dataset, settings.num_digits, settings.val_samples, settings.seed)


def _train(settings: Settings) -> tuple[Outcome, LocalCrew]:
    crew = LocalCrew(settings)
    assert settings.checkpoints
    checkpoints = Checkpoints(settings.checkpoints, {})
    return train(settings, _task(settings), crew, Journal(settings, {}), checkpoints), crew


def _checkpoints(directory: Path, **changes: Any) -> Checkpoints:
    usual = CheckpointSettings(directory, 10, 2, "val:accuracy", higher_is_better=True, resume=False)
    return Checkpoints(dataclasses.replace(usual, **changes), {"key": 1})
