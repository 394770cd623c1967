"""What a run executes, read back from its RayJob: the launch script, with the composed recipe and the entrypoint in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..errors import UsageError
from ..labels import SUBMISSION, annotations_of
from ..manifests.names import LABEL_MAX, cut
from ..script import MOUNTED_SCRIPT, decode, mounted_line, unpack
from .record import RunRecord


def script_of(cluster: Any, run: RunRecord) -> str | None:
    """The launch script of a run; None for a run that another tool made.

    It is in the line that Ray runs (for an upload in the annotation that keeps it), or, too long for one, in a ConfigMap that the
    head mounts. Raises `UsageError` when that is gone.
    """
    spec = run.rayjob.get("spec") or {}
    left = submission_of(run)
    line = str(spec.get("entrypoint") or "") if left is None else str(left.get("line") or "")
    script = decode(line)
    if script is not None or line != mounted_line(run.id):
        return script
    name = cut(f"nrl-launch-{run.name}", LABEL_MAX)
    live = cluster.get("v1", "ConfigMap", name, run.namespace)
    if live is None:
        raise UsageError(
            f"configmap/{name}, which holds what run {run.id} executes, is gone", "stop the run, and start it anew"
        )
    return unpack((live.get("binaryData") or {}).get(MOUNTED_SCRIPT) or "")


def submission_of(run: RunRecord) -> Mapping[str, Any] | None:
    """What the annotation says that is left to submit; None where there is none, empty for one that cannot be read."""
    text = annotations_of(run.rayjob).get(SUBMISSION)
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}
