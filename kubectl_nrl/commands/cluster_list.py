"""`kubectl nrl cluster list`: the Ray clusters of a namespace, whoever made them, and those of this machine.

One request tells everything: pods and GPUs are counted by KubeRay in the RayCluster's status, so that a thousand
clusters cost no more than `kubectl get` does, and nobody needs to be allowed to see pods.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode
from ..labels import RAY_API
from ..raycluster_state import WIDEST
from ..rayjob_state import span
from .connecting import namespace_of, open_cluster
from .local_list import LocalList
from .session import Session
from .table import Columns, table

if TYPE_CHECKING:
    from ..local import LocalRecord
    from ..runs import ClusterRecord

_COLUMNS = ("NAME", "STATE", "PODS", "GPUS", "OWNER", "AGE", "RUN", "REASON")


@dataclass(frozen=True)
class ClusterList:
    """Ray clusters in the order shown: `here` those of this machine; `me` is the asking user's name.

    `where` says whether namespaces differ, `empty` what to say when there is no cluster at all.
    """

    clusters: Sequence[ClusterRecord]
    now: datetime
    me: str
    where: bool = False
    here: Sequence[LocalRecord] = ()
    empty: str = "no Ray clusters"
    deleted: frozenset[str] = field(default_factory=frozenset)

    schema = "cluster_list"

    def text(self) -> str:
        rows = [*(self._row_here(found) for found in self.here), *(self._whole_row(c) for c in self.clusters)]
        return table(rows) if rows else self.empty

    def row(self, found: ClusterRecord) -> dict[str, str]:
        """A cluster as its line says it."""
        ready, wanted = found.pods
        gone = found.uid in self.deleted
        return {
            **({"NAMESPACE": found.namespace} if self.where else {}),
            "NAME": found.name,
            "STATE": "Deleted" if gone else found.state,
            "PODS": "" if gone else f"{ready}/{wanted}",
            "GPUS": "" if gone else str(found.gpus),
            "OWNER": f"{found.owner} (you)" if found.owner == self.me else found.owner,
            "AGE": span((self.now - found.created).total_seconds() if found.created else None),
            "RUN": found.run,
            "REASON": "" if gone else found.reason,
        }

    def _whole_row(self, found: ClusterRecord) -> dict[str, str]:
        where = {"WHERE": "cluster" if self.here else "", "NAMESPACE": ""}
        return {**where, **self.row(found), "RAYS": "", "DASHBOARD": ""}

    def _row_here(self, found: LocalRecord) -> dict[str, str]:
        row = dict.fromkeys(("WHERE", "NAMESPACE", *_COLUMNS, "RAYS", "DASHBOARD"), "")
        return row | {
            "WHERE": "this machine",
            "NAME": found.id,
            "STATE": found.shown_state,
            "GPUS": "" if found.gpus is None else str(found.gpus),
            "OWNER": f"{found.user} (you)" if found.user == self.me else found.user,
            "AGE": span(found.age(self.now)),
            "REASON": found.reason or found.phase,
            "RAYS": ",".join(found.roles) if not found.torn_down else "",
            "DASHBOARD": next((r.dashboard for r in found.roles.values()), "") if found.alive else "",
        }

    def data(self) -> list[dict[str, Any]]:
        return [*LocalList(self.here, self.now, "").data(), *map(self._data, self.clusters)]

    def _data(self, found: ClusterRecord) -> dict[str, Any]:
        ready, wanted = found.pods
        return {
            "name": found.name,
            "namespace": found.namespace,
            "uid": found.uid,
            "state": "Deleted" if found.uid in self.deleted else found.state,
            "reason": found.reason,
            "podsReady": ready,
            "podsWanted": wanted,
            "gpus": found.gpus,
            "owner": found.owner,
            "mine": found.owner == self.me,
            "run": found.run,
            "rayjob": found.rayjob,
            "created": found.raycluster["metadata"].get("creationTimestamp"),
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("list")
    group.add_argument("-A", "--all-namespaces", action="store_true", help="clusters of every namespace")
    group.add_argument("-w", "--watch", action="store_true", help="then a line for every change, until Ctrl-C")


def show(args: argparse.Namespace, session: Session) -> ExitCode:
    """List, or watch. Without a cluster to ask, this machine's are the answer, unless the flags ask for a cluster's."""
    from .. import local

    here = [] if args.all_namespaces and not args.local else local.clusters(session.env)
    me = session.user.name
    if args.local:
        session.output.result(
            ClusterList([], session.clock(), me, here=here, empty="no Ray cluster is up on this machine")
        )
        return ExitCode.OK
    try:
        cluster = open_cluster(session)
        namespace = namespace_of(session, cluster)
        if args.watch:
            return _Watching(session, cluster, namespace, args.all_namespaces, here).run()
        found = cluster.list(RAY_API, "RayCluster", namespace, all_namespaces=args.all_namespaces)
    except ClusterError as error:
        if session.namespace or session.context or session.kubeconfig or args.all_namespaces or args.watch:
            raise
        session.output.note(f"the clusters of this machine only: {error.message}")
        result = ClusterList([], session.clock(), me, here=here, empty="no Ray cluster is up on this machine")
        session.output.result(result)
        return ExitCode.OK
    from ..runs import ClusterRecord, ordered

    if session.namespace is None and not args.all_namespaces:
        session.output.note(f'namespace "{namespace}" (from the kubeconfig context; -n or -A for others)')
    clusters = ordered([ClusterRecord(item) for item in found], me)
    session.output.result(
        ClusterList(clusters, session.now(), me, args.all_namespaces, here, _none(namespace, args.all_namespaces))
    )
    return ExitCode.OK


def _none(namespace: str, everywhere: bool) -> str:
    return "no Ray clusters" if everywhere else f'no Ray clusters in namespace "{namespace}"'


class _Watching:
    """The table, then each row again when something but its age has changed."""

    def __init__(
        self, session: Session, cluster: Any, namespace: str, everywhere: bool, here: Sequence[LocalRecord]
    ) -> None:
        self._session, self._cluster, self._namespace = session, cluster, namespace
        self._everywhere, self._here = everywhere, here
        self._me = session.user.name
        names = ("NAMESPACE", *_COLUMNS) if everywhere else _COLUMNS
        self._columns = Columns.of(names, [])
        self._printed: dict[str, dict[str, str]] = {}
        self._begun = False

    def run(self) -> ExitCode:
        """Until somebody interrupts it. Raises `ClusterError` when the cluster refuses."""
        output = self._session.output
        events = self._cluster.watch(
            RAY_API, "RayCluster", self._namespace, all_namespaces=self._everywhere, listed=self._begin
        )
        for event in events:
            if event.type == "LOST":
                output.progress(f"connection to the API server lost ({event.error}); reconnecting")
            elif event.type == "BACK":
                output.progress("connection to the API server is back")
            else:
                self._change(event.object, event.type == "DELETED")
        return ExitCode.OK

    def _begin(self, items: list[dict[str, Any]]) -> None:
        """The first list is the table; later ones (after a gap) come as events too."""
        from ..runs import ClusterRecord, ordered

        if self._begun:
            return
        self._begun = True
        output, clusters = self._session.output, ordered([ClusterRecord(item) for item in items], self._me)
        if self._here and output.format == "text":
            output.plain(ClusterList([], self._session.clock(), self._me, here=self._here).text())
        result = ClusterList(clusters, self._session.now(), self._me, self._everywhere)
        rows = [result.row(found) for found in clusters]
        self._printed = {found.uid: _lasting(row) for found, row in zip(clusters, rows, strict=True)}
        # Every state fits from the start, since most clusters go through several.
        self._columns = Columns.of(
            self._columns.names, [*rows, {**dict.fromkeys(self._columns.names, ""), "STATE": WIDEST}]
        )
        if not clusters:
            output.note(f"{_none(self._namespace, self._everywhere)} yet")
        elif output.format == "text":
            output.line("\n".join([self._columns.header, *map(self._columns.line, rows)]))
        else:
            output.result(result)

    def _change(self, item: dict[str, Any], deleted: bool) -> None:
        from ..runs import ClusterRecord

        found, output = ClusterRecord(item), self._session.output
        gone = frozenset({found.uid}) if deleted else frozenset()
        result = ClusterList([found], self._session.now(), self._me, self._everywhere, deleted=gone)
        row = result.row(found)
        if self._printed.get(found.uid) == _lasting(row):
            return
        first = not self._printed
        self._printed[found.uid] = _lasting(row)
        if output.format != "text":
            output.result(result)
            return
        line = self._columns.line(row)
        output.line(f"{self._columns.header}\n{line}" if first else line)


def _lasting(row: dict[str, str]) -> dict[str, str]:
    """What of a row is a change when it changes: everything but the age."""
    return {name: value for name, value in row.items() if name != "AGE"}
