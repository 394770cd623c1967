"""The hardware profiles that come along: the YAML files of `profiles/`, which need no code of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Profile


@hookimpl
def nrl_profiles() -> Iterator[Profile]:
    import yaml

    for file in sorted((Path(__file__).parent / "profiles").glob("*.yaml")):
        yield Profile(yaml.safe_load(file.read_bytes()), source=str(file))
