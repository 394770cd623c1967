"""An infra file in every habit people have: wrapped, inside the recipe, over defaults, with anchors; and no credential in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from config_project import FUZZ, ConfigFiles
from hypothesis import given
from hypothesis import strategies as st

from kubectl_nrl.config import UnsoundConfig, load_yaml
from kubectl_nrl.errors import ConfigError


@pytest.fixture
def files(tmp_path: Path) -> ConfigFiles:
    return ConfigFiles(tmp_path)


def test_without_an_infra_there_is_none(files: ConfigFiles) -> None:
    config = files.load()
    assert (config.infra, config.infra_path) == ({}, "")
    assert config.recipe_path == "r.yaml"


def test_an_infra_wrapper_is_taken_off(files: ConfigFiles) -> None:
    config = files.infra("_s: &s {a: 1}\ninfra:\n  image: x\n  labels: *s\n  ns: ${image} ${infra.image}\n")
    assert config.infra == {"image": "x", "labels": {"a": 1}, "ns": "x x"}
    assert config.infra_path == "i.yaml"


def test_an_infra_key_among_others_is_left_for_the_schema_to_refuse(files: ConfigFiles) -> None:
    assert files.infra("infra: {image: x}\nnamespace: y\n").infra == {"infra": {"image": "x"}, "namespace": "y"}


def test_a_recipe_may_hold_its_infra(files: ConfigFiles) -> None:
    config = files.recipe("n: 4\ninfra: {image: x, size: '${n}', own: '${image}', on: 1}\n")
    assert config.infra == {"image": "x", "size": 4, "own": "x", "on": 1}
    assert config.recipe == {"n": 4}
    assert config.infra_path == "r.yaml"
    assert "infra" not in config.recipe_yaml()


def test_an_infra_in_a_recipe_inherits_through_the_recipe_and_by_its_own_defaults(files: ConfigFiles) -> None:
    files.write(
        {"base.yaml": "infra: {image: old, namespace: ns}\n", "sub/i.yaml": "infra: {image: mid, rayVersion: '2'}\n"}
    )
    config = files.recipe("defaults: base.yaml\ninfra: {defaults: sub/i.yaml, labels: {a: b}}\n")
    assert config.infra == {"image": "mid", "namespace": "ns", "rayVersion": "2", "labels": {"a": "b"}}


def test_an_infra_key_and_a_file_are_one_too_many(files: ConfigFiles) -> None:
    files.write({"r.yaml": "a: 1\ninfra: {image: x}\n", "i.yaml": "image: y\n"})
    problem = files.only_problem()
    assert "r.yaml has an `infra:` key, and --infra i.yaml is given as well" in problem.message
    assert str(problem.origin) == "r.yaml:2:8"


def test_an_infra_key_that_is_no_mapping_is_an_error(files: ConfigFiles) -> None:
    problem = files.write({"r.yaml": "infra: x.yaml\n"}).only_problem()
    assert problem.message == "infra: must be a mapping, not text"
    assert problem.hint == "a file: --infra FILE"


def test_defaults_work_in_an_infra_file_and_wrappers_may_differ(files: ConfigFiles) -> None:
    files.write({"common/base.infra.yaml": "infra: {image: old, namespace: ns, tags: [1, 2]}\n"})
    config = files.infra("defaults: common/base.infra.yaml\nimage: new\ntags: [3]\n")
    assert config.infra == {"image": "new", "namespace": "ns", "tags": [3]}
    assert str(config.infra_origins.get("namespace")) == "common/base.infra.yaml:1:32"


def test_anchor_keys_are_dropped_at_any_depth_but_are_there_to_refer_to(files: ConfigFiles) -> None:
    config = files.infra("_shared: {n: 3}\na: {_x: &x {b: '${_shared.n}'}, c: *x}\nl: [{_y: 1, z: 2}]\ncopy: '${a}'\n")
    assert config.infra == {"a": {"c": {"b": 3}}, "l": [{"z": 2}], "copy": {"c": {"b": 3}}}


def test_a_shell_form_under_an_unused_anchor_is_nobodys_fault(files: ConfigFiles) -> None:
    assert files.infra("_old: 'echo ${RANK:-0}'\nimage: x\n").infra == {"image": "x"}


def test_variables_that_begin_with_an_underscore_are_variables(files: ConfigFiles) -> None:
    text = "launch: {env: {_JAVA_OPTIONS: x}}\nnetworking: {extra_env: {_Y: '1'}}\n"
    assert files.infra(text).infra == {
        "launch": {"env": {"_JAVA_OPTIONS": "x"}},
        "networking": {"extra_env": {"_Y": "1"}},
    }


class TestUserDefaults:
    """The user's own file lies below the infra file."""

    def test_nrl_k8s_defaults_names_it(self, files: ConfigFiles) -> None:
        files.write({"mine.yaml": "namespace: me\nimage: default\nlabels: {a: '1'}\n"})
        config = files.infra("image: x\nlabels: {b: '2'}\n", NRL_K8S_DEFAULTS=str(files.directory / "mine.yaml"))
        assert config.infra == {"namespace": "me", "image": "x", "labels": {"a": "1", "b": "2"}}
        assert config.user_wrote("namespace")

    def test_a_named_file_that_is_missing_is_an_error(self, files: ConfigFiles) -> None:
        assert "does not exist" in files.only_problem(NRL_K8S_DEFAULTS="/nope/x.yaml").message

    def test_xdg_then_home_are_searched_ours_before_upstreams(self, files: ConfigFiles) -> None:
        base = files.directory
        files.write(
            {
                "xdg/nrl-k8s/defaults.yaml": "image: upstream\n",
                "home/.config/nrl-k8s/defaults.yaml": "infra: {image: home}\n",
            }
        )
        assert files.load(HOME=str(base / "home")).infra == {"image": "home"}
        assert files.load(HOME=str(base / "home"), XDG_CONFIG_HOME=str(base / "xdg")).infra == {"image": "upstream"}
        files.write({"xdg/kubectl-nrl/defaults.yaml": "image: ours\n"})
        assert files.load(XDG_CONFIG_HOME=str(base / "xdg")).infra == {"image": "ours"}

    def test_none_is_needed(self, files: ConfigFiles) -> None:
        assert files.load(HOME="/nope", XDG_CONFIG_HOME="/nope").infra == {}

    def test_an_empty_one_is_no_fault_and_a_broken_one_is(self, files: ConfigFiles) -> None:
        files.write({"empty.yaml": "# nothing yet\n", "bad.yaml": "a: [\n"})
        assert files.load(NRL_K8S_DEFAULTS=str(files.directory / "empty.yaml")).infra == {}
        assert "bad.yaml" in str(files.only_problem(NRL_K8S_DEFAULTS=str(files.directory / "bad.yaml")))


