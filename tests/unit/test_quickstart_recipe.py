"""The recipe of examples/01-quickstart: how it is read, that every key acts, and what impossible values say."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "01-quickstart"))

import grpo
from quickstart import recipe
from quickstart.crew import LocalCrew
from quickstart.journal import Journal
from quickstart.settings import Settings, read_settings
from quickstart.task import Floats, make_task
from quickstart.training import train

RECIPE = Path(grpo.__file__).with_name("recipe.yaml")


def test_a_recipe_inherits_refers_and_is_overridden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUICKSTART_TEST", "from-env")
    (tmp_path / "base.yaml").write_text("a: {x: 1, y: 2, l: [1, 2]}\ngone: {old: 1}\nlr: 1e-4\n")
    (tmp_path / "r.yaml").write_text(
        "defaults: [base.yaml]\na: {y: 3, l: [9]}\ngone: {_override_: true, new: 2}\nto: ${a.y}\n"
        "text: run-${a.x}-${oc.env:QUICKSTART_TEST}\nelse: ${oc.env:QUICKSTART_ABSENT,fallback}\n"
        "infra: {profile: generic}\n"
    )
    assert recipe.load(tmp_path / "r.yaml", ["a.x=-2.5e-3", "+a.new=true"]) == {
        "a": {"x": -0.0025, "y": 3, "l": [9], "new": True},
        "gone": {"new": 2},
        "lr": 0.0001,
        "to": 3,
        "text": "run--0.0025-from-env",
        "else": "fallback",
    }


def test_the_example_is_what_its_readme_says() -> None:
    settings = _settings()
    assert (settings.steps, settings.prompts, settings.generations, settings.nodes) == (60, 256, 32, 1)
    assert settings.policy.lr == 0.01
    assert settings.log_dir == Path("/tmp/nrl-quickstart/logs")
    assert settings.checkpoints
    assert settings.checkpoints.directory == Path("/tmp/nrl-quickstart/checkpoints")


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


LEAVES = dict(_leaves(recipe.load(RECIPE)))
OTHER = {
    "policy.model_name": "digits-mlp-64",
    "data.dataset_name": "subtraction",
    "data.num_digits": 3,
    "policy.max_grad_norm": 0.1,
    "checkpointing.metric_name": "train:reward",
}


def _another(key: str) -> str:
    """An override that gives the key another value that is possible."""
    value = LEAVES[key]
    if key in OTHER:
        return f"{key}={OTHER[key]}"
    if isinstance(value, bool):
        return f"{key}={str(not value).lower()}"
    return f"{key}={value}x" if isinstance(value, str) else f"{key}={value * 2 or 1}"


@pytest.mark.parametrize("key", LEAVES)
def test_every_key_of_the_recipe_is_read(key: str) -> None:
    usual = ["logger.wandb_enabled=true"] if key.startswith("logger.wandb.") else []
    if key == "cluster.gpus_per_node":
        with pytest.raises(recipe.RecipeError, match="no GPU"):
            _settings(_another(key))
    else:
        assert _settings(*usual, _another(key)) != _settings(*usual)


SMALL = {
    "grpo.num_prompts_per_step": 32,
    "grpo.num_generations_per_prompt": 8,
    "grpo.max_num_steps": 3,
    "policy.train_global_batch_size": 64,
}
NOT_OF_THE_NUMBERS = {"grpo.val_period", "policy.generation.colocated.enabled"}
OF_THE_NUMBERS = [
    key for key in LEAVES if re.match("(grpo|loss_fn|policy|data)[.]", key) and key not in NOT_OF_THE_NUMBERS
]


@pytest.mark.parametrize("key", OF_THE_NUMBERS)
def test_every_key_of_the_training_changes_what_is_learnt(key: str, tmp_path: Path) -> None:
    usual = ["checkpointing.enabled=false", f"logger.log_dir={tmp_path}"]
    usual += [f"{name}={value}" for name, value in SMALL.items()]
    other = f"{key}={SMALL[key] * 2}" if key in SMALL else _another(key)
    before, after = (_learnt(_settings(*usual)), _learnt(_settings(*usual, other)))
    assert not np.array_equal(before, after)


def _learnt(settings: Settings) -> Floats:
    crew = LocalCrew(settings)
    task = make_task(settings.dataset, settings.num_digits, settings.val_samples, settings.seed)
    train(settings, task, crew, Journal(settings, {}), None)
    return crew.state()["weights.w1"]


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["policy.optimizer.kwargs.lr=-1e-3"], "policy.optimizer.kwargs.lr must be above 0, not -0.001"),
        (["policy.optimizer.kwargs.lr=fast"], "policy.optimizer.kwargs.lr must be a number, not 'fast'"),
        (["policy.optimizer.kwargs.lr=.nan"], "policy.optimizer.kwargs.lr must be a number, not nan"),
        (["grpo.max_num_steps=0"], "grpo.max_num_steps must be at least 1, not 0"),
        (["grpo.max_num_steps=1.5"], "grpo.max_num_steps must be a whole number, not 1.5"),
        (["grpo.max_num_steps=???"], "grpo.max_num_steps is ???: set it"),
        (["grpo.max_num_steps="], "grpo.max_num_steps must be a whole number, not null"),
        (["grpo=null"], "grpo.seed is missing"),
        (["grpo.max_steps=3"], "the recipe has no grpo.max_steps (did you mean grpo.max_num_steps?)"),
        (["gprx.seed=3"], "the recipe has no gprx.seed (did you mean grpo.seed?)"),
        (["+grpo.epochs=3"], "grpo.epochs is no key of this recipe"),
        (["grpo.seed"], "override 'grpo.seed' is not key=value"),
        (["grpo.seed=[1"], "override 'grpo.seed=[1': '[1' is no YAML value"),
        (["cluster.gpus_per_node=8"], "cluster.gpus_per_node must be 0: the policy is numpy and uses no GPU"),
        (["policy.model_name=Qwen/Qwen3-4B"], "policy.model_name must be digits-mlp-SIZE"),
        (["data.dataset_name=gsm8k"], "data.dataset_name must be one of addition, subtraction, not gsm8k"),
        (["data.num_digits=1"], "addition with data.num_digits 1 has 100 problems"),
        (["data.num_digits=4"], "data.num_digits must be at most 3, not 4"),
        (["policy.train_global_batch_size=1000"], "must divide the 8192 answers of a step"),
        (
            ["checkpointing.save_period=15"],
            "must be a multiple of grpo.val_period 10: val:accuracy is known only after",
        ),
        (["checkpointing.enabled=maybe"], "checkpointing.enabled must be true or false, not 'maybe'"),
        (["logger.log_dir=${logger.log_dir}"], "${logger.log_dir} refers to itself"),
        (["logger.log_dir=${nowhere}"], "nowhere is missing"),
        (["logger.log_dir=${mul:2,3}"], "understands ${a.b} and ${oc.env:NAME,default} only"),
    ],
)
def test_an_impossible_recipe_is_one_line_and_no_ray(
    overrides: list[str], line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert grpo.main(["--config", str(RECIPE), *overrides]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert line in err


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"a: [1", "r.yaml is no YAML"),
        (b"- 1", "r.yaml must hold a mapping"),
        (b"\xff\xfe\x00", "cannot read"),
        (b"defaults: r.yaml", "r.yaml includes itself through defaults:"),
        (b"defaults: other.yaml", "other.yaml: No such file or directory"),
        (b"", "r.yaml must hold a mapping"),
    ],
)
def test_a_broken_recipe_file_is_one_line(
    text: bytes, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r.yaml").write_bytes(text)
    assert grpo.main(["--config", str(tmp_path / "r.yaml")]) == 2
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1


def test_the_recipe_is_found_by_flag_then_environment_then_beside_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    monkeypatch.setattr(grpo, "run", lambda settings, _: ran.append(settings.steps))
    for name, steps in (("env", 7), ("flag", 8)):
        (tmp_path / name).write_text(f"defaults: {RECIPE}\ngrpo: {{max_num_steps: {steps}}}\n")
    monkeypatch.delenv("NRL_RECIPE", raising=False)
    assert grpo.main([]) == 0
    monkeypatch.setenv("NRL_RECIPE", str(tmp_path / "env"))
    assert grpo.main([]) == 0
    assert grpo.main(["grpo.seed=1", "--config", str(tmp_path / "flag")]) == 0
    assert grpo.main(["--config", str(tmp_path / "flag"), "grpo.max_num_steps=9", "grpo.seed=1"]) == 0
    assert ran == [60, 7, 8, 9]


def _settings(*overrides: str) -> Settings:
    return read_settings(recipe.load(RECIPE, overrides))
