"""The fault proxy by hand: it prints its kubeconfig and takes faults as lines of standard input."""

from __future__ import annotations

import argparse
import shlex
import sys

from . import lifecycle
from .errors import ClusterError
from .fault_proxy import FaultProxy
from .state import DEPTHS, state_for

USAGE = (
    "cut | cut-after BYTES [PATH] | refuse [SECONDS] | freeze | allow | answer STATUS [METHOD [PATH]] | "
    "latency SECONDS [PATH] | clear | seen"
)


def main(argv: list[str] | None = None) -> int:
    """Run the proxy until standard input ends."""
    parser = argparse.ArgumentParser(prog="tests/cluster/fault-proxy", description=__doc__, epilog=f"lines: {USAGE}")
    parser.add_argument("--kubeconfig", help="of the cluster behind it (default: the test cluster that is up)")
    args = parser.parse_args(argv)
    kubeconfig = args.kubeconfig
    if not kubeconfig:
        states = [state for depth in reversed(DEPTHS) if lifecycle.is_up(state := state_for(depth))]
        if not states:
            raise ClusterError("no test cluster is up; start one with tests/cluster/up, or give --kubeconfig")
        kubeconfig = states[0].kubeconfig
    with FaultProxy(kubeconfig) as proxy:
        print(f"export KUBECONFIG={shlex.quote(str(proxy.kubeconfig))}", flush=True)
        for line in sys.stdin:
            try:
                obey(proxy, line.split())
            except (ValueError, TypeError, IndexError):
                print(f"one of: {USAGE}", file=sys.stderr)
    return 0


def obey(proxy: FaultProxy, words: list[str]) -> None:
    """Do what one line says; raises ValueError, TypeError or IndexError for a line that is none."""
    match words:
        case []:
            pass
        case ["cut"]:
            print(f"cut {proxy.cut()} connections")
        case ["cut-after", size, *path]:
            proxy.cut_after(int(size), path=" ".join(path))
        case ["refuse"]:
            proxy.refuse()
        case ["refuse", seconds]:
            proxy.refuse(float(seconds))
        case ["allow"]:
            proxy.allow()
        case ["freeze"]:
            proxy.freeze()
        case ["answer", status]:
            proxy.answer(int(status))
        case ["answer", status, method, *path]:
            proxy.answer(int(status), method=method, path=" ".join(path))
        case ["latency", seconds, *path]:
            proxy.latency(float(seconds), path=" ".join(path))
        case ["clear"]:
            proxy.clear()
        case ["seen"]:
            for seen in proxy.seen:
                print(seen.status, seen.method, seen.target)
        case _:
            raise ValueError(words)
