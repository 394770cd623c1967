"""A port-forward to a fake pod leads to that pod's own address, and all else passes before kwok as it comes."""

from __future__ import annotations

import pytest
from cluster.fake_kubelet import ADDRESSES, by_address, rules
from cluster.http_framing import Head

PODS = {("team", "e-head"): "10.89.3.7"}


def asked(target: str, method: str = "POST") -> str:
    request = Head(f"{method} {target} HTTP/1.1", [("Upgrade", "SPDY/3.1")])
    passed = by_address(request, lambda namespace, name: PODS.get((namespace, name), ""))
    assert passed.headers == request.headers
    return passed.words[1]


def test_the_name_of_a_pod_becomes_its_address() -> None:
    assert asked("/portForward/team/e-head") == f"/portForward/{ADDRESSES}/10-89-3-7"
    assert asked("/portForward/team/e-head?port=8265", "GET") == f"/portForward/{ADDRESSES}/10-89-3-7?port=8265"


@pytest.mark.parametrize(
    "target", ["/portForward/team/other", "/portForward/other/e-head", "/containerLogs/team/e-head/ray", "/healthz"]
)
def test_what_has_no_address_passes_as_it_came(target: str) -> None:
    assert asked(target) == target


def test_kwok_has_a_rule_for_what_is_asked_of_it() -> None:
    made = rules("10.89.3.0/24", (8265, 52365))
    assert len(made) == 256
    [rule] = [r for r in made if asked("/portForward/team/e-head").endswith(f"/{r['metadata']['name']}")]
    assert rule["metadata"]["namespace"] == ADDRESSES
    targets = [(forward["ports"], forward["target"]) for forward in rule["spec"]["forwards"]]
    assert targets == [([port], {"address": "10.89.3.7", "port": port}) for port in (8265, 52365)]
