"""The reference of the infra file as a page, made from its schema: `python -m kubectl_nrl.schema.reference FILE`.

A page that is written by hand would soon name keys that are gone; a test holds this one to the schema.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .infra import builtin_fragments, infra_schema
from .nodes import Node, properties
from .words import either, type_words

COMMAND = "python -m kubectl_nrl.schema.reference docs/infra-reference.md"

_ROLES = ("training", "generation", "gym")

_HEAD = f"""# Infra file: every key

<!-- Generated from the schema. Refresh it with: {COMMAND} -->

Keys are dotted: `launch.env` is `env` below `launch`; `NAME` stands for a name of your choice, `ROLE` for training,
generation or gym, `[]` for an item of a list.
`kubectl nrl check --schema` prints the same as a JSON Schema for editors, with what plugins add. A null is an absent
key.
"""


def page(schema: Mapping[str, Any]) -> str:
    """The page: a table for each top-level key that has keys of its own, and at the end what has no effect."""
    known = _roles_once(dict(properties(Node(schema, schema))))
    top = [path for path in known if "." not in path and "[" not in path]
    lines = [_HEAD, "## Top level", "", *_table({path: known[path] for path in top})]
    for section in top:
        inside = {path: node for path, node in known.items() if path.startswith((f"{section}.", f"{section}["))}
        if inside:
            acting = {path: node for path, node in inside.items() if not node.schema.get("deprecated")}
            lines += ["", f"## {section}", "", _text(known[section]), "", *_table(acting), *_conditions(known[section])]
    idle = {path: node for path, node in known.items() if node.schema.get("deprecated")}
    lines += [
        "",
        "## Accepted without effect",
        "",
        "Files written for `nrl-k8s` may hold these; each draws a note.",
        "",
    ]
    lines += [f"* `{path}`: {_text(node)}" for path, node in idle.items()]
    return "\n".join(lines) + "\n"


def _roles_once(known: Mapping[str, Node]) -> dict[str, Node]:
    """The keys below a role, which are the same for each, under one name."""
    result = {}
    for path, node in known.items():
        section, _, rest = path.partition(".")
        role, _, rest = rest.partition(".")
        if section not in ("kuberay", "resources") or role not in _ROLES or not rest:
            result[path] = node
        elif role == _ROLES[0]:
            result[f"{section}.ROLE.{rest}"] = node
    return result


def _table(rows: Mapping[str, Node]) -> Iterator[str]:
    if not rows:
        return
    yield "| key | what it does | values | default |"
    yield "|---|---|---|---|"
    for path, node in rows.items():
        default = _default(node)
        cells = (f"`{path.replace('*', 'NAME')}`", _text(node), _values(node), f"`{default}`" if default else "")
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _text(node: Node) -> str:
    return str(next((n.schema["description"] for n in node.inner() if "description" in n.schema), ""))


def _default(node: Node) -> str:
    value = next((n.schema["default"] for n in node.inner() if "default" in n.schema), None)
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else "" if value is None else str(value)


def _values(node: Node) -> str:
    """What may stand there, in words."""
    words: dict[str, None] = {}
    for inner in node.inner():
        form = inner.schema
        if "enum" in form:
            words[either(f"`{word}`" for word in form["enum"])] = None
        elif "const" in form:
            words[f"`{str(form['const']).lower()}`"] = None
        elif "type" in form:
            words[_typed(inner)] = None
    return either(words) if words else ""


def _typed(node: Node) -> str:
    form = node.schema
    types = (form["type"],) if isinstance(form["type"], str) else tuple(form["type"])
    if form.get("format") == "quantity":
        return "a quantity"
    items = [child for step, child in node.children() if step == ("[]",)]
    values = [child for step, child in node.children() if step == ("*",)]
    if types == ("array",) and items:
        return f"a list of {_plural(items[0])}"
    if types == ("object",) and values:
        return f"a mapping of names to {_plural(values[0])}"
    limits = [f"{word} {form[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in form]
    return " ".join([type_words(types), *limits])


def _plural(node: Node) -> str:
    words = _values(node)
    return {"text": "texts", "a mapping": "mappings"}.get(words, words)


def _conditions(node: Node) -> Iterator[str]:
    """The conditions of a section, in words."""
    said = []
    for branch in node.follow().schema.get("allOf", ()):
        test = branch.get("if", {}).get("properties", {})
        needed = branch.get("then", {}).get("required", ())
        for key, form in test.items() if needed else ():
            values = either(f"`{value}`" for value in form.get("enum", [form.get("const")]))
            said.append(f"With `{key}` {values}, {either(f'`{name}`' for name in needed)} is required.")
    if said:
        yield ""
        yield " ".join(said)


def main(arguments: list[str]) -> int:
    """Write the page into the file named, or print it."""
    text = page(infra_schema(builtin_fragments()))
    if arguments:
        Path(arguments[0]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
