"""The closing line of tests/run: what may never be hidden by a green total."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tally import main

CASES = {
    "passes": "<testcase classname='t' name='a'/>",
    "fails": "<testcase classname='t' name='b'><failure>no</failure></testcase>",
    "breaks": "<testcase classname='t' name='c'><error>setup</error></testcase>",
    "skips": "<testcase classname='t' name='d'><skipped>why</skipped></testcase>",
}


def suite(directory: Path, name: str, status: int, *cases: str) -> None:
    (directory / f"{name}.suite").write_text(str(status))
    body = "".join(CASES[case] for case in cases)
    (directory / f"{name}.xml").write_text(f"<testsuites><testsuite>{body}</testsuite></testsuites>")


def closing(directory: Path, capsys: pytest.CaptureFixture[str], *, ci: bool = False) -> tuple[int, str]:
    code = main(directory, ci=ci)
    return code, capsys.readouterr().out.splitlines()[-1]


def test_every_test_and_every_tool_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite(tmp_path, "fast", 0, "passes", "passes", "skips")
    (tmp_path / "mypy.tool").write_text("0\n")
    assert closing(tmp_path, capsys) == (0, "3 passed, 0 failed, 1 skipped")


@pytest.mark.parametrize("case", ["fails", "breaks"])
def test_a_failure_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    suite(tmp_path, "fast", 1, "passes", case)
    (tmp_path / "mypy.tool").write_text("0\n")
    assert closing(tmp_path, capsys) == (1, "2 passed, 1 failed")


def test_a_tool_that_fails_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite(tmp_path, "fast", 0, "passes")
    (tmp_path / "mypy.tool").write_text("2\n")
    assert closing(tmp_path, capsys) == (1, "1 passed, 1 failed")


@pytest.mark.parametrize("status", [2, 3, 4, 5, -9, 130])
def test_a_suite_that_ended_badly_without_a_failed_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    suite(tmp_path, "fast", status, "passes")
    assert closing(tmp_path, capsys) == (1, "1 passed, 1 failed")
    (tmp_path / "fast.xml").unlink()
    assert closing(tmp_path, capsys) == (1, "0 passed, 1 failed")


@pytest.mark.parametrize("name", ["api", "node"])
def test_a_skipped_cluster_test_is_a_failure_in_ci_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    suite(tmp_path, name, 0, "passes", "skips")
    assert closing(tmp_path, capsys, ci=True) == (1, "1 passed, 1 failed")
    assert closing(tmp_path, capsys, ci=False) == (0, "1 passed, 0 failed, 1 skipped")


def test_nothing_run_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert closing(tmp_path, capsys) == (1, "0 passed, 0 failed")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nod"], 'unrecognized argument "--nod"'),
        (["--e2e"], "--e2e needs --kubeconfig and --ray-image"),
        (["--kubeconfig", "x"], "--kubeconfig and --ray-image go with --e2e"),
        (["--e2e", "--kubeconfig", "/absent", "--ray-image=i"], "no such file: /absent"),
        (["--ray-image"], "--ray-image needs a value"),
    ],
)
def test_a_wrong_command_line_starts_nothing(words: list[str], said: str) -> None:
    done = subprocess.run(["tests/run", *words], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


ROOT = Path(__file__).parents[2]
