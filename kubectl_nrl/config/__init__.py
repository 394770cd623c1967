"""Recipe and infra file into a frozen `Config`: inheritance, overrides, interpolation, and where each value came from.

YAML, Hydra and OmegaConf are imported by the steps that need them: a load of plain files pays for PyYAML alone.
"""

from __future__ import annotations

from .load import load
from .model import Config, UnsoundConfig
from .nodes import Path
from .origins import Origins
from .plain_file import load_yaml
from .user import current_user

__all__ = ["Config", "Origins", "Path", "UnsoundConfig", "current_user", "load", "load_yaml"]
