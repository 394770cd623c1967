"""Kubernetes' resource quantities as exact numbers, to compare them (apimachinery, api/resource/quantity.go)."""

from __future__ import annotations

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
_LONGEST = 40


def quantity(value: Any) -> Fraction | None:
    """`500m` as 1/2, `64Gi` as bytes; None for what is no quantity."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    text = str(value)
    if len(text) > _LONGEST:
        return None
    number = text.rstrip("".join(_FACTORS))
    unit = text[len(number) :]
    try:
        return Fraction(number) * _FACTORS[unit]
    except (ValueError, KeyError, ZeroDivisionError):
        return _with_exponent(text)


def _with_exponent(text: str) -> Fraction | None:
    try:
        return Fraction(text) if "/" not in text and abs(int(text.lower().partition("e")[2] or 0)) <= _LONGEST else None
    except ValueError:
        return None
