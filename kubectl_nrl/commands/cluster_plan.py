"""The Plan for a live cluster: what it serves is discovered first, and decides what is rendered."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError
from .connecting import open_cluster
from .planning import load_plan, refuse
from .session import Session

if TYPE_CHECKING:
    from ..api import RunInfo
    from ..config import Config
    from ..plan import Plan


def cluster_plan(
    args: argparse.Namespace,
    session: Session,
    run: RunInfo,
    config: Config,
    prog: str,
) -> tuple[Any, Config, Plan]:
    """The cluster, the config and the Plan for it. Raises `ConfigError` for files that are wrong, `ClusterError`.

    What is wrong in the files is said even when the cluster cannot be reached.
    """
    from ..facts import discover

    try:
        cluster = open_cluster(session)
        facts = discover(cluster)
    except ClusterError:
        _, offline = load_plan(args, session, run=run, prog=prog, config=config)
        refuse(offline.problems)
        raise
    config, plan = load_plan(
        args, session, facts, run=run, context_namespace=cluster.namespace, prog=prog, config=config
    )
    refuse(plan.problems)
    return cluster, config, plan
