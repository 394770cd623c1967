"""What is known to go wrong in NeMo-RL recipes, as warnings: nothing here refuses a run.

Each lint is about keys that are read anyway; a value that only resolves on the pod (`${oc.env:...}`) is skipped, not
complained of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Context, Policy, Problem
from kubectl_nrl.errors import ConfigError, Origin
from kubectl_nrl.written import origin

#: NeMo-RL's nemo_rl/utils/timer.py takes exactly DD:HH:MM:SS.
_FOUR_FIELDS = re.compile(r"\d+:\d+:\d+:\d+")
#: Neither absolute nor a home or remote directory, nor the mark of a value still to be filled in.
_RELATIVE = re.compile(r"(?![/~]|\?\?\?$|[a-z0-9]+://)\S")
_DELETED = re.compile(r"~policy\.optimizer\.kwargs\.(foreach|fused)(=.*)?")


def _value(ctx: Context, path: str) -> Any:
    try:
        return ctx.config.recipe_value(path)
    except ConfigError:
        return None


def _where(ctx: Context, path: str) -> Origin | None:
    return ctx.config.recipe_origins.get(path)


def _warning(message: str, where: Origin | None, hint: str) -> Problem:
    return Problem(message, where, hint, severity="warning")


class NemoRl(Policy):
    name = "nemorl"
    summary = "warnings about NeMo-RL settings that are known to go wrong"

    def schema(self) -> dict[str, Any]:
        from nrl_schemas import load

        fragment: dict[str, Any] = load("fragments/policy_nemorl")
        return fragment

    def active(self, ctx: Context) -> bool:
        return ctx.get("policies.nemorl") is not False

    def problems(self, ctx: Context) -> Iterable[Problem]:
        yield from _optimizer(ctx)
        yield from _two_backends(ctx)
        yield from _lost_directories(ctx)
        yield from _save_by(ctx)


def _optimizer(ctx: Context) -> Iterator[Problem]:
    """`policy.optimizer` is DTensor's, Megatron reads another key; such deletions come from DTensor's recipes."""
    if _value(ctx, "policy.megatron_cfg.enabled") is not True:
        return
    found = [(word, Origin(f"command line: {word}")) for word in ctx.config.overrides if _DELETED.fullmatch(word)]
    # Deletions are no key=value words, so the entrypoint's text is read (comments apart).
    lines = [line for line in str(ctx.get("launch.entrypoint", "")).splitlines() if not line.lstrip().startswith("#")]
    words = (word for line in lines for word in re.split(r"[\s'\"]+", line) if _DELETED.fullmatch(word))
    for word, where in (*found, *((word, origin(ctx, "launch", "entrypoint")) for word in words)):
        yield _warning(
            f"{word} has no meaning with Megatron, which reads policy.megatron_cfg.optimizer; "
            "it fails where the recipe has no such key",
            where,
            "leave it out",
        )


def _two_backends(ctx: Context) -> Iterator[Problem]:
    both = [f"policy.{name}.enabled" for name in ("megatron_cfg", "dtensor_cfg")]
    if all(_value(ctx, path) is True for path in both):
        yield _warning(
            f"{both[0]} and {both[1]} are both true; one backend trains",
            _where(ctx, both[1]),
            f"override {both[1]}=false",
        )


def _lost_directories(ctx: Context) -> Iterator[Problem]:
    """A relative directory lies in the working directory; only on a shared file system does that outlive the pod."""
    if ctx.get("launch.codeSource") == "lustre" or ctx.kind == "local":
        return
    paths = ["logger.log_dir"]
    if _value(ctx, "checkpointing.enabled") is not False:
        paths.append("checkpointing.checkpoint_dir")
    for path in paths:
        value = _value(ctx, path)
        if isinstance(value, str) and _RELATIVE.match(value):
            mount = ctx.get("workspace.mountPath", "/mnt/nemo-rl")
            yield _warning(
                f'{path}: "{value}" is relative, so it ends with the pod',
                _where(ctx, path),
                f"override {path}={mount}/{ctx.run.user.name}/{value.removeprefix('./')}, on shared storage",
            )


def _save_by(ctx: Context) -> Iterator[Problem]:
    path = "checkpointing.checkpoint_must_save_by"
    value = _value(ctx, path)
    if value is None or value == "???":
        return
    if not isinstance(value, str) or not _FOUR_FIELDS.fullmatch(value):
        yield _warning(
            f'{path}: "{value}" is not DD:HH:MM:SS, four numbers',
            _where(ctx, path),
            f"override {path}='\"00:03:45:00\"' for 3 h 45 min",
        )
        return
    days, hours, minutes, seconds = (int(part) for part in value.split(":"))
    total, deadline = ((days * 24 + hours) * 60 + minutes) * 60 + seconds, ctx.get("launch.deadlineSeconds")
    if isinstance(deadline, int) and total >= deadline:
        yield _warning(
            f"{path}: {value} is {total} s, but launch.deadlineSeconds stops the run after {deadline} s",
            _where(ctx, path),
            "save some minutes before the deadline",
        )


@hookimpl
def nrl_policies() -> Iterator[Policy]:
    yield NemoRl()
