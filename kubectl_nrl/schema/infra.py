"""The infra file's schema, put together from the core's keys and the fragments that providers own, and its check.

Conditions that a schema can say (`queue` is required by kai) stay in it, so that editors know them too; only what
compares values of several sections is code (rules.py).
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import nrl_schemas

from ..errors import PluginError, Problem
from .engine import faults
from .problems import to_problems
from .rules import infra_faults

if TYPE_CHECKING:
    from ..config import Config

Fragments = Mapping[str, "Mapping[str, Any] | None"]

#: The sections in the order a person meets them; what a plugin adds comes after.
_ORDER = (
    "namespace", "image", "imagePullSecrets", "rayVersion", "serviceAccount", "labels", "annotations", "profile",
    "scheduler", "placement", "networking", "dra", "workspace", "hf_cache", "checkpoints", "resources", "secrets",
    "submit", "launch", "kuberay", "deployments", "policies",
)  # fmt: skip
_SECTIONS = ("placement", "networking", "workspace", "hf_cache", "checkpoints", "resources", "secrets")


def builtin_fragments() -> dict[str, Mapping[str, Any]]:
    """The fragments of the built-in providers, by the key under which each stands in the schema."""
    sections = {name: nrl_schemas.load(f"fragments/{name}") for name in _SECTIONS}
    return {
        **sections,
        "scheduler.default": {},
        "scheduler.kai": nrl_schemas.load("fragments/scheduler_kai"),
        "scheduler.kueue": nrl_schemas.load("fragments/scheduler_kueue"),
        "policies.nemorl": nrl_schemas.load("fragments/policy_nemorl"),
    }


def infra_schema(fragments: Fragments, choices: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
    """The merged schema of the infra file.

    `fragments` is keyed by a section's top-level key, `scheduler.KIND` or `policies.NAME`; a provider without settings
    of its own still needs its key there (with None or `{}`), or its name is refused. `choices` adds registered names
    to enumerated keys and to `dra`: {"launch.codeSource": ["git"]}. Raises `PluginError` for a fragment that is no
    JSON Schema or takes a key of the core.
    """
    schema: dict[str, Any] = copy.deepcopy(nrl_schemas.load("infra.schema"))
    known = builtin_fragments()
    schedulers: dict[str, Mapping[str, Any]] = {}
    for key in sorted(fragments):
        fragment = fragments[key] or {}
        if fragment is not known.get(key) and fragment != known.get(key):
            _refuse_rubbish(key, fragment)
        fragment = _hoist(schema, key, fragment)
        kind, _, name = key.partition(".")
        if kind == "scheduler" and name:
            schedulers[name] = fragment
        elif kind == "policies" and name:
            schema["properties"]["policies"]["properties"][name] = _or_false(fragment)
        elif kind in schema["properties"] or name:
            raise PluginError(f'a plugin may not define the infra key "{key}": it is the core\'s')
        else:
            schema["properties"][kind] = fragment
    _add_schedulers(schema["properties"]["scheduler"], schedulers)
    for path, names in (choices or {}).items():
        _add_names(schema, path, names)
    order = {name: place for place, name in enumerate(_ORDER)}
    schema["properties"] = dict(
        sorted(schema["properties"].items(), key=lambda item: (order.get(item[0], 99), item[0]))
    )
    return schema


def published_schema(fragments: Fragments, choices: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
    """The merged schema for editors, as one file: the specs in it are described strictly too."""
    schema = infra_schema(fragments, choices)
    own = schema.pop("$defs")
    foreign: dict[str, Any] = {}
    published = _bundle(schema, foreign, "")
    published["$defs"] = {**{name: _bundle(definition, foreign, "") for name, definition in own.items()}, **foreign}
    result: dict[str, Any] = published
    return result


def check_infra(
    config: Config,
    fragments: Fragments,
    *,
    choices: Mapping[str, Sequence[str]] | None = None,
    given: Collection[str] = (),
) -> list[Problem]:
    """Every problem of the infra file's own keys, in the order of the file; the specs in it are `check_user_spec`'s.

    `given` are dotted keys that flags supply: they are not missing (`launch.codePath`). A key without effect draws a
    note.
    """
    found = faults(infra_schema(fragments, choices), config.infra)
    found = [fault for fault in found if not (fault.missing and ".".join(map(str, fault.path)) in given)]
    return to_problems([*found, *infra_faults(config.infra)], config.infra_origins.get)


def _refuse_rubbish(key: str, fragment: Any) -> None:
    import jsonschema

    if not isinstance(fragment, Mapping):
        raise PluginError(f'the schema of "{key}" is no JSON Schema: it is a {type(fragment).__name__}, not a mapping')
    try:
        jsonschema.Draft202012Validator.check_schema(fragment)
    except jsonschema.SchemaError as error:
        place = "/".join(map(str, error.absolute_path)) or "its top"
        raise PluginError(f'the schema of "{key}" is no JSON Schema: {error.message} (at {place})') from None


def _hoist(schema: dict[str, Any], key: str, fragment: Mapping[str, Any]) -> dict[str, Any]:
    """The fragment with its definitions moved to the whole schema's, under names of its own."""
    own = fragment.get("$defs", {})
    names = {f"#/$defs/{name}": f"#/$defs/{key}.{name}" for name in own}
    schema["$defs"].update({f"{key}.{name}": _renamed(definition, names) for name, definition in own.items()})
    moved: dict[str, Any] = _renamed({k: v for k, v in fragment.items() if k not in ("$defs", "$schema", "$id")}, names)
    return moved


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, Mapping):
        return {
            key: names.get(value, value) if key == "$ref" and isinstance(value, str) else _renamed(value, names)
            for key, value in node.items()
        }
    return [_renamed(value, names) for value in node] if isinstance(node, list) else node


