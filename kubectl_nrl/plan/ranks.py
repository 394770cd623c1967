"""The ranks at which layers of a manifest are merged, weakest first: who beats whom is decided here and nowhere else."""

from __future__ import annotations

from enum import IntEnum


class Rank(IntEnum):
    """A stronger rank replaces what a weaker one set; within one rank two different values are an error."""

    BUILTIN = 0
    PROFILE = 1
    PROVIDER = 2
    SECTION = 3
    USER = 4
    FLAG = 5
    FORCED = 6
    POLICY = 7
