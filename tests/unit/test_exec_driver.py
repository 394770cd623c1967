"""A driver on a head, with the shell program really run: started once, whatever breaks, and its end and log known."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from head_shell import HeadShell, ended, shells, until, whole_log
from waiting import PATIENCE

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.exec_jobs import HeadDriver, head_driver
from kubectl_nrl.script import launch_script


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_driver, "PAUSE", 0.0)


@pytest.fixture(params=shells())
def any_head(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[HeadShell]:
    made = HeadShell(tmp_path, request.param)
    yield made
    made.close()


@pytest.fixture
def head(tmp_path: Path) -> Iterator[HeadShell]:
    made = HeadShell(tmp_path)
    yield made
    made.close()


def folder_of(driver: HeadDriver) -> Path:
    return Path(driver._directory)


def pid_of(driver: HeadDriver, who: str) -> int:
    """The process behind a link, which is there soon after the start."""
    link = folder_of(driver) / who
    until(driver, lambda _: link.is_symlink())
    return int(os.readlink(link).partition("-")[0])


@pytest.mark.parametrize(("ends", "status", "said"), [
    ("exit 0", "SUCCEEDED", ""),
    ("exit 3", "FAILED", "the driver ended with exit status 3"),
    ("kill -9 $$", "FAILED", "SIGKILL, perhaps by the system, out of memory"),
])  # fmt: skip
def test_how_it_ended_is_known(any_head: HeadShell, ends: str, status: str, said: str) -> None:
    driver = any_head.driver()
    driver.start(f"echo out; echo err >&2; {ends}\n", "mark")
    answer = ended(driver)
    assert (answer.word, answer.status) == ("ended", status)
    assert said in answer.message
    assert whole_log(driver).startswith(b"out\nerr\n")
    assert answer.ended is not None


def test_the_driver_gets_the_containers_environment_and_directory_and_no_input(head: HeadShell) -> None:
    driver = head.driver()
    driver.start('echo "$RAY_ADDRESS $PYTHONUNBUFFERED $PWD"; cat; echo end\n', "mark")
    ended(driver)
    assert whole_log(driver).decode() == f"auto 1 {head.folder}\nend\n"


def test_the_drivers_files_are_closed_to_other_users(head: HeadShell) -> None:
    driver = head.driver()
    driver.start("umask\n", "mark")
    ended(driver)
    assert folder_of(driver).stat().st_mode & 0o777 == 0o700
    assert whole_log(driver).decode().strip() == f"{current_umask():04o}"


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_real_launch_script_runs_where_there_is_no_bash(any_head: HeadShell) -> None:
    driver = any_head.driver()
    driver.start(launch_script('echo "$NRL_K8S_RUN_ID"; cat $NRL_RECIPE', run_id="r1", recipe="a: 1\n"), "mark")
    answer = ended(driver)
    if any_head.shell != "bash":
        assert not (any_head.programs / "bash").exists()
    assert (answer.status, whole_log(driver)) == ("SUCCEEDED", b"r1\na: 1\n")


def test_a_start_that_breaks_off_at_any_byte_starts_once(head: HeadShell) -> None:
    script = "echo ran\n"
    size = (Path(head_driver.__file__).with_name("driver.sh")).stat().st_size + len(script)
    for number, cut in enumerate((0, 1, 4096, size - len(script), size - 1)):
        driver = head.driver(f"cut-{number}")
        head.cuts = [cut]
        driver.start(script, "mark")
        ended(driver)
        assert whole_log(driver) == b"ran\n", cut
        assert not list(folder_of(driver).glob(".in*")), cut


def test_a_start_whose_answer_is_lost_is_asked_for_and_not_done_again(head: HeadShell) -> None:
    driver = head.driver()
    head.lost = 2
    driver.start("echo ran\n", "mark")
    ended(driver)
    assert driver.start("echo ran\n", "mark").word == "ended"
    assert whole_log(driver) == b"ran\n"


def test_starts_at_the_same_time_make_one_driver(any_head: HeadShell) -> None:
    driver = any_head.driver()
    threads = [threading.Thread(target=driver.start, args=("echo ran\n", "mark")) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended(driver)
    assert whole_log(driver) == b"ran\n"


def test_an_unknown_outcome_is_raised_as_such(head: HeadShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_driver, "PATIENCE", -1.0)
    head.lost = 1
    with pytest.raises(ClusterError) as caught:
        head.driver().start("echo ran\n", "mark")
    assert caught.value.reason == "ConnectionLost"


def test_a_directory_that_another_submission_has_is_left_alone(head: HeadShell) -> None:
    driver = head.driver()
    driver.start("echo first\n", "mark")
    with pytest.raises(ClusterError, match="holds a driver already") as caught:
        driver.start("echo second\n", "other")
    assert caught.value.reason == "AlreadyExists"
    ended(driver)
    assert whole_log(driver) == b"first\n"


def test_a_directory_that_cannot_be_made_is_said(head: HeadShell) -> None:
    (head.folder / "a 'b' [c]").write_text("a file")
    with pytest.raises(ClusterError, match=r"cannot write to .* on the head: .*nothing was started") as caught:
        head.driver().start("echo ran\n", "mark")
    assert "submit.execTmpDir" in caught.value.hint
    (head.folder / "a 'b' [c]").unlink()


def test_a_disk_without_room_starts_nothing(head: HeadShell) -> None:
    head.full = True
    driver = head.driver()
    with pytest.raises(ClusterError, match="cannot write to") as caught:
        driver.start("echo ran\n", "mark")
    assert caught.value.reason == "NotStaged"
    head.full = False
    assert driver.look().word == "absent"
    driver.start("echo ran\n", "mark")
    ended(driver)
    assert whole_log(driver) == b"ran\n"


@pytest.mark.parametrize("shell", shells())
def test_python_stands_in_for_setsid(tmp_path: Path, shell: str) -> None:
    head = HeadShell(tmp_path, shell, without=("setsid",))
    head.add_python()
    driver = head.driver()
    driver.start("kill -INT $$; sleep 5; exit 4\n", "mark")
    answer = ended(driver)
    assert (answer.exit_status, answer.word) == (130, "ended")
    head.close()


def test_without_setsid_and_python_nothing_is_started(tmp_path: Path) -> None:
    head = HeadShell(tmp_path, without=("setsid",))
    with pytest.raises(ClusterError, match="no setsid and no python3"):
        head.driver().start("echo ran\n", "mark")


def test_the_sum_is_not_needed(tmp_path: Path) -> None:
    head = HeadShell(tmp_path, without=("sha256sum",))
    driver = head.driver()
    head.cuts = [100]
    driver.start("echo ran\n", "mark")
    ended(driver)
    assert whole_log(driver) == b"ran\n"


def test_the_driver_hears_an_interrupt(any_head: HeadShell) -> None:
    """A shell's background commands ignore it, and what they start does, too."""
    any_head.add_python()
    driver = any_head.driver()
    driver.start("kill -INT $$; sleep 5; exit 4\n", "mark")
    assert ended(driver).exit_status == 130


