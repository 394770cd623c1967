"""What of a directory is uploaded, and what is said of the rest."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from upload_tree import tree

from kubectl_nrl.upload import Selection, UploadError, listing, select, summary, tracked_but_ignored
from kubectl_nrl.upload.rules import NEMO_RL_PATHS, never_sent


def names(selection: Selection) -> list[str]:
    return [file.name for file in selection.files]


def ignored(tmp_path: Path, patterns: str, *files: str) -> list[str]:
    """What a .rayignore leaves of these files."""
    root = tree(tmp_path / "r", {**dict.fromkeys(files, "x"), ".rayignore": patterns})
    return [name for name in names(select(root)) if not name.endswith(".rayignore")]


def test_all_of_a_directory_is_sent_in_the_order_of_names(tmp_path: Path) -> None:
    root = tree(tmp_path, {"b.py": "1", "a/x.txt": "22", "a.py": ""})
    found = select(root)
    assert names(found) == ["a.py", "a/x.txt", "b.py"]
    assert (found.size, found.paths, found.missing) == (3, (".",), ())


@pytest.mark.parametrize(
    "name",
    [
        ".git/config", "sub/.git", "__pycache__/a.cpython-311.pyc", "a/__pycache__/b.pyc", "mod.pyc", "mod.pyo", ".venv/bin/python",
        "x.egg-info/PKG-INFO", ".mypy_cache/1", ".pytest_cache/1", ".ruff_cache/1", ".hypothesis/1", ".cache/big", ".tox/1", ".nox/1",
        ".ipynb_checkpoints/n.ipynb", "a/.DS_Store", ".hg/1", ".svn/1",
    ],
)  # fmt: skip
def test_caches_byte_code_and_repositories_are_never_sent(tmp_path: Path, name: str) -> None:
    assert names(select(tree(tmp_path, {name: "x", "keep.py": "x"}))) == ["keep.py"]


@pytest.mark.parametrize(
    "name", ["cache/a", "venv.py", "git/a", "pyc", "a.pyc.txt", ".github/x", ".gitignore", "egg-info", ".env"]
)
def test_what_only_looks_like_a_cache_is_sent(tmp_path: Path, name: str) -> None:
    assert names(select(tree(tmp_path, {name: "x"}))) == [name]


@pytest.mark.parametrize(
    "name", [".env", ".env.local", "a/.netrc", "home/.aws/credentials", "id_ed25519", "tls/server.key"]
)
def test_a_file_that_holds_credentials_by_custom_is_sent_with_a_warning(tmp_path: Path, name: str) -> None:
    found = select(
        tree(tmp_path, {name: "x", "id_rsa.pub": "", ".env.example": "", "credentials": "", "monkey": "", "config": ""})
    )
    assert name in names(found)
    assert found.warnings == (f"{name}: such files hold credentials, and are sent: .rayignore excludes them",)


def test_a_virtual_environment_of_any_name_is_not_sent(tmp_path: Path) -> None:
    root = tree(tmp_path, {"env311/pyvenv.cfg": "home = /usr", "env311/lib/x.py": "", "venv/notes.txt": "mine"})
    assert names(select(root)) == ["venv/notes.txt"]


def test_a_tagged_cache_is_not_sent_and_a_forged_tag_changes_nothing(tmp_path: Path) -> None:
    tag = "Signature: 8a477f597d28d172789f06886806bc55\n# a cache"
    root = tree(tmp_path, {"hot/CACHEDIR.TAG": tag, "hot/x": "", "cold/CACHEDIR.TAG": "hello", "cold/x": ""})
    assert names(select(root)) == ["cold/CACHEDIR.TAG", "cold/x"]


def test_what_git_ignores_is_sent(tmp_path: Path) -> None:
    root = tree(
        tmp_path, {".gitignore": "*.jsonl\n_gen.py\n", "data/t.jsonl": "{}", "pkg/_gen.py": "", "pkg/.gitignore": "*"}
    )
    assert names(select(root)) == [".gitignore", "data/t.jsonl", "pkg/.gitignore", "pkg/_gen.py"]


@pytest.mark.parametrize(
    ("patterns", "files", "kept"),
    [
        ("*.bin", ("a.bin", "b/c.bin", "b/c.py"), ["b/c.py"]),
        ("/a.bin", ("a.bin", "b/a.bin"), ["b/a.bin"]),
        ("results/", ("results/x", "b/results/y", "c"), ["c"]),
        ("results/", ("results",), ["results"]),
        ("results/*\n!results/keep", ("results/x", "results/keep"), ["results/keep"]),
        ("results\n!results/keep", ("results/x", "results/keep"), []),
        ("**/logs/*.txt", ("logs/a.txt", "x/y/logs/b.txt", "logs/c.md"), ["logs/c.md"]),
        ("a/**/z", ("a/z", "a/b/z", "a/b/c/z", "z"), ["z"]),
        ("# comment\n\n\\#real", ("#real", "# comment"), ["# comment"]),
        ("*.log\n!keep.log", ("a.log", "keep.log"), ["keep.log"]),
        ("with space", ("with space", "with"), ["with"]),
        ("trailing   ", ("trailing",), []),
        ("données", ("données/x", "donnees"), ["donnees"]),
        ("[ab].py", ("a.py", "b.py", "c.py"), ["c.py"]),
        ("a?c", ("abc", "ac"), ["ac"]),
        ("\\!x", ("!x", "x"), ["x"]),
        ("*", ("a", "b/c"), []),
        ("*.bin\r\n*.tmp\r\n", ("a.bin", "b.tmp", "c"), ["c"]),
    ],
)
def test_rayignore_is_gitignores_syntax(tmp_path: Path, patterns: str, files: tuple[str, ...], kept: list[str]) -> None:
    assert ignored(tmp_path, patterns, *files) == kept


@settings(max_examples=25, deadline=None)
@given(
    patterns=st.lists(
        st.sampled_from(["*.x", "a", "a/", "/a", "!a/b", "b/*", "!b/c.x", "**/c", "*", "!*.y"]), max_size=4
    ),
    files=st.sets(st.sampled_from(["a", "b/a", "b/c.x", "c/d/a.x", "c/c/e.y", "z.y"]), min_size=1),
)
def test_rayignore_agrees_with_git(
    tmp_path_factory: pytest.TempPathFactory, patterns: list[str], files: set[str]
) -> None:
    root = tree(tmp_path_factory.mktemp("g"), {**dict.fromkeys(files, "x"), ".rayignore": "\n".join(patterns)})
    subprocess.run(["git", "init", "-q", root], check=True)
    words = ["git", "-C", str(root), "ls-files", "-z", "--others", "--exclude-per-directory=.rayignore"]
    git = subprocess.run(words, check=True, capture_output=True).stdout.decode().split("\0")
    assert names(select(root)) == sorted(filter(None, git))


def test_a_deeper_rayignore_decides_over_one_above(tmp_path: Path) -> None:
    root = tree(
        tmp_path, {".rayignore": "*.bin", "a/.rayignore": "!good.bin", "a/good.bin": "", "a/b.bin": "", "good.bin": ""}
    )
    assert [n for n in names(select(root)) if n.endswith(".bin")] == ["a/good.bin"]


def test_what_rayignore_left_out_is_counted_a_directory_once(tmp_path: Path) -> None:
    root = tree(tmp_path, {".rayignore": "out/\n*.bin", "out/1": "", "out/2": "", "a.bin": "", "b.bin": "", "c": ""})
    found = select(root)
    assert found.excluded == 3
    assert summary(found).endswith("2 files (3 excluded by .rayignore)")


def test_listed_paths_alone_are_sent_once_each(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a/x": "", "a/b/y": "", "c": "", "d": ""})
    found = select(root, ["a/b", "./a/", "c"])
    assert names(found) == ["a/b/y", "a/x", "c"]
    assert found.paths == ("a/b", "a", "c")


def test_nothing_listed_sends_nothing_of_the_directory(tmp_path: Path) -> None:
    assert names(select(tree(tmp_path, {"a": ""}), [])) == []


def test_listed_paths_that_are_not_there_are_named(tmp_path: Path) -> None:
    found = select(tree(tmp_path, {"a": ""}), ["a", "nope", "no/such"])
    assert (names(found), found.missing) == (["a"], ("nope", "no/such"))


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc", "/"])
def test_a_listed_path_out_of_the_directory_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(UploadError, match="is not below"):
        select(tree(tmp_path / "r", {"a": ""}), [path])


def test_an_absolute_path_inside_the_directory_is_taken(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a/x": ""})
    assert names(select(root, [str(root / "a")])) == ["a/x"]


def test_a_listed_path_obeys_the_rayignore_above_it(tmp_path: Path) -> None:
    root = tree(tmp_path, {".rayignore": "*.bin\nsecret/", "a/w.bin": "", "a/x": "", "secret/k": ""})
    found = select(root, ["a", "secret"])
    assert names(found) == ["a/x"]
    assert found.warnings == ("secret: listed, but excluded by .rayignore, so not sent",)


def test_a_listed_cache_is_said_not_to_be_sent(tmp_path: Path) -> None:
    found = select(tree(tmp_path, {".git/x": "", "a": ""}), [".git", "a"])
    assert names(found) == ["a"]
    assert "never sent" in found.warnings[0]


def test_a_nemo_rl_checkout_sends_what_its_runs_import(tmp_path: Path) -> None:
    there = {path: "" if "." in path.rsplit("/", 1)[-1] else None for path in NEMO_RL_PATHS}
    files = {p if v is not None else f"{p}/__init__.py": "" for p, v in there.items()}
    root = tree(tmp_path, {**files, "docs/a.md": "", "results/x": "", "tests/unit/t.py": ""})
    assert names(select(root)) == sorted(files)


def test_a_thin_nemo_rl_checkout_skips_what_is_not_there(tmp_path: Path) -> None:
    found = select(tree(tmp_path, {"nemo_rl/__init__.py": "", "examples/r.py": "", "other": ""}))
    assert (names(found), found.missing) == (["examples/r.py", "nemo_rl/__init__.py"], ())


def test_a_link_that_leads_nowhere_is_a_warning(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a": ""})
    (root / "gone").symlink_to("no-such-file")
    found = select(root)
    assert names(found) == ["a"]
    assert found.warnings == ("gone -> no-such-file: a link that leads nowhere: not sent",)


def test_a_link_out_of_the_directory_is_followed_and_said(tmp_path: Path) -> None:
    outside = tree(tmp_path / "outside", {"d/1.jsonl": "{}"})
    root = tree(tmp_path / "r", {"a": ""})
    (root / "data").symlink_to(outside / "d")
    found = select(root)
    assert names(found) == ["a", "data/1.jsonl"]
    assert f"data -> {outside / 'd'}: a link out of" in found.warnings[0]


def test_links_inside_are_followed_without_a_word(tmp_path: Path) -> None:
    root = tree(tmp_path, {"real/x": "1"})
    (root / "alias").symlink_to("real")
    (root / "y").symlink_to("real/x")
    found = select(root)
    assert (names(found), found.warnings) == (["alias/x", "real/x", "y"], ())


@pytest.mark.parametrize("target", [".", "..", "../.."])
def test_a_link_to_a_directory_above_ends(tmp_path: Path, target: str) -> None:
    root = tree(tmp_path / "r", {"a/b/x": ""})
    (root / "a/b/up").symlink_to(target)
    found = select(root)
    assert names(found) == ["a/b/x"]
    assert "a/b/up: a link to a directory above it: not sent" in found.warnings


def test_a_link_to_itself_is_a_link_to_nowhere(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a": ""})
    (root / "me").symlink_to("me")
    assert "me -> me: a link that leads nowhere" in select(root).warnings[0]


def test_pipes_and_sockets_are_not_opened(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a": ""})
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(root)  # a socket's path is short
        try:
            server.bind("sock")
        finally:
            os.chdir(here)
        found = select(root)
    assert names(found) == ["a"]
    assert sorted(found.warnings[0].partition(": ")[0].split(", ")) == ["pipe", "sock"]
    assert found.warnings[0].endswith(": a pipe, socket or device: not sent")


def test_unreadable_files_are_all_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path, {"a": "", "b": "", "c": ""})
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith(("a", "c")))
    with pytest.raises(UploadError, match=r"cannot read a \(Permission denied\), c \(Permission denied\)"):
        select(root)


def test_a_directory_that_may_not_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path, {"d/x": "", "e": ""})
    scandir = os.scandir

    def refused(path: str) -> Any:  # root, as whom tests may run, may list everything
        if str(path).endswith("/d"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(UploadError, match=r"cannot read d/ \(Permission denied\)"):
        select(root)


def test_names_with_spaces_and_letters_of_all_kinds_are_kept(tmp_path: Path) -> None:
    files = ["my data/größe 1.txt", "日本.py", "tab\tname", "'quoted\"", "-dash", "back\\slash"]
    assert names(select(tree(tmp_path, dict.fromkeys(files, "x")))) == sorted(files)


def test_a_name_that_is_no_utf8_is_refused_with_its_bytes(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a": ""})
    (root / os.fsdecode(b"bad\xff.txt")).write_text("")
    with pytest.raises(UploadError, match=r"not UTF-8 cannot be uploaded: bad\\xff.txt"):
        select(root)


def test_too_many_files_are_said_with_where_they_are(tmp_path: Path) -> None:
    root = tree(tmp_path, {"data/1": "", "data/2": "", "data/3": "", "src/a": ""})
    with pytest.raises(UploadError, match=r"more than 3 files, too much to upload: .*data/ [123] file") as error:
        select(root, files_max=3)
    assert "rayUploadPaths" in error.value.hint
    assert len(select(root, files_max=4).files) == 4


def test_too_many_bytes_are_said_with_the_largest(tmp_path: Path) -> None:
    root = tree(tmp_path, {"ckpt.bin": b"x" * 900, "a.py": b"x" * 50})
    with pytest.raises(UploadError, match=r"too much to upload: ckpt.bin 900 B"):
        select(root, size_max=900)
    assert select(root, size_max=950).size == 950


def test_the_walk_stops_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million files cost no more than the limit's worth of looks."""
    root = tree(tmp_path, {f"d{i}/{j}": "" for i in range(20) for j in range(10)})
    seen: list[str] = []
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: seen.append(path) or access(path, mode))
    with pytest.raises(UploadError):
        select(root, files_max=15)
    assert len(seen) == 16


