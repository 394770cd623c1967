"""What structure a Plan gets: its life cycle, names, segments, arithmetic. Each test names the behaviour it protects."""

from __future__ import annotations

import pytest
from plan_case import CPU, SHORT, WRITTEN, Case, head, spec, worker

from kubectl_nrl.errors import ConfigError
from kubectl_nrl.facts import ClusterFacts
from kubectl_nrl.plan import Options
from kubectl_nrl.plan.segments import natural_size, remainder_hint, split
from kubectl_nrl.script import decode

GPU = "cluster: {num_nodes: 2, gpus_per_node: 4}\n"


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


def has(lines, *words):
    return any(all(w in line for w in words) for line in lines)


def test_a_short_infra_makes_one_rayjob_with_a_cpu_head_and_num_nodes_workers(case):
    plan = case.plan(SHORT, "cluster: {num_nodes: 3, gpus_per_node: 0}\n")
    assert [(o.kind, o.name) for o in plan.objects] == [("RayJob", "jdoe-grpo-ab12")]
    group = spec(plan)["workerGroupSpecs"][0]
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (3, 3, 3)
    assert spec(plan)["headGroupSpec"]["rayStartParams"] == {"num-gpus": "0"}


def test_gpus_of_a_short_infra_are_the_recipes(case):
    plan = case.plan(SHORT, GPU)
    assert worker(plan)["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 4}
    assert plan.roles[0].gpus == 8 and plan.roles[0].pods == 3


def test_the_image_reaches_head_and_workers(case):
    plan = case.plan()
    assert head(plan)["containers"][0]["image"] == worker(plan)["containers"][0]["image"] == "reg.example/ray:1"


def test_the_run_id_is_the_jobs_id_and_a_label(case):
    rayjob = case.plan().workload().manifest
    assert rayjob["spec"]["jobId"] == rayjob["metadata"]["labels"]["kubectl-nrl/run"] == "20261130-120000-ab12"


def test_every_object_carries_owner_and_upstreams_owner(case):
    labels = case.plan().workload().manifest["metadata"]["labels"]
    assert labels["kubectl-nrl/owner"] == labels["nrl-k8s/owner"] == "jdoe"
    assert labels["kubectl-nrl/managed"] == "true" and labels["app.kubernetes.io/managed-by"] == "kubectl-nrl"


def test_the_entrypoint_is_one_encoded_line_and_the_recipe_travels_with_it(case):
    plan = case.plan(SHORT, CPU + "lr: 1\n", "lr=2")
    line = plan.workload().manifest["spec"]["entrypoint"]
    assert "\n" not in line and "lr: 2" in decode(line) and '--config "$NRL_RECIPE"' in decode(line)


def test_the_entrypoint_is_kept_in_the_jobs_metadata_only_where_no_shell_reads_it(case):
    assert "run.py" in case.plan().workload().manifest["spec"]["metadata"]["entrypoint"]
    for mode in ("K8sJobMode", "SidecarMode"):
        plan = case.plan(SHORT + f"submit: {{submissionMode: {mode}}}\n")
        assert plan.workload().manifest["spec"]["metadata"] == {"user": "jdoe"}


def test_sidecar_mode_draws_a_warning_since_its_failures_can_hold_gpus(case):
    plan = case.plan(SHORT + "submit: {submissionMode: SidecarMode}\n")
    assert any("SidecarMode" in p.message and p.severity == "warning" for p in plan.problems)


def test_two_runs_of_one_infra_share_no_name(case):
    first, second = case.plan(run_id="20261130-120000-aaaa"), case.plan(run_id="20261130-120000-bbbb")
    assert not {o.name for o in first.objects} & {o.name for o in second.objects}


def test_planning_twice_gives_the_same_plan(case):
    assert case.plan().objects == case.plan().objects


@pytest.mark.parametrize("run_id", ["train-1", "a", "X.y_z", "x" * 63])
def test_a_given_run_id_makes_a_valid_name(case, run_id):
    plan = case.plan(run_id=run_id)
    assert len(plan.workload().name) <= 47 and plan.workload().manifest["spec"]["jobId"] == run_id


def test_a_long_generated_name_is_cut_with_a_hash(case):
    plan = case.plan(WRITTEN.replace("name: train\n", "name: " + "t" * 50 + "\n"), GPU)
    assert len(plan.workload().name) <= 47 and plan.workload().name.endswith("-ab12")


def test_a_rayjob_name_that_was_given_is_refused_not_cut(case):
    assert has(case.problems(options=Options(rayjob_name="x" * 48)), "RayJob name", "48 characters", "allows 47")


@pytest.mark.parametrize("name", ["9-night", "Grpo_A", "a.b", "a-", ""])
def test_names_that_break_derived_names_are_refused(case, name):
    assert has(case.problems(options=Options(rayjob_name=name)), "name")


def test_a_raycluster_name_has_53_characters_at_most(case):
    infra = WRITTEN.replace("name: train\n", "name: " + "t" * 54 + "\n")
    assert has(case.problems(infra, GPU, options=Options(mode="raycluster")), "RayCluster name", "54", "53")


def test_several_roles_run_long_lived_and_it_says_so(case):
    infra = SHORT + "kuberay: {training: {name: t}, gym: {name: g}}\n"
    plan = case.plan(infra)
    assert plan.kind == "RayCluster" and [o.kind for o in plan.objects] == ["RayCluster", "RayCluster"]
    assert any("long-lived" in p.message for p in plan.problems)


def test_rayjob_with_several_roles_is_refused(case):
    infra = SHORT + "kuberay: {training: {name: t}, gym: {name: g}}\n"
    assert has(case.problems(infra, options=Options(mode="rayjob")), "--rayjob", "training, gym")


def test_gym_is_a_cpu_head_alone(case):
    plan = case.plan(SHORT + "kuberay: {training: {name: t}, gym: {name: g}}\n")
    assert "workerGroupSpecs" not in spec(plan, "gym")


def test_attach_makes_the_run_long_lived_and_creates_no_cluster_for_that_role(case):
    infra = SHORT.replace("launch: {", "launch: {attach: {generation: shared-gen}, ")
    plan = case.plan(infra)
    assert plan.kind == "RayCluster" and plan.attached == {"generation": "shared-gen"}
    assert [o.role for o in plan.objects] == ["training"]


def test_a_role_without_spec_needs_a_profile(case):
    infra = SHORT.replace("profile: generic\n", "") + "kuberay: {training: {name: t}}\n"
    assert has(case.problems(infra), "kuberay.training.spec is missing", "profile")


def test_a_hand_written_spec_keeps_what_was_written(case):
    plan = case.plan(WRITTEN, GPU)
    group = spec(plan)["workerGroupSpecs"][0]
    assert group["groupName"] == "gpu" and group["minReplicas"] == group["maxReplicas"] == 2
    assert [c["name"] for c in worker(plan)["containers"]] == ["ray"]


def test_segment_size_splits_with_upstreams_names(case):
    infra = WRITTEN.replace("name: train\n", "name: train\n    segmentSize: 2\n").replace("replicas: 2", "replicas: 4")
    plan = case.plan(infra, "cluster: {num_nodes: 4, gpus_per_node: 4}\n")
    groups = spec(plan)["workerGroupSpecs"]
    assert [g["groupName"] for g in groups] == ["gpu-segment-0", "gpu-segment-1"]
    assert {(g["replicas"], g["minReplicas"], g["maxReplicas"]) for g in groups} == {(2, 2, 2)}


def test_a_segment_size_that_does_not_divide_names_the_nearest_that_do(case):
    infra = WRITTEN.replace("name: train\n", "name: train\n    segmentSize: 4\n").replace("replicas: 2", "replicas: 6")
    lines = case.problems(infra, "cluster: {num_nodes: 6, gpus_per_node: 4}\n")
    assert has(lines, "i.yaml", "segmentSize 4 does not divide the 6 replicas")


def test_duplicate_group_names_after_splitting_are_an_error(case):
    extra = WRITTEN.replace("name: train\n", "name: train\n    segmentSize: 1\n")
    extra += (
        extra[extra.index("      - groupName: gpu") :]
        .replace("groupName: gpu", "groupName: gpu-segment-0")
        .replace("replicas: 2", "replicas: 1")
    )
    lines = case.problems(extra, "cluster: {num_nodes: 3, gpus_per_node: 4}\n", options=Options(mode="raycluster"))
    assert not has(lines, "appears twice")  # gpu-segment-0-segment-0 is another name
    plain = extra.replace("    segmentSize: 1\n", "").replace("groupName: gpu-segment-0", "groupName: gpu")
    assert has(case.problems(plain, GPU), 'groupName "gpu" appears 2 times')


def test_fewer_workers_than_num_nodes_is_an_error(case):
    assert has(case.problems(WRITTEN, "cluster: {num_nodes: 3, gpus_per_node: 4}\n"), "num_nodes 3", "2 worker nodes")


def test_more_workers_than_num_nodes_is_a_note(case):
    plan = case.plan(WRITTEN, "cluster: {num_nodes: 1, gpus_per_node: 4}\n")
    assert any(p.severity == "note" and "2 worker nodes" in p.message for p in plan.problems)


def test_gpus_that_disagree_are_an_error_with_the_groups_line(case):
    lines = case.problems(WRITTEN, "cluster: {num_nodes: 2, gpus_per_node: 8}\n")
    assert has(lines, "i.yaml:", "have 4 GPUs", "gpus_per_node 8")


def test_an_override_of_num_nodes_is_what_counts(case):
    assert case.plan(SHORT, CPU, "cluster.num_nodes=5").roles[0].groups[0].replicas == 5


def test_words_beside_config_in_the_entrypoint_count_before_the_recipe(case):
    infra = SHORT.replace("recipe.yaml}", "recipe.yaml cluster.num_nodes=4}")
    assert case.plan(infra).roles[0].groups[0].replicas == 4


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "two", "true"])
def test_a_node_count_that_is_none_is_one_line(case, value):
    assert has(
        case.problems(SHORT, f"cluster: {{num_nodes: {value}, gpus_per_node: 0}}\n"),
        "cluster.num_nodes",
        "whole number",
    )


