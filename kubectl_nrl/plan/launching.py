"""How the entrypoint reaches Ray: rewritten to the composed recipe, wrapped in the launch script, encoded in one line."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from ..api import Context
from ..checkout import Checkout
from ..config import Config
from ..config.entrypoint import Rewritten, rewrite
from ..errors import Problem
from ..manifests.names import LABEL_MAX, cut
from ..script import LINE_MAX, MOUNT, MOUNTED_SCRIPT, encoded_line, launch_script, mounted_line, pack
from .choices import Choices
from .model import Launch
from .written import origin

#: The largest script that fits a ConfigMap (1 MiB of data), after base64.
CONFIG_MAP_MAX = 700 * 1024


def entrypoint_text(config: Config, problems: list[Problem]) -> Rewritten:
    """The entrypoint with its `--config` pointed at the composed recipe; problems when it is missing or empty."""
    launch = config.infra.get("launch") or {}
    text = launch.get("entrypoint")
    where = origin(config, "launch", "entrypoint") or origin(config, "launch")
    if not isinstance(text, str) or not text.strip():
        word = "is empty" if isinstance(text, str) else "is missing"
        problems.append(
            Problem(
                f"launch.entrypoint {word}: there is nothing to run", where, hint="launch: {entrypoint: python -u ...}"
            )
        )
        text = ""
    source = str(launch.get("recipeSource", "inline"))
    rewritten = rewrite(text, recipe_source=source, overrides=config.overrides)
    problems += rewritten.notes
    if text and not rewritten.uses_config and "NRL_RECIPE" not in text and source == "inline":
        problems.append(
            Problem(
                "the entrypoint uses neither --config FILE nor NRL_RECIPE, so the recipe and its overrides do not reach it", where,
                severity="warning", hint="add --config recipe.yaml, or read the file that NRL_RECIPE names",
            )
        )  # fmt: skip
    if source == "pod" and rewritten.uses_config:
        said = "launch.recipeSource is pod: the copy of the recipe on the pod decides, and overrides given here do not reach it"
        problems.append(Problem(said, origin(config, "launch", "recipeSource"), severity="warning"))
    return rewritten


def plan_launch(
    ctx: Context, choices: Choices, text: Rewritten, problems: list[Problem], checkout: Checkout | None = None
) -> Launch:
    """The script and the line; a script too long for a line needs `launch_config_map` (RayJob), or is a problem."""
    working_dir = choices.code.working_dir(ctx)
    log_dir = _log_dir(ctx)
    _upload_warning(ctx.config, choices, text.text, problems)
    recipe = ctx.config.recipe_yaml()
    peers = heads_of_others(ctx, choices)
    script = launch_script(
        text.text,
        run_id=ctx.run.id,
        recipe=recipe,
        env={str(k): str(v) for k, v in (ctx.get("launch.env") or {}).items() if v is not None},
        working_dir=working_dir,
        checkout=checkout,
        log_file=f"{log_dir.rstrip('/')}/{ctx.run.id}.log" if log_dir else None,
        peers=peers,
    )
    line = encoded_line(ctx.run.id, script)
    if ctx.kind == "local":
        line = ""  # the supervisor runs the script itself
    elif len(line) > LINE_MAX and not choices.submitter.takes_script:
        line = mounted_line(ctx.run.id)
        size = len(pack(script))
        limit = CONFIG_MAP_MAX if ctx.kind == "RayJob" else LINE_MAX
        if ctx.kind != "RayJob" or size > CONFIG_MAP_MAX:
            said = (
                f"entrypoint and recipe are {size // 1024} KiB packed; {limit // 1024} KiB is the most that can be sent"
            )
            problems.append(
                Problem(said, origin(ctx.config, "launch", "entrypoint"), hint="keep long scripts with the code")
            )
    paths = ctx.get("launch.rayUploadPaths")
    return Launch(
        entrypoint=text.text, script=script, line=line, submitter=choices.submitter.name, submission_mode=choices.submission_mode,
        code_source=choices.code.name or "none", working_dir=working_dir, recipe=recipe, log_dir=log_dir,
        upload_paths=None if paths is None else tuple(str(p) for p in paths),
        dashboard_port=ctx.get("submit.localDashboardPort"),
        exec_tmp_dir=str(ctx.get("submit.execTmpDir", "/tmp")),
    )  # fmt: skip


#: Ray's GCS and dashboard, where `rayStartParams` says nothing else.
PORTS = ("6379", "8265")


def heads_of_others(ctx: Context, choices: Choices) -> dict[str, str]:
    """Where the heads of the other roles answer, as `service.namespace.svc:port,port` (GCS, dashboard); none without a watcher.

    On this machine the supervisor ends a run whose other Ray has died. KubeRay names the Service (common/service.go) and takes the
    ports from `rayStartParams`.
    """
    if ctx.kind == "local" or not ctx.get("launch.peerWatcher", True):
        return {}
    found = {}
    for name, role in ctx.roles.items():
        head = (ctx.base.get(name) or {}).get("spec", {}).get("headGroupSpec") or {}
        params, service = head.get("rayStartParams") or {}, (head.get("headService") or {}).get("metadata") or {}
        asked = [str(params.get(key) or "") for key in ("port", "dashboard-port")]
        ports = [text if text.isdecimal() else default for text, default in zip(asked, PORTS, strict=True)]
        found[name] = f"{service.get('name') or role.cluster + '-head-svc'}.{ctx.namespace}.svc:{','.join(ports)}"
    for name, cluster in choices.attached.items():
        found.setdefault(name, f"{cluster}-head-svc.{ctx.namespace}.svc:{','.join(PORTS)}")
    found.pop("training", None)
    return found


def launch_config_map(ctx: Context, launch: Launch) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The ConfigMap of a script too long for a line and the head's patch that mounts it; None when the line holds it."""
    if launch.line != mounted_line(ctx.run.id):
        return None
    name = cut(f"nrl-launch-{ctx.roles['training'].object_name}", LABEL_MAX)
    manifest = {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "binaryData": {MOUNTED_SCRIPT: base64.b64encode(pack(launch.script)).decode()},
    }  # fmt: skip
    patch = {
        "spec": {"volumes": [{"name": "nrl-launch", "configMap": {"name": name}}]},
        "container": {"ray": {"volumeMounts": [{"name": "nrl-launch", "mountPath": MOUNT, "readOnly": True}]}},
    }
    return manifest, patch


