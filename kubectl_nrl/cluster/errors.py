"""A refusal of the API server, or its silence, as one `ClusterError` line that is ours.

The server's own message is kept, cut and cleaned: it can quote what was sent, and what was sent can hold what must
not be shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ..errors import ClusterError

LONGEST = 600

#: For an admin. The chart's name stands alone beside --repo: with a repository's name before it helm finds nothing.
KUBERAY_CHART = (
    "helm install kuberay-operator kuberay-operator "
    "--repo https://ray-project.github.io/kuberay-helm/ -n kuberay-system --create-namespace"
)
INSTALL_KUBERAY = f"an admin installs KubeRay: {KUBERAY_CHART}"

#: Things that look like credentials: bearer headers, JSON web tokens, well-known prefixes of tokens.
_SECRET = re.compile(
    r"(?i:bearer)\s+[\w.~+/=-]{8,}|eyJ[\w-]{8,}\.[\w-]+\.?[\w-]*|\bhf_[A-Za-z0-9]{10,}|\bsk-[\w-]{20,}"
    r"|\b(?:ghp_|github_pat_|glpat-|xox[abp]-|nvapi-)[\w-]{6,}"
)


def clean(text: str, longest: int = LONGEST) -> str:
    """One line of at most `longest` characters, without control characters and without what looks like a credential."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    line = _SECRET.sub("[hidden]", line)
    return line if len(line) <= longest else line[: longest - 3].rstrip() + "..."


def parse_status(body: bytes) -> Mapping[str, Any]:
    """The Status object of a refusal, or an empty mapping when the body is something else."""
    try:
        data = json.loads(body)
    except ValueError:
        return {}
    return data if isinstance(data, dict) and data.get("kind") == "Status" else {}


def describe(verb: str, resource: str, name: str = "", namespace: str | None = None) -> str:
    """`create rayjobs.ray.io "x" in namespace "rl"`: what was being done, for every message."""
    quoted = f' "{name}"' if name else ""
    return f"{verb} {resource}{quoted}" + (f' in namespace "{namespace}"' if namespace else "")


def refusal(doing: str, code: int, body: bytes, *, user: str = "", can_i: str = "") -> ClusterError:
    """The error for an answer that is no success.

    `can_i` are the words of a `kubectl auth can-i` that would show the permission.
    """
    status = parse_status(body)
    reason = str(status.get("reason") or "")
    said = clean(str(status.get("message") or "")) or clean(body.decode("utf-8", "replace"), 200) or f"HTTP {code}"
    if code == 401:
        return ClusterError(
            f'the API server does not accept the credentials of user "{user or "unknown"}" (401): cannot {doing}',
            "log in again, or choose another --context; who you are: kubectl auth whoami",
            status=401,
            reason=reason or "Unauthorized",
        )
    if code == 404 and not status:
        return not_served(doing)
    hint = ""
    if code == 403 and can_i and " cannot " in said:
        hint = f"see what you may do: kubectl auth can-i {can_i}"
    return ClusterError(f"cannot {doing}: {said}", hint, status=code, reason=reason or _REASONS.get(code, ""))


_REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def not_served(doing: str, detail: str = "") -> ClusterError:
    """The kind does not exist on this cluster: never to be taken for "the object is not there"."""
    kind = doing.partition('"')[0]  # names of objects are quoted
    return ClusterError(
        f"cannot {doing}: this cluster does not serve it{': ' + detail if detail else ''}",
        INSTALL_KUBERAY if ".ray.io" in kind else "see what it serves: kubectl api-resources",
        status=404,
        reason="NotServed",
    )


def absent(body: bytes, name: str) -> bool:
    """Whether a 404 says that the object `name` is not there (rather than its namespace or its kind)."""
    status = parse_status(body)
    details = status.get("details") or {}
    return bool(name) and details.get("name") == name and details.get("kind") != "namespaces"


def unreachable(server: str, error: Exception) -> ClusterError:
    """No connection: nothing was sent."""
    return ClusterError(
        f"cannot reach the API server {server}: {clean(str(error))}",
        "is this the right --context? kubectl cluster-info",
        reason="Unreachable",
    )


def lost(server: str, doing: str, error: Exception) -> ClusterError:
    """The connection broke after the request was sent: whether it was carried out is unknown."""
    return ClusterError(
        f"lost the API server {server} while waiting for its answer (to {doing}): {clean(str(error))}",
        reason="ConnectionLost",
    )
