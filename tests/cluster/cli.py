"""What the scripts `up`, `down`, `status`, `env`, `image`, `kuberay`, `kueue` and `build` do."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable

from . import containers, images, lifecycle, machine, processes
from .cache import say
from .errors import CannotRunHere, ClusterError
from .state import DEPTHS, State, state_for


def main(command: str, argv: list[str] | None = None) -> int:
    """Run one script: 0 done, 1 not done (the reason is on stderr), 3 this host cannot run that depth."""
    parser = argparse.ArgumentParser(
        prog=f"tests/cluster/{command}", description=_COMMANDS[command].__doc__, allow_abbrev=False
    )
    parser.add_argument("--depth", choices=DEPTHS, help=_DEPTH_HELP[command])
    parser.add_argument("--state", metavar="DIR", help="keep this cluster in DIR: one more, independent cluster")
    if command == "up":
        parser.add_argument("--without-kuberay", action="store_true", help="stop the operator, or do not start it")
    if command == "kuberay":
        parser.add_argument("action", choices=("stop", "start", "pod"))
    if command == "kueue":
        parser.add_argument("action", choices=("stop", "start"))
    args = parser.parse_args(argv)
    try:
        return _COMMANDS[command](args) or 0
    except CannotRunHere as err:
        say(str(err))
        return 3
    except ClusterError as err:
        say(str(err))
        return 1
    except KeyboardInterrupt:
        return 130


def up(args: argparse.Namespace) -> int:
    """Bring the test cluster up, or what is missing of it."""
    state = state_for(args.depth or "node", args.state)
    lifecycle.up(state, with_kuberay=not args.without_kuberay)
    print(f"export KUBECONFIG={shlex.quote(str(state.kubeconfig))}")
    return 0


def down(args: argparse.Namespace) -> int:
    """Stop the test cluster and remove all it made but its logs and the cache."""
    for state in _chosen(args):
        lifecycle.down(state)
    return 0


def status(args: argparse.Namespace) -> int:
    """Say what runs; 0 when all processes that were started run, 1 otherwise."""
    whole = True
    for state in _chosen(args):
        started = processes.names(state)
        print(f"{state.depth}: {state.root if started else 'down'}")
        for name in started:
            process = processes.running(state, name)
            print(f"  {name:20} {f'pid {process.pid}' if process else f'dead, see {state.logs / name}.log'}")
            whole = whole and process is not None
    owner = machine.owner_of_machine()
    if owner:
        print(f"this machine's node belongs to {owner['checkout']}")
    return 0 if whole else 1


def env(args: argparse.Namespace) -> int:
    """Print the shell line that points kubectl at the test cluster: `eval "$(tests/cluster/env)"`."""
    for depth in [args.depth] if args.depth else ["node", "kwok", "api"]:
        state = state_for(depth, args.state)
        if lifecycle.is_up(state):
            print(f"export KUBECONFIG={shlex.quote(str(state.kubeconfig))}")
            return 0
    raise ClusterError("no test cluster is up; start one with: tests/cluster/up")


def image(args: argparse.Namespace) -> int:
    """Print the name of the Ray image, and give a running node the present content of examples/01-quickstart."""
    state = state_for("node", args.state)
    if lifecycle.is_up(state):
        containers.ensure_image(state, images.ray_image())
    print(images.RAY_IMAGE)
    return 0


def kuberay_(args: argparse.Namespace) -> int:
    """Stop or start the KubeRay operator alone; `pod` runs it in a pod, as users have it."""
    lifecycle.operator(state_for(args.depth or "node", args.state), args.action)
    return 0


def kueue_(args: argparse.Namespace) -> int:
    """Start or stop Kueue: queues with quota for RayJobs; a cluster has none until it is started."""
    lifecycle.queues(state_for(args.depth or "kwok", args.state), args.action)
    return 0


def build(args: argparse.Namespace) -> int:
    """Build every cached piece of a depth and start nothing."""
    if args.depth == "node":
        machine.require_node_host()
    lifecycle.build(args.depth or ("node" if os.geteuid() == 0 else "api"))
    return 0


def _chosen(args: argparse.Namespace) -> list[State]:
    depths = [args.depth] if args.depth else list(DEPTHS)
    if args.state and not args.depth:
        depths = ["api"]
    return [state_for(depth, args.state) for depth in depths]


def script(path: str) -> None:
    """Run the command that a script is named after, and end the process with its exit code."""
    sys.exit(main(os.path.basename(path)))


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "up": up,
    "down": down,
    "status": status,
    "env": env,
    "image": image,
    "kuberay": kuberay_,
    "kueue": kueue_,
    "build": build,
}
_DEPTH_HELP = {
    "up": "api: etcd, API server, CRDs; kwok: and KubeRay, fake nodes; node (default): a real node and real pods",
    "down": "only that one (default: all of this checkout)",
    "status": "only that one",
    "env": "that one (default: the deepest that is up)",
    "image": argparse.SUPPRESS,
    "kuberay": "of that cluster (default: node)",
    "kueue": "of that cluster (default: kwok)",
    "build": "for that one (default: node, without root: api)",
}