class TestProfileDefaults:
    """A profile's defaults lie below everything the user wrote."""

    def test_what_the_user_wrote_wins_and_is_told_apart(self, files: ConfigFiles) -> None:
        config = files.infra("scheduler: {queue: mine}\ndra: []\nplacement: null\n")
        defaults = {
            "scheduler": {"kind": "kai", "queue": "theirs"},
            "dra": ["roce"],
            "placement": {"a": 1},
            "image": "x",
        }
        full = config.with_infra_defaults(defaults, "profile gb300")
        assert full.infra == {"scheduler": {"kind": "kai", "queue": "mine"}, "dra": [], "placement": None, "image": "x"}
        assert [str(full.infra_origins.get(path)) for path in ("scheduler.kind", "scheduler.queue", "image")] == [
            "profile gb300", "i.yaml:1:20", "profile gb300",
        ]  # fmt: skip
        assert [full.user_wrote(path) for path in ("scheduler.queue", "scheduler.kind", "image", "dra")] == [
            True,
            False,
            False,
            True,
        ]
        assert config.infra["dra"] == []

    def test_their_interpolations_are_resolved_and_the_users_escapes_stay(self, files: ConfigFiles) -> None:
        config = files.infra("image: x\nlaunch: {entrypoint: 'echo \\${HOME} \\\\\\${A} \\${RANK:-0}'}\n")
        full = config.with_infra_defaults({"secrets": ["${user:}-secrets"], "copy": "${image}"}, "profile p")
        assert full.infra["secrets"] == ["jo-secrets"]
        assert full.infra["copy"] == "x"
        assert full.infra["launch"] == config.infra["launch"] == {"entrypoint": "echo ${HOME} \\${A} ${RANK:-0}"}

    def test_a_wrong_interpolation_of_a_profile_is_an_error(self, files: ConfigFiles) -> None:
        with pytest.raises(ConfigError, match="profile p: error"):
            files.load().with_infra_defaults({"a": "${nope}"}, "profile p")


