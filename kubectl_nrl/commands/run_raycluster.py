"""`kubectl nrl run --raycluster`: the clusters brought up or used again, the code sent, the training submitted last, followed.

What goes wrong before the submission leaves no run behind; the run's record is written before Ray is asked, so that one that was
submitted is found whatever becomes of this process.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ..errors import ClusterError, ExitCode, NrlError
from ..labels import RAY_API
from .cluster_drivers import ClusterDrivers, drivers_of
from .cluster_guard import may_stop
from .cluster_up import may_be_made, taking_down
from .connecting import load_following, observer, paste, ray_connector
from .daemon_launch import until_ended
from .daemons import Daemons
from .driver import driver_connector
from .handover import Reached
from .long_lived import LongLived, Wishes, answers_jobs
from .run_attend_job import AttendJob, Submitted, commands_of, left_alone
from .run_id import refuse_rayjobs_id
from .run_launch import say_namespace
from .session import Session
from .until_up import until_up
from .uploading import Packages, code_source
from .waiting import start_limit

if TYPE_CHECKING:
    from ..api import RunInfo, Staged, Submission, Submitter
    from ..config import Config
    from ..plan import Plan
    from ..runs import ClusterRun

#: How every run reaches a head, for Ray's own API.
PORTS = "portforward"
NOT_SUBMITTED = "no run was submitted"
#: Flags that mean something for a RayJob only.
MEANINGLESS = ("rayjob_name", "ttl", "hold", "shutdown")


def launch(args: argparse.Namespace, session: Session, cluster: Any, config: Config, plan: Plan) -> ExitCode | int:
    """Run on the Plan's long-lived clusters. Raises `NrlError`."""
    for flag in MEANINGLESS:
        if getattr(args, flag) is not None:
            session.output.warn(f"--{flag.replace('_', '-')} has no meaning for a long-lived cluster")
    say_namespace(session, plan)
    packages = Packages(session, plan, args.repo_root)
    try:
        return _Launch(args, session, cluster, plan, packages).go(config)
    finally:
        packages.close()


