"""Finds credentials written out in an infra file, and keeps their values out of every message.

Names decide, not values: a value that looks harmless may be a password, and a long random text is often a hash of data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..errors import Origin, Problem
from .nodes import Key, Node, dotted

_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|API_?KEY|SECRET|SECRET_KEY|ACCESS_KEY|PRIVATE_KEY|PASSWORD|PASSWD)$", re.IGNORECASE
)
_ENVIRONMENT = re.compile(r"(?:^|_)env$", re.IGNORECASE)
#: Characters from which on a credential is told from a word.
_LONG = 12
_NUMBER_OR_BOOL = re.compile(
    r"[-+]?[0-9][0-9_.]*(?:[eE][-+]?[0-9]+)?|true|false|yes|no|on|off|null|none|~", re.IGNORECASE
)
#: A value that is nothing but a reference to another variable: `$X`, `${X}`, `$(X)`.
_REFERENCE = re.compile(r"\$(?:\w+|\{\w+\}|\(\w+\))")
_IN_TEXT = re.compile(
    r"(?P<name>(?<![\w.])[\w.]*(?:TOKEN|API_?KEY|SECRET|SECRET_KEY|ACCESS_KEY|PRIVATE_KEY|PASSWORD|PASSWD))(?P<mid>['\"]?\s*[=:]\s*)(?P<value>[^\s].*)",
    re.IGNORECASE | re.DOTALL,
)
_ASSIGNMENT = re.compile(
    r"(?:^|[\s;&|(])(?P<name>[A-Za-z_]\w*)=(?P<value>'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|()<>'\"]*)",
    re.MULTILINE,
)


def names_credential(name: str) -> bool:
    """Whether a variable of that name holds a credential (`HF_TOKEN`, `WANDB_API_KEY`, `db_password`)."""
    return _NAME.search(name.rsplit(".", 1)[-1]) is not None


def is_environment(key: Key) -> bool:
    """Whether what stands under that key is variables of an environment (`env`, `extra_env`)."""
    return isinstance(key, str) and _ENVIRONMENT.search(key) is not None


def shown(text: str) -> str:
    """A command line's words without the value of a credential in them."""
    return _IN_TEXT.sub(r"\g<name>\g<mid>***", text)


def is_literal(value: object) -> bool:
    """Whether a value is a credential's text itself: not empty, a number, a boolean, or a reference to a variable."""
    if not isinstance(value, str) or not value.strip():
        return False
    return not _NUMBER_OR_BOOL.fullmatch(value.strip()) and not _REFERENCE.fullmatch(value.strip())


def literals(root: Node) -> list[Problem]:
    """An error for every credential written out in a resolved infra tree, at the line of its value."""
    return [_problem(path, name, node.origin) for path, name, node in _written_out((), root)]


def leaked(root: Node, env: Mapping[str, str]) -> list[Problem]:
    """An error for every value that holds the text of a credential of this machine's environment, whatever it is called there.

    It may have come by `${oc.env:HF_TOKEN}`, or by a shell that put a variable's value into an override.
    """
    secrets = {name: value for name, value in env.items() if names_credential(name) and _unmistakable(value)}
    return [
        Problem(
            f"{dotted(path)}: holds the value of this machine's {name}, which would be visible in the job and the manifests",
            node.origin,
            f"keep it in a Secret: {{name: {name}, valueFrom: {{secretKeyRef: {{name: my-secret, key: {name}}}}}}} in the pod's env",
        )
        for path, node in (_texts((), root) if secrets else ())
        for name, value in secrets.items()
        if value in node.value
    ]


def _unmistakable(value: str) -> bool:
    """Whether a text that holds this value can only mean the credential: not every password is unlike ordinary words."""
    return len(value) >= _LONG and any(c.isdigit() for c in value) and is_literal(value)


def _texts(path: tuple[Key, ...], node: Node) -> Iterator[tuple[tuple[Key, ...], Node]]:
    if isinstance(node.value, str):
        yield path, node
    for key, child in node.children():
        yield from _texts((*path, key), child)


def _problem(path: tuple[Key, ...], name: str, origin: Origin | None) -> Problem:
    hint = (
        "put it into a Secret and refer to it in the pod's env: "
        f"{{name: {name}, valueFrom: {{secretKeyRef: {{name: my-secret, key: {name}}}}}}}, or name the Secret in `secrets:`"
    )
    return Problem(
        f"{dotted(path)}: the value of {name} would be visible in the Ray dashboard, the job's log and the manifests",
        origin,
        hint,
    )


def _written_out(path: tuple[Key, ...], node: Node) -> Iterator[tuple[tuple[Key, ...], str, Node]]:
    for key, child in node.children():
        here = (*path, key)
        if is_environment(key):
            yield from _environment(here, child)
        elif key == "entrypoint" and isinstance(child.value, str):
            yield from ((here, name, child) for name in _assigned(child.value))
        yield from _written_out(here, child)


def _environment(path: tuple[Key, ...], node: Node) -> Iterator[tuple[tuple[Key, ...], str, Node]]:
    """Variables of a mapping (name: value) or of a list ({name, value})."""
    if node.is_map:
        for name, child in node.value.items():
            if names_credential(str(name)) and is_literal(child.value):
                yield (*path, name), str(name), child
    elif node.is_list:
        for element in node.value:
            name, value = element.child("name"), element.child("value")
            if name is None or value is None or not isinstance(name.value, str):
                continue
            if names_credential(name.value) and is_literal(value.value):
                yield (*path, name.value), name.value, value


def _assigned(script: str) -> Iterator[str]:
    """Names of credentials that a shell script sets to a literal value, each once."""
    found: Mapping[str, None] = {
        match["name"]: None
        for match in _ASSIGNMENT.finditer(script)
        if names_credential(match["name"])
        and "$" not in match["value"]
        and "`" not in match["value"]
        and is_literal(match["value"].strip("'\""))
    }
    yield from found
