"""Sizes and lists of what is sent, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .selection import File, Selection

#: How many entries of a list are shown.
SHOWN = 8


def size_words(size: int) -> str:
    """`812 B`, `3.0 KiB`, `12.4 MiB`, `1.9 GiB`."""
    number = float(size)
    if number < 1024:
        return f"{size} B"
    for unit in ("KiB", "MiB", "GiB"):
        number /= 1024
        if number < 1024 or unit == "GiB":
            break
    return f"{number:.1f} {unit}"


def files_words(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def summary(selection: Selection, packed: int | None = None) -> str:
    """`12.4 MiB, 812 files (31 excluded by .rayignore)`; with the packed size, that one and the other in brackets."""
    more = [] if packed is None else [f"{size_words(selection.size)} unpacked"]
    if selection.excluded:
        more.append(f"{selection.excluded} excluded by .rayignore")
    size = selection.size if packed is None else packed
    return f"{size_words(size)}, {files_words(len(selection.files))}" + (f" ({', '.join(more)})" if more else "")


def listing(selection: Selection, shown: int = SHOWN) -> list[str]:
    """One line for each thing at the top of the working directory, or for each listed path: name, size, files; largest first."""
    roots = [path for path in selection.paths if path != "."]
    sizes: dict[str, list[int]] = {}
    for file in selection.files:
        sizes.setdefault(_entry(file.name, roots), []).append(file.size)
    order = sorted(sizes, key=lambda name: (-sum(sizes[name]), name))
    lines = [f"{name}  {size_words(sum(sizes[name]))}, {files_words(len(sizes[name]))}" for name in order[:shown]]
    rest = [size for name in order[shown:] for size in sizes[name]]
    if rest:
        lines.append(f"and {len(order) - shown} more  {size_words(sum(rest))}, {files_words(len(rest))}")
    return lines


def _entry(name: str, roots: Sequence[str]) -> str:
    for root in roots:
        if name == root or name.startswith(root + "/"):
            return root
    first, slash, _ = name.partition("/")
    return first + slash


def largest(files: Iterable[File], count: int = 5) -> str:
    """`results/ckpt.bin 128.0 MiB, data/a.jsonl 3.1 MiB`."""
    top = sorted(files, key=lambda file: (-file.size, file.name))[:count]
    return ", ".join(f"{printable(file.name)} {size_words(file.size)}" for file in top)


def fullest(files: Iterable[File], count: int = 5) -> str:
    """The top directories with the most files: `data/ 180000 files, cache/ 20001 files`."""
    counts: dict[str, int] = {}
    for file in files:
        top, slash, _ = file.name.partition("/")
        counts[top + slash] = counts.get(top + slash, 0) + 1
    order = sorted(counts, key=lambda name: (-counts[name], name))[:count]
    return ", ".join(f"{printable(name)} {files_words(counts[name])}" for name in order)


def printable(name: str) -> str:
    """A file's name for people: what no terminal shows is escaped."""
    return name if name.isprintable() else name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def several(names: Sequence[str], shown: int = SHOWN) -> str:
    """`a, b and 3 more`."""
    text = ", ".join(printable(name) for name in names[:shown])
    return text if len(names) <= shown else f"{text} and {len(names) - shown} more"
