"""Secrets kept out of what is printed: values of this environment, and literals that stand under a credential's name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

#: Names whose values are credentials (design: *_TOKEN, *_API_KEY, *_SECRET, *_PASSWORD and their kin).
CREDENTIAL_NAME = re.compile(
    r"(?:^|[_-])(?:TOKEN|API_?KEY|SECRET|SECRET_KEY|ACCESS_KEY|PRIVATE_KEY|PASSWORD|PASSWD|CREDENTIALS?)$",
    re.IGNORECASE,
)

#: `NAME=value` anywhere, and `NAME: value` where it is all of a line (of YAML or JSON; in prose a colon means nothing).
_ASSIGNMENT = re.compile(
    r"""\b([A-Z][A-Z0-9_]*)(=)("[^"\n]+"|'[^'\n]+'|[^\s,;"'{}\[\]]+)"""
    r"""|^[ \t]*(?:- )?"?([A-Z][A-Z0-9_]*)"?(:[ \t]+)("[^"\n]+"|'[^'\n]+'|[^\s,;"'{}\[\]]+)[ \t]*,?$""",
    re.MULTILINE,
)

REDACTED = "***"


def is_credential(name: str, value: object) -> bool:
    """Whether a literal under that name is a secret; empty, numeric and boolean values are none."""
    if not isinstance(value, str) or not CREDENTIAL_NAME.search(name):
        return False
    word = value.strip().strip("\"'")
    return bool(word) and word.lower() not in ("true", "false", "null", "none") and not re.fullmatch(r"[\d.]+", word)


def secrets_of(env: Mapping[str, str]) -> tuple[str, ...]:
    """Secret values in an environment, longest first. Values under 8 characters would redact ordinary words."""
    found = {value for name, value in env.items() if len(value) >= 8 and is_credential(name, value)}
    return tuple(sorted(found, key=len, reverse=True))


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the secrets given and without literals that stand under a credential's name."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)

    def hide(match: re.Match[str]) -> str:
        name, _, value = filter(None, match.groups())
        reference = value.startswith(("$", '"$', "'$"))
        return (
            match[0] if reference or not is_credential(name, value) else match[0].replace(value.strip("\"'"), REDACTED)
        )

    return _ASSIGNMENT.sub(hide, text)