def test_the_head_stays_for_its_ttl_and_workers_go_at_once(case):
    rules = case.plan(options=Options(ttl=120)).workload().manifest["spec"]["deletionStrategy"]["deletionRules"]
    by_policy = {(r["policy"], r["condition"]["ttlSeconds"]) for r in rules}
    assert by_policy == {("DeleteWorkers", 0), ("DeleteCluster", 120), ("DeleteSelf", 604800)}
    assert sum(r["policy"] == "DeleteWorkers" for r in rules) == 3


def test_ttl_zero_takes_the_head_with_the_workers(case):
    rules = case.plan(options=Options(ttl=0)).workload().manifest["spec"]["deletionStrategy"]["deletionRules"]
    assert {r["policy"] for r in rules} == {"DeleteCluster", "DeleteSelf"}


def test_hold_keeps_gpus_and_head(case):
    plan = case.plan(options=Options(hold=600, ttl=60))
    assert (plan.lifetime.workers_after, plan.lifetime.head_after) == (600, 600)


def test_no_shutdown_keeps_everything(case):
    got = case.plan(options=Options(shutdown=False)).workload().manifest["spec"]
    assert got["shutdownAfterJobFinishes"] is False and "deletionStrategy" not in got


def test_old_kuberay_gets_the_classic_form_with_ttl_zero(case):
    plan = case.plan(facts=ClusterFacts(deletion_rules=False))
    got = plan.workload().manifest["spec"]
    assert (got["shutdownAfterJobFinishes"], got["ttlSecondsAfterFinished"]) == (True, 0)
    assert any("log goes with the cluster" in p.message for p in plan.problems)


