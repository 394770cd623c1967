"""From a Plan to a RayJob on the cluster: asked about, its name made free, created; then followed or left.

What the API server refuses, and what checks find, is said all at once, before the first object exists.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..api import Check
from ..errors import ClusterError, ExitCode
from .connecting import agree, observer, paste
from .planning import plan_options
from .run_result import DryRunResult, RunResult
from .session import Session

if TYPE_CHECKING:
    from ..apply import DryRun
    from ..config import Config
    from ..plan import Plan


def ask(args: argparse.Namespace, session: Session, cluster: Any, config: Config, plan: Plan) -> ExitCode:
    """`--dry-run=server`: what checks and the API server say; nothing is created."""
    from ..apply import dry_run

    checks = _checks(args, session, cluster, config, plan)
    said = dry_run(plan, cluster)
    failed = bool(said.refusals) or any(c.ok is False for c in checks)
    code = ExitCode.CLUSTER if failed else ExitCode.OK
    result = DryRunResult(
        plan.namespace,
        plan.run.id,
        said.checked,
        [(r.subject, r.message) for r in said.refusals],
        said.notes,
        [(c.title, c.ok, c.detail, c.fix) for c in checks],
        int(code),
    )
    session.output.result(result)
    for note in said.notes:
        session.output.note(note)
    _say_checks(session, checks)
    for refusal in said.refusals:
        session.output.error(f"{refusal.subject}: {refusal.message}")
    for check in checks:
        if check.ok is False:
            session.output.error(check.detail or check.title, check.fix)
    return code


def launch(args: argparse.Namespace, session: Session, cluster: Any, config: Config, plan: Plan) -> ExitCode | int:
    """Create the run, and follow it unless told not to."""
    from ..apply import Created, dry_run, make_way, name_holder, up

    output, name = session.output, plan.workload().name
    _say_namespace(session, plan)
    checks = _checks(args, session, cluster, config, plan)
    _say_checks(session, checks)
    _refuse_failed(checks)
    holder = name_holder(
        plan,
        cluster,
        plan.run.user,
        replace=args.replace,
        allow=lambda question: agree(session, question, yes=args.yes, flag="--replace --yes"),
    )
    said = dry_run(plan, cluster)
    for note in said.notes:
        output.note(note)
    _refuse_refused(said, plan)
    make_way(holder, plan, cluster, output.progress)
    event = observer(session, {"run": plan.run.id, "rayjob": name, "namespace": plan.namespace})
    created = Created()
    try:
        up(plan, cluster, created, say=output.progress, warn=output.warn, event=event)
        assert created.workload is not None
        output.progress(f'rayjob/{name} created in namespace "{plan.namespace}", run {plan.run.id}')
        event({"event": "submitted"})
        if not plan.wait:
            return _leave(session, plan, created.workload)
        from .run_follow import Attending

        attending = Attending(session, cluster, plan, created.workload, event)
    except KeyboardInterrupt:
        if created.workload is not None:
            say_left_alone(session, plan.namespace, plan.run.id, "interrupted; the run goes on")
        raise
    return attending.to_the_end(args.timeout)


def commands_for(session: Session, namespace: str, run_id: str) -> dict[str, str]:
    """The two lines that go on with a run: follow it again, and stop and release it."""
    return {
        "logs": paste(session, namespace, "job", "logs", run_id, "-f"),
        "stop": paste(session, namespace, "job", "stop", run_id),
    }


def say_left_alone(session: Session, namespace: str, run_id: str, why: str = "the run goes on") -> None:
    """The lines that reattach and that release, whatever -q says."""
    commands = commands_for(session, namespace, run_id)
    session.output.plain(f"{why}\n  follow it again: {commands['logs']}\n  stop and release: {commands['stop']}")


def _leave(session: Session, plan: Plan, rayjob: dict[str, Any]) -> ExitCode:
    commands = commands_for(session, plan.namespace, plan.run.id)
    result = RunResult(plan.run.id, rayjob, "Created", "", "", 0, commands)
    say_left_alone(session, plan.namespace, plan.run.id, "not waiting for the run")
    if session.output.format != "text":
        session.output.result(result)
    return ExitCode.OK


def _say_namespace(session: Session, plan: Plan) -> None:
    if plan.namespace_from != "flag":
        where = {"infra": "from the infra file", "context": "from the kubeconfig context"}
        session.output.note(f'namespace "{plan.namespace}" ({where.get(plan.namespace_from, "nothing names another")})')


def _checks(args: argparse.Namespace, session: Session, cluster: Any, config: Config, plan: Plan) -> list[Check]:
    from .. import plan as plans
    from ..apply import permission_checks

    options = plan_options(args, session, cluster.namespace)
    return [
        *permission_checks(cluster, plan.namespace, wait=plan.wait),
        *plans.preflight(config, plan, options, session.manager, cluster),
    ]


def _say_checks(session: Session, checks: Sequence[Check]) -> None:
    """What could not be looked at, or costs only comfort."""
    for check in checks:
        if check.ok is None and check.detail:
            session.output.note(f"{check.title}: {check.detail}")


def _refuse_failed(checks: Sequence[Check]) -> None:
    failed = [c for c in checks if c.ok is False]
    if failed:
        lines = [c.detail or c.title for c in failed]
        raise ClusterError(_all(lines, "checks failed"), "\n".join(dict.fromkeys(c.fix for c in failed if c.fix)))


def _refuse_refused(said: DryRun, plan: Plan) -> None:
    if not said.refusals:
        return
    missing = f'namespaces "{plan.namespace}" not found'
    if all(missing in r.message for r in said.refusals):
        raise ClusterError(
            f'namespace "{plan.namespace}" does not exist',
            f"kubectl create namespace {plan.namespace}",
            status=404,
            reason="NotFound",
        )
    lines = [f"{r.subject}: {r.message}" for r in said.refusals]
    raise ClusterError(_all(lines, "objects are refused by the API server; nothing was created"))


def _all(lines: Sequence[str], what: str) -> str:
    """One line as it is, several under a count."""
    return lines[0] if len(lines) == 1 else "\n".join([f"{len(lines)} {what}", *(f"  {line}" for line in lines)])
