"""`kubectl nrl check`: everything that can be known of a run without a cluster, on one screen; with one, by `--cluster`.

What a cluster would say is not guessed at: without `--cluster` the screen names the versions that were assumed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ExitCode, NrlError, UsageError
from ..parser import FORMATS, PROG
from ..result_forms import json_text, render
from .planning import CHECK_RUN_ID, add_plan_arguments, load_config, load_plan, plan_options, refuse
from .session import Session
from .uploading import look

if TYPE_CHECKING:
    from ..config import Config
    from ..plan import Plan
    from ..result_forms import Result

EXAMPLES = """
kubectl nrl check recipe.yaml --infra infra.yaml
kubectl nrl check recipe.yaml --infra infra.yaml cluster.num_nodes=8 infra.scheduler.queue=rl
kubectl nrl check recipe.yaml --infra infra.yaml --cluster
kubectl nrl check recipe.yaml --infra infra.yaml --explain
kubectl nrl check recipe.yaml --infra infra.yaml --manifests-only -o manifests.yaml
kubectl nrl check --schema > infra.schema.json
"""

#: Any -o that is no format names a file here.
WRITES_FILES = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_plan_arguments(parser)
    show = parser.add_mutually_exclusive_group()
    show.add_argument("--manifests-only", action="store_true", help="print the manifests and nothing else")
    show.add_argument("--explain", action="store_true", help="print every field that was set for you, with who set it")
    show.add_argument("--schema", action="store_true", help="print the JSON Schema of the infra file, for editors")
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="ask the cluster as well: permissions, what the pods refer to, queue, quota, capacity (exit 1 when one fails)",
    )
    parser.add_argument("--format", choices=("yaml", "json"), help="the form of the file that -o FILE names")


def handle(args: argparse.Namespace, session: Session) -> ExitCode:
    file = None if args.output in FORMATS else session.cwd / args.output
    form = _form(args, file)
    if args.schema:
        _deliver(_schema(session, form), file, session)
        return ExitCode.OK
    cluster, config, plan = _plan(args, session)
    refuse(plan.problems)
    session.output.problems(plan.problems)
    found = None
    if args.manifests_only:
        from .manifest_text import plan_list, plan_yaml

        text = json_text(plan_list(plan)) if form == "json" else plan_yaml(plan)
    else:
        from .check_screen import Checked

        looked = look(session, plan, args.repo_root)
        session.output.problems(looked.problems)
        if cluster is not None:
            from .cluster_checks import on_cluster

            found = on_cluster(args, session, cluster, config, plan)
        result: Result = Checked(plan, args.explain, _queue(config), looked, found)
        text = render(result, form)
    _deliver(text, file, session)
    return ExitCode.FAILED if found is not None and found.failed else ExitCode.OK


def _plan(args: argparse.Namespace, session: Session) -> tuple[Any, Config, Plan]:
    """The cluster (None unless asked for), the config and the Plan. Raises `UsageError` where there is none to ask."""
    if not args.cluster:
        return None, *load_plan(args, session)
    from ..plan import is_local
    from .cluster_plan import cluster_plan

    prog = f"{PROG} check"
    config = load_config(args, session, prog)
    if is_local(config, plan_options(args, session)):
        raise UsageError("--cluster asks a cluster, and this run is on this machine", "leave out --cluster")
    return cluster_plan(args, session, session.new_run(CHECK_RUN_ID), config, prog)


def _queue(config: Config) -> str | None:
    scheduler = config.infra.get("scheduler")
    queue = scheduler.get("queue") if isinstance(scheduler, Mapping) else None
    return str(queue) if queue else None


def _form(args: argparse.Namespace, file: Path | None) -> str:
    """--format, else -o's format, else what the file's name says."""
    if args.format:
        return str(args.format)
    if file is None:
        return str(args.output)
    return "json" if file.suffix == ".json" else "yaml"


def _schema(session: Session, form: str) -> str:
    from ..schema import published_schema

    schema: Mapping[str, Any] = published_schema(session.manager.fragments())
    if form == "yaml":
        from .manifest_text import plain, to_yaml

        return to_yaml(plain(schema))
    return json_text(schema)


def _deliver(text: str, file: Path | None, session: Session) -> None:
    if file is None:
        session.output.line(text)
        return
    if file.is_dir():
        raise UsageError(f'-o "{file}" is a directory', "name a file, or one of: text, json, yaml")
    try:
        file.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    except OSError as error:
        raise NrlError(f'cannot write "{file}": {error.strerror or error}') from error
    session.output.note(f"wrote {file}")
