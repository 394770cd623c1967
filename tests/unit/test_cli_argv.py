"""Whatever is typed, the program ends with an exit code and a line, never with a traceback."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_nrl.commands.completion import complete
from kubectl_nrl.commands.verbs import VERBS
from kubectl_nrl.testing import Outcome, Project

#: Verbs that touch nothing but this machine; the others only with a flag that ends them.
LOCAL = ["check", "validate", "plugins", "version", "completion", "help", "chekc", ""]

FLAGS = [
    "-n", "--namespace", "--context=x", "--kubeconfig", "-o", "-o=json", "-ojson", "--output=yaml", "-v", "-q", "-qv", "--no-color",
    "-p", "-p=x.py", "no:dra_roce", "--strict-plugins", "-h", "--help", "--version", "--infra", "--infra=infra.yaml", "infra.yaml",
    "recipe.yaml", "--rayjob", "--raycluster", "--manifests-only", "--explain", "--schema", "--format", "--format=json",
    "--", "-", "--=", "-=", "---", "--infra=", "bash", "a=1", "+a.b=[1", "~a", "cluster.num_nodes=2", "infra.image=x",
    "infra.launch.env={}", "a=${oc.env:HOME}", "a=${", "'", "\\", "\udcff", "\u202e", "a" * 5000,
]  # fmt: skip

WORDS = st.one_of(
    st.sampled_from(FLAGS),
    st.text(st.characters(exclude_characters="\0/"), max_size=12),
    st.from_regex(r"(\+\+?|~)?[a-z.]{0,9}=[^\0]{0,9}", fullmatch=True),
)

PROJECT = Project(
    {
        "recipe.yaml": "cluster: {num_nodes: 1, gpus_per_node: 4}\na: 1\n",
        "infra.yaml": """
            profile: generic
            image: reg.example/x:1
            launch: {codeSource: image, codePath: /opt/x, entrypoint: python x.py --config recipe.yaml}
        """,
    }
)


def assert_tidy(outcome: Outcome) -> None:
    assert outcome.exit in (0, 2), outcome
    assert "Traceback" not in outcome.err
    if outcome.exit == 2:
        assert "error: " in outcome.err
    else:
        assert outcome.out or "wrote" in outcome.err


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, max_size=3), st.sampled_from(LOCAL), st.lists(WORDS, max_size=7))
def test_any_words(before: list[str], verb: str, after: list[str]) -> None:
    assert_tidy(PROJECT.run([*before, verb, *after]))


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, max_size=6))
def test_any_overrides_of_a_good_check(words: list[str]) -> None:
    assert_tidy(PROJECT.run(["check", "recipe.yaml", "--infra", "infra.yaml", *words]))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([*VERBS]), st.lists(WORDS, max_size=6))
def test_a_wrong_flag_ends_every_verb(verb: str, words: list[str]) -> None:
    outcome = PROJECT.run([verb, "--no-such-flag", *words])
    assert_tidy(outcome)
    assert outcome.exit == 2 or "-h" in words or "--help" in words


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, max_size=5))
def test_completion_always_answers(words: list[str]) -> None:
    lines, directive = complete(words)
    assert directive in (0, 4, 8)
    assert all(isinstance(line, str) and "\n" not in line for line in lines)
