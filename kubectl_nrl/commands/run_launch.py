"""From a Plan to a RayJob on the cluster: asked about, its name made free, created; then followed or left.

What the API server refuses, and what checks find, is said all at once, before the first object exists.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode
from .cluster_checks import answers, check_data, one_or_many, refuse_failed, require_room, say
from .connecting import agree, load_following, observer, paste
from .run_id import refuse_recorded_id
from .run_result import DryRunResult, RunResult
from .session import Session
from .waiting import Stuck, give_up, start_limit

if TYPE_CHECKING:
    from ..apply import Created, DryRun
    from ..config import Config
    from ..plan import Plan
    from .handover import Handover

Tell = Callable[[Mapping[str, Any]], None]


def ask(args: argparse.Namespace, session: Session, cluster: Any, config: Config, plan: Plan) -> ExitCode:
    """`--dry-run=server`: what checks and the API server say; nothing is created."""
    from ..apply import dry_run
    from ..preflight import blocking, words

    found = answers(args, session, cluster, config, plan, room=args.require_capacity)
    require_room(found.room)
    said = dry_run(plan, cluster)
    failing = blocking(found.topics)
    failed = bool(said.refusals or failing)
    code = ExitCode.CLUSTER if failed else ExitCode.OK
    result = DryRunResult(
        plan.namespace,
        plan.run.id,
        said.checked,
        [(r.subject, r.message) for r in said.refusals],
        said.notes,
        [check_data(check) for topic in found.topics for check in topic.checks],
        int(code),
    )
    session.output.result(result)
    for note in said.notes:
        session.output.note(note)
    say(session, found.topics)
    for refusal in said.refusals:
        session.output.error(f"{refusal.subject}: {refusal.message}")
    for check in failing:
        session.output.error(words(check), check.fix)
    return code


def launch(args: argparse.Namespace, session: Session, cluster: Any, config: Config, plan: Plan) -> ExitCode | int:
    """Create the run, and follow it unless told not to. What is uploaded is made ready first, and sent when Ray is there."""
    from ..apply import Created

    say_namespace(session, plan)
    handover, created = _handover(args, session, cluster, plan), Created()
    try:
        return _launch(args, session, cluster, config, plan, handover, created)
    except KeyboardInterrupt:
        _say_interrupted(session, plan, created, handover)
        raise
    finally:
        if handover is not None:
            handover.close()


def _launch(
    args: argparse.Namespace, session: Session, cluster: Any, config: Config, plan: Plan, handover: Handover | None,
    created: Created,
) -> ExitCode | int:  # fmt: skip
    from ..apply import Uncertain, dry_run, make_way, name_holder, up
    from ..preflight import blocking
    from .run_follow import Attending

    load_following()
    if args.run_id is not None:
        refuse_recorded_id(cluster, plan.namespace, plan.run.id)
    output, name = session.output, plan.workload().name
    found = answers(args, session, cluster, config, plan, room=args.require_capacity)
    say(session, found.topics)
    refuse_failed(blocking(found.topics))
    require_room(found.room)
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
    refuse_refused(said, plan)
    make_way(holder, plan, cluster, output.progress)
    event = observer(session, {"run": plan.run.id, "rayjob": name, "namespace": plan.namespace})
    try:
        up(plan, cluster, created, say=output.progress, warn=output.warn, event=event)
        assert created.workload is not None
        output.progress(f'rayjob/{name} created in namespace "{plan.namespace}", run {plan.run.id}')
        submitted, timeout = _submit(handover, cluster, created.workload, args.timeout, session, event)
        if submitted:
            event({"event": "submitted"})
        if submitted and not plan.wait:
            return _leave(session, plan, created.workload)
        resume = handover.resume if handover is not None and not handover.done else ""
        attending = Attending(session, cluster, plan, created.workload, event, start_limit(args), resume=resume)
    except Stuck as stuck:
        return give_up(session, cluster, plan.run.id, stuck, commands_for(session, plan.namespace, plan.run.id), event)
    except Uncertain:
        say_left_alone(session, plan.namespace, plan.run.id, f"run {plan.run.id} may exist")
        raise
    return attending.to_the_end(timeout)


def _say_interrupted(session: Session, plan: Plan, created: Created, handover: Handover | None) -> None:
    """What became of a run whose making was interrupted; what a second Ctrl-C kept from being taken back is named already."""
    if created.uncertain:
        say_left_alone(session, plan.namespace, plan.run.id, f"interrupted; run {plan.run.id} may exist")
    elif created.workload is not None:
        open_end = handover is not None and not handover.done
        why = "interrupted; its code is not submitted" if open_end else "interrupted; the run goes on"
        resume = handover.resume if open_end and handover else ""
        say_left_alone(session, plan.namespace, plan.run.id, why, resume=resume)
    elif not created.objects:
        session.output.plain("interrupted; no run was created")


def _handover(args: argparse.Namespace, session: Session, cluster: Any, plan: Plan) -> Handover | None:
    """What this machine has to do for a run whose code it uploads. Raises `NrlError` for code that cannot be sent."""
    from .handover import Handover
    from .uploading import code_source, prepare, request, uploads

    if not uploads(session, plan):
        return None
    launch, source = plan.launch, code_source(session, plan.launch.code_source)
    prepared = prepare(session, source, request(session, args.repo_root, launch.upload_paths, launch.recipe))
    return Handover(
        session, cluster, plan.namespace, plan.run, launch.line, launch.entrypoint, source, prepared, start_limit(args)
    )


def _submit(
    handover: Handover | None, cluster: Any, rayjob: dict[str, Any], timeout: float, session: Session, event: Tell
) -> tuple[bool, float]:
    """Hand an upload over; whether the run is submitted, and the seconds that are left. A refusal takes the run back."""
    from ..apply import delete_run

    if handover is None:
        return True, timeout
    started = time.monotonic()
    try:
        done = handover.complete(rayjob, timeout, event)
    except ClusterError:
        name, namespace = rayjob["metadata"]["name"], rayjob["metadata"]["namespace"]
        session.output.progress(f"rayjob/{name} cannot be submitted; deleting it")
        try:
            delete_run(cluster, rayjob, say=session.output.progress)
        except ClusterError as stays:  # the refusal is what the person has to know of
            session.output.warn(f"rayjob/{name} may still hold what it has: {stays.message}")
            session.output.hint(paste(session, namespace, "job", "stop", f"rayjob/{name}"))
        raise
    return done, max(0.0, timeout - (time.monotonic() - started))


def commands_for(session: Session, namespace: str, run_id: str) -> dict[str, str]:
    """The two lines that go on with a run: follow it again, and stop and release it."""
    return {
        "logs": paste(session, namespace, "job", "logs", run_id, "-f"),
        "stop": paste(session, namespace, "job", "stop", run_id),
    }


def say_left_alone(
    session: Session, namespace: str, run_id: str, why: str = "the run goes on", *, resume: str = ""
) -> None:
    """The lines that reattach and that release, whatever -q says; `resume` is the line that submits what is not yet."""
    commands = commands_for(session, namespace, run_id)
    first = f"  upload and submit: {resume}" if resume else f"  follow it again: {commands['logs']}"
    session.output.plain(f"{why}\n{first}\n  stop and release: {commands['stop']}")


def _leave(session: Session, plan: Plan, rayjob: dict[str, Any]) -> ExitCode:
    commands = commands_for(session, plan.namespace, plan.run.id)
    result = RunResult(plan.run.id, rayjob, "Created", "", "", 0, commands)
    say_left_alone(session, plan.namespace, plan.run.id, "not waiting for the run")
    if session.output.format != "text":
        session.output.result(result)
    return ExitCode.OK


def say_namespace(session: Session, plan: Plan) -> None:
    if plan.namespace_from != "flag":
        where = {"infra": "from the infra file", "context": "from the kubeconfig context"}
        session.output.note(f'namespace "{plan.namespace}" ({where.get(plan.namespace_from, "nothing names another")})')


def refuse_refused(said: DryRun, plan: Plan) -> None:
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
    raise ClusterError(one_or_many(lines, "objects are refused by the API server; nothing was created"))
