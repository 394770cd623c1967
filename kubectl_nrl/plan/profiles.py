"""The hardware profile of a Plan: a registered one by name, or a YAML file by path; none when the infra file names none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from ..api import Profile
from ..config import Config
from ..errors import ConfigError, Problem
from .written import origin

if TYPE_CHECKING:
    from ..manager import Manager


def choose_profile(config: Config, manager: Manager, problems: list[Problem]) -> Profile:
    """Raises ConfigError for an unknown name or a file that cannot be read; what is wrong inside a file goes to `problems`."""
    name = config.infra.get("profile")
    where = origin(config, "profile")
    if not name or name == "local":
        return Profile({})
    if not isinstance(name, str):
        raise ConfigError([Problem(f"profile is {name!r}, must be a name or a path", where)])
    if "/" in name or name.endswith((".yaml", ".yml")):
        return _from_file(name, config, manager, problems)
    return cast(Profile, manager.choose("profiles", name, origin=where))


def _from_file(name: str, config: Config, manager: Manager, problems: list[Problem]) -> Profile:
    """A profile file; its path counts from the file that names it, as `defaults:` do."""
    from ..config import load_yaml
    from ..schema import check_profile

    where = origin(config, "profile")
    base = Path(where.file).parent if where and where.line else Path()
    shown = base / name
    path = config.trees.folder / shown
    if not path.is_file():
        raise ConfigError(
            [Problem(f"profile file {shown} does not exist", where, hint="a registered profile has no / and no .yaml")]
        )
    data, origins = load_yaml(path)
    problems += check_profile(data, origins.get, manager.fragments())
    return Profile(data if isinstance(data, dict) else {}, source=str(path))
