"""Kubernetes' resource quantities as exact numbers, to compare them (apimachinery, api/resource/quantity.go)."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

_FACTORS = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    **{letter: Fraction(1000 ** (power + 2)) for power, letter in enumerate("MGTPE")},
    **{f"{letter}i": Fraction(1024 ** (power + 1)) for power, letter in enumerate("KMGTPE")},
}
#: The form; an exponent has two digits at most, or a fraction of a line would make a number of a gigabyte.
_FORM = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:[eE]([+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
_LONGEST = 40


def quantity(value: Any) -> Fraction | None:
    """`500m` as 1/2, `64Gi` as bytes; None for what is no quantity, or an absurd one."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    text = str(value) if not isinstance(value, int) or value.bit_length() < 128 else ""
    parts = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if parts is None:
        return None
    number, exponent, unit = parts.groups()
    return Fraction(number) * (Fraction(10) ** int(exponent) if exponent else _FACTORS[unit or ""])
