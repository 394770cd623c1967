"""The text of the two files that `init` writes: short, with a comment where a newcomer would have to look it up.

They are templates and not dumps of data, because the comments are what they are for.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from .init_answers import LOCAL, Answers

MOUNT = "/mnt/nemo-rl"
#: Where NeMo-RL's images have its code.
CODE = "/opt/nemo-rl"
#: The recipe in a NeMo-RL checkout that most others inherit.
BASE = Path("examples/configs/grpo_math_1B.yaml")

_PLAIN = re.compile(r"[A-Za-z./][A-Za-z0-9._/:@-]*")
_WORDS = ("true", "false", "yes", "no", "on", "off", "null", "y", "n", ".inf", ".nan")


def scalar(text: str) -> str:
    """A string as YAML reads it back, in quotes only where it needs them."""
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS and not text.endswith(":")
    return text if plain else json.dumps(text)


def base_recipe(directory: Path) -> str:
    """NeMo-RL's own recipe as seen from a directory inside its checkout, else ''."""
    for folder in (directory, *directory.parents):
        if (folder / BASE).is_file() and (folder / "nemo_rl").is_dir():
            return os.path.relpath(folder / BASE, directory)
    return ""


def infra_text(name: str, answers: Answers, namespace: str, user: str) -> str:
    """The infra file."""
    head = [
        f"# Where {name}.yaml runs. What would run: kubectl nrl check {name}.yaml --infra {name}.infra.yaml",
        "# Every key with its default: kubectl nrl check --schema, or docs/infra-reference.md.",
    ]
    if answers.profile == LOCAL:
        launch = ["launch:", f"  entrypoint: python -u examples/run_grpo.py --config {name}.yaml"]
        return "\n".join([*head, "profile: local # on this machine, no Kubernetes", "", *launch]) + "\n"
    lines = [*head, f"profile: {scalar(answers.profile)} # the hardware"]
    if namespace:
        lines.append(f"namespace: {scalar(namespace)}")
    lines += [
        f"image: {scalar(answers.image)} # holds Ray, NeMo-RL and its libraries",
        '# rayVersion: "2.49.2" # the Ray in the image, by which KubeRay chooses its probes',
        "# imagePullSecrets: [registry-secret]",
        "",
        *_scheduler(answers),
        "",
        *_workspace(answers),
        "",
        f"# Pods get HF_TOKEN, WANDB_API_KEY and the like from the Secret {user}-secrets where it exists:",
        f"#   kubectl create secret generic {user}-secrets --from-env-file=FILE # lines of HF_TOKEN=...",
        "",
        "launch:",
        "  codeSource: image # the code in the image; lustre: the code on the workspace",
        f"  codePath: {CODE}",
        f"  entrypoint: python -u examples/run_grpo.py --config {name}.yaml",
    ]
    return "\n".join(lines) + "\n"


def _scheduler(answers: Answers) -> list[str]:
    if answers.queue:
        return [f"scheduler: {{kind: {answers.scheduler}, queue: {scalar(answers.queue)}}}"]
    lines = ["# scheduler: {kind: kai, queue: NAME} # or kueue; without it Kubernetes' own"]
    return lines if answers.scheduler == "default" else [f"scheduler: {{kind: {answers.scheduler}}}"]


def _workspace(answers: Answers) -> list[str]:
    if answers.workspace:
        return [
            "# A claim that many pods mount at once; checkpoints and logs on it outlive them.",
            f"workspace: {{kind: pvc, pvcName: {scalar(answers.workspace)}, mountPath: {MOUNT}}}",
        ]
    return [
        "# Without a shared directory results end with the pods:",
        f"# workspace: {{kind: pvc, pvcName: CLAIM, mountPath: {MOUNT}}}",
    ]


def recipe_text(name: str, answers: Answers, base: str, user: str) -> str:
    """The recipe. Without a `base` it holds only what is named in it, and says where the rest comes from."""
    if base:
        head = [f"defaults: {scalar(base)} # everything that is not said here"]
    else:
        head = [
            "# NeMo-RL needs the keys of its own recipes too. Inherit them from a checkout:",
            f"# defaults: /path/to/RL/{BASE}",
        ]
    if answers.profile == LOCAL:
        place = "results"
    else:
        place = f"{MOUNT}/{user}" if answers.workspace else f"/tmp/{user}"
    return "\n".join(
        [
            f"# What is trained. KEY=VALUE on the command line changes it for one run: kubectl nrl run {name}.yaml ...",
            *head,
            "",
            "cluster:",
            "  num_nodes: 1 # worker nodes",
            f"  gpus_per_node: {answers.gpus}",
            "",
            "grpo:",
            "  max_num_steps: 100",
            "",
            "policy:",
            "  model_name: Qwen/Qwen2.5-1.5B",
            "",
            "checkpointing:",
            f"  enabled: {'true' if answers.workspace or answers.profile == LOCAL else 'false # they would end with the pods'}",
            f"  checkpoint_dir: {scalar(f'{place}/checkpoints/{name}')}",
            "",
            "logger:",
            f"  log_dir: {scalar(f'{place}/logs/{name}')}",
            "  wandb_enabled: false",
            "",
        ]
    )
