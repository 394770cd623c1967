"""The launch script: run by real shells, because only they decide what a line means."""

from __future__ import annotations

import base64
import gzip
import os
import shlex
import shutil
import signal
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_nrl import script

BASH = shutil.which("bash")


def run(line, *, env=None, shell="/bin/sh", timeout=60):
    """Run one line as Ray's dashboard agent does: through a shell, with its output kept."""
    return subprocess.run(
        [shell, "-c", line],
        capture_output=True,
        env={"PATH": os.environ["PATH"], **(env or {})},
        timeout=timeout,
        check=False,
    )


def line(entrypoint, **kwargs):
    kwargs.setdefault("run_id", "r-1")
    kwargs.setdefault("recipe", "a: 1\n")
    return script.encoded_line(kwargs["run_id"], script.launch_script(entrypoint, **kwargs))


def through_ray_job_submit(text):
    """The line after KubeRay pasted it into a submitter's bash and `ray job submit` joined its words again."""
    words = (
        subprocess.run([BASH, "-c", f"printf '%s\\0' {text} ;"], capture_output=True, check=True)
        .stdout.decode()
        .split("\0")[:-1]
    )
    return subprocess.list2cmdline(words)


AWKWARD = r"""
x='a "quoted" $HOME `date` \\ é'
[[ -n "$x" ]] && arr=(1 2 3)
printf '%s|%s|%s\n' "$x" "${#arr[@]}" '${NOT}'
"""


@pytest.mark.parametrize("path", ["direct", "submitter"])
def test_quotes_newlines_and_dollars_mean_the_same_on_every_path(path):
    text = line(AWKWARD)
    got = run(through_ray_job_submit(text) if path == "submitter" else text)
    assert got.stdout.decode() == 'a "quoted" $HOME `date` \\\\ é|3|${NOT}\n', got.stderr


def test_the_line_has_no_character_that_a_second_shell_would_touch():
    inner = line(AWKWARD)[len("sh -c '") : -1]
    assert not set(inner) & set("$`\"'\\\n")


@pytest.mark.parametrize("code", [0, 1, 3, 42, 255])
def test_the_exit_status_is_the_entrypoints(code):
    assert run(line(f"exit {code}")).returncode == code


def test_a_failing_driver_piped_into_tee_fails():
    assert run(line("sh -c 'exit 3' | tee /dev/null")).returncode == 3


def test_set_plus_o_pipefail_undoes_it():
    assert run(line("set +o pipefail\nsh -c 'exit 3' | tee /dev/null")).returncode == 0


def test_crlf_is_normalised():
    assert run(line("set -eu\r\necho one\r\necho two\r\n")).stdout == b"one\ntwo\n"


def test_the_recipe_is_where_nrl_recipe_points():
    got = run(line('cat "$NRL_RECIPE"', recipe="lr: 1e-4\nname: ${oc.env:HOME}\n"))
    assert got.stdout.decode() == "lr: 1e-4\nname: ${oc.env:HOME}\n"


def test_run_id_and_submission_id_are_exported_and_rays_own_id_is_kept():
    text = line('echo "$NRL_K8S_RUN_ID $RAY_JOB_SUBMISSION_ID"')
    assert run(text).stdout == b"r-1 r-1\n"
    assert run(text, env={"RAY_JOB_SUBMISSION_ID": "ray"}).stdout == b"r-1 ray\n"


def test_launch_env_reaches_the_entrypoint_whatever_it_holds():
    value = "a b'c\"d$e`f`\\g\nh"
    got = run(line('printf %s "$V"', env={"V": value}))
    assert got.stdout.decode() == value


def test_a_missing_working_directory_is_named_and_nothing_runs():
    got = run(line("echo ran", working_dir="/no/such dir"))
    assert got.returncode == 1 and b"ran" not in got.stdout
    assert b"/no/such dir (launch.codePath) does not exist" in got.stderr


def test_a_working_directory_that_is_a_file_is_not_called_missing(tmp_path):
    (tmp_path / "code").write_text("")
    got = run(line("echo ran", working_dir=str(tmp_path / "code")))
    assert got.returncode == 1 and b"ran" not in got.stdout
    assert b"(launch.codePath) is no directory, or one that the user of this container may not enter" in got.stderr


def test_the_entrypoint_starts_in_its_working_directory(tmp_path):
    assert run(line("pwd -P", working_dir=str(tmp_path))).stdout.decode().strip() == str(tmp_path.resolve())