def test_a_killed_keeper_leaves_the_driver_running_and_no_exit_status(any_head: HeadShell) -> None:
    driver = any_head.driver()
    driver.start("sleep 300\n", "mark")
    pid = pid_of(driver, "driver")
    os.kill(pid_of(driver, "keeper"), signal.SIGKILL)
    assert driver.look().status == "RUNNING"
    os.killpg(pid, signal.SIGKILL)
    answer = ended(driver)
    assert (answer.word, answer.status) == ("gone", "FAILED")
    assert "left no exit status" in answer.message


def unended(head: HeadShell) -> tuple[HeadDriver, Path]:
    """A driver that is gone, with its directory as it was before its keeper wrote down the end."""
    driver = head.driver()
    driver.start("exit 0\n", "mark")
    ended(driver)
    folder = folder_of(driver)
    (found,) = folder.glob("ended.*")
    found.rename(folder / "alive")
    return driver, folder


def test_a_driver_of_a_container_that_was_started_anew_went_with_it(head: HeadShell) -> None:
    driver, folder = unended(head)
    (folder / "life").unlink()
    (folder / "life").symlink_to("another-life")
    answer = driver.look()
    assert (answer.word, answer.status) == ("restarted", "FAILED")
    assert "started anew" in answer.message


def test_another_process_with_the_same_number_is_not_the_driver(head: HeadShell) -> None:
    driver, folder = unended(head)
    for link in ("keeper", "driver"):
        (folder / link).unlink()
        (folder / link).symlink_to(f"{os.getpid()}-1")
    assert driver.look().word == "gone"
    assert driver.stop(grace=0).word == "gone"  # and this very process lives


def test_a_head_without_the_driver_says_so(any_head: HeadShell) -> None:
    answer = any_head.driver("nobody").look()
    assert (answer.word, answer.status) == ("absent", "UNKNOWN")


def test_every_byte_of_the_log_is_read_once_from_any_offset(any_head: HeadShell) -> None:
    noise = random.Random(7).randbytes(700_001)
    (any_head.folder / "noise").write_bytes(noise)
    driver = any_head.driver()
    driver.start("cat noise; printf end\n", "mark")
    ended(driver)
    whole = noise + b"end"
    assert hashlib.sha256(whole_log(driver)).digest() == hashlib.sha256(whole).digest()
    for offset in (1, 65535, 65536, 65537, len(whole) - 1, len(whole)):
        assert driver.read(offset).log == whole[offset:], offset


def test_an_answer_holds_a_part_of_a_long_log(head: HeadShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_driver, "BLOCKS", 1)
    noise = random.Random(8).randbytes(200_000)
    (head.folder / "noise").write_bytes(noise)
    driver = head.driver()
    driver.start("cat noise\n", "mark")
    ended(driver)
    assert len(driver.read(0).log) == 65536
    assert whole_log(driver) == noise


