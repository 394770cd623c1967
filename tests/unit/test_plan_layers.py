"""Who beats whom in a rendered manifest, who is named for each field, and what a plugin may not do."""

from __future__ import annotations

import random

import pytest
from plan_case import CPU, SHORT, WRITTEN, Case, env, head, spec, worker

import kubectl_nrl
from kubectl_nrl.api import Policy, Problem, Provider, Resource, Section
from kubectl_nrl.errors import ConfigError, NrlError, PluginError
from kubectl_nrl.manager import Manager

GPU = "cluster: {num_nodes: 2, gpus_per_node: 4}\n"


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


def manager_with(tmp_path, body, name="site"):
    """The built-ins and one more plugin, from a file as a user would give it."""
    path = tmp_path / f"{name}.py"
    path.write_text("from kubectl_nrl import hookimpl\nfrom kubectl_nrl.api import *\n" + body)
    return Manager.load([str(path)], {"USER": "jdoe"})


SITE = """
class Site(Section):
    name = "site"
    def active(self, ctx): return True
    def patches(self, ctx):
        {patches}
@hookimpl
def nrl_sections():
    yield Site()
"""


def site(tmp_path, patches):
    return manager_with(tmp_path, SITE.format(patches=patches))


def test_what_the_user_wrote_in_a_spec_beats_sections_and_profile(case):
    infra = (
        "profile: gb300\n"
        + WRITTEN.replace("      - groupName: gpu", "      - groupName: gpu").replace(
            "            containers:\n            - name: ray",
            "            nodeSelector: {nvidia.com/gpu.product: MINE}\n            containers:\n            - name: ray",
        )
        + "placement: {nodeSelector: {nvidia.com/gpu.product: SECTION, zone: a}}\n"
    )
    plan = case.plan(infra, GPU)
    assert worker(plan)["nodeSelector"] == {"nvidia.com/gpu.product": "MINE", "zone": "a"}


def test_a_section_beats_the_profile(case):
    plan = case.plan(
        "profile: gb300\n"
        + SHORT.replace("profile: generic\n", "")
        + "placement: {nodeSelector: {nvidia.com/gpu.product: S}}\n",
        GPU,
    )
    assert worker(plan)["nodeSelector"]["nvidia.com/gpu.product"] == "S"


def test_null_in_a_spec_removes_what_the_profile_gave(case):
    infra = "profile: gb300\n" + WRITTEN.replace(
        "            containers:\n            - name: ray",
        "            tolerations: []\n            nodeSelector: null\n            containers:\n            - name: ray",
    )
    plan = case.plan(infra, GPU)
    assert "tolerations" not in worker(plan) and "nodeSelector" not in worker(plan)


def test_image_replaces_the_ray_containers_and_leaves_sidecars_that_have_one(case):
    infra = (
        WRITTEN.replace("            - name: ray\n", "            - name: ray\n              image: old:1\n").rstrip()
        + "\n            - {name: side, image: side:1}\n            - {name: bare}\n"
    )
    plan = case.plan(infra, GPU)
    assert [c["image"] for c in worker(plan)["containers"]] == ["reg.example/ray:1", "side:1", "reg.example/ray:1"]
    assert any("old:1" in p.message and p.severity == "note" for p in plan.problems)


def test_a_container_without_any_image_is_an_error(case):
    assert any("has no image" in line for line in case.problems(SHORT.replace("image: reg.example/ray:1\n", "")))


def test_the_ray_container_stays_first_when_a_plugin_adds_a_sidecar(case, tmp_path):
    plan = case.plan(
        manager=site(
            tmp_path, 'yield Patch(Target.pods(), {"spec": {"containers": [{"name": "side", "image": "s:1"}]}})'
        )
    )
    assert [c["name"] for c in worker(plan)["containers"]] == ["ray-worker", "side"]
    assert [c["name"] for c in head(plan)["containers"]] == ["ray-head", "side"]


def test_the_source_of_a_field_is_named(case):
    plan = case.plan(SHORT + "placement: {nodeSelector: {zone: a}}\n")
    labels = {".".join(map(str, p)): s for p, s in plan.workload().sources.items()}
    assert any("nodeSelector.zone" in path and who == "placement (i.yaml:5)" for path, who in labels.items()), labels


