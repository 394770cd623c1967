"""Drivers that are started in a Ray head by exec: staged, started once, asked, read and ended through short commands."""

from __future__ import annotations

from .answer import Answer, parse
from .head_driver import GRACE, HeadDriver, Run

__all__ = ["GRACE", "Answer", "HeadDriver", "Run", "parse"]