JUDGE = """
deployments:
  judge:
    spec: {template: {spec: {containers: [{name: judge, image: x}]}}}
"""


def test_a_runs_deployments_go_with_its_head_since_only_the_rayjob_takes_them(case):
    plan = case.plan(SHORT + JUDGE, options=Options(ttl=120))
    assert (plan.lifetime.head_after, plan.lifetime.record_after) == (120, 120)
    old = case.plan(SHORT + JUDGE, facts=ClusterFacts(deletion_rules=False))
    [problem] = [p for p in old.problems if "outlive" in p.message]
    assert "kubectl nrl clean" in problem.hint
    assert not [p for p in case.plan(facts=ClusterFacts(deletion_rules=False)).problems if "outlive" in p.message]


def test_a_head_with_gpus_goes_with_the_workers(case):
    infra = WRITTEN.replace("{name: head}", "{name: head, resources: {limits: {nvidia.com/gpu: 4}}}").replace(
        '{num-gpus: "0"}', "{}"
    )
    assert case.plan(infra, GPU).lifetime.head_kept is False


@pytest.mark.parametrize(
    "options", [Options(ttl=-1), Options(hold=-5), Options(ttl=60, shutdown=False), Options(hold=60, shutdown=False)]
)
def test_flags_that_contradict_each_other_are_refused(case, options):
    with pytest.raises(ConfigError):
        case.plan(options=options)


def test_submitter_for_a_rayjob_is_refused_and_names_raycluster(case):
    with pytest.raises(ConfigError) as caught:
        case.plan(options=Options(submitter="exec"))
    assert any("--raycluster" in p.hint for p in caught.value.problems)


def test_mode_batch_in_rayjob_mode_means_image_and_no_wait(case):
    plan = case.plan(options=Options(run_mode="batch"))
    assert (plan.wait, plan.launch.code_source) == (False, "image")


