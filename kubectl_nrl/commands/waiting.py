"""A run that waits: who is asked why, how long its start may take, and what happens when that was too long."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode, NrlError
from ..rayjob_state import status_of
from .planning import seconds
from .run_result import RunResult
from .session import Session

if TYPE_CHECKING:
    from ..api import Provider
    from ..watch import End, Follow

Tell = Callable[[Mapping[str, Any]], None]

#: Seconds that the pods of a deleted run get to go before they are named.
GONE = 60.0


class Stuck(NrlError):
    """A start that is given up; `rayjob` is the run as it was seen last, and still there, `pods` are its pods' names."""

    exit_code = ExitCode.GAVE_UP

    def __init__(self, end: End, follow: Follow) -> None:
        super().__init__(end.message)
        self.end, self.rayjob = end, follow.rayjob
        self.pods = sorted(str(pod["metadata"]["name"]) for pod in follow.pods.values())


def add_start_timeout(group: argparse._ArgumentGroup, *, start: str, left: str) -> None:
    """`start`: what may be kept from happening; `left`: what is deleted then."""
    group.add_argument(
        "--start-timeout",
        metavar="SECONDS",
        type=seconds,
        help=f"how long a cause that does not heal alone (an image or Secret that is not there) may keep {start} before "
        f"{left} (900); 0: for ever. Queues and capacity are waited for without a limit, but for --timeout",
    )


def start_limit(args: argparse.Namespace) -> float | None:
    """The flag's seconds, None for ever."""
    from ..watch.start_limit import DEFAULT

    return (float(DEFAULT) if args.start_timeout is None else float(args.start_timeout)) or None


def asked(session: Session) -> tuple[Provider, ...]:
    """All schedulers and drivers: each looks for objects of its own, also for what the infra file did not choose."""
    providers = session.manager.providers
    return (*providers("schedulers").values(), *providers("dra_drivers").values())


def give_up(
    session: Session, cluster: Any, run_id: str, stuck: Stuck, commands: Mapping[str, str], event: Tell
) -> ExitCode:
    """Delete a run that cannot start and see its pods gone; says what was in its way, and what helps."""
    from ..apply import delete_run
    from ..reasons.advice import advice

    output, rayjob, trouble = session.output, stuck.rayjob, stuck.end.trouble
    assert trouble is not None
    name, namespace = str(rayjob["metadata"]["name"]), str(rayjob["metadata"]["namespace"])
    output.error(f"gave up: {stuck.message}", advice(trouble, namespace))
    output.progress(f"deleting rayjob/{name}, so that it holds nothing")
    event({"event": "gave-up", "reason": trouble.reason, "message": trouble.line})
    left: Sequence[str] | None = ()
    try:
        left = delete_run(cluster, rayjob, say=output.progress, within=GONE)
    except KeyboardInterrupt:
        output.error(f"interrupted; rayjob/{name} is being deleted, and its pods may still be there", commands["stop"])
        return ExitCode.INTERRUPTED
    except ClusterError as error:
        output.error(f"rayjob/{name} may still hold what it has: {error.message}", error.hint or commands["stop"])
        left = list(stuck.pods)
    else:
        pods = ", and so are its pods" if left == () else "; its pods cannot be seen" if left is None else ""
        output.progress(f"rayjob/{name} is gone{pods}")
        event({"event": "torn-down"})
    if output.format != "text":
        state = str(status_of(rayjob).get("jobDeploymentStatus") or "Created")
        code = int(ExitCode.GAVE_UP)
        result = RunResult(run_id, rayjob, state, trouble.reason, trouble.line, code, commands, not_gone=left or ())
        output.result(result)
    return ExitCode.GAVE_UP