def test_a_deep_tree_is_walked(tmp_path: Path) -> None:
    root, here = tmp_path / "r", tmp_path / "r"
    root.mkdir()
    fd = os.open(root, os.O_RDONLY)
    depth = 400
    for _ in range(depth):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    assert here == root
    assert names(select(root)) == ["d/" * depth + "leaf"]


def test_a_root_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    tree(tmp_path, {"f": ""})
    for path in ("f", "nope"):
        with pytest.raises(UploadError, match="is no directory"):
            select(tmp_path / path)


def test_a_file_under_the_recipes_name_is_not_sent_and_said(tmp_path: Path) -> None:
    found = select(tree(tmp_path, {"nrl_k8s_run.yaml": "old", "sub/nrl_k8s_run.yaml": "kept"}))
    assert names(found) == ["sub/nrl_k8s_run.yaml"]
    assert "composed recipe" in found.notes[0]


def test_empty_directories_are_kept(tmp_path: Path) -> None:
    assert select(tree(tmp_path, {"logs/": "", "a/b/": "", "c": ""})).empty_dirs == ("a/b/", "logs/")


def test_a_broken_pattern_names_its_file(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a": "", ".rayignore": "!\n"})
    with pytest.raises(UploadError, match=r"\.rayignore\" holds a pattern"):
        select(root)


@pytest.mark.parametrize(("name", "never"), [("x.pyc", True), ("x.py", False), (".git", True), ("git", False)])
def test_the_rule_of_what_is_never_sent(name: str, never: bool) -> None:
    assert never_sent(name) is never


def test_the_listing_names_the_largest_parts_and_sums_up_the_rest(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {f"d{i:02}/x": b"x" * (100 + i) for i in range(12)}
    lines = listing(select(tree(tmp_path, files)), shown=2)
    assert lines == ["d11/  111 B, 1 file", "d10/  110 B, 1 file", "and 10 more  1.0 KiB, 10 files"]


def test_the_listing_follows_the_listed_paths(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a/b/x": "12345", "a/c/y": "1", "a/c/z": "1"})
    assert listing(select(root, ["a/b", "a/c"])) == ["a/b  5 B, 1 file", "a/c  2 B, 2 files"]


def test_tracked_files_that_rayignore_drops_are_found(tmp_path: Path) -> None:
    root = tree(tmp_path, {".rayignore": "*.json\n", "conf.json": "{}", "a.py": "", "untracked.json": ""})
    git = ["git", "-C", str(root)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "conf.json", "a.py"], check=True)
    assert tracked_but_ignored(select(root), os.environ) == ["conf.json"]
    assert tracked_but_ignored(select(root, ["a.py"]), os.environ) == []


def test_no_git_and_no_repository_are_no_matter(tmp_path: Path) -> None:
    found = select(tree(tmp_path, {".rayignore": "a", "a": ""}))
    assert tracked_but_ignored(found, {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}) == []
    assert tracked_but_ignored(found, {"PATH": "/nonexistent"}) == []
