"""Writes a recipe as YAML that OmegaConf and plain YAML readers read alike.

The dumper quotes whatever either of them would take for something else than text (`1e-4`, `2024-01-01`, `on`).
"""

from __future__ import annotations

from typing import Any

import yaml

from .yaml_source import FLOAT

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Dumper(_DUMPER):  # type: ignore[misc]
    """PyYAML's safe dumper that knows OmegaConf's float, and shares no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


Dumper.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+0123456789."))


def dump(value: Any) -> str:
    """Block-style YAML, keys in their order, no line folded."""
    return str(
        yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=1 << 16)
    )