def pod(env: str) -> str:
    return f"kuberay: {{training: {{spec: {{headGroupSpec: {{template: {{spec: {{containers: [{{name: c, env: {env}}}]}}}}}}}}}}}}\n"


@pytest.mark.parametrize(
    ("text", "path", "column"),
    [
        ("launch: {env: {HF_TOKEN: hf_demo_123}}\n", "launch.env.HF_TOKEN", 26),
        ("launch: {env: {wandb_api_key: hf_demo_123}}\n", "launch.env.wandb_api_key", 31),
        ("networking: {extra_env: {MY_SECRET: hf_demo_123}}\n", "networking.extra_env.MY_SECRET", 37),
        ("kuberay: {gym: {daemon: {env: {DB_PASSWORD: hf_demo_123}}}}\n", "kuberay.gym.daemon.env.DB_PASSWORD", 45),
        (pod("[{name: HF_TOKEN, value: hf_demo_123}]"), "kuberay.training.spec.headGroupSpec.template.spec.containers.0.env.HF_TOKEN", 116),
        ("deployments: {d: {spec: {template: {spec: {initContainers: [{env: [{name: A_TOKEN, value: hf_demo_123}]}]}}}}}\n",
         "deployments.d.spec.template.spec.initContainers.0.env.A_TOKEN", 91),
        ("launch: {env: {HF_TOKEN: '${oc.env:FROM_ENV}'}}\n", "launch.env.HF_TOKEN", 26),
        ("_s: hf_demo_123\nlaunch: {env: {AWS_SECRET_ACCESS_KEY: '${_s}'}}\n", "launch.env.AWS_SECRET_ACCESS_KEY", 39),
        ("launch: {entrypoint: 'export HF_TOKEN=hf_demo_123; python x.py'}\n", "launch.entrypoint", 22),
        ("launch: {entrypoint: 'WANDB_API_KEY=\"hf_demo_123\" python x.py'}\n", "launch.entrypoint", 22),
    ],
)  # fmt: skip
def test_a_literal_credential_is_an_error_that_never_shows_it(
    files: ConfigFiles, text: str, path: str, column: int
) -> None:
    problem = files.write({"i.yaml": text}).only_problem(FROM_ENV="hf_demo_123")
    assert problem.message.startswith(f"{path}: ")
    assert problem.origin is not None
    assert problem.origin.column == column
    assert "secretKeyRef" in problem.hint
    assert "hf_demo_123" not in str(problem) + problem.hint


@pytest.mark.parametrize(
    "text",
    [
        "launch: {env: {HF_TOKEN: '', A_SECRET: null, MAX_TOKEN: 4096, B_TOKEN: '4096', USE_SECRET: true, C_SECRET: 'false'}}\n",
        "launch: {env: {HF_TOKEN: $OTHER, A_TOKEN: '\\${OTHER}', B_TOKEN: $(OTHER)}}\n",
        "launch: {env: {TOKENIZERS_PARALLELISM: on, HF_TOKEN_PATH: /x, SECRETS_DIR: /y, PASSWORDLESS: z}}\n",
        pod("[{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: s, key: k}}}]"),
        "launch: {entrypoint: 'export HF_TOKEN=$(cat /x); A_TOKEN=$B; C_TOKEN= python x.py --pad_token x'}\n",
        "workspace: {kind: pvc, pvcName: my_token}\n",
    ],
)
def test_references_numbers_and_empty_values_are_no_credentials(files: ConfigFiles, text: str) -> None:
    assert files.infra(text).problems == ()


def test_a_shell_form_that_hides_a_credential_is_not_repeated(files: ConfigFiles) -> None:
    problems = files.write({"i.yaml": "launch: {env: {HF_TOKEN: '${X:-hf_demo_123}'}}\n"}).problems()
    assert not any("hf_demo_123" in str(problem) + problem.hint for problem in problems)