def test_a_field_written_in_a_spec_names_file_and_line(case):
    plan = case.plan(WRITTEN, GPU)
    sources = plan.workload().sources
    path = (
        "spec",
        "rayClusterSpec",
        "workerGroupSpecs",
        "[gpu]",
        "template",
        "spec",
        "containers",
        "[ray]",
        "resources",
        "limits",
        "nvidia.com/gpu",
    )
    assert sources[path].startswith("i.yaml:")


def test_segments_share_the_sources_of_their_group(case):
    infra = WRITTEN.replace("name: train\n", "name: train\n    segmentSize: 1\n")
    sources = case.plan(infra, GPU).workload().sources
    for segment in ("[gpu-segment-0]", "[gpu-segment-1]"):
        assert any(segment in path for path in sources)


def test_env_numbers_and_booleans_become_the_text_that_was_written(case):
    infra = SHORT.replace("launch: {", "launch: {env: {A: 0x10, B: on, C: 1e-4, D: 007, E: ~}, ")
    script = case.plan(infra).launch.script
    for line in ("export A=0x10", "export B=on", "export C=1e-4", "export D=007"):
        assert line in script
    assert "export E" not in script


def test_env_numbers_in_a_pod_spec_become_text_as_well(case):
    infra = WRITTEN.replace(
        "            - name: ray\n",
        "            - name: ray\n              env: [{name: A, value: 1e-4}, {name: B, value: yes}]\n",
    )
    assert {k: v for k, v in env(worker(case.plan(infra, GPU))).items() if k in "AB"} == {"A": "1e-4", "B": "yes"}


def test_two_plugins_of_one_rank_that_disagree_are_an_error_naming_both(case, tmp_path):
    two = """
class Other(Section):
    name = "other"
    def active(self, ctx): return True
    def patches(self, ctx):
        yield Patch(Target.pods(), {"spec": {"hostNetwork": False}})
class Site(Section):
    name = "site"
    def active(self, ctx): return True
    def patches(self, ctx):
        yield Patch(Target.pods(), {"spec": {"hostNetwork": True}})
@hookimpl
def nrl_sections():
    yield Site()
    yield Other()
"""
    lines = case.problems(manager=manager_with(tmp_path, two))
    assert any("other and site set" in line and "hostNetwork" in line for line in lines), lines


def test_two_plugins_of_one_rank_that_agree_are_fine(case, tmp_path):
    two = SITE.format(patches='yield Patch(Target.pods(), {"spec": {"hostNetwork": True}})') + SITE.replace(
        "Site", "Other"
    ).replace('"site"', '"other"').replace("nrl_sections", "nrl_sections").format(
        patches='yield Patch(Target.pods(), {"spec": {"hostNetwork": True}})'
    ).replace("@hookimpl\ndef nrl_sections():\n    yield Other()", "")
    plan = case.plan(manager=manager_with(tmp_path, two))
    assert worker(plan)["hostNetwork"] is True


def test_a_policy_beats_what_the_user_wrote(case, tmp_path):
    body = """
class Rule(Policy):
    name = "rule"
    def patches(self, ctx):
        assert ctx.rendered, "a policy sees what was rendered"
        yield Patch(Target.pods(which="workers"), {"spec": {"priorityClassName": "low"}})
@hookimpl
def nrl_policies():
    yield Rule()
"""
    infra = WRITTEN.replace(
        "            containers:\n            - name: ray",
        "            priorityClassName: high\n            containers:\n            - name: ray",
    )
    assert worker(case.plan(infra, GPU, manager=manager_with(tmp_path, body)))["priorityClassName"] == "low"
    off = case.plan(infra + "policies: {rule: false}\n", GPU, manager=manager_with(tmp_path, body))
    assert worker(off)["priorityClassName"] == "high"


def test_a_policy_can_refuse(case, tmp_path):
    body = """
class Rule(Policy):
    name = "rule"
    def problems(self, ctx):
        yield Problem("no runs on Friday")
@hookimpl
def nrl_policies():
    yield Rule()
"""
    assert any("no runs on Friday" in line for line in case.problems(manager=manager_with(tmp_path, body)))


