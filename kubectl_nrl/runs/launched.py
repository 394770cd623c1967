"""What a run executes, read back from its RayJob: the launch script, with the composed recipe and the entrypoint in it."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

from ..errors import UsageError
from ..labels import SUBMISSION, annotations_of
from ..manifests.names import LABEL_MAX, cut
from ..script import MOUNTED_SCRIPT, decode, mounted_line
from .record import RunRecord


def script_of(cluster: Any, run: RunRecord) -> str | None:
    """The launch script of a run; None for a run that another tool made.

    It is in the line that Ray runs (for an upload in the annotation that keeps it), or, too long for one, in a ConfigMap that the
    head mounts. Raises `UsageError` when that is gone.
    """
    spec = run.rayjob.get("spec") or {}
    left = annotations_of(run.rayjob).get(SUBMISSION)
    line = str(json.loads(left)["line"]) if left else str(spec.get("entrypoint") or "")
    script = decode(line)
    if script is not None or line != mounted_line(run.id):
        return script
    name = cut(f"nrl-launch-{run.name}", LABEL_MAX)
    live = cluster.get("v1", "ConfigMap", name, run.namespace)
    if live is None:
        raise UsageError(
            f"configmap/{name}, which holds what run {run.id} executes, is gone", "stop the run, and start it anew"
        )
    return gzip.decompress(base64.b64decode(live["binaryData"][MOUNTED_SCRIPT])).decode()
