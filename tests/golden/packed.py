"""Goldens without packed bytes: gzip's output differs between versions of Python and zlib, what is packed does not."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

from kubectl_nrl.script import decode

_APPLIED = re.compile(r"(kubectl-nrl/last-applied: )\S+")
_SUBMISSION = re.compile(r"(kubectl-nrl/submission: .*\(echo )\S+( \| base64 -d)")
_LINE = re.compile(r"(entrypoint: ).*gzip -dc.*")


def masked(text: str) -> str:
    """Manifests as YAML with placeholders for what is packed; the decoded entrypoint stands beside it as comments."""
    text = _SUBMISSION.sub(r"\1<the launch script, packed>\2", _APPLIED.sub(r"\1<what was rendered, packed>", text))
    return _LINE.sub(r"\1<the launch script, packed>", text)


def last_applied(manifest: dict[str, Any]) -> Any:
    """What the annotation of a rendered object holds."""
    packed = manifest["metadata"]["annotations"]["kubectl-nrl/last-applied"]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def launch_script(manifest: dict[str, Any]) -> str:
    """The launch script of a rendered RayJob."""
    return decode(manifest["spec"]["entrypoint"])
