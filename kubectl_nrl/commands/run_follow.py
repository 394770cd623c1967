"""Stays with a run to its end: shows what happens, reads the log, says the result, sees to it that the workers go.

The result is said before anything slow is waited for; Ctrl-C leaves the run alone and says how to come back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode
from ..rayjob_state import STOPPED, Outcome, describe, parse_time, status_of
from .connecting import note_wandb, paste, ray_connector
from .log_reading import driver_log
from .run_deleted import see_deleted
from .run_failure import of_rayjob
from .run_launch import commands_for, say_left_alone
from .run_panel import RunPanel
from .run_result import Held, LogFacts, RunResult
from .session import Session
from .waiting import Stuck, asked, give_up

if TYPE_CHECKING:
    from ..plan import Plan
    from ..watch import End, Follow, LogEnd

#: Seconds that the workers of a finished run get to go before what holds them is named.
WORKERS = 60.0
#: Seconds without a byte after which the rest of a log is given up: on a head that stays, and on one that goes at once.
REST_KEPT, REST_GOING = 30.0, 5.0
#: Seconds that the result waits for the log's last bytes.
RESULT_WITHIN = 0.7

Tell = Callable[[Mapping[str, Any]], None]


class Attending:
    """One run that this call created, attended to its end."""

    def __init__(
        self, session: Session, cluster: Any, plan: Plan, rayjob: dict[str, Any], event: Tell, start_limit: float | None,
        *, resume: str = "",
    ) -> None:  # fmt: skip
        """`resume` is the command that submits what this machine did not; empty for a run that is submitted."""
        from ..watch import Follow, RunTarget

        self._session, self._cluster, self._plan, self._event = session, cluster, plan, event
        self._created, self._resume = rayjob, resume
        self._wandb = ""
        self._outcome: Outcome | None = None
        #: The run's pods (uids) at its end, and whether their claims are to be waited for.
        self._pods: frozenset[str] = frozenset()
        self._claims = _claims(plan)
        meta = rayjob["metadata"]
        kept = plan.lifetime.head_kept or plan.lifetime.form == "keep" or bool(plan.lifetime.workers_after)
        self._rest = REST_KEPT if kept else REST_GOING
        self._log, self._path = driver_log(
            session,
            ray_connector(cluster, plan.namespace),
            plan.run.id,
            wandb=self._on_wandb,
            poll=0.5 if kept else 0.25,
        )
        self._panel = RunPanel(session, f"rayjob/{meta['name']}", session.output.progress)
        self._follow: Follow = Follow(
            cluster,
            RunTarget(plan.namespace, meta["name"], meta["uid"], plan.run.id),
            say=self._panel.say,
            warn=session.output.warn,
            event=event,
            view=self._panel.view,
            shown=lambda: self._panel.shown,
            log=self._log,
            providers=asked(session),
            start_limit=start_limit,
        )

    def to_the_end(self, timeout: float) -> ExitCode | int:
        """Attend until the end, `timeout` seconds at most; the exit code of the run, or of why it is not known."""
        try:
            end = self._follow.until_final(timeout)
            if end.how == "final" and end.outcome is not None:
                return self._finish(end.outcome)
            if end.how == "stuck":
                commands = commands_for(self._session, self._plan.namespace, self._plan.run.id)
                self._panel.close(keep=True)
                stuck = Stuck(end, self._follow)
                return give_up(self._session, self._cluster, self._plan.run.id, stuck, commands, self._event)
            return self._deleted(end) if end.how == "deleted" else self._not_the_end(end)
        except (KeyboardInterrupt, BrokenPipeError) as error:
            self._panel.close(keep=True)
            interrupted = isinstance(error, KeyboardInterrupt)
            why = "interrupted" if interrupted else "nobody reads the output any more"
            how = f"the run is over ({self._outcome.words})" if self._outcome else self._goes_on
            self._say_left_alone(f"{why}; {how}")
            if not interrupted:
                raise
            return ExitCode.INTERRUPTED
        finally:
            self._panel.close()
            self._log.stop()
            self._follow.close()

    def _finish(self, outcome: Outcome) -> int:
        output, self._outcome = self._session.output, outcome
        self._panel.close()
        self._pods = frozenset(self._follow.pods)
        self._log.finish(self._rest)
        self._event({"event": "final", "state": outcome.state, "reason": outcome.reason})
        end = self._log.join(RESULT_WITHIN)
        result = self._result(outcome, end)
        output.plain(result.text())
        end = end or self._log.to_the_end()
        if self._log.failure is not None:
            raise self._log.failure
        if not end.complete and (end.bytes or outcome.exit_code != ExitCode.CLUSTER):
            output.warn(f"the end of the driver's log may be missing here ({end.bytes} bytes were read): {end.why}")
        left = self._left_behind(outcome)
        # Last, where it is seen, and because by now every death of a worker has arrived.
        log, died = self._path if end.bytes and not self._log.copy_lost else "", self._follow.deaths()
        failure = of_rayjob(self._session, outcome, status_of(self._follow.rayjob), log, died)
        if failure:
            output.plain(failure.text())
        if output.format != "text":
            output.result(replace(self._result(outcome, end, left), failure=failure))
        return int(outcome.exit_code)

    def _left_behind(self, outcome: Outcome) -> list[str]:
        """What stays of what the end takes away (pods, claims). An API server that is away now changes no result."""
        try:
            return self._see_them_go(outcome)
        except ClusterError as error:
            output = self._session.output
            output.warn(f"whether the run gave everything back could not be seen to the end: {error.message}")
            output.hint(paste(self._session, self._plan.namespace, "status", self._plan.run.id))
            return sorted(str(pod["metadata"]["name"]) for pod in self._follow.pods.values())

    def _see_them_go(self, outcome: Outcome) -> list[str]:
        """Wait for what the end takes away, releasing a stopped run, which no rule matches; what stays (pods, claims)."""
        from ..apply import holders, take_children, wait_for_claims

        lifetime, output = self._plan.lifetime, self._session.output
        unmatched = outcome.state == STOPPED and lifetime.form == "rules"
        held = lifetime.workers_after and not unmatched
        if lifetime.form == "keep" or held or self._nothing_ends_it(outcome) or not self._follow.ray_cluster:
            return []
        whole = outcome.state == STOPPED or not lifetime.head_kept
        if unmatched:
            if lifetime.workers_after:
                output.warn(
                    "no deletion rule of KubeRay would end the hold of a stopped run (--hold): it is released now"
                )
            self._release()
        left: Sequence[Mapping[str, Any]] | None = self._follow.until_gone(WORKERS, head_too=whole)
        if left == [] and self._claims:
            try:
                left = wait_for_claims(self._cluster, self._plan.namespace, self._pods, WORKERS, output.progress)
            except ClusterError as error:
                output.warn(f"its pods are gone; whether their claims are is not known: {error.message}")
                return []
        if left is None:
            output.warn(f"whether its {'pods' if whole else 'workers'} are gone is not known: they cannot be seen")
            return []
        for holder in holders(self._cluster, self._plan.namespace, self._follow.ray_cluster, left):
            output.warn(f"after {WORKERS:.0f} s {holder.words}")
            output.hint(holder.look)
        if not left:
            output.progress("all pods are gone" if whole else "the workers are gone")
            if len(self._plan.objects) > 1:
                take_children(self._cluster, self._follow.rayjob, output.warn)
            self._event({"event": "torn-down"})
        return [str(thing["metadata"]["name"]) for thing in left]

    def _nothing_ends_it(self, outcome: Outcome) -> bool:
        """An end that neither KubeRay's rules nor this call act on: what may still run is never deleted on a guess."""
        from ..runs.lifetimes import lifetimes

        due = lifetimes(self._follow.rayjob)
        return outcome.state != STOPPED and due.head is None and not due.kept

    def _release(self) -> None:
        from ..apply import Outages, release

        outages = Outages(time.monotonic() + WORKERS, self._session.output.progress)
        try:
            outages.ask(lambda: release(self._cluster, self._follow.rayjob, within=0))
        except ClusterError as error:
            self._session.output.warn(f"the stopped run still holds its pods: {error.message}")

    @property
    def _goes_on(self) -> str:
        return "its code is not submitted" if self._resume else "the run goes on"

    def _say_left_alone(self, why: str) -> None:
        resume = "" if self._outcome else self._resume
        say_left_alone(self._session, self._plan.namespace, self._plan.run.id, why, resume=resume)

    def _deleted(self, end: End) -> ExitCode:
        """Somebody deleted the run: what is left of it, and how far its log was read."""
        output, plan = self._session.output, self._plan
        self._panel.close(keep=True)
        self._log.finish(REST_GOING, over=False)
        self._event({"event": "final", "state": "DELETED", "reason": ""})
        gone = see_deleted(
            self._session,
            self._cluster,
            plan.namespace,
            end.message,
            self._follow.ray_cluster,
            rayjob=self._created["metadata"]["name"],
        )
        read = self._log.to_the_end()
        kept = self._path if read.bytes and not self._log.copy_lost else ""
        if kept:
            output.plain(f"log, as far as it was read: {kept}")
        if output.format != "text":
            log = LogFacts(kept, False, read.bytes) if kept else None
            rayjob = self._follow.rayjob or self._created
            commands = commands_for(self._session, plan.namespace, plan.run.id)
            code = int(gone.exit_code)
            result = RunResult(plan.run.id, rayjob, "DELETED", "", end.message, code, commands, log, self._wandb)
            output.result(replace(result, not_gone=gone.left))
        return gone.exit_code

    def _not_the_end(self, end: End) -> ExitCode:
        plan, output = self._plan, self._session.output
        self._panel.close(keep=True)
        gave_up = end.how == "timeout"
        code = ExitCode.GAVE_UP if gave_up else ExitCode.UNKNOWN
        why = f"gave up waiting ({end.message})" if gave_up else f"the outcome is unknown: {end.message}"
        output.error(f"{why}; {self._goes_on}" if gave_up else f"{why}; it may still run")
        self._say_left_alone(f"run {plan.run.id} in namespace {plan.namespace}:")
        if output.format != "text":
            rayjob = self._follow.rayjob or self._created
            state = describe(status_of(rayjob)) if gave_up else "UNKNOWN"
            commands = commands_for(self._session, plan.namespace, plan.run.id)
            result = RunResult(plan.run.id, rayjob, state, "", end.message, int(code), commands, wandb=self._wandb)
            output.result(result)
        return code

    def _result(self, outcome: Outcome, end: LogEnd | None, left: list[str] | None = None) -> RunResult:
        log = None
        if self._path and not self._log.copy_lost:
            log = LogFacts(self._path, bool(end and end.complete), end.bytes if end else 0)
        return RunResult(
            self._plan.run.id,
            self._follow.rayjob,
            outcome.state,
            outcome.reason,
            outcome.message,
            int(outcome.exit_code),
            commands_for(self._session, self._plan.namespace, self._plan.run.id),
            log if end is None or end.bytes else None,
            self._wandb,
            self._held(outcome),
            left or (),
        )

    def _held(self, outcome: Outcome) -> Held | None:
        """What stays after this end, by the Plan's lifetime and the pods as they are."""
        from ..manifests.amounts import gpus_held, requests_of
        from ..watch import is_worker

        lifetime = self._plan.lifetime
        if not self._follow.ray_cluster or (outcome.state == STOPPED and lifetime.form == "rules"):
            return None  # released by this call
        for_good = lifetime.form == "keep" or self._nothing_ends_it(outcome)
        seconds = lifetime.workers_after if lifetime.workers_after else lifetime.head_after
        if not for_good and not seconds:
            return None
        everything = for_good or bool(lifetime.workers_after)
        pods = [p for p in self._follow.pods.values() if everything or not is_worker(p)]
        until = None
        if not for_good:
            ended = parse_time(status_of(self._follow.rayjob).get("endTime")) or self._session.now()
            until = f"{ended + timedelta(seconds=seconds or 0):%Y-%m-%d %H:%M:%S} UTC"
        why = "--hold" if everything else "the head, for its log: --ttl"
        if for_good:
            why = "--no-shutdown" if lifetime.form == "keep" else f"no deletion rule of KubeRay matches {outcome.state}"
        asked = {str(p["metadata"]["name"]): requests_of(p) for p in pods}
        return Held(asked, sum(map(gpus_held, pods)), until, why)

    def _on_wandb(self, url: str) -> None:
        """Say the page, and keep it on the run's record, which other laptops read."""
        self._wandb = url
        self._session.output.progress(f"wandb: {url}")
        note_wandb(self._session, self._cluster, self._created, url)


def _claims(plan: Plan) -> bool:
    """Whether the workers claim devices, which Kubernetes gives back a moment after their pods."""
    cluster = plan.workload().manifest.get("spec", {}).get("rayClusterSpec") or {}
    specs = ((group.get("template") or {}).get("spec") or {} for group in cluster.get("workerGroupSpecs") or ())
    return any(spec.get("resourceClaims") for spec in specs)
