"""Refusals in one line: with verb, resource, namespace and what the server said; never a secret."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import refused

from kubectl_nrl.cluster import errors
from kubectl_nrl.errors import ExitCode


def body(code: int, reason: str, message: str, **details: object) -> bytes:
    return json.dumps(refused(code, reason, message, **details)).encode()


def test_a_missing_permission_names_what_and_where_and_how_to_ask() -> None:
    said = 'rayjobs.ray.io is forbidden: User "u" cannot create resource "rayjobs" in API group "ray.io" in the namespace "rl"'
    doing = errors.describe("create", "rayjobs.ray.io", "a", "rl")
    error = errors.refusal(doing, 403, body(403, "Forbidden", said), can_i="create rayjobs.ray.io -n rl")
    assert error.message == f'cannot create rayjobs.ray.io "a" in namespace "rl": {said}'
    assert error.hint == "see what you may do: kubectl auth can-i create rayjobs.ray.io -n rl"
    assert (error.status, error.reason, error.exit_code) == (403, "Forbidden", ExitCode.CLUSTER)


def test_a_denied_admission_is_no_missing_permission() -> None:
    said = 'admission webhook "w" denied the request: no'
    assert errors.refusal("create x", 403, body(403, "Forbidden", said), can_i="create x").hint == ""


@pytest.mark.parametrize(
    ("status", "text", "gone"),
    [
        (refused(404, "NotFound", "", name="x", kind="rayjobs", group="ray.io"), None, True),
        (refused(404, "NotFound", "", name="x", kind="namespaces"), None, False),
        (refused(404, "NotFound", "the server could not find the requested resource"), None, False),
        (None, b"404 page not found\n", False),
    ],
    ids=["the object", "its namespace", "its kind", "its group"],
)
def test_absent_means_the_object_alone(status: dict[str, object] | None, text: bytes | None, gone: bool) -> None:
    assert errors.absent(text if text is not None else json.dumps(status).encode(), "x") is gone


def test_a_bare_404_says_that_the_kind_is_not_served() -> None:
    error = errors.refusal('get rayjobs.ray.io "x"', 404, b"404 page not found\n")
    assert (error.reason, error.status) == ("NotServed", 404)
    assert error.message == 'cannot get rayjobs.ray.io "x": this cluster does not serve it'
    assert "helm install kuberay-operator" in error.hint
    other = errors.refusal('get computedomains.resource.nvidia.com "a.ray.io"', 404, b"404 page not found\n")
    assert other.hint == "see what it serves: kubectl api-resources"


def test_bad_credentials_name_the_user_and_not_the_token() -> None:
    error = errors.refusal("list pods", 401, body(401, "Unauthorized", "Unauthorized"), user="me")
    assert 'user "me" (401): cannot list pods' in error.message and "kubectl" in error.hint


@pytest.mark.parametrize(
    "secret",
    [
        "Bearer abcdefghijklmnop",
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWIifQ.c2lnbmF0dXJl",
        "hf_abcdefGHIJK",
        "sk-proj-abc_defghijklmnop",
        "ghp_0123456789abcdef",
        "nvapi-0123456789abcdef",
    ],
)
def test_what_looks_like_a_credential_is_hidden(secret: str) -> None:
    said = f'spec.value: Invalid value: "{secret}": too long'
    error = errors.refusal("create pods", 422, body(422, "Invalid", said))
    assert secret.removeprefix("Bearer ") not in error.message and "[hidden]" in error.message


def test_names_that_only_begin_like_a_credential_are_shown() -> None:
    assert "hf_cache" in errors.clean("hf_cache is not known") and "sk-learn" in errors.clean("pod my-sk-learn")


@given(st.text(max_size=3000), st.integers(300, 599))
def test_any_answer_is_one_short_printable_line(said: str, code: int) -> None:
    for answer in (body(code, "X", said), said.encode("utf-8", "surrogatepass")):
        message = errors.refusal("create pods", code, answer, user="me").message
        assert message.isprintable() and len(message) < 800
