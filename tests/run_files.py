"""A small recipe and infra file for tests of `run`: one head and one worker that ask for little."""

from __future__ import annotations

from typing import Any

RECIPE: dict[str, Any] = {"cluster": {"num_nodes": 1, "gpus_per_node": 0}, "steps": 1}


def _pod(image: str) -> dict[str, Any]:
    """Requests without limits: Ray's dashboard does not start within its own patience on a fifth of a CPU."""
    container = {
        "name": "ray",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": {"cpu": "200m", "memory": "1Gi"}},
    }
    return {"spec": {"terminationGracePeriodSeconds": 5, "containers": [container]}}


def infra(entrypoint: str, image: str = "x:1", name: str = "t", **launch: Any) -> dict[str, Any]:
    """An infra file as data; `launch` adds keys to its launch section."""
    worker = {
        "groupName": "w",
        "replicas": 1,
        "minReplicas": 1,
        "maxReplicas": 1,
        "rayStartParams": {"num-cpus": "1"},
        "template": _pod(image),
    }
    head = {"rayStartParams": {"num-cpus": "1", "num-gpus": "0"}, "template": _pod(image)}
    spec = {"rayVersion": "2.52.0", "headGroupSpec": head, "workerGroupSpecs": [worker]}
    return {
        "image": image,
        "kuberay": {"training": {"name": name, "spec": spec}},
        "launch": {"codeSource": "image", "codePath": "/opt/quickstart", "entrypoint": entrypoint, **launch},
    }


def files(entrypoint: str = 'echo "$NRL_RECIPE"', **words: Any) -> dict[str, Any]:
    return {"recipe.yaml": RECIPE, "infra.yaml": infra(entrypoint, **words)}
