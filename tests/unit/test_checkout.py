"""The copy on the pod against this machine's commit: real git repositories, real shells."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_nrl import script
from kubectl_nrl.checkout import _READ_GIT, Checkout, repository_path
from kubectl_nrl.commands.local_checkout import read_checkout

SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]
ORIGIN = "https://jdoe:s3cr3t-t0ken@git.example:8443/NVIDIA-NeMo/RL.git"
ENV = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
}  # fmt: skip


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, env=ENV, check=True)
    return done.stdout.strip()


def commit(folder: Path, text: str) -> str:
    """A new commit with that text in train.py; its id."""
    (folder / "train.py").write_text(text)
    git(folder, "add", "train.py")
    git(folder, "commit", "-q", "-m", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def laptop(tmp_path: Path) -> Path:
    """A checkout with one commit."""
    folder = tmp_path / "laptop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "remote", "add", "origin", ORIGIN)
    commit(folder, "one")
    return folder


@pytest.fixture
def pod(laptop: Path) -> Path:
    """A copy of it, as an image or a shared file system holds it, known by another URL of the same repository."""
    folder = laptop.parent / "on pod"
    shutil.copytree(laptop, folder)
    git(folder, "remote", "set-url", "origin", "git@git.example:NVIDIA-NeMo/RL")
    return folder


@pytest.fixture
def no_git(tmp_path: Path) -> dict[str, str]:
    """The environment of an image that has no git."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "bash", "base64", "gzip", "mktemp", "cat", "rm", "grep"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    return {"PATH": str(tools)}


