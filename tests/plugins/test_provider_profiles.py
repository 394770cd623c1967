"""The built-in profiles: data that fits the schema, and what it says of the hardware."""

from __future__ import annotations

import json

import jsonschema
import pytest
from context import context
from nrl_plugins.profiles_builtin import nrl_profiles
from nrl_schemas import load

PROFILES = {profile.name: profile for profile in nrl_profiles()}
GB300 = PROFILES["gb300"]


def test_which_there_are() -> None:
    assert list(PROFILES) == ["gb300", "generic"]


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_plain_data_that_fits_its_schema(name: str) -> None:
    data = PROFILES[name].data
    assert json.loads(json.dumps(data)) == data
    schema = load("profile.schema")
    own = {**schema, "$defs": {**schema["$defs"], "tolerations": {"type": "array"}}}
    own["properties"] = {**schema["properties"], "workerSecurityContext": {"type": "object"}}
    jsonschema.validate(data, own)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_says_what_it_is_and_where_it_lies(name: str) -> None:
    assert PROFILES[name].summary
    assert PROFILES[name].source.endswith(f"{name}.yaml")


def test_generic_leaves_the_gpus_of_a_node_to_the_recipe() -> None:
    assert set(PROFILES["generic"].data) == {"name", "summary", "gpus"}
    assert PROFILES["generic"].data["gpus"] == {"resource": "nvidia.com/gpu"}


def test_gb300_nodes() -> None:
    assert GB300.get("gpus.perNode") == 4
    assert GB300.get("nodeSelector") == {"nvidia.com/gpu.product": "NVIDIA-GB300"}
    assert GB300.get("topology") == {"label": "nvidia.com/gpu.clique", "rackSize": 18, "name": "gb300-topology"}
    assert GB300.get("dra") == ["computedomain", "roce"]
    assert GB300.get("nics") == {"deviceClass": "roce.networking.k8s.aws", "count": 8}
    assert GB300.get("workerSecurityContext.capabilities.add") == ["IPC_LOCK"]


def test_gb300_environment_is_text() -> None:
    assert GB300.get("env") == {"NCCL_MNNVL_ENABLE": "1", "RAY_memory_monitor_refresh_ms": "0"}


def test_gb300_workers_do_not_outlive_their_node() -> None:
    """A toleration of everything would keep pods on nodes that are lost or being drained."""
    assert all(toleration.get("key") for toleration in GB300.get("tolerations"))


def test_profiles_change_no_pod_by_code() -> None:
    for profile in PROFILES.values():
        assert list(profile.patches(context())) == []