def test_nothing_stays_in_the_temporary_directory(tmp_path):
    run(line("exit 3"), env={"TMPDIR": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


def test_an_image_that_cannot_unpack_fails_instead_of_succeeding_with_nothing_run(tmp_path):
    for tool in ("sh", "base64", "echo"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    got = subprocess.run(
        ["/bin/sh", "-c", line("echo ran")], capture_output=True, env={"PATH": str(tmp_path)}, check=False
    )
    assert got.returncode == script.NOT_UNPACKED and got.stdout == b""


def without_bash(tmp_path):
    for tool in ("sh", "base64", "gzip", "mktemp", "cat", "rm", "echo", "tee"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    return {"PATH": str(tmp_path)}


def test_an_image_without_bash_runs_under_sh_and_a_pipe_draws_a_warning(tmp_path):
    got = subprocess.run(
        ["/bin/sh", "-c", line("echo hi | cat")], capture_output=True, env=without_bash(tmp_path), check=False
    )
    assert got.stdout == b"hi\n" and b"no bash" in got.stderr


def test_an_image_without_bash_and_an_entrypoint_without_a_pipe_is_no_news(tmp_path):
    got = subprocess.run(
        ["/bin/sh", "-c", line("echo hi")], capture_output=True, env=without_bash(tmp_path), check=False
    )
    assert got.stdout == b"hi\n" and got.stderr == b""


def test_the_log_file_gets_every_byte_and_the_status_stays(tmp_path):
    log = tmp_path / "deep er" / "run.log"
    got = run(line("echo out; echo err >&2; printf '\\377'; exit 3", log_file=str(log)))
    assert got.returncode == 3
    assert log.read_bytes() == b"out\nerr\n\xff" == got.stdout


def test_a_log_file_that_cannot_be_written_stops_nothing():
    got = run(line("echo out; exit 3", log_file="/proc/none/run.log"))
    assert (got.returncode, got.stdout) == (3, b"out\n") and b"cannot write /proc/none/run.log" in got.stderr


def test_a_background_child_does_not_keep_a_logged_run_from_ending(tmp_path):
    child = tmp_path / "pid"
    entrypoint = f"sleep 3600 & echo $! >{shlex.quote(str(child))}; echo done"
    words = line(entrypoint, log_file=str(tmp_path / "l")) + " >" + shlex.quote(str(tmp_path / "o"))
    try:
        got = subprocess.run(["/bin/sh", "-c", words], check=False, timeout=60)
    finally:
        os.kill(int(child.read_text()), signal.SIGKILL)
    assert got.returncode == 0
    assert (tmp_path / "o").read_bytes() == b"done\n"


def test_the_entrypoint_reads_no_standard_input_that_would_eat_the_script():
    assert run(line("cat; echo end")).stdout == b"end\n"


def test_a_line_can_be_decoded_again():
    text = script.launch_script("echo hi", run_id="x", recipe="a: 1\n")
    assert script.decode(script.encoded_line("x", text)) == text
    assert script.decode("python train.py") is None


def test_the_same_script_gives_the_same_line():
    assert line("echo hi") == line("echo hi")


def test_a_syntax_error_names_the_entrypoints_own_line():
    got = run(line("echo one\nif then\n"))
    assert got.returncode != 0 and b"entrypoint.sh: line 2" in got.stderr


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=40))
def test_any_text_printed_by_the_entrypoint_comes_through(text):
    assert run(line(f"printf %s {shlex.quote(text)}")).stdout.decode() == text


def encoded(data: bytes) -> str:
    return f"sh -c ': nrl r-1; (echo {base64.b64encode(data).decode()} | base64 -d | gzip -dc; echo exit 97) | sh'"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no gzip",
        gzip.compress(b"x")[:-9],
        gzip.compress(b"\xff\xfe"),
        gzip.compress(bytes(range(200)))[:20] + b"\xff" * 20 + gzip.compress(bytes(range(200)))[40:],
    ],
    ids=["empty", "other", "cut", "no text", "damaged"],
)
def test_a_line_that_holds_no_script_is_none_of_ours(data: bytes) -> None:
    assert script.decode(encoded(data)) is None


@given(st.binary(max_size=200))
def test_whatever_bytes_stand_in_a_line_are_read_without_a_fault(data: bytes) -> None:
    assert script.decode(encoded(data)) is None or data


def test_a_line_that_would_fill_the_memory_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "UNPACKED_MAX", 1000)
    assert script.decode(encoded(gzip.compress(b"x" * 1000))) == "x" * 1000
    assert script.decode(encoded(gzip.compress(b"x" * 1001))) is None