@pytest.mark.parametrize(("patches", "words"), [
    ('yield {"spec": {}}', ("dict", "where a Patch belongs")),
    ('yield Patch("pods", {})', ("target is a str",)),
    ('yield Patch(Target.pods(), [1])', ("merge is a list",)),
    ('yield Patch(Target.pods(), {"spec": {"x": object()}})', ("merge.spec.x is a object",)),
    ('yield Patch(Target.pods(), {1: 2})', ("the key 1",)),
    ('raise KeyError("boom")', ("raised KeyError in patches()", "boom")),
    ('return 5', ("raised TypeError",)),
])  # fmt: skip
def test_rubbish_from_a_plugin_is_one_line_that_names_it(case, tmp_path, patches, words):
    with pytest.raises(NrlError) as caught:
        case.plan(manager=site(tmp_path, patches))
    assert "site" in str(caught.value) and all(w in str(caught.value) for w in words), caught.value


@pytest.mark.parametrize(("patches", "words"), [
    ('yield Patch(Target.object("Workload"), {"metadata": {"name": "x"}})', "metadata.name"),
    ('yield Patch(Target.object("Workload"), {"spec": {"entrypoint": "x"}})', "spec.entrypoint"),
    ('yield Patch(Target.object("Workload"), {"metadata": {"labels": {"kubectl-nrl/owner": "x"}}})', "kubectl-nrl/owner"),
    ('yield Patch(Target.object("Secret"), {"data": {}})', "targets a Secret"),
    ('yield Patch(Target.pods("nowhere"), {"spec": {}})', "nowhere"),
    ('yield Patch(Target.pods(), {"group": {"groupName": "x"}})', "group.groupName"),
    ('yield Patch(Target.object("RayCluster"), {"metadata": {"labels": {"a": "b"}}})', "Workload"),
])  # fmt: skip
def test_a_plugin_may_not_set_what_the_tool_owns(case, tmp_path, patches, words):
    lines = case.problems(manager=site(tmp_path, patches))
    assert any(words in line and "site" in line for line in lines), lines


def test_a_patch_that_makes_an_invalid_pod_names_the_field_and_its_plugin(case, tmp_path):
    lines = case.problems(manager=site(tmp_path, 'yield Patch(Target.pods(), {"spec": {"hostNetwrok": True}})'))
    assert any("hostNetwrok" in line and "site" in line for line in lines), lines


def test_a_plugin_that_edits_what_it_is_shown_fails_by_itself(case, tmp_path):
    body = 'ctx.base["training"]["spec"]["headGroupSpec"]["x"] = 1; return ()'
    with pytest.raises(PluginError, match="site"):
        case.plan(manager=site(tmp_path, body))


def test_a_volume_that_nothing_mounts_any_more_is_dropped(case, tmp_path):
    patches = 'yield Patch(Target.pods(), {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}})'
    assert "volumes" not in worker(case.plan(manager=site(tmp_path, patches)))