def _or_false(fragment: dict[str, Any]) -> dict[str, Any]:
    described = {"description": fragment["description"]} if "description" in fragment else {}
    return {**described, "anyOf": [{"const": False}, fragment or {"type": "object"}]}


def _add_schedulers(scheduler: dict[str, Any], schedulers: Mapping[str, Mapping[str, Any]]) -> None:
    """Each kind's keys: accepted by all while no kind is written, else by that kind alone."""
    kinds = scheduler["properties"]["kind"]
    kinds["enum"] = [*kinds["enum"], *(name for name in schedulers if name not in kinds["enum"])]
    forms: dict[str, dict[str, dict[str, Any]]] = {}
    for kind, fragment in schedulers.items():
        for key, form in fragment.get("properties", {}).items():
            forms.setdefault(key, {})[kind] = form
    for key, by_kind in forms.items():
        scheduler["properties"].setdefault(key, _shared(by_kind))
    for kind, fragment in schedulers.items():
        own = fragment.get("properties", {})
        then = {
            k: v for k, v in fragment.items() if k not in ("type", "properties", "additionalProperties", "description")
        }
        then["properties"] = {**own, **{key: False for key in forms if key not in own}}
        if then["properties"] or len(then) > 1:
            condition = {"required": ["kind"], "properties": {"kind": {"const": kind}}}
            scheduler["allOf"].append({"if": condition, "then": then})


def _shared(by_kind: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """One key's schema for several kinds: their verdict where they agree, and a description that tells them apart."""
    bare = [{k: v for k, v in form.items() if k != "description"} for form in by_kind.values()]
    texts = {kind: form.get("description", "") for kind, form in by_kind.items()}
    verdict = bare[0] if all(form == bare[0] for form in bare) else {"anyOf": bare}
    return {"description": " ".join(f"{kind}: {text}" for kind, text in texts.items()), **verdict}


def _add_names(schema: dict[str, Any], path: str, names: Sequence[str]) -> None:
    place: dict[str, Any] = schema
    for step in path.split("."):
        place = place["properties"][step]
    if place.get("type") == "array":
        place["items"] = {**place["items"], "enum": sorted(names)}
    else:
        place["enum"] = [*place.get("enum", ()), *(name for name in names if name not in place.get("enum", ()))]


def _bundle(node: Any, foreign: dict[str, Any], file: str) -> Any:
    """A schema of `file` whose references to other files point into `foreign`, which grows on the way."""
    if isinstance(node, list):
        return [_bundle(value, foreign, file) for value in node]
    if not isinstance(node, Mapping):
        return node
    result = {key: _bundle(value, foreign, file) for key, value in node.items() if key not in ("$ref", "x-schema")}
    ref = node.get("$ref", node.get("x-schema"))
    if isinstance(ref, str):
        there, _, pointer = ref.partition("#/$defs/")
        there = there or file
        name = f"{there.removeprefix('objects/').removesuffix('.json')}.{pointer}" if there else pointer
        if there and name not in foreign:
            foreign[name] = True
            foreign[name] = _bundle(nrl_schemas.load(there)["$defs"][pointer], foreign, there)
        result["$ref"] = f"#/$defs/{name}"
    elif ref is not None:
        result["$ref"] = _bundle(ref, foreign, file)
    return result