def test_a_log_that_is_shorter_than_what_was_read_is_another_one(head: HeadShell) -> None:
    driver = head.driver()
    driver.start("echo x\n", "mark")
    ended(driver)
    with pytest.raises(ClusterError) as caught:
        driver.read(100)
    assert caught.value.reason == "LogReplaced"


def test_a_reader_is_told_of_news_while_it_waits(any_head: HeadShell) -> None:
    os.mkfifo(any_head.folder / "gate")
    driver = any_head.driver()
    driver.start("cat gate; exit 6\n", "mark")
    told: list[Any] = []
    reader = threading.Thread(target=lambda: told.append(driver.read(0, wait=600.0)))
    reader.start()
    (any_head.folder / "gate").write_text("news\n")
    reader.join(PATIENCE)
    assert (told[0].log, reader.is_alive()) == (b"news\n", False)


STUBBORN = """\
trap '' TERM
(setsid sleep 301 &)
(exec env -i sleep 302 &)
setsid sh -c 'trap "" TERM; sleep 303; sleep 304' &
while :; do sleep 305; done
"""


@pytest.mark.parametrize("grace", [0.0, 0.4])
def test_a_stop_ends_all_that_it_started_and_returns_when_it_is_true(any_head: HeadShell, grace: float) -> None:
    driver = any_head.driver()
    driver.start(STUBBORN.replace("env -i sleep", f"env -i {any_head.programs}/sleep"), "mark")
    pid = pid_of(driver, "driver")
    until(driver, lambda _: len(living(any_head)) >= 7)
    answer = driver.stop(grace=grace)
    assert (answer.word, answer.status, answer.left) == ("ended", "STOPPED", ())
    assert not Path(f"/proc/{pid}").exists()
    assert living(any_head) == []


def living(head: HeadShell) -> list[str]:
    """Everything that was started in this head and lives."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.readlink() == head.folder:
                found.append(link.parent.name)
        except OSError:
            continue
    return found


def test_a_driver_may_say_its_last_words(any_head: HeadShell) -> None:
    driver = any_head.driver()
    driver.start("trap 'sleep 0.5; echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done\n", "mark")
    until(driver, lambda answer: answer.size > 0)
    assert driver.stop().status == "STOPPED"
    assert whole_log(driver).endswith(b"bye\n")


def test_a_shell_that_is_stopped_does_not_go_on_to_its_next_command(any_head: HeadShell) -> None:
    driver = any_head.driver()
    driver.start("echo up; sleep 300; echo next\n", "mark")
    until(driver, lambda answer: answer.size > 0)
    driver.stop()
    assert b"next" not in whole_log(driver)


def test_a_driver_that_is_only_starting_is_stopped_too(head: HeadShell) -> None:
    driver = head.driver()
    driver.start("sleep 300\n", "mark")
    assert driver.stop().status == "STOPPED"


def test_what_outlives_a_driver_is_named_and_can_be_ended(any_head: HeadShell) -> None:
    driver = any_head.driver()
    driver.start("setsid sleep 301 & exit 0\n", "mark")
    # A process has no environment for the moment in which it becomes another program.
    answer = until(driver, lambda answer: not answer.live and bool(answer.left))
    assert (answer.status, len(answer.left)) == ("SUCCEEDED", 1)
    assert "1 of the processes that it started still run" in answer.message
    answer = driver.stop()
    assert (answer.status, answer.left, living(any_head)) == ("SUCCEEDED", (), [])


def test_rays_workers_are_rays_to_end(any_head: HeadShell) -> None:
    """NeMo-RL hands the driver's whole environment to them."""
    shutil.copy("/bin/sh", any_head.folder / "raylet")
    driver = any_head.driver()
    driver.start("setsid ./raylet -c 'sleep 301 & echo $!; wait' & exit 0\n", "mark")
    answer = until(driver, lambda answer: not answer.live and answer.size > 0)
    worker = int(whole_log(driver))
    assert len(answer.left) == 1 and worker not in answer.left
    os.kill(worker, signal.SIGKILL)


def test_a_stop_of_a_driver_that_has_ended_changes_nothing(head: HeadShell) -> None:
    driver = head.driver()
    driver.start("exit 3\n", "mark")
    ended(driver)
    assert driver.stop().exit_status == 3
    assert driver.look().status == "FAILED"


def test_runs_whose_ids_begin_alike_are_told_apart(head: HeadShell) -> None:
    first, second = head.driver("run"), head.driver("run-2")
    first.start("sleep 300\n", "a")
    second.start("sleep 300\n", "b")
    pid_of(second, "driver")
    first.stop(grace=0)
    assert (first.look().status, second.look().status) == ("STOPPED", "RUNNING")
