"""What is uploaded when nothing is listed, what never is, and how much may be."""

from __future__ import annotations

#: The composed recipe, at the top of the working directory.
RECIPE_FILE = "nrl_k8s_run.yaml"

#: Ray's dashboard refuses larger bodies (ray_constants.DASHBOARD_CLIENT_MAX_SIZE, 2.52).
BODY_MAX = 100 * 1024 * 1024
#: A tree beyond this is no code: said while walking, before anything is read.
FILES_MAX = 200_000
SIZE_MAX = 2 * 1000**3

#: A directory that holds this is a NeMo-RL checkout.
NEMO_RL_MARK = "nemo_rl/__init__.py"

#: What a NeMo-RL run imports: the sets of paths that the upstream tool sends; those that are not there are left out.
NEMO_RL_PATHS = (
    "nemo_rl",
    "examples",
    "infra/examples",
    "tests/check_metrics.py",
    "tests/json_dump_tb_logs.py",
    "3rdparty/Gym-workspace/Gym/nemo_gym",
    "3rdparty/Gym-workspace/Gym/resources_servers",
    "3rdparty/Gym-workspace/Gym/responses_api_models/vllm_model",
    "3rdparty/Gym-workspace/Gym/responses_api_agents/simple_agent",
    "3rdparty/Gym-workspace/Gym/pyproject.toml",
    "3rdparty/Gym-workspace/Gym/uv.lock",
    "3rdparty/Megatron-LM-workspace/Megatron-LM/megatron",
    "3rdparty/Megatron-Bridge-workspace/Megatron-Bridge/3rdparty/Megatron-LM/megatron",
)

_NEVER = frozenset(
    (
        ".git", ".hg", ".svn", "__pycache__", ".venv", ".cache", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis",
        ".ipynb_checkpoints", ".tox", ".nox", ".uv-cache", ".DS_Store",
    )
)  # fmt: skip
_NEVER_ENDS = (".pyc", ".pyo", ".egg-info")

#: The first bytes of a file CACHEDIR.TAG, by which tools mark a cache (bford.info/cachedir).
CACHE_TAG = b"Signature: 8a477f597d28d172789f06886806bc55"


def never_sent(name: str) -> bool:
    """Whether a file or directory of that name is a cache, byte code, metadata of a build, or a repository."""
    return name in _NEVER or name.endswith(_NEVER_ENDS)


_CREDENTIALS = frozenset(
    (
        ".env", ".netrc", "_netrc", ".pypirc", ".git-credentials", "kubeconfig", ".aws/credentials", ".kube/config", ".docker/config.json",
        "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519",
    )
)  # fmt: skip
_CREDENTIALS_END = (".key", ".p12", ".pfx")
_NO_VALUES = ("example", "sample", "template", "dist")


def holds_credentials(path: str) -> bool:
    """Whether a file of that path holds passwords or keys by the custom of some tool; an example of one (`.env.example`) does not."""
    parts = path.split("/")
    name = parts[-1]
    if name.startswith(".env."):
        return not name.endswith(_NO_VALUES)
    return name in _CREDENTIALS or "/".join(parts[-2:]) in _CREDENTIALS or name.endswith(_CREDENTIALS_END)
