"""What would be sent, as a value: files in the order of their names, what was left out, and what is worth a word."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import NrlError


class UploadError(NrlError):
    """A working directory that cannot be sent; raised before anything exists on the cluster."""


@dataclass(frozen=True)
class File:
    """One file. `name` is its place in the working directory (`/` between parts), `path` where it is here; size in bytes."""

    name: str
    path: str
    size: int


@dataclass(frozen=True)
class Selection:
    """The files of one upload.

    `paths` are the listed ones that are there (`.` for all of `root`); `excluded` counts what `.rayignore` left out, a directory
    once; `missing` are listed paths that do not exist, `warnings` and `notes` sentences for people.
    `empty_dirs` are directories without entries, each ending in `/`: programs look for them.
    """

    root: str
    paths: tuple[str, ...]
    files: tuple[File, ...]
    excluded: int = 0
    missing: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    empty_dirs: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files, before they are packed."""
        return sum(file.size for file in self.files)
