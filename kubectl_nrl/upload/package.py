"""Packs a selection into the zip that Ray unpacks as a working directory, under a name made of what is in it.

The name is the hash of names and contents, not of the archive, so that the same code has the same name whatever compressed it;
hash and archive are made in one reading, so that the name always tells what was really packed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from .rules import BODY_MAX, RECIPE_FILE
from .selection import File, Selection, UploadError
from .words import files_words, largest, several, size_words

#: Files up to this are read whole, and again when they changed meanwhile.
_WHOLE = 8 * 1024 * 1024
_PIECE = 256 * 1024
#: Readings of a file that changes, and the seconds between them.
_TRIES, _PAUSE = 4, 0.05
_LEVEL = 1
#: A sample that packs to more than this is stored as it is.
_WORTH = 0.9


@dataclass
class Package:
    """A packed working directory, in a file without a name that ends with this process, whatever ends it.

    `name` is Ray's (`_ray_pkg_<hash>.zip`), `size` the archive's bytes; `warnings` say what changed while it was packed.
    """

    name: str
    size: int
    selection: Selection
    warnings: tuple[str, ...]
    _file: IO[bytes]

    @property
    def uri(self) -> str:
        """As a runtime environment names it."""
        return f"gcs://{self.name}"

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[bytes]:
        """The archive from its start, in pieces; every iteration is a new reading."""
        for start in range(0, self.size, _PIECE):
            yield os.pread(self._file.fileno(), min(_PIECE, self.size - start), start)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Package:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def pack(
    selection: Selection,
    recipe: str,
    *,
    body_max: int = BODY_MAX,
    progress: Callable[[int], None] = lambda done: None,
) -> Package:
    """Pack it, with the composed recipe at its top unless that is empty. `progress` is told how many bytes of files were read.

    Raises `UploadError` when a file cannot be read, the temporary directory is full, or the archive exceeds `body_max` bytes.
    """
    file = tempfile.TemporaryFile(prefix="nrl-upload-")  # noqa: SIM115 - the Package closes it
    try:
        work = _Work(selection, file, body_max, progress)
        work.write(recipe)
        return Package(work.name(), work.size(), selection, tuple(work.warnings()), file)
    except BaseException as error:
        file.close()
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UploadError(
                f"no space left in {tempfile.gettempdir()}, where the upload is packed",
                "set TMPDIR to another directory",
            ) from error
        raise


class _Work:
    """One archive in the making."""

    def __init__(self, selection: Selection, file: IO[bytes], body_max: int, progress: Callable[[int], None]) -> None:
        self._selection, self._file, self._body_max, self._progress = selection, file, body_max, progress
        self._digest = hashlib.sha256()
        self._changed: list[str] = []
        self._gone: list[str] = []
        self._unreadable: list[str] = []
        self._read = 0

    def write(self, recipe: str) -> None:
        entries: list[tuple[str, File | bytes]] = [(file.name, file) for file in self._selection.files]
        entries += [(name, b"") for name in self._selection.empty_dirs]
        if recipe:
            entries.append((RECIPE_FILE, recipe.encode()))
        with zipfile.ZipFile(self._file, "w") as archive:
            for name, entry in sorted(entries, key=lambda e: e[0].encode()):
                if isinstance(entry, bytes):
                    self._put(archive, name, entry, executable=False)
                else:
                    self._add(archive, entry)
                if self._file.tell() > self._body_max:
                    raise self._too_large()
        if self._unreadable:
            raise UploadError(
                f"cannot read {several(sorted(self._unreadable))}",
                "give yourself the permission, or exclude them in .rayignore",
            )
        if self.size() > self._body_max:
            raise self._too_large()

    def size(self) -> int:
        return self._file.seek(0, os.SEEK_END)

    def name(self) -> str:
        return f"_ray_pkg_{self._digest.hexdigest()[:32]}.zip"

    def warnings(self) -> Iterator[str]:
        if self._changed:
            yield f"{several(self._changed)}: changed while being packed; what was read is sent"
        if self._gone:
            yield f"{several(self._gone)}: gone before it was packed; not sent"

    def _add(self, archive: zipfile.ZipFile, file: File) -> None:
        try:
            if file.size > _WHOLE:
                self._stream(archive, file)
            else:
                data, executable = self._whole(file)
                self._put(archive, file.name, data, executable=executable)
        except FileNotFoundError:
            self._gone.append(file.name)
        except PermissionError as error:
            self._unreadable.append(f"{file.name} ({error.strerror})")
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._unreadable.append(f"{file.name} ({error.strerror or error})")
        self._read += file.size
        self._progress(self._read)

    def _whole(self, file: File) -> tuple[bytes, bool]:
        """A file as it was at one moment: an editor that saves leaves it empty for an instant."""
        for number in range(_TRIES):
            if number:
                time.sleep(_PAUSE)
            with open(file.path, "rb") as source:
                before = os.fstat(source.fileno())
                data = source.read()
                after = os.fstat(source.fileno())
            if _same(before, after) and len(data) == after.st_size:
                break
        else:
            self._changed.append(file.name)
        return data, bool(before.st_mode & 0o100)

    def _put(self, archive: zipfile.ZipFile, name: str, data: bytes, *, executable: bool) -> None:
        with archive.open(_entry(name, executable, _worth_packing(data)), "w") as out:
            out.write(data)
        self._hash(name, executable, hashlib.sha256(data).digest())

    def _stream(self, archive: zipfile.ZipFile, file: File) -> None:
        content = hashlib.sha256()
        with open(file.path, "rb") as source:
            before = os.fstat(source.fileno())
            executable = bool(before.st_mode & 0o100)
            sample = source.read(_PIECE)
            source.seek(before.st_size // 2)
            packs = _worth_packing(sample) and _worth_packing(source.read(_PIECE))
            source.seek(0)
            left = before.st_size
            with archive.open(_entry(file.name, executable, packs), "w") as out:
                while left and (piece := source.read(min(_PIECE, left))):
                    content.update(piece)
                    out.write(piece)
                    left -= len(piece)
                    if self._file.tell() > self._body_max:
                        raise self._too_large()
            if left or not _same(before, os.fstat(source.fileno())):
                self._changed.append(file.name)
        self._hash(file.name, executable, content.digest())

    def _hash(self, name: str, executable: bool, content: bytes) -> None:
        self._digest.update(name.encode() + (b"\0x" if executable else b"\0-") + content)

    def _too_large(self) -> UploadError:
        files = self._selection.files
        return UploadError(
            f"the upload ({size_words(self._selection.size)}, {files_words(len(files))}) is over {size_words(self._body_max)} when "
            f"packed, which is Ray's limit; largest: {largest(files)}",
            "list what the run needs in launch.rayUploadPaths, exclude the rest in .rayignore, or use --code-source image or lustre",
        )


def _entry(name: str, executable: bool, packs: bool) -> zipfile.ZipInfo:
    """An archive entry that is the same every time: no dates, two modes."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.create_system = 3
    mode = 0o40755 if name.endswith("/") else 0o100755 if executable else 0o100644
    info.external_attr = mode << 16 | (0x10 if name.endswith("/") else 0)
    info.compress_type = zipfile.ZIP_DEFLATED if packs else zipfile.ZIP_STORED
    level: Any = info
    level._compresslevel = _LEVEL
    return info


def _worth_packing(data: bytes) -> bool:
    """Whether a sample shrinks: weights and archives do not, and deflating them costs more than sending them."""
    sample = data[: 64 * 1024]
    return len(sample) > 128 and len(zlib.compress(sample, _LEVEL)) < _WORTH * len(sample)


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
