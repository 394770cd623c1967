"""The infra file as planning reads it: flags applied, env values as text, every problem of its shape found.

Env values that are numbers or booleans become the string as it was written (`1e-4`, `on`), because that is what the person means and
the only thing Kubernetes takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ..config import Config
from ..errors import Origin
from .model import Options

Path = tuple[str | int, ...]

#: Mappings of environment variables, by key; `env` may also be a list of `{name, value}`.
ENV_KEYS = ("env", "extra_env")


def as_planned(config: Config, options: Options) -> Config:
    """The config with flags in place of the keys they stand for, and env values as text."""
    infra = dict(config.infra)
    launch = dict(infra.get("launch") or {}) if isinstance(infra.get("launch"), Mapping | None) else infra["launch"]
    if isinstance(launch, dict):
        if options.code_source is not None:
            launch["codeSource"] = options.code_source
        if options.code_path is not None:
            launch["codePath"] = options.code_path
        if launch or "launch" in infra:
            infra["launch"] = launch
    return dataclasses.replace(config, infra=_env_as_text(infra, (), config))


def _env_as_text(value: Any, at: Path, config: Config) -> Any:
    if isinstance(value, Mapping):
        return {key: _child(key, item, (*at, key), config) for key, item in value.items()}
    if isinstance(value, list):
        return [_env_as_text(item, (*at, index), config) for index, item in enumerate(value)]
    return value


def _child(key: str, value: Any, at: Path, config: Config) -> Any:
    if key not in ENV_KEYS:
        return _env_as_text(value, at, config)
    if isinstance(value, Mapping):
        return {name: _text(item, (*at, name), config) for name, item in value.items()}
    if isinstance(value, list):
        return [
            {**item, "value": _text(item["value"], (*at, index, "value"), config)}
            if isinstance(item, Mapping) and "value" in item
            else item
            for index, item in enumerate(value)
        ]
    return value


def _text(value: Any, at: Path, config: Config) -> Any:
    if value is None or not isinstance(value, bool | int | float):
        return value
    written = config.infra_origins.text(at)
    if written is not None and "${" not in written:
        return written
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def author(config: Config, *base: str | int) -> Callable[[Path], str]:
    """Who wrote a field below a place of the infra file, as `check --explain` shows it: `infra.yaml:31`."""

    def who(at: Path) -> str:
        found = origin(config, *base, *at)
        return found.short if found else "infra"

    return who


def origin(config: Config, *path: str | int) -> Origin | None:
    """Where an infra value was written."""
    return config.infra_origins.get(tuple(path))