def test_the_files_run_mode_is_left_alone_in_rayjob_mode(case):
    assert case.plan(SHORT.replace("launch: {", "launch: {runMode: batch, ")).wait is True


@pytest.mark.parametrize(
    ("flag_mode", "infra_key", "expected"),
    [(None, "", ("portForward", "image", True)), ("batch", "", ("exec", "image", False)),
     (None, "submit: {submitter: exec}\n", ("exec", "image", True)),
     ("interactive", "submit: {submitter: exec}\n", ("portForward", "upload", True))],
)  # fmt: skip
def test_long_lived_precedence_is_flag_then_mode_then_file_then_its_macro(case, flag_mode, infra_key, expected):
    plan = case.plan(SHORT + infra_key, options=Options(mode="raycluster", run_mode=flag_mode))
    assert (plan.launch.submitter, plan.launch.code_source, plan.wait) == expected


def test_upload_in_rayjob_mode_goes_through_interactive_mode_with_a_deadline(case):
    got = case.plan(options=Options(code_source="upload")).workload().manifest["spec"]
    assert got["submissionMode"] == "InteractiveMode" and got["preRunningDeadlineSeconds"] == 3600
    assert "entrypoint" not in got and "jobId" not in got


def test_unset_code_source_stages_nothing_in_rayjob_mode(case):
    infra = "profile: generic\nimage: x:1\nlaunch: {entrypoint: python run.py --config r.yaml}\n"
    plan = case.plan(infra)
    assert plan.launch.code_source == "none" and plan.launch.working_dir is None


@pytest.mark.parametrize(("flag", "infra", "context", "expected"), [
    ("f", "namespace: i\n", "c", ("f", "flag")), (None, "namespace: i\n", "c", ("i", "infra")),
    (None, "", "c", ("c", "context")), (None, "", None, ("default", "default")),
])  # fmt: skip
def test_the_namespace_is_the_flags_then_infras_then_the_contexts(case, flag, infra, context, expected):
    plan = case.plan(SHORT + infra, options=Options(namespace=flag, context_namespace=context))
    assert (plan.namespace, plan.namespace_from) == expected
    assert plan.workload().manifest["metadata"]["namespace"] == expected[0]


def test_a_missing_entrypoint_is_an_error(case):
    assert has(
        case.problems(SHORT.replace(", entrypoint: python run.py --config recipe.yaml", "")), "launch.entrypoint"
    )


def test_an_entrypoint_that_never_sees_the_recipe_draws_a_warning(case):
    plan = case.plan(SHORT.replace("--config recipe.yaml", ""))
    assert any(p.severity == "warning" and "NRL_RECIPE" in p.message for p in plan.problems)


def test_a_script_too_long_for_a_line_goes_through_a_config_map_mounted_on_the_head(case):
    import random

    noise = random.Random(1)
    blob = "".join(noise.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(160_000))
    plan = case.plan(SHORT.replace("recipe.yaml}", f"recipe.yaml; echo {blob}}}"))
    assert [o.kind for o in plan.objects] == ["ConfigMap", "RayJob"]
    assert len(plan.workload().manifest["spec"]["entrypoint"]) < 200
    mounts = [m["mountPath"] for m in head(plan)["containers"][0]["volumeMounts"]]
    assert "/etc/kubectl-nrl" in mounts


def test_a_script_too_long_is_an_error_with_its_size_where_no_config_map_can_carry_it(case):
    import random

    noise = random.Random(1)
    blob = "".join(noise.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(160_000))
    infra = SHORT.replace("recipe.yaml}", f"recipe.yaml; echo {blob}}}")
    assert has(case.problems(infra, options=Options(mode="raycluster")), "KiB packed", "96 KiB")


@pytest.mark.parametrize(("workers", "rack", "recipe", "size"), [
    (64, 18, None, 16), (48, 18, None, 16), (4, 18, None, None), (18, 18, None, None), (36, 18, None, 18), (19, 18, None, 1),
    (64, 18, 8, 8), (64, None, None, None),
])  # fmt: skip
def test_the_natural_segment_is_the_largest_divisor_that_fits_a_rack(workers, rack, recipe, size):
    assert natural_size(workers, rack, recipe) == size


def test_split_leaves_a_group_without_segments_as_it_is():
    assert split({"groupName": "g", "replicas": 3}, None) == [{"groupName": "g", "replicas": 3}]


def test_the_remainder_hint_names_neighbours():
    assert remainder_hint(6, 4) == "use 3 or 6, or change the replicas"
