"""The NeMo-RL lints: warnings with their place in the recipe, and silence elsewhere."""

from __future__ import annotations

import pytest
from context import context, origins, problems
from nrl_plugins.policy_nemorl import NemoRl

LINTS = NemoRl()
MEGATRON = {"policy": {"megatron_cfg": {"enabled": True}, "dtensor_cfg": {"enabled": False}}}


def warnings(recipe: dict | None = None, infra: dict | None = None, **changes: object) -> list[str]:
    ctx = context(infra, recipe, **changes)
    assert problems(LINTS, ctx, "error") == []
    return problems(LINTS, ctx, "warning")


def test_a_recipe_that_says_nothing_draws_nothing() -> None:
    assert warnings({}) == []


def test_it_can_be_switched_off() -> None:
    assert LINTS.active(context())
    assert LINTS.active(context({"policies": {"nemorl": {}}}))
    assert LINTS.active(context({"policies": {"other": False}}))
    assert not LINTS.active(context({"policies": {"nemorl": False}}))


def test_it_forces_nothing() -> None:
    assert list(LINTS.patches(context())) == []


@pytest.mark.parametrize("key", ["foreach", "fused"])
def test_deleting_dtensors_optimizer_keys_under_megatron(key: str) -> None:
    word = f"~policy.optimizer.kwargs.{key}"
    (message,) = warnings(MEGATRON, overrides=[word])
    assert word in message
    assert origins(LINTS, context({}, MEGATRON, overrides=[word])) == [f"command line: {word}"]


def test_deleting_them_in_the_entrypoint() -> None:
    text = "python run.py --config r.yaml \\\n  a=1 '~policy.optimizer.kwargs.fused' b=2\n# ~policy.optimizer.kwargs.foreach"
    ctx = context({"launch": {"entrypoint": text}}, MEGATRON)
    assert len(problems(LINTS, ctx, "warning")) == 1
    assert origins(LINTS, ctx) == ["infra:launch.entrypoint"]


def test_with_a_value_it_is_the_same() -> None:
    assert len(warnings(MEGATRON, overrides=["~policy.optimizer.kwargs.fused=true"])) == 1


@pytest.mark.parametrize(
    "word", ["policy.optimizer.kwargs.fused=true", "~policy.optimizer.kwargs.lr", "~policy.optimizer"]
)
def test_other_overrides_are_fine(word: str) -> None:
    assert warnings(MEGATRON, overrides=[word]) == []


def test_deleting_them_under_dtensor_is_fine() -> None:
    recipe = {"policy": {"megatron_cfg": {"enabled": False}}}
    assert warnings(recipe, overrides=["~policy.optimizer.kwargs.fused"]) == []


@pytest.mark.parametrize(
    ("megatron", "dtensor", "count"), [(True, True, 1), (True, False, 0), (False, True, 0), (None, True, 0)]
)
def test_two_backends(megatron: bool | None, dtensor: bool, count: int) -> None:
    recipe = {"policy": {"megatron_cfg": {"enabled": megatron}, "dtensor_cfg": {"enabled": dtensor}}}
    assert len(warnings(recipe)) == count
    if count:
        assert origins(LINTS, context({}, recipe)) == ["recipe:policy.dtensor_cfg.enabled"]


@pytest.mark.parametrize("path", [("logger", "log_dir"), ("checkpointing", "checkpoint_dir")])
@pytest.mark.parametrize(
    ("value", "lost"),
    [
        ("results/grpo", True), ("./logs", True), ("../x", True), ("logs", True),
        ("/mnt/rl/logs", False), ("s3://bucket/x", False), ("~/x", False), ("???", False), ("unresolvable", False), ("", False),
    ],
)  # fmt: skip
def test_a_relative_directory_ends_with_the_pod(path: tuple[str, str], value: str, lost: bool) -> None:
    recipe = {path[0]: {path[1]: value}}
    assert bool(warnings(recipe)) is lost
    if lost:
        assert origins(LINTS, context({}, recipe)) == [f"recipe:{'.'.join(path)}"]


def test_the_hint_is_an_override_that_keeps_it() -> None:
    (problem,) = LINTS.problems(context({"workspace": {"mountPath": "/mnt/rl"}}, {"logger": {"log_dir": "./logs"}}))
    assert "logger.log_dir=/mnt/rl/jo/logs" in problem.hint


def test_on_shared_code_a_relative_directory_lives_on() -> None:
    assert warnings({"logger": {"log_dir": "logs"}}, {"launch": {"codeSource": "lustre"}}) == []


def test_on_this_machine_too() -> None:
    assert warnings({"logger": {"log_dir": "logs"}}, kind="local") == []


def test_a_checkpoint_directory_that_is_not_used_does_not_matter() -> None:
    assert warnings({"checkpointing": {"enabled": False, "checkpoint_dir": "x"}}) == []


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("00:03:45:00", False), ("1:2:3:4", False), ("03:45:00", True), ("3h", True), ("00:00:03:45:00", True), (13500, True),
        (None, False), ("???", False), ("unresolvable", False),
    ],
)  # fmt: skip
def test_must_save_by_has_four_fields(value: object, wrong: bool) -> None:
    assert bool(warnings({"checkpointing": {"checkpoint_must_save_by": value}})) is wrong


@pytest.mark.parametrize(
    ("deadline", "late"), [(14400, False), (13501, False), (13500, True), (3600, True), (None, False)]
)
def test_must_save_by_comes_before_the_deadline(deadline: int | None, late: bool) -> None:
    recipe = {"checkpointing": {"checkpoint_must_save_by": "00:03:45:00"}}
    found = warnings(recipe, {"launch": {"deadlineSeconds": deadline}})
    assert bool(found) is late


def test_days_count() -> None:
    recipe = {"checkpointing": {"checkpoint_must_save_by": "01:00:00:00"}}
    assert warnings(recipe, {"launch": {"deadlineSeconds": 86401}}) == []
    assert len(warnings(recipe, {"launch": {"deadlineSeconds": 86400}})) == 1
