"""JSON Schemas of everything a person or a plugin writes and of every object that is rendered, as data files.

Files are read beside this module, without importlib.resources: that costs more than reading all of them.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def path(name: str) -> Path:
    """Where a schema's file is: `infra.schema`, `fragments/networking`, `objects/pod-1.34`; with or without `.json`."""
    return _HERE / (name if name.endswith(".json") else f"{name}.json")


@cache
def load(name: str) -> dict[str, Any]:
    """The schema of that name (see `path`), read once per process. It is shared: nobody may change it.

    Raises `FileNotFoundError` for a name that is none.
    """
    schema: dict[str, Any] = json.loads(path(name).read_bytes())
    return schema
