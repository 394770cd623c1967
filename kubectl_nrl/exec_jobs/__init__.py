"""Drivers that are started in a Ray head by exec: staged, started once, asked, read and ended through short commands."""

from __future__ import annotations

from .answer import Answer, parse
from .head_driver import HeadDriver, Run

__all__ = ["Answer", "HeadDriver", "Run", "parse"]
