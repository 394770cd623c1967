"""The word that was meant: nearest among its neighbours, or the right word at another depth.

difflib finds candidates and edit distance ranks them: by difflib alone `pgu` is as near to `cpu` as to `gpu`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_STRONG = 0.8
_ELSEWHERE = 0.87
_WEAK = 0.6
_LONGEST = 80


def nearest(word: str, words: Iterable[str], *, cutoff: float = _WEAK) -> str | None:
    """The one of `words` that `word` is most likely a misspelling of, or None when none is near.

    Case, `-` and `_` do not count: `node_selector` is `nodeSelector`.
    """
    if not isinstance(word, str) or not word or len(word) > _LONGEST:
        return None
    plain = normal(word)
    candidates: dict[str, str] = {}
    for other in words:
        candidates.setdefault(normal(other), other)
    if plain in candidates:
        return candidates[plain]
    near = difflib.get_close_matches(plain, candidates, n=5, cutoff=cutoff)
    if not near:
        return None
    return candidates[min(near, key=lambda other: (distance(plain, other), near.index(other)))]


def strong(word: str, words: Iterable[str]) -> str | None:
    """As `nearest`, but only a word that can hardly be another one."""
    return nearest(word, words, cutoff=_STRONG)


def elsewhere(word: str, words: Iterable[str]) -> str | None:
    """As `nearest`, among the many words of a whole schema: only one that differs by a letter or so."""
    return nearest(word, words, cutoff=_ELSEWHERE)


def normal(word: str) -> str:
    """A word without case and separators."""
    return word.replace("_", "").replace("-", "").lower()


def distance(one: str, other: str) -> int:
    """Edits between two words: insertions, deletions, substitutions and swaps of neighbours (string alignment)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
