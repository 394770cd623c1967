"""The driver's log through everything that a network does, in processes of its own, on fake nodes whose heads run the entrypoint."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster
from command_line import CommandLine, Running

pytestmark = pytest.mark.node

FORWARD = "/portforward"
#: Numbered lines in groups, progress bars and bytes that are no text, until told to stop; the last line has no end.
NUMBERS = """
i=0
while [ ! -e {flag} ]; do
  i=$((i+1)); printf 'line %d\\n' $i
  [ $((i % 10)) -eq 0 ] && printf '%d%%\\r%d%%\\n\\377\\376 no text\\n' $i $i
  sleep 0.02
done
printf 'last words'
"""


@pytest.fixture
def cli(kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path) -> Iterator[CommandLine]:
    yield CommandLine(kwok_cluster, kwok_namespace, tmp_path)


def write(cli: CommandLine, entrypoint: str, **launch: Any) -> Path:
    """The files of a run whose entrypoint goes on until the returned path exists; `{flag}` in it is that path."""
    flag = cli.directory / "stop"
    cli.write(entrypoint.replace("{flag}", str(flag)), codePath="/", **launch)
    return flag


def numbers(data: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"^line (\d+)$", data, re.MULTILINE)]


def grows(running: Running) -> None:
    """Wait until a few more lines were shown."""
    before = len(numbers(running.out_file.read_bytes()))
    running.until(lambda: len(numbers(running.out_file.read_bytes())) > before + 3, "more lines")


def whole(data: bytes) -> None:
    """Every line once, in order, byte by byte."""
    count = numbers(data)[-1]
    expected = b""
    for number in range(1, count + 1):
        expected += b"line %d\n" % number
        if number % 10 == 0:
            expected += b"%d%%\r%d%%\n\xff\xfe no text\n" % (number, number)
    assert data == expected + b"last words"


def cuts(proxy: FaultProxy, running: Running) -> None:
    """Ten cuts, each at another place of what is sent, and each with a working connection between them."""
    places: list[dict[str, Any]] = [
        {"size": 30, "whole": True},  # in the head of the API server's answer to the upgrade
        {"size": 1},  # in the header of the first WebSocket frame
        {"size": 14},  # in the first frame after the greetings
        {"size": 60},  # in the head of Ray's answer
        {"size": 220},  # in the first bytes of the log
        {"size": 1500},  # some polls later, in the middle of a line
    ]
    for place in places:
        rule = proxy.cut_after(path=FORWARD, **place)
        proxy.cut()
        rule.arrived()
        grows(running)
    for status in (500, 503):
        rule = proxy.answer(status, times=2, path=FORWARD)
        proxy.cut()
        rule.arrived(2)
        grows(running)
    proxy.refuse(1.0)
    proxy.cut()
    grows(running)
    proxy.freeze()
    grows(running)


def test_every_line_once_through_ten_cuts_a_killed_program_and_the_end(cli: CommandLine) -> None:
    flag = write(cli, NUMBERS)
    with FaultProxy(cli.cluster.kubeconfig) as proxy:
        through = {"KUBECONFIG": str(proxy.kubeconfig)}
        run = cli.start("run recipe.yaml --infra infra.yaml --run-id cut", **through)
        run.until(lambda: len(numbers(run.out_file.read_bytes())) > 3, "the first lines")
        for _ in range(3):
            proxy.cut()
            grows(run)
        run.process.kill()
        run.process.wait()
        again = cli.start("job logs cut -f", **through)
        grows(again)
        cuts(proxy, again)
        elsewhere = cli.start("job logs cut -f", **cli.elsewhere())
        beside = cli.start("job logs cut -f")
        grows(elsewhere)
        flag.touch()
        for running in (again, elsewhere, beside):
            assert running.end() == 0, running
    log = again.out_file.read_bytes()
    whole(log)
    for running in (elsewhere, beside, cli.run("job logs cut"), cli.run("job logs cut", **cli.elsewhere("third"))):
        assert running.out_file.read_bytes() == log
    killed = run.out_file.read_bytes()
    assert log.startswith(killed)
    folder = cli.directory / ".local/state/kubectl-nrl/runs/cut"
    assert (folder / "driver.log").read_bytes() == log and not (folder / "driver.log.1").exists()
    cli.run("job stop cut")
    cli.pods_become()
    assert cli.run("job logs cut").out_file.read_bytes() == log


def test_a_replaced_head_is_said_and_what_runs_then_is_shown_from_its_start(cli: CommandLine) -> None:
    """KubeRay starts the head anew and submits the driver again; Ray remembers nothing of the first one."""
    flag = write(cli, NUMBERS)
    run = cli.start("run recipe.yaml --infra infra.yaml --run-id replaced")
    grows(run)
    cli.cluster.kubectl("-n", cli.namespace, "delete", "pods", "-l", "ray.io/node-type=head", "--wait=false")
    run.until(lambda: "this is its new log" in run.err, "the driver's second start")
    grows(run)
    flag.touch()
    assert run.end() == 0, run
    assert run.err.count("the head was replaced: Ray's job history and earlier log are lost") == 1
    folder = cli.directory / ".local/state/kubectl-nrl/runs/replaced"
    first, second = ((folder / name).read_bytes() for name in ("driver.log.1", "driver.log"))
    assert run.out_file.read_bytes() == first + second
    whole(second)
    assert numbers(first) == list(range(1, len(numbers(first)) + 1))


#: 300 MB: a line of 10 MB, then many, and a progress bar without a newline at the end.
BIG = r"""
import sys
out = sys.stdout.buffer
out.write(b"x" * 10_000_000 + b"\n")
line = bytes(range(1, 10)) + b"\xff" * 90 + b"\n"
for _ in range(290):
    out.write(line * 10_000)
out.write(b"\r99%" * 100_000)
"""


def digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()


def peak(running: Running) -> int:
    """Wait for its end, which must be good; the most memory it held at once, in bytes.

    The kernel's high-water mark of its own memory: what wait4 tells begins with that of the process which started it.
    """
    most = 0
    while running.process.poll() is None:
        status = Path(f"/proc/{running.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        most = max(most, int(found[1]) * 1024 if found else 0)
        time.sleep(0.02)
    assert running.process.returncode == 0, running.err
    assert most
    return most


def test_a_log_of_any_size_takes_the_same_memory(cli: CommandLine) -> None:
    (cli.directory / "big.py").write_text(BIG)
    flag = write(cli, f"python3 {cli.directory}/big.py; while [ ! -e {{flag}} ]; do sleep 0.1; done")
    size = 10_000_001 + 290 * 10_000 * 100 + 400_000
    run = cli.start("run recipe.yaml --infra infra.yaml --run-id big")
    run.until(lambda: run.out_file.stat().st_size == size, "the whole log")
    flag.touch()
    held = [peak(run)]
    log = digest(run.out_file)
    for line, env in (("", {}), ("", cli.elsewhere()), ("--tail 3", cli.elsewhere()), ("--tail 3", {})):
        again = cli.start(f"job logs big {line}", **env)
        held.append(peak(again))
        if line:
            assert again.out_file.stat().st_size == 2 * 100 + 400_000
        else:
            assert digest(again.out_file) == log
    assert max(held) < 120_000_000, held
