"""The functions `${name:...}` may call: NeMo-RL's, OmegaConf's own that read, and ours (`user`).

They are plain functions over a mapping given by the caller, never registered with OmegaConf, whose registry is global to the process
and reads the process's own environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

#: Bits of a computed integer; far above any real count, and far below what costs time.
MAX_BITS = 10_000

Function = Callable[..., Any]


class ResolverError(Exception):
    """Why a `${name:...}` has no value; lower case, for the end of a sentence."""


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ResolverError(f"{value!r} is not a number" if isinstance(value, str) else "takes numbers only")
    return value


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise ResolverError("the result is too large")
    return value


def _at_least_two(args: tuple[Any, ...]) -> None:
    if len(args) < 2:
        raise ResolverError("takes two values")


def add(*args: Any) -> Any:
    """The sum of numbers, or texts one after the other."""
    _at_least_two(args)
    if all(isinstance(arg, str) for arg in args):
        return "".join(args)  # the caller limits the length of every text
    return _bounded(sum(_number(arg) for arg in args))


def mul(*args: Any) -> Any:
    """The product of numbers, as NeMo-RL's."""
    _at_least_two(args)
    product: Any = 1
    for arg in args:
        product = _bounded(product * _number(arg))
    return product


def div(*args: Any) -> float:
    """True division, as NeMo-RL's: `${div:8,2}` is 4.0."""
    if len(args) != 2:
        raise ResolverError("takes two values")
    try:
        return float(_number(args[0]) / _number(args[1]))
    except ZeroDivisionError:
        raise ResolverError("division by zero") from None


def largest(*args: Any) -> Any:
    """The largest of numbers: `${max:1,2}`."""
    _at_least_two(args)
    return max(_number(arg) for arg in args)


def functions(env: Mapping[str, str], user: str) -> dict[str, Function]:
    """Every resolver but those that look into the tree itself (`oc.select`, `oc.dict.*`)."""

    def environment(*args: Any) -> Any:
        if not 1 <= len(args) <= 2 or not isinstance(args[0], str):
            raise ResolverError("takes the name of a variable and, if wanted, a default")
        if args[0] in env:
            return env[args[0]]
        if len(args) == 1:
            raise ResolverError(f"the environment variable {args[0]} is not set")
        return None if args[1] is None else str(args[1])

    def user_name(*args: Any) -> str:
        if args:
            raise ResolverError("takes no value: write ${user:}")
        return user

    return {
        "add": add,
        "mul": mul,
        "div": div,
        "max": largest,
        "oc.env": environment,
        "user": user_name,
        "oc.create": _create,
    }


def _create(*args: Any) -> Any:
    if len(args) != 1:
        raise ResolverError("takes one value")
    return args[0]
