"""The forms Kubernetes gives to names, label keys and values, and annotation keys (apimachinery, util/validation)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .engine import Fault
from .words import Path, show

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


def is_dns_label(name: Any) -> bool:
    """Lower-case letters, digits and `-`, at most 63."""
    return isinstance(name, str) and DNS_LABEL.fullmatch(name) is not None


def is_label_key(key: str) -> bool:
    """`name` or `domain/name`: the name at most 63 characters, the domain a DNS name of at most 253."""
    domain, slash, name = key.rpartition("/")
    if slash and not (len(domain) <= 253 and _DOMAIN.fullmatch(domain)):
        return False
    return _WORD.fullmatch(name) is not None


def label_faults(holder: Any, path: Path) -> Iterator[Fault]:
    """What is wrong with the keys of `labels` and `annotations` of a mapping, and with the labels' values."""
    for word in ("labels", "annotations") if isinstance(holder, Mapping) else ():
        pairs = holder.get(word)
        for key, value in pairs.items() if isinstance(pairs, Mapping) else ():
            if not isinstance(key, str):
                continue
            if not is_label_key(key):
                yield Fault(
                    (*path, word, key), f"is no {word[:-1]} key: NAME or DOMAIN/NAME, the name at most 63 characters"
                )
            elif word == "labels" and isinstance(value, str) and value and not _WORD.fullmatch(value):
                form = "letters, digits, `-`, `_` and `.`, at most 63, with a letter or digit at both ends"
                yield Fault((*path, word, key), f"is {show(value)}, no label value: {form}")
