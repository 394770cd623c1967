"""`.rayignore`: patterns in gitignore's syntax, in any directory, the deepest file that says something deciding.

The syntax is pathspec's job. As with git, what lies in an excluded directory cannot be included again, since the directory is
not even read.
"""

from __future__ import annotations

from pathlib import Path

from .selection import UploadError

NAME = ".rayignore"


class Rules:
    """The rules that hold in one directory: its own file's before those of the directories above it."""

    def __init__(self, spec: object, base: str, above: Rules | None) -> None:
        self._spec, self._base, self._above = spec, base, above

    def excludes(self, name: str, *, directory: bool) -> bool:
        """Whether a file or directory is excluded; `name` from the top of the tree, with `/` between its parts."""
        rules: Rules | None = self
        while rules is not None:
            below = name[len(rules._base) :]
            said = rules._spec.check_file(below + ("/" if directory else "")).include  # type: ignore[attr-defined]
            if said is not None:
                return bool(said)
            rules = rules._above
        return False


def rules_at(directory: Path, base: str, above: Rules | None) -> Rules | None:
    """The rules in a directory whose place in the tree is `base` (empty, or ending in `/`). Raises `UploadError`."""
    file = directory / NAME
    try:
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return above
    except OSError as error:
        raise UploadError(f'cannot read "{file}": {error.strerror or error}') from error
    from pathspec import GitIgnoreSpec

    try:
        spec = GitIgnoreSpec.from_lines(text.splitlines())
    except ValueError as error:
        raise UploadError(
            f'"{file}" holds a pattern that cannot be read: {error}', "the syntax is gitignore's"
        ) from error
    return Rules(spec, base, above)