class _Launch:
    def __init__(
        self, args: argparse.Namespace, session: Session, cluster: Any, plan: Plan, packages: Packages
    ) -> None:
        self._args, self._session, self._cluster, self._plan = args, session, cluster, plan
        self._prepared = packages.of(plan.launch.upload_paths, plan.launch.recipe)
        self._daemons = Daemons(
            session, cluster, plan, packages, replace=args.replace, yes=args.yes, force=args.force,
            before=self._make_room_first,
        )  # fmt: skip
        self._submitter = cast("Submitter", session.manager.choose("submitters", plan.launch.submitter))
        self._deadline = time.monotonic() + args.timeout
        self._asked = False
        self._event = observer(session, {"run": plan.run.id, "namespace": plan.namespace})
        # More than training's own cluster, or somebody else's: the recipe says what there is to take down.
        several = len(plan.objects) > 1 or plan.attached
        words = [*args.words, *(["--infra", args.infra] if args.infra else [])]
        down = paste(session, plan.namespace, "cluster", "down", *words) if several else ""
        self._down = down if plan.objects else None  # where all of it is attached, nothing is this recipe's

    def go(self, config: Config) -> ExitCode | int:
        self._refuse_unreachable()
        if self._args.run_id is not None:
            refuse_rayjobs_id(self._cluster, self._plan.namespace, self._plan.run.id)
        load_following()
        try:
            raycluster = self._cluster_up(config)
        except KeyboardInterrupt:
            self._session.output.plain(NOT_SUBMITTED)
            raise
        name = raycluster["metadata"]["name"]
        connect = ray_connector(self._cluster, self._plan.namespace)
        try:
            with drivers_of(self._session, self._cluster, raycluster) as drivers:
                self._make_room(drivers, raycluster)
                record, run = self._submit(drivers, raycluster, config)
        except KeyboardInterrupt:
            if self._asked:
                left_alone(self._session, self._plan.namespace, self._plan.run.id, "interrupted; it may be submitted")
            else:
                self._long_lived.say_what_stays(self._daemons, interrupted=True)
                self._session.output.plain(NOT_SUBMITTED)
            raise
        self._event({"event": "submitted", "raycluster": name})
        kept = f", kept in {record.place} on its head" if record.place else ""
        self._session.output.progress(f"submitted {record.id} to raycluster/{name}{kept}")
        if not self._plan.wait:
            return self._leave(record)
        driver = driver_connector(self._submitter, run, self._cluster, self._plan.namespace, connect)
        submitted = Submitted(record, driver, self._down, self._submitter.in_ray)
        attend = AttendJob(self._session, self._cluster, submitted, self._event)
        return attend.to_the_end(max(0.0, self._deadline - time.monotonic()))

    def _refuse_unreachable(self) -> None:
        """Raise when the submitter may not reach a head, before anything is made or started."""
        namespace, what = self._plan.namespace, f"pods/{self._submitter.reached_by}"
        if self._submitter.reached_by == PORTS:
            return  # needed by every run, and asked for with all that is needed
        # Which of the two verbs is asked for depends on the API server's version.
        may = [
            self._cluster.can_i(verb, "", "pods", namespace, subresource=self._submitter.reached_by)
            for verb in ("create", "get")
        ]
        if not any(answer is not False for answer in may):
            raise ClusterError(
                f'submitter {self._submitter.name} needs "create" on {what} in namespace "{namespace}", which user '
                f'"{self._cluster.user}" may not; nothing was started',
                "--submitter portForward does without",
                status=403,
                reason="Forbidden",
            )

    def _cluster_up(self, config: Config) -> Mapping[str, Any]:
        """The training role's RayCluster, up, with everything else that the Plan holds."""
        args, plan = self._args, self._plan
        left = max(0.0, self._deadline - time.monotonic())
        down = taking_down(args, self._session, plan)
        wishes = Wishes(down, args.recreate, True, left, args.yes, args.force, start_limit(args))
        self._long_lived = long_lived = LongLived(self._session, self._cluster, plan, wishes)
        if not args.skip_daemons:
            self._daemons.prepare()
        attached = self._attached()
        standings = long_lived.look()
        may_be_made(args, self._session, self._cluster, config, plan, standings)
        came = long_lived.ensure(standings, None if args.skip_daemons else self._daemons)
        if "training" in attached:
            return attached["training"]
        return next(found.live for found in came if found.unit.role == "training")

    def _attached(self) -> Mapping[str, Mapping[str, Any]]:
        """The clusters that are used as they are, by role, once they are up.

        Raises `ClusterError` when one is not there, or never gets up.
        """
        lives = {role: self._there(role, name) for role, name in self._plan.attached.items()}
        ready = until_up(
            self._session, self._cluster, lives, deadline=self._deadline, start_limit=start_limit(self._args),
            probe=lambda role: answers_jobs(self._cluster),
        )  # fmt: skip
        for role, name in self._plan.attached.items():
            self._session.output.progress(f"launch.attach.{role}: raycluster/{name} is up")
        return {role: {"apiVersion": RAY_API, "kind": "RayCluster", **live} for role, live in ready.items()}

    def _there(self, role: str, name: str) -> Mapping[str, Any]:
        live = self._cluster.get(RAY_API, "RayCluster", name, self._plan.namespace)
        if live is None:
            raise ClusterError(
                f'launch.attach.{role}: no RayCluster "{name}" in namespace "{self._plan.namespace}"',
                paste(self._session, self._plan.namespace, "cluster", "list"),
                status=404,
                reason="NotFound",
            )
        return {"apiVersion": RAY_API, "kind": "RayCluster", **live}

    def _make_room_first(self, lives: Mapping[str, Mapping[str, Any]]) -> None:
        """With --replace: the training that runs ends before the daemons that it talks to do."""
        training = lives.get("training")
        if training is None:
            return
        try:
            with drivers_of(self._session, self._cluster, training) as jobs:
                self._make_room(jobs, training)
        except ClusterError as error:
            if error.reason not in ("NoHead", "PortClosed"):
                raise

    def _make_room(self, jobs: ClusterDrivers, raycluster: Mapping[str, Any]) -> None:
        """Say what runs there already; with --replace stop it, and wait until it has ended."""
        from ..runs.cluster_jobs import ENDS
        from ..watch import is_daemon

        name = raycluster["metadata"]["name"]
        daemons = {daemon.submission_id for daemon in self._plan.daemons}
        running = [
            job for job in jobs.list()
            if job.get("status") not in ENDS and not is_daemon(job) and job.get("submission_id") not in daemons
        ]  # fmt: skip
        by_hand = [str(job.get("job_id")) for job in running if not job.get("submission_id")]
        if by_hand:
            self._session.output.warn(
                f"running on raycluster/{name} already: {', '.join(by_hand)}, started by hand, so that Ray cannot stop it"
            )
        live = [job for job in running if job.get("submission_id")]
        ids = [str(job["submission_id"]) for job in live]
        if not ids:
            return
        if not self._args.replace:
            self._session.output.warn(f"running on raycluster/{name} already: {', '.join(ids)} (--replace stops them)")
            return
        whose = {str((job.get("metadata") or {}).get("user") or "") for job in live}
        may_stop(
            self._session, self._plan.namespace, f"{', '.join(ids)} on raycluster/{name}", whose, yes=self._args.yes,
            force=self._args.force,
        )  # fmt: skip
        self._session.output.progress(f"stopping {', '.join(ids)} on raycluster/{name}")
        for submission_id in ids:
            jobs.stop(submission_id)
        until_ended(jobs, ids)

    def _submit(
        self, drivers: ClusterDrivers, raycluster: Mapping[str, Any], config: Config
    ) -> tuple[ClusterRun, RunInfo]:
        from ..runs import ClusterRun, new_record, remember, write_record
        from ..runs.evidence import expected

        plan, run = self._plan, self._plan.run
        if self._args.run_id is not None:
            _refuse_used(drivers, run.id, raycluster)
        reached = Reached(plan.namespace, drivers.ray, self._cluster)
        submission = _submission(plan, self._stage(reached))
        run = replace(run, place=self._submitter.place(run, submission))
        training = next((role.cluster for role in plan.roles if role.name == "training"), None)
        record = new_record(
            run.id, raycluster, run.user, cluster_label=training or raycluster["metadata"]["name"],
            submitter=self._submitter.name, submission_id=run.id, recipe=plan.recipe_path.rsplit("/", 1)[-1],
            started=self._session.now(), pod=drivers.pod, place=run.place,
            expects=expected(config, plan.launch.script).words(),
        )  # fmt: skip
        self._asked = True  # the record alone is enough to find it by
        try:
            written = write_record(self._cluster, record)
        except ClusterError as error:
            if error.status != 403 or not self._submitter.in_ray:
                raise  # nobody would find it again
            self._session.output.warn(f"the run is not recorded, and only Ray knows of it: {error.message}")
            written = ClusterRun(record)
        try:
            run = self._submitter.submit(run, reached, submission)
        except ClusterError as error:
            self._not_submitted(error, written)
            raise
        remember(written, self._cluster.server, self._session.env)
        return written, run

    def _stage(self, reached: Reached) -> Staged:
        from ..api import Staged
        from .handover import stage

        if self._prepared is None:
            return Staged()
        source = code_source(self._session, self._plan.launch.code_source)
        return stage(self._session, source, self._plan.run, reached, self._prepared)

    def _not_submitted(self, error: ClusterError, record: ClusterRun) -> None:
        """Take the record back when nothing was submitted; raise UNKNOWN when that cannot be told."""
        from ..ray_jobs import passing

        if passing(error):
            left_alone(self._session, record.namespace, record.id, "it is not known whether the run was submitted")
            raise NrlError(
                f"lost Ray while it was asked to run {record.id}: {error.message}", exit_code=ExitCode.UNKNOWN
            ) from error
        uid = record.config_map["metadata"].get("uid")
        if uid is None:
            return  # it was never written
        try:
            self._cluster.delete("v1", "ConfigMap", record.name, record.namespace, uid=uid)
        except ClusterError as trouble:
            self._session.output.warn(f"configmap/{record.name} of the run that did not start stays: {trouble.message}")

    def _leave(self, record: ClusterRun) -> ExitCode:
        from .run_cluster_result import ClusterRunResult

        left_alone(self._session, record.namespace, record.id, "not waiting for the run")
        if self._session.output.format != "text":
            self._session.output.result(
                ClusterRunResult(
                    record.id, record.namespace, record.ray_cluster, record.ray_cluster_uid, record.submitter, "PENDING",
                    "", "", 0, record.started, None, commands_of(self._session, record, self._down),
                )
            )  # fmt: skip
        return ExitCode.OK


def _submission(plan: Plan, staged: Staged) -> Submission:
    from ..api import Submission
    from ..labels import RUN
    from ..plan.assemble import METADATA_MAX

    launch, run = plan.launch, plan.run
    metadata = {"user": run.user.name, "entrypoint": launch.entrypoint[:METADATA_MAX], RUN: run.id}
    return Submission(launch.line, launch.script, staged, metadata, launch.exec_tmp_dir)


def _refuse_used(jobs: ClusterDrivers, run_id: str, raycluster: Mapping[str, Any]) -> None:
    """Raise for an id that the cluster has a job of; ids that are made up here never meet."""
    known = jobs.get(run_id)
    if known is not None:
        raise ClusterError(
            f'job "{run_id}" already exists on raycluster/{raycluster["metadata"]["name"]} ({known.get("status")})',
            "choose another --run-id, or leave it out",
            status=409,
            reason="AlreadyExists",
        )
