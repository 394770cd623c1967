"""Trees of files for tests of what is uploaded."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from kubectl_nrl.upload import Package


def tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below a directory, which is made; a name that ends in `/` is an empty directory."""
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def archive(package: Package) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(b"".join(package)))


def unpacked(package: Package) -> dict[str, bytes]:
    """What Ray unpacks, by name."""
    with archive(package) as zipped:
        return {name: zipped.read(name) for name in zipped.namelist()}
