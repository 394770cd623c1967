"""Walks the working directory on this machine and selects what is sent; nothing is read but `.rayignore` files and cache tags.

Links are followed, as Ray's packager does, since an archive that Ray unpacks holds none; one that leads out of the directory is
said, because it sends what nobody looks for there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from .ignore import Rules, rules_at
from .rules import (
    CACHE_TAG,
    FILES_MAX,
    NEMO_RL_MARK,
    NEMO_RL_PATHS,
    RECIPE_FILE,
    SIZE_MAX,
    holds_credentials,
    never_sent,
)
from .selection import File, Selection, UploadError
from .words import files_words, fullest, largest, printable, several

#: Directories above, by device and inode: a link back to one of them would never end.
_Above = frozenset[tuple[int, int]]


def select(
    root: Path, paths: Sequence[str] | None = None, *, files_max: int = FILES_MAX, size_max: int = SIZE_MAX
) -> Selection:
    """The files below `root` that an upload of `paths` sends; None: the default set.

    A listed path that is not there is in `missing`, not an error: whoever sends refuses it. Raises `UploadError`: `root` is no
    directory, a path leads out of it, something cannot be read or named, or the tree is beyond the limits.
    """
    root = Path(os.path.abspath(root))
    if not root.is_dir():
        raise UploadError(f'"{root}" is no directory', "--repo-root names the directory whose code is sent")
    walk = _Walk(root, files_max, size_max)
    wanted = [_inside(root, path) for path in _listed(root, paths)]
    found = tuple(path for path in dict.fromkeys(wanted) if walk.take(path))
    missing = tuple(path for path in dict.fromkeys(wanted) if path not in found) if paths is not None else ()
    walk.refuse()
    files = tuple(sorted(walk.files.values(), key=lambda file: file.name))
    return Selection(
        str(root), found, files, len(walk.excluded), missing, tuple(walk.warnings()), tuple(walk.notes),
        tuple(sorted(walk.empty)),
    )  # fmt: skip


def _listed(root: Path, paths: Sequence[str] | None) -> Sequence[str]:
    if paths is not None:
        return paths
    return NEMO_RL_PATHS if (root / NEMO_RL_MARK).is_file() else (".",)


def _inside(root: Path, path: str) -> str:
    """A listed path below the root, in its plain form. Raises `UploadError` when it leads out of it."""
    plain = os.path.normpath(os.path.join(root, path))
    if plain != str(root) and not plain.startswith(str(root).rstrip("/") + "/"):
        raise UploadError(
            f'rayUploadPaths: "{path}" is not below {root}',
            "list paths inside --repo-root, or choose another --repo-root",
        )
    return PurePosixPath(os.path.relpath(plain, root)).as_posix()


class _Walk:
    """The state of one walk. Names end in `/` for directories, and are empty for the root."""

    def __init__(self, root: Path, files_max: int, size_max: int) -> None:
        self._root, self._real = root, os.path.realpath(root)
        self._files_max, self._size_max, self._size = files_max, size_max, 0
        self.files: dict[str, File] = {}
        self.empty: set[str] = set()
        self.excluded: set[str] = set()
        self.notes: list[str] = []
        self._said: dict[str, list[str]] = {}
        self._unreadable: list[str] = []
        self._unnameable: list[str] = []

    def take(self, path: str) -> bool:
        """Select a listed path; False when it is not there."""
        where = self._root if path == "." else self._root / path
        if not os.path.lexists(where):
            return False
        rules, name = rules_at(self._root, "", None), ""
        parts = [] if path == "." else path.split("/")
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            here = self._root / name / part
            if rules is not None and rules.excludes(name + part, directory=here.is_dir()):
                self._say("listed, but excluded by .rayignore, so not sent", path)
                self.excluded.add(name + part)
                return True
            if last and never_sent(part):
                self._say("listed, but never sent (a cache, byte code or a repository)", path)
                return True
            if last:
                return self._one(str(here), name + part, rules, frozenset())
            name += part + "/"
            rules = rules_at(here, name, rules)
        return self._tree(str(where), "", rules, frozenset())

    def _one(self, path: str, name: str, rules: Rules | None, above: _Above) -> bool:
        """One entry that is not excluded."""
        link = os.path.islink(path)
        try:
            info = os.stat(path)
        except OSError as error:
            if link:
                self._say("a link that leads nowhere: not sent", f"{name} -> {os.readlink(path)}")
            elif not isinstance(error, FileNotFoundError):
                self._unreadable.append(f"{name} ({error.strerror})")
            return True
        if link:
            real = os.path.realpath(path)
            if real != self._real and not real.startswith(self._real + "/"):
                self._say(f"a link out of {self._root}: what it leads to is sent", f"{name} -> {real}")
        if stat.S_ISDIR(info.st_mode):
            if (info.st_dev, info.st_ino) in above:
                self._say("a link to a directory above it: not sent", name)
                return True
            here = rules_at(Path(path), name + "/", rules)
            return self._tree(path, name + "/", here, above)
        if stat.S_ISREG(info.st_mode):
            self._add(File(name, path, info.st_size))
        else:
            self._say("a pipe, socket or device: not sent", name)
        return True

    def _tree(self, path: str, name: str, rules: Rules | None, above: _Above) -> bool:
        """A directory and all below it, by a stack: trees can be deeper than Python's."""
        stack = [(path, name, rules, above)]
        while stack:
            path, name, rules, above = stack.pop()
            entries = self._entries(path, name)
            inner = above | {_identity(path)}
            for entry in entries:
                full = name + entry.name
                if never_sent(entry.name):
                    continue
                directory = _is_dir(entry)
                if rules is not None and rules.excludes(full, directory=directory):
                    self.excluded.add(full)
                elif directory and not entry.is_symlink():
                    stack.append((entry.path, full + "/", rules_at(Path(entry.path), full + "/", rules), inner))
                else:
                    self._one(entry.path, full, rules, inner)
        return True

    def _entries(self, path: str, name: str) -> list[os.DirEntry[str]]:
        """What a directory holds; nothing for a virtual environment or a tagged cache below the root."""
        try:
            with os.scandir(path) as found:
                entries = list(found)
        except FileNotFoundError:
            return []
        except OSError as error:
            self._unreadable.append(f"{name or '.'} ({error.strerror})")
            return []
        names = {entry.name for entry in entries}
        if name and ("pyvenv.cfg" in names or ("CACHEDIR.TAG" in names and _is_cache(path))):
            return []
        if not entries and name:
            self.empty.add(name)
        return entries

    def _add(self, file: File) -> None:
        if file.name == RECIPE_FILE:
            self.notes.append(f"{RECIPE_FILE} is the composed recipe; the file of that name here is not sent")
            return
        try:
            file.name.encode()
        except UnicodeEncodeError:
            self._unnameable.append(file.name)
            return
        if not os.access(file.path, os.R_OK):
            self._unreadable.append(f"{file.name} (Permission denied)")
            return
        if file.name not in self.files:
            self._size += file.size
            if holds_credentials(file.name):
                self._say("such files hold credentials, and are sent: .rayignore excludes them", file.name)
        self.files[file.name] = file
        if len(self.files) > self._files_max:
            raise self._too_large(f"more than {files_words(self._files_max)}", fullest(self.files.values()))
        if self._size > self._size_max:
            raise self._too_large(f"more than {self._size_max / 1e9:g} GB", largest(self.files.values()))

    def _too_large(self, what: str, where: str) -> UploadError:
        return UploadError(
            f"{self._root} holds {what}, too much to upload: {where}",
            "list what the run needs in launch.rayUploadPaths, exclude the rest in .rayignore, or use --code-source image or lustre",
        )

    def _say(self, kind: str, name: str) -> None:
        self._said.setdefault(kind, []).append(name)

    def warnings(self) -> Iterator[str]:
        """One sentence for each kind of thing."""
        for kind, names in self._said.items():
            yield f"{several(names)}: {kind}"

    def refuse(self) -> None:
        """Raise `UploadError` for what cannot be read, or not be named in an archive."""
        if self._unreadable:
            raise UploadError(
                f"cannot read {several(sorted(self._unreadable))}",
                "give yourself the permission, or exclude them in .rayignore",
            )
        if self._unnameable:
            raise UploadError(
                f"names that are not UTF-8 cannot be uploaded: {several([printable(n) for n in sorted(self._unnameable)])}",
                "rename them, or exclude them in .rayignore",
            )


def _identity(path: str) -> tuple[int, int]:
    try:
        info = os.stat(path)
    except OSError:
        return (0, 0)
    return (info.st_dev, info.st_ino)


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_cache(path: str) -> bool:
    try:
        with open(os.path.join(path, "CACHEDIR.TAG"), "rb") as file:
            return file.read(len(CACHE_TAG)) == CACHE_TAG
    except OSError:
        return False