def launched(checkout: Checkout | None, where: Path, env: dict[str, str] = ENV, shell: str = "sh") -> str:
    """What a launch in that directory says on stderr; the entrypoint ran, and its status is the script's."""
    text = script.launch_script(
        "echo ran; exit 3", run_id="r", recipe="a: 1\n", working_dir=str(where), checkout=checkout
    )
    done = subprocess.run([str(shutil.which(shell)), "-c", text], capture_output=True, text=True, env=env, check=False)
    assert (done.returncode, done.stdout) == (3, "ran\n"), done.stderr
    return done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_another_commit_on_the_pod_is_one_line_with_both(laptop: Path, pod: Path, no_git, shell: str) -> None:
    there, here = git(pod, "rev-parse", "HEAD"), commit(laptop, "two")
    said = launched(read_checkout(laptop, ENV), pod, no_git, shell)
    assert said == (
        f"kubectl nrl: warning: the code in {pod} on this pod is commit {there[:9]}, "
        f"and the checkout that this run was started from is at {here[:9]}\n"
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_the_same_commit_is_no_news(laptop: Path, pod: Path, no_git, shell: str) -> None:
    assert launched(read_checkout(laptop, ENV), pod, no_git, shell) == ""


def test_uncommitted_changes_are_told_with_the_same_commit_and_with_another(laptop: Path, pod: Path, no_git) -> None:
    (laptop / "train.py").write_text("changed")
    found = read_checkout(laptop, ENV)
    assert found and found.dirty
    said = launched(found, pod, no_git)
    assert said.count("\n") == 1 and "whose uncommitted changes are here only if they were copied" in said
    commit(pod, "three")
    assert launched(found, pod, no_git).endswith(f"is at {found.commit[:9]} with uncommitted changes\n")


def test_a_file_that_git_does_not_track_is_no_change(laptop: Path) -> None:
    (laptop / "notes").write_text("")
    found = read_checkout(laptop, ENV)
    assert found and not found.dirty


@pytest.mark.parametrize("how", ["loose", "packed", "detached", "worktree", "submodule", "below", "reftable"])
def test_every_way_that_git_keeps_a_commit_is_read(laptop: Path, pod: Path, no_git, how: str) -> None:
    env, where = no_git, pod
    there = commit(pod, "on the pod")
    if how == "packed":
        git(pod, "branch", "main-old", "HEAD~1")  # begins like the branch that is checked out
        git(pod, "pack-refs", "--all")
        commit_file = pod / ".git" / "refs" / "heads" / "main"
        assert not commit_file.exists()
    elif how == "detached":
        git(pod, "checkout", "-q", "--detach")
    elif how == "worktree":
        where = pod.parent / "tree"
        git(pod, "worktree", "add", "-q", "-b", "side", str(where))
        there = commit(where, "in the worktree")
    elif how == "submodule":
        (pod / ".git").rename(pod.parent / "modules")
        (pod / ".git").write_text("gitdir: ../modules\n")
    elif how == "below":
        where = pod / "examples" / "deep"
        where.mkdir(parents=True)
    elif how == "reftable":
        try:
            git(pod, "refs", "migrate", "--ref-format=reftable")
        except subprocess.CalledProcessError:
            pytest.skip("this git has no reftables")
        env = ENV
    assert f"is commit {there[:9]}, and" in launched(read_checkout(laptop, ENV), where, env)


@pytest.mark.parametrize("origin", ["https://git.example/jdoe/RL", "https://git.example/NVIDIA-NeMo/RL-extra", ""])
def test_another_repository_on_the_pod_is_not_compared(laptop: Path, pod: Path, no_git, origin: str) -> None:
    commit(laptop, "two")
    git(pod, "config", "remote.origin.url", origin)
    assert launched(read_checkout(laptop, ENV), pod, no_git) == ""


@pytest.mark.parametrize("first", ["origin", "upstream"])
def test_a_url_of_another_remote_is_not_the_origins(laptop: Path, pod: Path, no_git, first: str) -> None:
    commit(laptop, "two")
    git(pod, "remote", "rename", "origin", "upstream")
    git(pod, "remote", "add", "origin", "https://git.example/jdoe/fork")
    if first == "origin":
        git(pod, "remote", "remove", "upstream")
        git(pod, "remote", "add", "upstream", ORIGIN)
    assert launched(read_checkout(laptop, ENV), pod, no_git) == ""


@pytest.mark.parametrize(
    "broken",
    [
        "rm -rf .git", "rm .git/HEAD", "rm .git/config", "rm -rf .git/refs", ": >.git/HEAD", "echo '$(exit 9)`' >.git/HEAD",
        "echo 'ref: refs/heads/none' >.git/HEAD", "rm -rf .git; echo 'gitdir: /no/where' >.git", "rm -rf .git; : >.git",
        "printf 'ref: refs/heads/main' >.git/HEAD; echo '; exit 9' >.git/refs/heads/main", "echo / >.git/commondir",
    ],
)  # fmt: skip
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("image", ["git", "no git"])
def test_a_broken_checkout_is_silent_and_the_run_goes_on(
    laptop: Path, pod: Path, no_git, broken: str, shell: str, image: str
) -> None:
    commit(laptop, "two")
    subprocess.run(["sh", "-c", broken], cwd=pod, check=True)
    assert launched(read_checkout(laptop, ENV), pod, no_git if image == "no git" else ENV, shell) == ""


def test_a_directory_that_is_no_checkout_is_not_read(tmp_path: Path) -> None:
    assert read_checkout(tmp_path, ENV) is None


@pytest.mark.parametrize("why", ["no git", "no origin", "no commit", "broken"])
def test_a_checkout_that_git_cannot_name_is_not_compared(laptop: Path, no_git, why: str) -> None:
    env = no_git if why == "no git" else ENV
    if why == "no origin":
        git(laptop, "remote", "remove", "origin")
    elif why == "no commit":
        git(laptop, "checkout", "-q", "--orphan", "new")
    elif why == "broken":
        (laptop / ".git" / "HEAD").write_text("")
    assert read_checkout(laptop, env) is None


def test_a_git_that_does_not_answer_is_not_waited_for(laptop: Path, no_git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_nrl.commands.local_checkout.PATIENCE", 0.1)
    hanging = Path(no_git["PATH"]) / "git"
    hanging.write_text(f"#!/bin/sh\nexec {shutil.which('sleep')} 3600\n")
    hanging.chmod(0o755)
    assert read_checkout(laptop, no_git) is None


def test_a_program_that_the_checkout_names_is_not_run(laptop: Path) -> None:
    ran = laptop.parent / "ran"
    hook = laptop.parent / "hook"
    hook.write_text(f"#!/bin/sh\n: >'{ran}'\n")
    hook.chmod(0o755)
    git(laptop, "config", "core.fsmonitor", str(hook))
    git(laptop, "status")
    assert ran.exists(), "this git would run it"
    ran.unlink()
    assert read_checkout(laptop, ENV) is not None
    assert not ran.exists()


def test_no_credential_of_the_origin_is_kept(laptop: Path) -> None:
    found = read_checkout(laptop, ENV)
    assert found == Checkout(git(laptop, "rev-parse", "HEAD"), "NVIDIA-NeMo/RL")


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://git.example/org/name.git", "org/name"),
        ("https://git.example/org/name/", "org/name"),
        ("ssh://git@git.example:22/org/name.git/", "org/name"),
        ("git@git.example:org/name.git", "org/name"),
        ("git.example:/org/name", "org/name"),
        ("https://user:pa/ss@git.example/org/name", "org/name"),
        ("https://user:p@ss@git.example/org/name", "org/name"),
        ("https://token@git.example/org/name?private_token=x#y", "org/name"),
        ("/srv/git/org/name.git", "srv/git/org/name"),
        ("file:///srv/git/org/name.git", "srv/git/org/name"),
        ("https://user:pass@git.example", ""),
        ("", ""),
    ],
)
def test_the_urls_of_one_repository_have_one_path(url: str, path: str) -> None:
    assert repository_path(url) == path


@settings(max_examples=60, deadline=None)
@given(
    st.text("ab/:@.?#git-", max_size=20)
    | st.from_regex(r"(https|ssh)://([a-b:]+@)?h(:1)?/[a-b/.]+(git)?", fullmatch=True)
)
@pytest.mark.parametrize("shell", SHELLS)
def test_the_pod_and_this_machine_make_one_path_of_a_url(shell: str, url: str) -> None:
    """The script's own lines from `path=`, run on what git's file would say."""
    lines = _READ_GIT[_READ_GIT.index("path=${url#") :].removesuffix("exec 2>&3")
    text = f'url={shlex.quote(" " + url)}\n{lines}\nprintf %s "$path"'
    done = subprocess.run([str(shutil.which(shell)), "-c", text], capture_output=True, text=True, env=ENV, check=True)
    assert done.stdout == repository_path(url)
