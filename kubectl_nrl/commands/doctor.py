"""`kubectl nrl doctor`: what this machine and this cluster need for a run, each with its fix where something is wrong.

All checks run at once, and none is waited for longer than a few seconds: who asks a doctor has waited before.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ExitCode
from .doctor_finding import PATIENCE, PROGRAM_PATIENCE, Finding, Probe, examine
from .session import Session

EXAMPLES = """
kubectl nrl doctor
kubectl nrl doctor --context my-cluster -o json
kubectl nrl doctor --install
kubectl nrl doctor --rbac -n rl | kubectl apply -f -
"""

_WORDS = {"ok": "ok", "note": "note", "warning": "warning", "failed": "FAILED"}


@dataclass(frozen=True)
class Doctor:
    """Every finding, in a fixed order; `fix` is a command to paste."""

    findings: Sequence[Finding]
    schema = "doctor"

    @property
    def failed(self) -> int:
        return sum(1 for finding in self.findings if finding.status == "failed")

    def text(self) -> str:
        width = max(len(finding.name) for finding in self.findings)
        lines = []
        for finding in self.findings:
            lines.append(f"{_WORDS[finding.status]:<7}  {finding.name:<{width}}  {finding.message}")
            lines += [f"{'':<7}  {'':<{width}}  fix: {line}" for line in finding.fix.splitlines()]
        return "\n".join([*lines, "nothing is wrong" if not self.failed else f"{self.failed} failed"])

    def data(self) -> dict[str, Any]:
        items = [
            {"name": item.name, "status": item.status, "message": item.message, "fix": item.fix}
            for item in self.findings
        ]
        return {"items": items, "failed": self.failed}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--install", action="store_true", help="this installation alone: no kubectl, no cluster")
    what.add_argument("--rbac", action="store_true", help="print the least Role that an admin must grant for RayJobs")


def handle(args: argparse.Namespace, session: Session) -> ExitCode:
    if args.rbac:
        return _rbac(session)
    result = Doctor(examine(_probes(session, install_only=args.install), PATIENCE))
    session.output.result(result)
    return ExitCode.FAILED if result.failed else ExitCode.OK


def _probes(session: Session, *, install_only: bool) -> list[Probe]:
    from . import doctor_cluster, doctor_kuberay, doctor_machine, doctor_namespace
    from .verbs import VERBS

    probes = [
        Probe(doctor_machine.python, _late("python")),
        Probe(doctor_machine.libraries, _late("libraries")),
        Probe(lambda: doctor_machine.plugins(session), _late("plugins")),
        Probe(lambda: doctor_machine.program(session.env), _late("path")),
        Probe(lambda: doctor_machine.shadows(session.env, VERBS), _late("shadows")),
    ]
    if install_only:
        return probes
    reached = doctor_cluster.Reached(session)
    return [
        *probes,
        Probe(lambda: doctor_machine.ray(PROGRAM_PATIENCE), _late("ray")),
        Probe(lambda: doctor_machine.user(session), _late("user")),
        Probe(lambda: doctor_cluster.kubectl(session.env, PROGRAM_PATIENCE), _late("kubectl")),
        Probe(reached.look, _silent()),
        reached.probe("kuberay", doctor_kuberay.kuberay),
        reached.probe("operator", doctor_kuberay.operator),
        reached.probe("schedulers", doctor_kuberay.schedulers),
        reached.probe("dra", doctor_kuberay.dra),
        reached.probe("permissions", doctor_namespace.permissions),
        reached.probe("runs", doctor_namespace.runs),
        reached.probe("orphans", doctor_namespace.orphans),
    ]


def _rbac(session: Session) -> ExitCode:
    """The Role, for what this cluster serves; without a cluster, for what every run needs."""
    from ..errors import ClusterError
    from ..facts import discover
    from ..preflight import least_needs, role_rules
    from .connecting import namespace_of, open_cluster
    from .doctor_namespace import LeastRole

    namespace, facts = session.namespace or "default", None
    try:
        cluster = open_cluster(session)
        namespace = namespace_of(session, cluster)
        facts = discover(cluster)
    except ClusterError as error:
        session.output.note(f"without what only some clusters serve: {error.message}")
    session.output.result(LeastRole(namespace, role_rules(least_needs(facts))))
    return ExitCode.OK


def _late(name: str) -> Finding:
    """A check of this machine alone that takes so long: the machine is busy, and nothing is known to be wrong."""
    return Finding(name, "warning", f"not known after {PATIENCE:g} s: this machine is busy", "kubectl nrl doctor")


def _silent() -> Finding:
    return Finding("cluster", "failed", f"no answer within {PATIENCE:g} s", "kubectl cluster-info")
