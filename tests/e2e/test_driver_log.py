"""The driver's log through everything that a network does, in processes of its own, on fake nodes whose heads run the entrypoint."""

from __future__ import annotations

import re
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
