"""The Role that `doctor --rbac` prints is enough for a run and all that follows, and grants nothing that is not used."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.fault_proxy import FaultProxy, Seen
from cluster.fixtures import Cluster
from command_line import CommandLine, wait_until
from run_files import files

from kubectl_nrl.preflight import least_needs, role_rules

pytestmark = pytest.mark.node

#: (verb, resource) that this server or these runs do not ask for: a port-forward is `get` on API servers that upgrade a GET,
#: volumes are looked at when a scheduler finds them unbound.
ELSEWHERE = {("get", "pods/portforward"), ("create", "pods/portforward"), ("list", "persistentvolumeclaims")}
#: A pod is looked at when its log, which no fake node has, was cut.
ELSEWHERE.add(("get", "pods"))
#: Queues are for runs that name one; they are asked for where the cluster has Kueue, or had it: its kinds stay.
ELSEWHERE.add(("get", "localqueues"))
#: Claims and domains need drivers that no fake node has.
ELSEWHERE |= {
    (verb, resource)
    for verb in ("create", "get", "patch", "delete")
    for resource in ("resourceclaimtemplates", "computedomains")
}
#: `clean` takes what nobody owns when it is minutes old.
ELSEWHERE |= {("delete", resource) for resource in ("pods", "configmaps", "resourceclaims")}
#: What is asked for and done without.
OPTIONAL = {("list", "resourcequotas"), ("list", "limitranges"), ("list", "deployments"), ("list", "services"),
            ("create", "pods"), ("get", "pods/exec"), ("create", "pods/exec")}  # fmt: skip

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


@pytest.fixture(scope="module")
def bare(kwok_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """A user who may do what runs require and nothing else, with a run that is over."""
    namespace, directory = kwok_cluster.namespace(), tmp_path_factory.mktemp("bare")
    cli = CommandLine(kwok_cluster, namespace, directory)
    rules = role_rules(need for need in least_needs(None) if need.required)
    cli.env["KUBECONFIG"] = str(kwok_cluster.user(namespace, rules, "bare"))
    for file, data in files("echo done", image="none/ray:1", codePath="/tmp").items():
        (directory / file).write_text(yaml.safe_dump(data))
    first = cli.run("run recipe.yaml --infra infra.yaml --rayjob-name least --run-id first --ttl 600")
    assert first.out.endswith("done\n")
    yield cli
    kwok_cluster.delete_namespace(namespace)


def _one_that_waits(cli: CommandLine, run: str) -> None:
    """A run that no node takes and whose script is too long for its RayJob, looked at and stopped."""
    data = files("echo done", image="none/ray:1", codePath="/tmp")
    worker = data["infra.yaml"]["kuberay"]["training"]["spec"]["workerGroupSpecs"][0]
    worker["template"]["spec"]["nodeSelector"] = {"pool": "nowhere"}
    # Digits that do not pack.
    data["recipe.yaml"] = {**data["recipe.yaml"], "long": hashlib.shake_256(b"long").hexdigest(200_000)}
    for file, content in data.items():
        (cli.directory / file).write_text(yaml.safe_dump(content))
    cli.run(f"{run} --no-wait")
    wait_until(lambda: "Unschedulable" in cli.run("status waits").out, "the worker to be refused")
    cli.run("status")
    cli.run("verify waits", expect=1)
    cli.run("job stop waits")


def test_the_least_role_is_enough_and_nothing_in_it_is_superfluous(
    kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path
) -> None:
    cli = CommandLine(kwok_cluster, kwok_namespace, tmp_path)
    role = yaml.safe_load(cli.run("doctor --rbac").out)
    rules = role["rules"]
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
        cli.run("verify first", **cli.elsewhere())
        cli.start("logs first --source head").end()  # a fake node has no log to give
        cli.run("job stop first")
        cli.run(f"{run} --run-id second --replace")
        _one_that_waits(cli, f"{run.replace('least', 'waits')} --run-id waits")
        cli.run("clean --dry-run")
        cli.run("cluster list")
        watching = cli.start("cluster list -w")
        watching.until(lambda: ("watch", "rayclusters") in used(proxy.seen), "a watch of Ray clusters")
        watching.interrupt()
        refused = [seen for seen in proxy.seen if seen.status == 403 and _PATH.fullmatch(seen.target)]
        asked = used(seen for seen in proxy.seen if seen.status != 403)
    # Looked at where that is allowed, done without where not: quotas, dry runs of pods, versions, the log by exec.
    assert used(refused) <= OPTIONAL
    assert granted(rules) - asked <= ELSEWHERE
    assert {("get", "pods/portforward"), ("create", "pods/portforward")} & asked


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("status", 0),
        ("status least", 0),
        ("runs", 0),
        ("job list", 0),
        ("job logs first", 0),
        ("verify first", 0),
        ("clean --dry-run", 0),
    ],
)
def test_a_verb_does_without_what_a_run_does_not_require_and_says_so_once(
    bare: CommandLine, line: str, code: int
) -> None:
    done = bare.run(line, code)
    said = [text for text in done.err.splitlines() if "forbidden" in text or "permissions" in text]
    assert len(said) <= 1, done