def log_warning(ctx: Context, launch: Launch, head_kept: bool, keeps_all: bool) -> list[Problem]:
    """A warning before submitting when the driver's log ends with the cluster."""
    if ctx.kind != "RayJob" or head_kept or keeps_all or launch.log_dir:
        return []
    return [
        Problem(
            "the driver's log goes with the cluster when the job ends; only a follower keeps a copy, and may miss the last lines",
            severity="warning",
            hint="keep the head for it (--ttl SECONDS), or set launch.logDir to a directory on shared storage",
        )
    ]


def interactive_problems(ctx: Context, submission_mode: str) -> list[Problem]:
    """What KubeRay's InteractiveMode, by which code is uploaded, refuses or lacks (validation.go: no backoffLimit)."""
    if submission_mode != "InteractiveMode":
        return []
    found = []
    if int(ctx.get("launch.backoffLimit", 0) or 0) > 0:
        said = "launch.backoffLimit has no meaning for uploaded code: KubeRay retries no run whose code comes from a laptop"
        where = origin(ctx.config, "launch", "backoffLimit")
        found.append(Problem(said, where, hint="leave it out, or use --code-source image or lustre"))
    if not ctx.facts.pre_running_deadline:
        said = (
            "this KubeRay has no preRunningDeadlineSeconds (1.6 has): when this machine leaves before the code is submitted, "
            "the pods stay until `kubectl nrl job resume` or `job stop`"
        )
        found.append(Problem(said, severity="warning"))
    return found


def _log_dir(ctx: Context) -> str | None:
    written = ctx.get("launch.logDir")
    if written:
        return str(written)
    workspace: Mapping[str, Any] = ctx.get("workspace") or {}
    if ctx.kind == "local":
        return None
    if not (workspace.get("pvcName") or workspace.get("hostPath")) or workspace.get("kind") == "rayUpload":
        return None
    return f"{str(workspace.get('mountPath', '/mnt/nemo-rl')).rstrip('/')}/{ctx.run.user.name}/driver_logs"


def _upload_warning(config: Config, choices: Choices, text: str, problems: list[Problem]) -> None:
    found = re.search(r"(?:^|[;&|]|\bthen\b)\s*cd\s+(/\S*)", text, re.MULTILINE)
    if choices.code.traits.uploads and found:
        said = f"the entrypoint changes to {found[1]}: the uploaded code is then not what runs"
        problems.append(Problem(said, origin(config, "launch", "entrypoint"), severity="warning"))
