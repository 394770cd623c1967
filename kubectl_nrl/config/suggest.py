"""The nearest real word to a mistyped one, for "did you mean".

difflib is imported on use: a load without a mistake needs none.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Candidates looked at; a huge file must not make a message slow.
MAX_WORDS = 2000


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The word of `words` most like `word`, or None when none is near; letter case is ignored."""
    import difflib
    from itertools import islice

    by_lower = {candidate.lower(): candidate for candidate in islice(words, MAX_WORDS)}
    if len(word) > 200:
        return None
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None
