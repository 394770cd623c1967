"""Printed commands: what a person pastes works on the cluster, in the namespace, and with the plugins that the call had."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_cluster import FakeCluster

from kubectl_nrl.pasting import Given
from kubectl_nrl.testing import Project

GIVEN = Given("rl", "c", "/k/config", ("/p/x.py", "no:y"))
FLAGS = "--context c --kubeconfig /k/config"
OWN = f"{FLAGS} -p /p/x.py -p no:y"


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("kubectl describe raycluster t -n rl", f"kubectl {FLAGS} describe raycluster t -n rl"),
        ("kubectl nrl runs", f"kubectl nrl {OWN} -n rl runs"),
        ("kubectl nrl runs -A", f"kubectl nrl {OWN} runs -A"),
        ("kubectl nrl job stop a -n rl -p x.py --context c", "kubectl nrl job stop a -n rl -p x.py --context c"),
        (
            "see: kubectl get pods; or kubectl nrl clean",
            f"see: kubectl {FLAGS} get pods; or kubectl nrl {OWN} -n rl clean",
        ),
        (
            "kubectl get pods -n rl\nkubectl nrl doctor",
            f"kubectl {FLAGS} get pods -n rl\nkubectl nrl {OWN} -n rl doctor",
        ),
        (
            "kubectl nrl runs   # or kubectl get pods -n x --context c",
            f"kubectl nrl {OWN} -n rl runs   # or kubectl get pods -n x --context c",
        ),
        ("kubectl cannot complete `kubectl nrl <TAB>`", "kubectl cannot complete `kubectl nrl <TAB>`"),
        ("what kubectl nrl uses; kubectl-nrl runs", "what kubectl nrl uses; kubectl-nrl runs"),
        ("/usr/bin/kubectl get pods", "/usr/bin/kubectl get pods"),
    ],
)
def test_a_command_gets_the_flags_that_it_lacks_and_no_other_words_do(text: str, completed: str) -> None:
    assert GIVEN.complete(text) == completed
    assert GIVEN.complete(completed) == completed, "printed twice is printed once"
    assert Given().complete(text) == text


def test_a_value_that_a_shell_would_split_is_quoted() -> None:
    said = Given(context="a b", kubeconfig="/x y/$k").complete("kubectl get pods")
    assert said == "kubectl --context 'a b' --kubeconfig '/x y/$k' get pods"


@pytest.mark.parametrize("form", ["text", "json"])
def test_hints_of_errors_name_the_cluster_that_was_asked(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: FakeCluster())
    project = Project({"config": "x"})
    done = project.run(f"job stop nope -n rl --context c --kubeconfig config -o {form}")
    place = Path(project.root) / "project" / "config"
    hint = f"kubectl nrl --context c --kubeconfig {place} runs -A"
    assert (done.exit, f"hint: {hint}\n" in done.err) == (2, True), done.err
    assert form == "text" or done.result("error")["hint"] == hint