def test_the_origin_of_a_list_element_may_be_asked_by_name_and_dotted_keys_as_written(files: ConfigFiles) -> None:
    origins = files.infra("labels: {kai.scheduler/queue: q}\nenv: [{name: A, value: x}]\n").infra_origins
    assert str(origins.get("labels.kai.scheduler/queue")) == "i.yaml:1:31"
    assert str(origins.get(("labels", "kai.scheduler/queue"))) == "i.yaml:1:31"
    assert str(origins.get("env.A.value")) == "i.yaml:2:24"
    assert origins.exact("env.B") is None
    assert str(origins.get("env.0.nope.deep")) == "i.yaml:2:7"
    assert origins.get("") is not None


INFRA = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.text(max_size=12),
        st.sampled_from(["${a}", "${.b}", "${user:}", "\\${X}", "${x:-y}", "${"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["a", "b", "_c", "env", "name", "value", "infra", "defaults", "HF_TOKEN", "launch", "entrypoint"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=15,
)


@FUZZ
@given(st.dictionaries(st.sampled_from(["a", "b", "infra", "launch", "kuberay", "defaults", "_s"]), INFRA, max_size=4))
def test_no_infra_tree_raises_anything_but_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Any]
) -> None:
    import json

    files = ConfigFiles(tmp_path_factory.getbasetemp())
    files.write({"r.yaml": "a: 1\n", "fuzz.yaml": json.dumps(tree)})
    try:
        config = files.load(infra="fuzz.yaml")
    except ConfigError as error:
        assert error.problems
    else:
        config.with_infra_defaults({"image": "${user:}"}, "profile p")


def test_what_could_be_read_comes_with_the_problems(files: ConfigFiles) -> None:
    """So that a caller can report what else is wrong in the same breath."""
    files.write({"i.yaml": "image: x\nbad: ${nope}\n"})
    with pytest.raises(UnsoundConfig) as caught:
        files.load("infra.namespace=ns", "nope=1")
    assert len(caught.value.problems) == 2
    assert caught.value.config.infra == {"image": "x", "bad": "${nope}", "namespace": "ns"}


def test_an_unreadable_file_leaves_nothing_to_look_into(files: ConfigFiles) -> None:
    files.write({"i.yaml": "image: [\n"})
    with pytest.raises(ConfigError) as caught:
        files.load()
    assert not isinstance(caught.value, UnsoundConfig)


def test_a_profile_file_is_read_with_its_places(files: ConfigFiles) -> None:
    files.write({"p.yaml": "name: p\ngpus: 0x8\n", "bad.yaml": "a: 1\na: 2\nb: !x y\n", "empty.yaml": ""})
    value, origins = load_yaml(files.directory / "p.yaml")
    assert value == {"name": "p", "gpus": 8}
    assert str(origins.get("gpus")).endswith("p.yaml:2:7")
    with pytest.raises(ConfigError) as caught:
        load_yaml(files.directory / "bad.yaml")
    assert len(caught.value.problems) == 2
    for name in ("empty.yaml", "none.yaml"):
        with pytest.raises(ConfigError):
            load_yaml(files.directory / name)


SECRET = "hf_0123456789abcdef"


@pytest.mark.parametrize(
    "text",
    [
        "launch: {env: {HARMLESS: '${oc.env:HF_TOKEN}'}}\n",
        "launch: {entrypoint: 'login --with ${oc.env:HF_TOKEN}'}\n",
        "labels: {a: 'x-${oc.env:HF_TOKEN}-y'}\n",
        f"launch: {{env: {{HARMLESS: {SECRET}}}}}\n",
    ],
)
def test_a_credential_of_this_machine_goes_nowhere_under_another_name(files: ConfigFiles, text: str) -> None:
    problem = files.write({"i.yaml": text}).only_problem(HF_TOKEN=SECRET)
    assert "holds the value of this machine's HF_TOKEN" in problem.message
    assert problem.origin is not None
    assert SECRET not in str(problem) + problem.hint


def test_a_password_that_is_an_ordinary_word_forbids_no_word(files: ConfigFiles) -> None:
    text = "launch: {env: {DB: postgres, LONG: extraordinarily}}\n"
    assert files.infra(text, PG_PASSWORD="postgres", A_PASSWORD="extraordinarily").problems == ()


def test_a_credential_in_an_override_of_the_recipe_is_not_sent(files: ConfigFiles) -> None:
    files.write({"i.yaml": "launch: {env: {A: b}}\n"})
    problem = files.only_problem(f"+logger.key={SECRET}", HF_TOKEN=SECRET)
    assert problem.message.startswith("logger.key: holds the value of this machine's HF_TOKEN")
