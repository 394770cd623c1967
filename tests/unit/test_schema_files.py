"""The schema files: derived ones are what their sources say, fragments are schemas, the reference page is fresh."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import nrl_schemas
import pytest

from kubectl_nrl.schema import builtin_fragments, infra_schema
from kubectl_nrl.schema.engine import KNOWN
from kubectl_nrl.schema.reference import COMMAND, page

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "schemas"
SOURCES = json.loads((SCHEMAS / "objects" / "SOURCES.json").read_text())
OWN = sorted(p for pattern in ("*.json", "fragments/*.json", "objects/*-*.json", "objects/computedomain.json")
             for p in SCHEMAS.glob(pattern))  # fmt: skip


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_file_is_a_json_schema(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_file_uses_only_what_the_checker_knows_itself(path: Path) -> None:
    """So that checking needs no jsonschema, whose import costs 80 ms; and every reference leads somewhere."""
    document = json.loads(path.read_text())
    for schema in subschemas(document):
        assert set(schema) <= KNOWN, schema
        if "$ref" in schema:
            file, _, pointer = schema["$ref"].partition("#/$defs/")
            assert pointer in (nrl_schemas.load(file) if file else document)["$defs"]


def subschemas(schema: Any) -> list[dict[str, Any]]:
    if not isinstance(schema, dict):
        return []
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    inner += [
        schema[word] for word in ("items", "additionalProperties", "propertyNames", "if", "then") if word in schema
    ]
    inner += [branch for word in ("allOf", "anyOf", "oneOf") for branch in schema.get(word, ())]
    return [schema, *(found for part in inner for found in subschemas(part))]


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_derived_file_was_not_edited(name: str) -> None:
    text = (SCHEMAS / "objects" / name).read_bytes()
    assert hashlib.sha256(text).hexdigest() == SOURCES[name]["sha256"], f"{name} was edited; run: python schemas/derive"


@pytest.mark.skipif(
    importlib.util.find_spec("kubernetes_validate") is None, reason="kubernetes-validate (108 MB) is not installed"
)
@pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")
def test_derived_files_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(SCHEMAS / "derive"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_pods_are_strict_to_the_bottom() -> None:
    """Every mapping with named fields refuses others; only free maps (labels) and opaque data are open."""
    definitions = nrl_schemas.load("objects/pod-1.34")["$defs"]
    assert len(definitions) > 100
    for name, schema in definitions.items():
        if "properties" in schema:
            assert schema["additionalProperties"] is False, name
    assert "status" not in json.dumps(sorted(definitions))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (
            "RayJobSpec",
            {"entrypoint", "deletionStrategy", "preRunningDeadlineSeconds", "submissionMode", "rayClusterSpec"},
        ),
        ("RayClusterSpec", {"headGroupSpec", "workerGroupSpecs", "authOptions", "upgradeStrategy"}),
    ],
)
def test_kuberay_fields(kind: str, fields: set[str]) -> None:
    schema = nrl_schemas.load("objects/kuberay-1.6.2")["$defs"][kind]
    assert fields <= set(schema["properties"])
    assert schema["additionalProperties"] is False


def test_group_needs_no_field_that_the_server_fills_in() -> None:
    groups = nrl_schemas.load("objects/kuberay-1.6.2")["$defs"]["RayClusterSpec"]["properties"]["workerGroupSpecs"]
    assert groups["items"]["required"] == ["groupName", "template"]


def test_unknown_name_of_a_schema() -> None:
    with pytest.raises(FileNotFoundError):
        nrl_schemas.load("no-such")


def test_files_stay_small() -> None:
    assert sum(path.stat().st_size for path in SCHEMAS.rglob("*.json")) < 300_000


def test_reference_is_fresh() -> None:
    written = (ROOT / "docs" / "infra-reference.md").read_text()
    assert written == page(infra_schema(builtin_fragments())), (
        f"docs/infra-reference.md is stale; refresh it with: {COMMAND}"
    )


def test_reference_names_every_fragment() -> None:
    text = page(
        infra_schema({**builtin_fragments(), "acme": {"type": "object", "properties": {"size": {"type": "integer"}}}})
    )
    assert "`acme.size`" in text
    assert "`scheduler.topology`" in text
    assert "* `submit.kind`: " in text


def test_reference_command(tmp_path: Path) -> None:
    target = tmp_path / "page.md"
    subprocess.run([sys.executable, "-m", "kubectl_nrl.schema.reference", str(target)], check=True, cwd=ROOT)
    assert target.read_text().startswith("# Infra file: every key")
