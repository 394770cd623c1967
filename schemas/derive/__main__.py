"""Derive the schemas of Kubernetes' and KubeRay's objects from what those publish: `python schemas/derive [--check]`.

It is run by hand when a version changes, never at build time: its sources are 110 MB (the package kubernetes-validate)
and a Go module (KubeRay's CRDs), while its results are small and lie beside it in `objects/`, with their hashes in
`objects/SOURCES.json`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import kuberay
import kubernetes

OBJECTS = Path(__file__).parents[1] / "objects"


def render(schema: dict[str, Any]) -> str:
    """A schema as its file holds it: a definition a line, so that a change of version can be read as a diff."""
    head = {key: value for key, value in schema.items() if key != "$defs"}
    lines = [f"{json.dumps(key)}: {json.dumps(value, sort_keys=True)}" for key, value in head.items()]
    defs = ",\n".join(f"{json.dumps(n)}: {json.dumps(d, sort_keys=True)}" for n, d in sorted(schema["$defs"].items()))
    return "{\n" + ",\n".join([*lines, '"$defs": {\n' + defs + "\n}"]) + "\n}\n"


def derive() -> dict[str, str]:
    """Every derived file's name and text."""
    definitions = kubernetes.definitions()
    texts = {
        f"pod-{kubernetes.VERSION}.json": render(kubernetes.pod(definitions)),
        f"kubernetes-{kubernetes.VERSION}.json": render(kubernetes.objects(definitions)),
        f"kuberay-{kuberay.VERSION}.json": render(kuberay.objects()),
    }
    sources = {
        name: {
            "source": kuberay.SOURCE if name.startswith("kuberay") else kubernetes.SOURCE,
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
        }
        for name, text in texts.items()
    }
    return {**texts, "SOURCES.json": json.dumps(sources, indent=2, sort_keys=True) + "\n"}


def main(arguments: list[str]) -> int:
    """Write the files, or with `--check` only say which are stale (exit 1)."""
    stale = {name: text for name, text in derive().items() if not same(OBJECTS / name, text)}
    if "--check" in arguments:
        for name in stale:
            print(f"schemas/objects/{name} is stale; refresh it with: python schemas/derive")
        return 1 if stale else 0
    for name, text in stale.items():
        (OBJECTS / name).write_text(text)
    print(f"{len(stale)} files changed")
    return 0


def same(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