def test_a_users_volume_stays_even_when_nothing_mounts_it(case):
    infra = WRITTEN.replace(
        "            containers:\n            - name: ray",
        "            volumes: [{name: v, emptyDir: {}}]\n            containers:\n            - name: ray",
    )
    assert worker(case.plan(infra, GPU))["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_a_resource_that_is_no_object_names_its_plugin(case, tmp_path):
    body = SITE.format(patches="return ()").replace(
        "    def patches", "    def resources(self, ctx):\n        yield Resource({'kind': 'X'})\n    def patches"
    )
    with pytest.raises(NrlError, match="site"):
        case.plan(manager=manager_with(tmp_path, body))


def test_a_profile_file_is_chosen_by_path_and_its_defaults_stay_below_the_users(case):
    profile = """
    name: mine
    gpus: {perNode: 4}
    nodeSelector: {pool: mine}
    env: {A: "1"}
    defaults: {resources: {training: {worker: {cpu: "7", gpu: 4}}}, placement: {nodeSelector: {zone: p}}}
    patches:
    - {target: {pods: workers}, merge: {spec: {dnsPolicy: ClusterFirst}, container: {ray: {tty: true}}}}
    """
    infra = (
        SHORT.replace("profile: generic", "profile: ./mine.yaml")
        + "resources: {training: {worker: {cpu: '9', gpu: 4}}}\n"
    )
    plan = case.plan(infra, GPU, mine__yaml=profile)
    got = worker(plan)
    assert got["nodeSelector"] == {"pool": "mine", "zone": "p"} and got["dnsPolicy"] == "ClusterFirst"
    assert got["containers"][0]["tty"] is True and env(got)["A"] == "1"
    assert got["containers"][0]["resources"]["requests"]["cpu"] == "9"
    assert plan.profile == "mine"


def test_an_unknown_profile_gets_the_nearest_name(case):
    lines = case.problems(SHORT.replace("profile: generic", "profile: gb30"))
    assert any('"gb30"' in line and "gb300" in line for line in lines), lines


def test_a_profile_file_that_is_missing_says_where_it_was_named(case):
    lines = case.problems(SHORT.replace("profile: generic", "profile: ./none.yaml"))
    assert any("i.yaml:2" in line and "none.yaml" in line for line in lines), lines


def test_labels_that_the_api_server_would_refuse_are_refused_here(case):
    lines = case.problems(SHORT + "labels: {team: 'a b'}\n")
    assert any("a b" in line and "label" in line for line in lines), lines


def test_probes_and_ephemeral_storage_by_hand_draw_a_warning_with_their_line(case):
    infra = WRITTEN.replace(
        "            - name: ray\n", "            - name: ray\n              readinessProbe: {exec: {command: [x]}}\n"
    )
    plan = case.plan(infra, GPU)
    assert any("readinessProbe" in p.message and p.origin.line for p in plan.problems if p.origin)


def test_the_result_never_depends_on_the_order_in_which_plugins_are_registered(case, monkeypatch):
    infra = SHORT + (
        "networking: {hostNetwork: true, nccl_net: IB}\nworkspace: {kind: pvc, pvcName: w}\nhf_cache: {kind: pvc, pvcName: h}\n"
        "checkpoints: {kind: pvc, pvcName: c}\nsecrets: [s]\nscheduler: {kind: kai, queue: q}\ndra: [roce]\n"
    )
    expected = case.plan(infra, GPU).objects
    from kubectl_nrl import manager as module

    for seed in range(5):
        names = list(module.BUILTINS.items())
        random.Random(seed).shuffle(names)
        monkeypatch.setattr(module, "BUILTINS", dict(names))
        assert case.plan(infra, GPU).objects == expected


def test_schema_errors_and_later_problems_are_reported_together(case):
    lines = case.problems(SHORT.replace("image:", "imag:") + "placemnt: {}\n")
    assert sum("unknown key" in line for line in lines) == 2, lines


def test_api_names_of_providers_are_exported():
    for name in ("Policy", "Provider", "Resource", "Section", "Problem"):
        assert getattr(kubectl_nrl.api, name) in (Policy, Provider, Resource, Section, Problem)


def test_a_problem_raised_as_an_error_keeps_the_warnings_found_before_it(case):
    with pytest.raises(ConfigError) as caught:
        case.plan(SHORT.replace("--config recipe.yaml", "") + "nonsense: 1\n", CPU)
    severities = {p.severity for p in caught.value.problems}
    assert severities == {"error", "warning"}


def test_a_deployment_without_selector_gets_one_and_a_service_from_its_ports(case):
    infra = (
        SHORT
        + """
deployments:
  judge:
    spec:
      template: {spec: {containers: [{name: j, ports: [{containerPort: 80}]}]}}
"""
    )
    plan = case.plan(infra)
    deployment, service = (
        next(o.manifest for o in plan.objects if o.kind == kind) for kind in ("Deployment", "Service")
    )
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    assert [p["port"] for p in service["spec"]["ports"]] == [80]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "reg.example/ray:1"


def test_group_patches_reach_ray_start_params(case, tmp_path):
    plan = case.plan(
        manager=site(
            tmp_path, 'yield Patch(Target.pods(which="workers"), {"group": {"rayStartParams": {"block": "true"}}})'
        )
    )
    assert spec(plan)["workerGroupSpecs"][0]["rayStartParams"] == {"block": "true"}
