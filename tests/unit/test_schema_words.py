"""Nearest words, paths as people write them, and quantities."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_nrl.schema import nearest
from kubectl_nrl.schema.quantities import quantity
from kubectl_nrl.schema.suggestions import distance
from kubectl_nrl.schema.words import either, path_text, show, type_of


@pytest.mark.parametrize(
    ("word", "words", "meant"),
    [
        ("pgu", ["cpu", "gpu"], "gpu"),
        ("node_selector", ["nodeSelector", "nodeName"], "nodeSelector"),
        ("HOSTNETWORK", ["hostNetwork"], "hostNetwork"),
        ("imge", ["imagePullSecrets", "image"], "image"),
        ("tolerration", ["tolerations", "topology"], "tolerations"),
        ("zzz", ["image", "labels"], None),
        ("", ["image"], None),
        ("x", [], None),
        ("x" * 1_000_000, ["x"], None),
        ("kai", ["kai"], "kai"),
    ],
)
def test_nearest(word: str, words: list[str], meant: str | None) -> None:
    assert nearest(word, words) == meant


@given(st.text(max_size=12), st.lists(st.text(max_size=12), max_size=8))
def test_nearest_is_one_of_them(word: str, words: list[str]) -> None:
    assert nearest(word, words) in (None, *words)


@pytest.mark.parametrize(
    ("one", "other", "edits"), [("", "", 0), ("ab", "ba", 1), ("abc", "ac", 1), ("gpu", "cpu", 1), ("", "abc", 3)]
)
def test_distance(one: str, other: str, edits: int) -> None:
    assert distance(one, other) == distance(other, one) == edits


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "the file"),
        (("a", "b", 0, "c"), "a.b[0].c"),
        (("labels", "kai.scheduler/queue"), 'labels["kai.scheduler/queue"]'),
        (("a", ""), 'a[""]'),
        ((True,), "True"),
        (("a", "x\ny"), 'a["x\\ny"]'),
    ],
)
def test_path_text(path: tuple[Any, ...], text: str) -> None:
    assert path_text(path) == text


def test_path_text_after_a_prefix() -> None:
    assert path_text(("template",), "kuberay.training.spec") == "kuberay.training.spec.template"
    assert path_text((), "kuberay.training.spec") == "kuberay.training.spec"


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "empty"), (True, "true"), (3, "a whole number"), (4.0, "a whole number"), (1.5, "a number"), ("x", "text"),
     ([], "a list"), ({}, "a mapping"), (b"x", "a bytes")],
)  # fmt: skip
def test_type_of(value: Any, words: str) -> None:
    assert type_of(value) == words


def test_either() -> None:
    assert [either(words) for words in (["a"], ["a", "b"], ["a", "b", "c"], [])] == [
        "a",
        "a or b",
        "a, b or c",
        "nothing",
    ]


@given(st.one_of(st.text(), st.integers(), st.floats(), st.binary(), st.lists(st.integers())))
def test_show_is_one_short_line(value: Any) -> None:
    assert show(value).isprintable()
    assert len(show(value)) <= 63


@pytest.mark.parametrize(
    ("text", "number"),
    [("500m", Fraction(1, 2)), ("16", 16), (16, 16), (0.5, Fraction(1, 2)), ("64Gi", 64 * 2**30), ("64G", 64 * 10**9), ("1k", 1000),
     ("1e3", 1000), ("1E", 10**18), (".5", Fraction(1, 2)), ("-1", -1), ("x", None), ("", None), ("1/2", None), ("1e999999999", None),
     (True, None), (None, None), ([], None), ("9" * 100, None), ("nan", None)],
)  # fmt: skip
def test_quantity(text: Any, number: Any) -> None:
    assert quantity(text) == number


@given(st.one_of(st.text(), st.floats()))
def test_quantity_never_raises(value: Any) -> None:
    quantity(value)
