"""The Role that `doctor --rbac` prints is enough for a run and all that follows, and grants nothing that is not used."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.fault_proxy import FaultProxy, Seen
from cluster.fixtures import Cluster
from command_line import CommandLine
from run_files import files

pytestmark = pytest.mark.node

#: (verb, resource) that this server or these runs do not ask for: a port-forward is `get` on API servers that upgrade a GET,
#: and events are read only of pods that wait.
ELSEWHERE = {("get", "pods/portforward"), ("create", "pods/portforward"), ("list", "events")}
#: What is asked for and done without.
OPTIONAL = {("list", "resourcequotas"), ("list", "limitranges"), ("list", "deployments"), ("create", "pods"),
            ("get", "pods/exec"), ("create", "pods/exec")}  # fmt: skip
#: Claims and domains need drivers that no fake node has.
CLAIMS = {"resource.k8s.io", "resource.nvidia.com"}

_PATH = re.compile(
    r"/api(?:s/(?P<group>[^/]+))?/v[^/]+/namespaces/[^/]+/(?P<resource>[^/?]+)(?:/(?P<name>[^/?]+))?(?:/(?P<sub>[^/?]+))?"
    r"(?:\?(?P<query>.*))?"
)


def used(requests: Iterable[Seen]) -> set[tuple[str, str]]:
    """(verb, resource) of each request to something in a namespace, as authorization sees it."""
    found = set()
    for request in requests:
        match = _PATH.fullmatch(request.target)
        if match:
            verb = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}.get(request.method, "get")
            if verb == "get" and not match["name"]:
                verb = "watch" if "watch=" in (match["query"] or "") else "list"
            found.add((verb, match["resource"] + (f"/{match['sub']}" if match["sub"] else "")))
    return found


def granted(rules: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(verb, resource) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


def test_the_least_role_is_enough_and_nothing_in_it_is_superfluous(
    kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path
) -> None:
    cli = CommandLine(kwok_cluster, kwok_namespace, tmp_path)
    role = yaml.safe_load(cli.run("doctor --rbac").out)
    rules = [rule for rule in role["rules"] if not CLAIMS & set(rule["apiGroups"])]
    limited = kwok_cluster.user(kwok_namespace, rules, "least")
    with FaultProxy(limited) as proxy:
        cli.env["KUBECONFIG"] = str(proxy.kubeconfig)
        entrypoint = "echo wandb: View run at https://wandb.ai/team/proj/runs/abc123; echo done"
        for file, data in files(entrypoint, image="none/ray:1", codePath="/tmp").items():
            (tmp_path / file).write_text(yaml.safe_dump(data))
        run = "run recipe.yaml --infra infra.yaml --rayjob-name least"
        first = cli.run(f"{run} --run-id first")
        assert first.out.endswith("done\n")
        assert "forbidden" not in first.err, first
        assert cli.json("runs")[0]["wandb"].endswith("/runs/abc123")
        assert cli.run("job logs first", **cli.elsewhere()).out.endswith("done\n")
        cli.run("check recipe.yaml --infra infra.yaml --cluster")
        cli.run("job stop first")
        cli.run(f"{run} --run-id second --replace")
        refused = [seen for seen in proxy.seen if seen.status == 403 and _PATH.fullmatch(seen.target)]
        asked = used(seen for seen in proxy.seen if seen.status != 403)
    # Looked at where that is allowed, done without where not: quotas, dry runs of pods, versions, the log by exec.
    assert used(refused) <= OPTIONAL
    assert granted(rules) - asked <= ELSEWHERE
    assert {("get", "pods/portforward"), ("create", "pods/portforward")} & asked
