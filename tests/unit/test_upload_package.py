"""The package of a working directory: its name, its bytes, and what happens when files change under it."""

from __future__ import annotations

import errno
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from upload_tree import archive, tree, unpacked

from kubectl_nrl.upload import UploadError, pack, package, select

RECIPE = "a: 1\n"


def packed(root: Path, recipe: str = RECIPE, **words: Any) -> package.Package:
    return pack(select(root), recipe, **words)


def name_of(files: dict[str, str | bytes], tmp_path: Path, recipe: str = RECIPE) -> str:
    where = Path(tempfile.mkdtemp(dir=tmp_path))
    with packed(tree(where, files), recipe) as made:
        return made.name


def test_it_holds_the_files_and_the_recipe_at_the_top(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.py": "print(1)\n" * 200, "d/ö b.txt": "é", "empty/": "", "zero": ""})
    with packed(root) as made:
        assert unpacked(made) == {
            "a.py": b"print(1)\n" * 200, "d/ö b.txt": "é".encode(), "empty/": b"", "nrl_k8s_run.yaml": b"a: 1\n", "zero": b"",
        }  # fmt: skip
        assert archive(made).testzip() is None
        assert made.size == len(made) == len(b"".join(made))
        assert made.uri == f"gcs://{made.name}"


def test_the_name_is_of_rays_form(tmp_path: Path) -> None:
    assert name_of({"a": ""}, tmp_path).startswith("_ray_pkg_")
    assert name_of({"a": ""}, tmp_path).endswith(".zip")


def test_the_same_code_has_the_same_name_and_bytes_whenever_and_wherever(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"b": "2" * 5000, "a/x": "1", "r.bin": os.urandom(5000)}
    first, second = tree(tmp_path / "1", files), tree(tmp_path / "2", dict(reversed(files.items())))
    os.utime(second / "b", (1, 1))
    with packed(first) as one, packed(second) as other:
        assert one.name == other.name
        assert b"".join(one) == b"".join(other)


@pytest.mark.parametrize(
    "changed",
    [
        {"a": "1", "b": "3"}, {"a": "1"}, {"a": "1", "b": "2", "c": ""}, {"a": "2", "b": "1"}, {"a": "1", "B": "2"},
        {"a": "12", "b": ""}, {"a": "1", "b": "2", "d/": ""}, {"a/b": "2", "c": "1"},
    ],
)  # fmt: skip
def test_another_content_or_name_is_another_package(tmp_path: Path, changed: dict[str, str | bytes]) -> None:
    assert name_of(changed, tmp_path) != name_of({"a": "1", "b": "2"}, tmp_path)


def test_another_recipe_is_another_package(tmp_path: Path) -> None:
    assert name_of({"a": ""}, tmp_path, "a: 2\n") != name_of({"a": ""}, tmp_path)


@settings(max_examples=30, deadline=None)
@given(
    files=st.dictionaries(
        st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=8).filter(
            lambda name: name not in (".", "..") and len(name.encode()) < 200
        ),
        st.binary(max_size=600),
        max_size=6,
    )
)
def test_any_tree_comes_out_as_it_went_in(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    """Names that file systems take, and bytes of any kind; twice gives the same package."""
    root = tree(tmp_path_factory.mktemp("t"), dict(files))
    with packed(root) as made, packed(root) as again:
        sent = {file.name: files[file.name] for file in made.selection.files}
        assert unpacked(made) == {**sent, "nrl_k8s_run.yaml": b"a: 1\n"}
        assert made.name == again.name


def test_modes_are_two_and_nothing_else_of_a_file_shows(tmp_path: Path) -> None:
    root = tree(tmp_path, {"run.sh": "x", "a": "x"})
    (root / "run.sh").chmod(0o700)
    (root / "a").chmod(0o600)
    with packed(root) as made:
        modes = {info.filename: oct(info.external_attr >> 16) for info in archive(made).infolist()}
        assert modes == {"a": "0o100644", "nrl_k8s_run.yaml": "0o100644", "run.sh": "0o100755"}
        assert {info.date_time for info in archive(made).infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_text_is_deflated_and_what_does_not_shrink_is_stored(tmp_path: Path) -> None:
    root = tree(tmp_path, {"text": "all work and no play\n" * 5000, "noise": os.urandom(100_000)})
    with packed(root) as made:
        kinds = {info.filename: info.compress_type for info in archive(made).infolist()}
        assert (kinds["text"], kinds["noise"]) == (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED)
        assert 100_000 < made.size < 110_000


def test_a_large_file_is_streamed_and_hashed_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path, {"w.bin": os.urandom(700_000), "t.txt": b"abc" * 300_000})
    with packed(root) as whole:
        monkeypatch.setattr(package, "_WHOLE", 1000)
        with packed(root) as streamed:
            assert streamed.name == whole.name
            assert unpacked(streamed) == unpacked(whole)


def test_over_the_limit_is_refused_with_the_largest_files(tmp_path: Path) -> None:
    root = tree(tmp_path, {"results/ckpt.bin": os.urandom(300_000), "small.bin": os.urandom(1000), "a.py": "x"})
    with pytest.raises(UploadError) as error:
        packed(root, body_max=200_000)
    said = error.value.message
    assert "the upload (293.9 KiB, 3 files) is over 195.3 KiB when packed" in said
    assert "largest: results/ckpt.bin 293.0 KiB, small.bin 1000 B" in said
    assert ".rayignore" in error.value.hint
    assert "--code-source" in error.value.hint


def test_what_fits_when_packed_is_taken(tmp_path: Path) -> None:
    root = tree(tmp_path, {"t.txt": b"abc" * 200_000})
    with packed(root, body_max=100_000) as made:
        assert made.size < 100_000 < made.selection.size


def test_the_limit_is_exact(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a": os.urandom(5000)})
    with packed(root) as made:
        size = made.size
    packed(root, body_max=size).close()
    with pytest.raises(UploadError):
        packed(root, body_max=size - 1)


def test_a_large_file_over_the_limit_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "_WHOLE", 1000)
    root = tmp_path / "r"
    root.mkdir()
    noise = os.urandom(3 * package._PIECE)
    (root / "huge").write_bytes(noise * 20)
    monkeypatch.setattr(package, "_worth_packing", lambda data: False)
    told: list[int] = []
    with pytest.raises(UploadError):
        packed(root, body_max=4 * package._PIECE, progress=told.append)
    assert told == []


def test_a_file_that_is_being_saved_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor truncates, then writes: the moment between must not be what runs."""
    root = tree(tmp_path, {"a.py": "old"})
    found = select(root)
    calls = 0
    fstat = os.fstat

    def saving(number: int) -> os.stat_result:
        nonlocal calls
        calls += 1
        if calls == 2:
            (root / "a.py").write_text("brand new")
        return fstat(number)

    monkeypatch.setattr(os, "fstat", saving)
    with pack(found, RECIPE) as made:
        assert unpacked(made)["a.py"] == b"brand new"
        assert made.warnings == ()


@pytest.mark.parametrize("whole", [8_000_000, 10])
def test_a_file_that_never_rests_is_sent_as_read_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    monkeypatch.setattr(package, "_PAUSE", 0)
    monkeypatch.setattr(package, "_WHOLE", whole)
    root = tree(tmp_path, {"train.log": "x" * 100})
    found = select(root)
    fstat = os.fstat

    def growing(number: int) -> os.stat_result:
        with (root / "train.log").open("a") as log:
            log.write("more\n")
        return fstat(number)

    monkeypatch.setattr(os, "fstat", growing)
    with pack(found, RECIPE) as made:
        assert made.warnings == ("train.log: changed while being packed; what was read is sent",)
        assert archive(made).testzip() is None
        assert unpacked(made)["train.log"].startswith(b"x" * 100)


def test_a_file_that_is_gone_by_then_is_named_and_left_out(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a": "", "tmp.1": "x"})
    found = select(root)
    (root / "tmp.1").unlink()
    with pack(found, RECIPE) as made:
        assert sorted(unpacked(made)) == ["a", "nrl_k8s_run.yaml"]
        assert made.warnings == ("tmp.1: gone before it was packed; not sent",)


def test_files_that_cannot_be_read_are_all_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path, {"a": "", "b": "", "c": ""})
    found = select(root)
    whole = package._Work._whole

    def refused(self: Any, file: Any) -> Any:
        if file.name in ("a", "c"):
            raise PermissionError(errno.EACCES, "Permission denied", file.path)
        return whole(self, file)

    monkeypatch.setattr(package._Work, "_whole", refused)
    with pytest.raises(UploadError, match=r"cannot read a \(Permission denied\), c \(Permission denied\)"):
        pack(found, RECIPE)


def test_a_full_temporary_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = select(tree(tmp_path, {"a": "x"}))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "open", full)
    with pytest.raises(UploadError, match="no space left in") as error:
        pack(found, RECIPE)
    assert "TMPDIR" in error.value.hint


def test_nothing_is_left_in_the_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    made = packed(tree(tmp_path / "r", {"a": "x"}))
    assert list(place.iterdir()) == []  # not even while it is open: a killed process leaves nothing
    made.close()


def test_it_may_be_read_again_and_again(tmp_path: Path) -> None:
    with packed(tree(tmp_path, {"a": os.urandom(600_000)})) as made:
        first = b"".join(made)
        half = iter(made)
        next(half)
        assert b"".join(made) == first


def test_progress_counts_the_bytes_read(tmp_path: Path) -> None:
    told: list[int] = []
    packed(tree(tmp_path, {"a": "12", "b": "345"}), progress=told.append).close()
    assert told == [2, 5]
