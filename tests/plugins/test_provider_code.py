"""Code sources, and the submitters that only Plans know."""

from __future__ import annotations

import pytest
from context import context, origins, problems, ray_group, ray_spec, render, with_training
from nrl_plugins.code_image import ImageCode
from nrl_plugins.code_lustre import LustreCode
from nrl_plugins.section_workspace import Workspace

IMAGE, LUSTRE = ImageCode(), LustreCode()
CODE = {"launch": {"codePath": "/opt/nemo-rl"}}
SHARED = {"workspace": {"kind": "lustre", "pvcName": "rl", "mountPath": "/mnt/rl"}}
SECOND = {"name": "nrl-pvc-rl", "mountPath": "/opt/nemo-rl", "subPath": "jo/nemo-rl"}


@pytest.mark.parametrize("code", [IMAGE, LUSTRE])
def test_the_entrypoint_runs_in_the_code_path(code) -> None:
    assert code.working_dir(context(CODE)) == "/opt/nemo-rl"


@pytest.mark.parametrize("path", [None, "relative/x", 7])
@pytest.mark.parametrize("code", [IMAGE, LUSTRE])
def test_a_path_that_is_none_gives_no_directory(code, path: object) -> None:
    assert code.working_dir(context({"launch": {"codePath": path}})) is None


def test_code_in_the_image_changes_no_pod() -> None:
    assert list(IMAGE.patches(context({**CODE, **SHARED}))) == []


def test_shared_code_is_mounted_at_its_path_a_second_time() -> None:
    found = render(LUSTRE, context({**CODE, **SHARED}))
    assert found.ray("worker")["volumeMounts"] == found.ray("head")["volumeMounts"] == [SECOND]
    assert found.pod()["volumes"] == [{"name": "nrl-pvc-rl", "persistentVolumeClaim": {"claimName": "rl"}}]


@pytest.mark.parametrize("kind", ["pvc", "auto"])
def test_any_claim_will_do(kind: str) -> None:
    found = render(LUSTRE, context({**CODE, "workspace": {"kind": kind, "pvcName": "rl"}}))
    assert found.ray()["volumeMounts"] == [SECOND]


def test_the_directory_of_the_claim_may_be_named() -> None:
    shared = {"workspace": {**SHARED["workspace"], "codeSubPath": "team/code"}}
    assert render(LUSTRE, context({**CODE, **shared})).ray()["volumeMounts"][0]["subPath"] == "team/code"


@pytest.mark.parametrize("path", ["/mnt/rl", "/mnt/rl/", "/mnt/rl/jo/nemo-rl"])
def test_code_below_the_workspace_needs_no_second_mount(path: str) -> None:
    ctx = context({"launch": {"codePath": path}, **SHARED})
    assert list(LUSTRE.patches(ctx)) == []
    assert problems(LUSTRE, ctx) == []


def test_a_path_that_only_begins_alike_is_not_below_it() -> None:
    ctx = context({"launch": {"codePath": "/mnt/rl-code"}, **SHARED})
    assert len(list(LUSTRE.patches(ctx))) == 1


def test_a_named_directory_is_mounted_even_below_the_workspace() -> None:
    shared = {"workspace": {**SHARED["workspace"], "codeSubPath": "x"}}
    assert len(list(LUSTRE.patches(context({"launch": {"codePath": "/mnt/rl/code"}, **shared})))) == 1


def mounting(path: str) -> dict:
    return {"spec": {"containers": [{"name": "ray", "volumeMounts": [{"name": "lustre", "mountPath": path}]}]}}


def test_a_hand_written_mount_that_holds_the_code_is_enough() -> None:
    spec = ray_spec(ray_group(template=mounting("/opt")), head=mounting("/opt/nemo-rl"))
    for infra in ({**CODE, **SHARED}, CODE):
        ctx = context(with_training(spec, **infra))
        assert list(LUSTRE.patches(ctx)) == []
        assert problems(LUSTRE, ctx) == []


def test_only_the_template_without_such_a_mount_gets_one() -> None:
    spec = ray_spec(ray_group(template=mounting("/opt")), head=mounting("/elsewhere"))
    found = render(LUSTRE, context(with_training(spec, **CODE, **SHARED)))
    assert found.ray("head")["volumeMounts"] == [SECOND]
    assert found.group("gpu") == {}


def test_the_second_mount_is_of_the_volume_that_is_there() -> None:
    pod = mounting("/elsewhere")
    pod["spec"]["volumes"] = [{"name": "lustre", "persistentVolumeClaim": {"claimName": "rl"}}]
    found = render(LUSTRE, context(with_training(ray_spec(ray_group(template=pod)), **CODE, **SHARED)))
    assert found.ray("gpu")["volumeMounts"] == [{**SECOND, "name": "lustre"}]
    assert "volumes" not in found.pod("gpu")


def test_code_and_workspace_share_one_volume() -> None:
    ctx = context({**CODE, **SHARED})
    assert render(LUSTRE, ctx).pod()["volumes"] == render(Workspace(), ctx).pod()["volumes"]


@pytest.mark.parametrize("workspace", [{}, {"workspace": {"kind": "rayUpload", "pvcName": "x"}}])
def test_shared_code_without_a_workspace_is_an_error(workspace: dict) -> None:
    ctx = context({"launch": {"codePath": "/opt/x", "codeSource": "lustre"}, **workspace})
    (message,) = problems(LUSTRE, ctx)
    assert "/opt/x" in message
    assert origins(LUSTRE, ctx) == ["infra:launch.codeSource"]


def test_a_directory_of_the_nodes_may_hold_the_code() -> None:
    nodes = {"workspace": {"kind": "hostPath", "hostPath": "/data", "mountPath": "/w"}}
    assert problems(LUSTRE, context({"launch": {"codePath": "/w/code"}, **nodes})) == []
    assert len(problems(LUSTRE, context({"launch": {"codePath": "/opt/code"}, **nodes}))) == 1
