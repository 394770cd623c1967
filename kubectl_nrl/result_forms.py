"""What a command hands back, an error or a problem, as text, JSON or YAML."""

from __future__ import annotations

from typing import Any, Protocol

from .cells import harmless, obeyed
from .errors import ConfigError, NrlError, Problem


class Result(Protocol):
    """What a command hands back: `schema` names the file under schemas/results that describes `data()`."""

    schema: str

    def text(self) -> str: ...

    def data(self) -> Any: ...


def render(result: Result, format: str) -> str:
    """A result in one of the three forms."""
    return result.text() if format == "text" else dump(result.data(), format)


def error_data(error: NrlError) -> dict[str, Any]:
    """What `-o json` prints for an error (schemas/results/error.json)."""
    problems = error.problems if isinstance(error, ConfigError) else ()
    return {
        "error": error.message,
        "hint": error.hint,
        "exitCode": int(error.exit_code),
        "problems": [problem_data(p) for p in problems],
    }


def problem_data(problem: Problem) -> dict[str, Any]:
    """A problem as data; `line` and `column` are 0 where there is no position."""
    origin = problem.origin
    return {
        "severity": problem.severity,
        "message": problem.message,
        "file": origin.file if origin else "",
        "line": origin.line if origin else 0,
        "column": origin.column if origin else 0,
        "hint": problem.hint,
    }


def dump(data: Any, format: str) -> str:
    """Data as `json` or `yaml`."""
    if format == "json":
        return json_text(data)
    import yaml

    text = str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=False)) if obeyed(text) else text


def json_text(data: Any) -> str:
    """Data as JSON, in which a terminal obeys nothing."""
    import json

    # json.dumps escapes the control characters of ASCII only.
    return harmless(json.dumps(data, indent=2, ensure_ascii=False), r"\u{:04x}")
