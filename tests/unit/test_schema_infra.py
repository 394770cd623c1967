"""The infra file: every key of the format is accepted, every misspelt one gets its word, every wrong value a plain sentence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_case import IDLE, VALUES, Written, at, known_paths, misspellings, nested, problems, texts, whole

from kubectl_nrl.errors import PluginError
from kubectl_nrl.schema import builtin_fragments, check_infra, infra_schema, property_paths, published_schema

KNOWN = known_paths()
LEAVES = [path for path in KNOWN if not any(other.startswith(f"{path}.") for other in KNOWN)]


def test_whole_file_is_accepted() -> None:
    infra = whole()
    del infra["launch"]["attach"]
    assert texts(problems(infra)) == []


def test_values_cover_every_key() -> None:
    assert sorted(VALUES) == sorted(LEAVES)


@pytest.mark.parametrize("path", LEAVES)
def test_key_is_accepted(path: str) -> None:
    """Alone, a key may lack what it requires or miss its effect; it is never unknown or of a wrong type."""
    for message in texts(problems(nested(path, VALUES[path]))):
        assert "is required" in message


@pytest.mark.parametrize("path", LEAVES)
def test_null_is_an_absent_key(path: str) -> None:
    assert [text for text in texts(problems(nested(path, None))) if "is required" not in text] == []


@pytest.mark.parametrize("path", [path for path in KNOWN if "judge" not in path.rpartition(".")[2]])
def test_misspelt_key_gets_the_nearest_word(path: str) -> None:
    parent, _, word = path.rpartition(".")
    siblings = {other.rpartition(".")[2] for other in KNOWN if other.rpartition(".")[0] == parent}
    for wrong in misspellings(word):
        if wrong in siblings or len(word) < 3:
            continue
        place = f"{parent}.{wrong}" if parent else wrong
        found = [text for text in texts(problems(nested(place, VALUES.get(path)))) if "unknown key" in text]
        assert len(found) == 1, place
        assert found[0].startswith(f"{place}: unknown key; did you mean "), found[0]
        assert found[0].rstrip("?").rpartition(" ")[2].rpartition(".")[2] == word


@pytest.mark.parametrize("path", KNOWN)
@pytest.mark.parametrize("wrong", ["text", 7, 1.5, True, ["a", 1], {"zzz": 1}], ids=repr)
def test_wrong_type_is_one_plain_line(path: str, wrong: Any) -> None:
    """Whatever stands at a key, each problem names that key or one below it, and shows no container."""
    for problem in problems(nested(path, wrong)):
        assert problem.message.startswith(path) or "is required" in problem.message or path.startswith("deployments")
        assert "\n" not in problem.message
        assert "{" not in problem.message


@pytest.mark.parametrize(
    ("infra", "sentence"),
    [
        ({"imgae": "x"}, "imgae: unknown key; did you mean image?"),
        ({"codePath": "/x"}, "codePath: unknown key; did you mean launch.codePath?"),
        (
            {"kuberay": {"training": {"workerGroupSpec": []}}},
            "kuberay.training.workerGroupSpec: unknown key; did you mean kuberay.training.spec.workerGroupSpecs?",
        ),
        ({"launch": {"queue": "q"}}, "launch.queue: unknown key; did you mean scheduler.queue?"),
        ({"submit": {"zzz": 1}}, "submit.zzz: unknown key; known here: submitter, submissionMode, localDashboardPort, "
         "execTmpDir, kind, portForward or devPod"),
        ({"scheduler": {"kind": "kia", "queue": "q"}},
         'scheduler.kind is "kia", must be default, kai or kueue; did you mean kai?'),
        ({"scheduler": {"kind": "kai"}}, "scheduler.queue is required when kind is kai or kueue"),
        ({"scheduler": {"kind": "kueue", "queue": ""}}, "scheduler.queue must not be empty"),
        ({"scheduler": {"kind": "kueue", "queue": "q", "topology": "t"}},
         "scheduler.topology is not accepted when kind is kueue"),
        ({"scheduler": {"kind": "default", "priority": "p"}}, "scheduler.priority is not accepted when kind is default"),
        ({"launch": {"codeSource": "image"}}, "launch.codePath is required when codeSource is image or lustre"),
        ({"launch": {"codeSource": "image", "codePath": "opt"}}, "launch.codePath must be an absolute path"),
        ({"launch": {"entrypoint": " \n "}}, "launch.entrypoint must not be empty"),
        ({"launch": {"deadlineSeconds": 0}}, "launch.deadlineSeconds is 0, must be at least 1"),
        ({"launch": {"peerWatcher": "yes"}}, "launch.peerWatcher is text, must be true or false"),
        ({"launch": {"env": {"A-B": "x"}}},
         "launch.env.A-B is no name of an environment variable: letters, digits and `_` only"),
        ({"launch": {"env": {"A": ["x"]}}}, "launch.env.A is a list, must be text, a number or true or false"),
        ({"launch": {"env": {1: "x"}}}, "launch.env[1] is a key that is no text: put it in quotes"),
        ({"workspace": {"kind": "lustre"}}, "workspace.pvcName is required when kind is lustre or pvc"),
        ({"workspace": {"kind": "hostPath"}}, "workspace.hostPath is required when kind is hostPath"),
        ({"workspace": {"kind": "pvc", "pvcName": None}}, "workspace.pvcName is required when kind is lustre or pvc"),
        ({"hf_cache": {"kind": "pvc"}}, "hf_cache.pvcName is required when kind is lustre or pvc"),
        ({"checkpoints": {"kind": "emptyDir"}}, 'checkpoints.kind is "emptyDir", must be lustre, pvc or none'),
        ({"rayVersion": 2.5}, "rayVersion is a number, must be text: put it in quotes"),
        ({"rayVersion": "latest"}, 'rayVersion must be a Ray version such as "2.52.0"'),
        ({"namespace": "My_Team"}, "namespace must be a namespace: lower-case letters, digits and `-`, at most 63"),
        ({"imagePullSecrets": "one"}, "imagePullSecrets is text, must be a list"),
        ({"imagePullSecrets": ["a", None]}, "imagePullSecrets[1] is empty"),
        ({"dra": ["roce", "roce"]}, 'dra names "roce" twice'),
        ({"secrets": ["Ada"]}, "secrets[0] must be the name of a Secret: lower-case letters, digits, `-` and `.`"),
        ({"kuberay": {"training": {"segmentSize": "16"}}}, "kuberay.training.segmentSize is text, must be a whole number"),
        ({"kuberay": {"gym": {"daemon": {"env": {}}}}}, "kuberay.gym.daemon.entrypoint is required"),
        ({"kuberay": {"gym": {"daemon": {"entrypont": "x"}}}},
         "kuberay.gym.daemon.entrypont: unknown key; did you mean entrypoint?"),
        ({"kuberay": {"judge": {}}}, "kuberay.judge: unknown key; known here: training, generation or gym"),
        ({"resources": {"gym": {"head": {"memory": "64GB"}}}},
         "resources.gym.head.memory is no Kubernetes quantity such as 500m, 16 or 64Gi; did you mean 64G?"),
        ({"placement": {"tolerations": [{"kye": "x", "operator": "exists"}]}},
         'placement.tolerations[0].operator is "exists", must be Exists or Equal; did you mean Exists?'),
        ({"placement": {"affinity": {"nodeAfinity": {}}}},
         "placement.affinity.nodeAfinity: unknown key; did you mean nodeAffinity?"),
        ({"policies": {"nemorl": True}}, "policies.nemorl is true, must be false or a mapping"),
        ({"policies": {"nemorll": False}}, "policies.nemorll: unknown key; did you mean nemorl?"),
        ({"deployments": {"judge": {"name": "judge"}}}, "deployments.judge.spec is required"),
        ({"deployments": {"judge": {"spec": {}, "healthCheckUrl": "judge:80"}}},
         "deployments.judge.healthCheckUrl must be an http:// or https:// URL"),
        ({"labels": {"a b": "x"}},
         'labels["a b"] is no label key: NAME or DOMAIN/NAME, the name at most 63 characters'),
        ({"labels": {"team": "x" * 64}},
         f'labels.team is "{"x" * 57}...", no label value: letters, digits, `-`, `_` and `.`, at most 63, with a letter or '
         "digit at both ends"),
        ({"kuberay": {"gym": {"labels": {"a": "b@c"}}}},
         'kuberay.gym.labels.a is "b@c", no label value: letters, digits, `-`, `_` and `.`, at most 63, with a letter or '
         "digit at both ends"),
        ({"launch": {"attach": {"gym": "a"}}, "kuberay": {"gym": {"name": "b"}}},
         'launch.attach.gym is "a", but kuberay.gym.name is "b": leave one of them out'),
        ({"workspace": {"kind": "pvc", "pvcName": "a", "mountPath": "/x/"},
          "checkpoints": {"kind": "pvc", "pvcName": "b", "mountPath": "/x"}},
         'checkpoints.mountPath is "/x", where workspace is mounted'),
    ],
)  # fmt: skip
def test_sentence(infra: dict[str, Any], sentence: str) -> None:
    assert sentence in texts(problems(infra))


@pytest.mark.parametrize(
    ("infra", "sentence"),
    [
        ({"hf_cache": {"pvcName": "x"}}, "hf_cache.pvcName has no effect when kind is none"),
        ({"workspace": {"pvcName": "x"}}, "workspace.pvcName has no effect when kind is rayUpload"),
        (
            {"kuberay": {"gym": {"spec": {}, "workers": 1}}},
            "kuberay.gym.workers has no effect beside a spec, whose groups say their replicas",
        ),
    ],
)
def test_key_that_another_leaves_without_effect_is_a_warning(infra: dict[str, Any], sentence: str) -> None:
    found = problems(infra)
    assert texts(found, "warning") == [sentence]
    assert texts(found) == []


def test_auto_workspace_takes_its_claim() -> None:
    assert problems({"workspace": {"kind": "auto", "pvcName": "x"}}) == []


@pytest.mark.parametrize("path", sorted(IDLE))
def test_key_without_effect_draws_one_note_with_the_reason(path: str) -> None:
    notes = texts(problems(nested(path, VALUES[path])), "note")
    assert len(notes) == 1
    assert notes[0].startswith(f"{path} is accepted and has no effect: ")
    assert len(notes[0].partition("effect: ")[2]) > 10


def test_every_key_acts_or_is_listed_as_idle() -> None:
    """The list of keys without effect is here on purpose: making one more of them takes a change of this test."""
    schema = infra_schema(builtin_fragments())
    idle = {path for path, form in property_paths(schema) if form.get("deprecated")}
    assert idle == IDLE
    for path, form in property_paths(schema):
        assert form.get("description") or form.get("$ref"), f"{path} has no description"


def test_conditional_key_that_is_misspelt_is_one_problem() -> None:
    assert texts(problems({"scheduler": {"kind": "kai", "quue": "q"}})) == [
        "scheduler.quue: unknown key; did you mean queue?"
    ]


def test_flags_supply_a_required_key() -> None:
    infra = {"launch": {"codeSource": "image"}}
    assert problems(infra, given=("launch.codePath",)) == []
    assert len(problems(infra, given=("launch.codeSource",))) == 1


def test_all_problems_at_once_in_the_order_of_the_file() -> None:
    class Lines:
        def get(self, path: tuple[Any, ...]) -> Any:
            from kubectl_nrl.errors import Origin

            return Origin("i.yaml", {"image": 3, "zzz": 1, "scheduler": 2}.get(path[0], 9) if path else 0, 1)

    infra = {"image": 1, "scheduler": {"kind": "x"}, "zzz": 1}
    found = check_infra(Written(infra, Lines()), builtin_fragments())  # type: ignore[arg-type]
    assert [p.origin.line for p in found if p.origin] == [1, 2, 3]


def test_place_of_a_missing_key_is_what_encloses_it() -> None:
    (found,) = problems({"scheduler": {"kind": "kai"}})
    assert str(found.origin) == "scheduler"
    (found,) = problems({"scheduler": {"knd": 1}})
    assert str(found.origin) == "scheduler/knd"


def test_plugin_fragments_become_sections_kinds_and_policies() -> None:
    section = {"type": "object", "additionalProperties": False, "properties": {"size": {"$ref": "#/$defs/n"}},
               "$defs": {"n": {"type": "integer"}}}  # fmt: skip
    fragments = {**builtin_fragments(), "acme": section, "scheduler.slurm": {"properties": {"partition": {"type": "string"}}},
                 "policies.site": {"properties": {"owner": {"type": "string"}}, "additionalProperties": False},
                 "scheduler.plain": None}  # fmt: skip
    good = {"acme": {"size": 3}, "scheduler": {"kind": "slurm", "partition": "p"}, "policies": {"site": {"owner": "x"}}}
    assert problems(good, fragments=fragments) == []
    assert problems({"scheduler": {"kind": "plain"}}, fragments=fragments) == []
    bad = {"acme": {"size": "x", "sise": 1}, "scheduler": {"kind": "kai", "queue": "q", "partition": "p"},
           "policies": {"site": {"ownr": 1}}}  # fmt: skip
    assert texts(problems(bad, fragments=fragments)) == [
        "acme.sise: unknown key; did you mean size?",
        "acme.size is text, must be a whole number",
        "policies.site.ownr: unknown key; did you mean owner?",
        "scheduler.partition is not accepted when kind is kai",
    ]


@pytest.mark.parametrize(
    ("fragments", "words"),
    [
        ({"acme": {"type": "no such type"}}, 'the schema of "acme" is no JSON Schema'),
        ({"acme": "rubbish"}, "not a mapping"),
        ({"launch": {"type": "object"}}, "may not define"),
        ({"kuberay.x": {"type": "object"}}, "may not define"),
    ],
)
def test_rubbish_fragment_is_the_plugins_error(fragments: Any, words: str) -> None:
    with pytest.raises(PluginError, match=words):
        infra_schema(fragments)


def test_choices_extend_enumerated_keys() -> None:
    infra = {"launch": {"codeSource": "git"}, "dra": ["efa"]}
    assert texts(problems(infra)) == ['launch.codeSource is "git", must be upload, image or lustre']
    choices = {"launch.codeSource": ["git"], "dra": ["roce", "computedomain"]}
    assert texts(problems(infra, choices=choices)) == ['dra[0] is "efa", must be computedomain or roce']


def test_merging_leaves_the_files_as_they_were() -> None:
    before = infra_schema(builtin_fragments())
    infra_schema({**builtin_fragments(), "scheduler.x": {"properties": {"y": {}}}}, {"dra": ["roce"]})
    assert infra_schema(builtin_fragments()) == before


def test_published_schema_is_valid_and_agrees() -> None:
    """What editors get refuses and accepts the same files, by another implementation, and looks into specs too."""
    import jsonschema

    schema = published_schema(builtin_fragments())
    jsonschema.Draft202012Validator.check_schema(schema)
    judge = jsonschema.Draft202012Validator(schema)
    assert "objects/" not in str([form.get("$ref") for _, form in property_paths(schema)])
    infra = whole()
    for role in infra["kuberay"].values():
        del role["spec"]
    del infra["deployments"]
    assert [error.message for error in judge.iter_errors(infra)] == []
    infra["kuberay"]["gym"]["spec"] = {"headGroupSpec": {"template": {"speck": {}}}}
    infra["scheduler"] = {"kind": "kai"}
    assert len(list(judge.iter_errors(infra))) == 2
    assert at(infra, "kuberay.gym.spec.headGroupSpec.template") == {"speck": {}}


WORDS = sorted({step for path in KNOWN for step in path.split(".")})
TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["kai", "pvc", "/x", "none"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.sampled_from(WORDS), st.integers(), st.text(max_size=3)), inner)
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(WORDS), TREES, max_size=6), st.sampled_from(KNOWN), TREES)
@settings(max_examples=200, deadline=None)
def test_no_infra_file_raises(infra: dict[str, Any], path: str, tree: Any) -> None:
    """Arbitrary trees of the format's words, and one arbitrary tree at each of its keys."""
    for problem in [*problems(infra), *problems(nested(path, tree))]:
        assert problem.message.isprintable()
