"""Manifests as YAML for people and for `kubectl apply -f -`, with the decoded entrypoint as comments under its
encoded line.

PyYAML's dumper writes `1e-4` and `y` unquoted, which Kubernetes' YAML reader takes for a number and a boolean, so
such strings are quoted here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from ..cells import obeyed
from ..labels import SUBMISSION, annotations_of
from ..result_forms import json_text

if TYPE_CHECKING:
    from ..output import Output
    from ..plan import Plan

#: Strings that a YAML 1.2 or Go reader takes for a number, a boolean or null, and PyYAML writes plain.
_AMBIGUOUS = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|0[ox][0-9a-fA-F]+|[yYnN]")

_BASE: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BASE):  # type: ignore[misc]
    """Multi-line text as a block, ambiguous strings quoted, no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _string(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value else "'" if _AMBIGUOUS.fullmatch(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _string)


def plan_yaml(plan: Plan) -> str:
    """Every object of a Plan, in the order in which it is sent."""
    decoded = {plan.launch.line: plan.launch.entrypoint} if plan.launch.line else {}
    for obj in plan.objects:
        left = annotations_of(obj.manifest).get(SUBMISSION)
        decoded |= {left: plan.launch.entrypoint} if left else {}
    return manifests_yaml((obj.manifest for obj in plan.objects), decoded)


def manifests_yaml(manifests: Iterable[Mapping[str, Any]], decoded: Mapping[str, str] | None = None) -> str:
    """YAML documents; `decoded` maps an encoded line to the text that stands for it in comments."""
    return "---\n".join(_document(plain(manifest), decoded or {}) for manifest in manifests)


def plan_list(plan: Plan) -> dict[str, Any]:
    """Every object of a Plan as one Kubernetes List, for JSON."""
    return {"apiVersion": "v1", "kind": "List", "items": [plain(obj.manifest) for obj in plan.objects]}


def print_plan(output: Output, plan: Plan) -> None:
    """What `--dry-run` prints: every object, as YAML documents or, with `-o json`, as one List."""
    if output.format == "json":
        output.line(json_text(plan_list(plan)))
    else:
        output.line(plan_yaml(plan))


def plain(value: Any) -> Any:
    """Dicts and lists all the way down, whatever frozen forms a Plan keeps."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [plain(item) for item in value]
    return value


def to_yaml(data: Any) -> str:
    """One document in the form used here."""
    text = _dumped(data, True)
    return _dumped(data, False) if obeyed(text) else text


def _dumped(data: Any, allow_unicode: bool) -> str:
    return str(yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=allow_unicode, width=1_000_000))


def _document(manifest: dict[str, Any], decoded: Mapping[str, str]) -> str:
    """A manifest's YAML. Encoded lines are dumped as marks: where a scalar ends in a dump cannot be told."""
    marks: dict[str, tuple[str, str]] = {}
    text = to_yaml(_marked(manifest, decoded, marks))
    return "".join(_unmarked(text.splitlines(keepends=True), marks)) if marks else text


def _marked(value: Any, decoded: Mapping[str, str], marks: dict[str, tuple[str, str]]) -> Any:
    if isinstance(value, dict):
        return {key: _marked(item, decoded, marks) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item, decoded, marks) for item in value]
    if isinstance(value, str) and value in decoded:
        mark = f"nrl-encoded-line-{len(marks)}"
        marks[mark] = (value, decoded[value])
        return mark
    return value


def _unmarked(lines: Iterable[str], marks: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for line in lines:
        mark = line.rstrip().rsplit(" ", 1)[-1]
        if mark not in marks:
            yield line
            continue
        encoded, text = marks[mark]
        quoted = "'" + encoded.replace("'", "''") + "'"
        yield line.replace(mark, quoted)
        indent = line[: len(line) - len(line.lstrip())]
        yield f"{indent}# which runs:\n"
        for words in text.rstrip("\n").splitlines():
            yield f"{indent}#   {_printable(words)}".rstrip() + "\n"


def _printable(text: str) -> str:
    """A comment may hold no control characters."""
    return "".join(c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" for c in text)
