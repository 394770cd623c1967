"""The working directory that an uploaded run gets: what of this machine is sent, how large it is, and its package.

`.gitignore` has no say here, although Ray's own packager obeys it: training data and generated code are often ignored by git, and
a run that silently lacks them fails long after it got its GPUs.
"""

from __future__ import annotations

from .package import Package, pack
from .rules import BODY_MAX, FILES_MAX, RECIPE_FILE, SIZE_MAX
from .selection import File, Selection, UploadError
from .tracked import tracked_but_ignored
from .walk import select
from .words import listing, size_words, summary

__all__ = [
    "BODY_MAX",
    "FILES_MAX",
    "RECIPE_FILE",
    "SIZE_MAX",
    "File",
    "Package",
    "Selection",
    "UploadError",
    "listing",
    "pack",
    "select",
    "size_words",
    "summary",
    "tracked_but_ignored",
]  # fmt: skip
