"""Which cluster, as whom: kubeconfig files merged as kubectl merges them, or the pod's own account.

Read here and not by the kubernetes package, whose import alone takes five times as long as a whole `kubectl get`;
only users with an `auth-provider` are handed to it (see `credentials`).
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ClusterError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

#: Keys that hold a path, in clusters and in users; relative ones are relative to the file they stand in.
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


@dataclass(frozen=True)
class Access:
    """One chosen context. `ca` is PEM text; `user` is the kubeconfig's user entry.

    `inside` says that this process runs in a pod of that cluster, as the pod's account.
    """

    server: str
    context: str = ""
    namespace: str = "default"
    user_name: str = ""
    cluster_name: str = ""
    ca: str | None = None
    insecure: bool = False
    server_name: str | None = None
    proxy: str | None = None
    user: Mapping[str, Any] = field(default_factory=dict)
    cluster: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    inside: bool = False


def choose(kubeconfig: str | None, context: str | None, env: Mapping[str, str]) -> Access:
    """The access that kubectl would use with these flags and this environment; in-cluster when there is no kubeconfig.

    Raises `ClusterError` with a hint when there is nothing to connect to, or the context names what is not there.
    """
    paths = _files(kubeconfig, env)
    merged = _merge([_read(path, may_lack=not kubeconfig) for path in paths])
    if not merged["contexts"] and not merged["clusters"]:
        if context is None and kubeconfig is None and (inside := _in_cluster(env)):
            return inside
        where = ", ".join(str(p) for p in paths) + (
            " has no context" if kubeconfig else " is not there, or has no context"
        )
        raise ClusterError(
            f"no Kubernetes configuration: {where}",
            "point --kubeconfig or KUBECONFIG at a file; what there is: kubectl config get-contexts",
            reason="NoConfig",
        )
    name = context or merged["current-context"]
    if not name:
        raise ClusterError(
            "the kubeconfig has no current context",
            "choose one: kubectl config use-context NAME, or --context NAME",
            reason="NoContext",
        )
    return _access(merged, name, tuple(str(p) for p in paths))


def _files(kubeconfig: str | None, env: Mapping[str, str]) -> list[Path]:
    if kubeconfig:
        return [Path(kubeconfig).expanduser()]
    named = [Path(p).expanduser() for p in env.get("KUBECONFIG", "").split(os.pathsep) if p]
    return named or [Path(env.get("HOME") or os.path.expanduser("~")) / ".kube" / "config"]


def _read(path: Path, *, may_lack: bool) -> dict[str, Any]:
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        if may_lack and isinstance(error, (FileNotFoundError, NotADirectoryError)):
            return {}
        raise ClusterError(
            f"cannot read kubeconfig {path}: {error.strerror}",
            "point --kubeconfig or KUBECONFIG at a file that you may read",
            reason="NoConfig",
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        # The parser's text quotes the line, and lines of a kubeconfig hold tokens: only the place is shown.
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        raise ClusterError(f"kubeconfig {place} is not YAML", reason="NoConfig") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ClusterError(f"kubeconfig {path} is not a mapping", reason="NoConfig")
    for section, key in (("clusters", "cluster"), ("users", "user")):
        for entry in _entries(data, section):
            _absolute(entry.get(key), path.parent)
    return data


def _absolute(entry: Any, directory: Path) -> None:
    if not isinstance(entry, dict):
        return
    for key in _PATHS:
        if isinstance(entry.get(key), str) and entry[key]:
            entry[key] = str(directory / Path(entry[key]).expanduser())
    plugin = entry.get("exec")
    if isinstance(plugin, dict) and "/" in str(plugin.get("command", "")):
        plugin["command"] = str(directory / plugin["command"])


def _entries(data: Mapping[str, Any], section: str) -> list[dict[str, Any]]:
    entries = data.get(section) or []
    return [e for e in entries if isinstance(e, dict) and "name" in e] if isinstance(entries, list) else []


def _merge(files: list[dict[str, Any]]) -> dict[str, Any]:
    """kubectl's rule: the first file that names an entry, or sets the current context, wins."""
    merged: dict[str, Any] = {"clusters": {}, "users": {}, "contexts": {}, "current-context": ""}
    for data in files:
        for section, key in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for entry in _entries(data, section):
                body = entry.get(key)
                merged[section].setdefault(str(entry["name"]), body if isinstance(body, dict) else {})
        merged["current-context"] = merged["current-context"] or str(data.get("current-context") or "")
    return merged


def _access(merged: Mapping[str, Any], name: str, files: tuple[str, ...]) -> Access:
    context = _entry(merged, "contexts", name, f"in {', '.join(files)}")
    cluster_name, user_name = str(context.get("cluster", "")), str(context.get("user", ""))
    cluster = _entry(merged, "clusters", cluster_name, f'which context "{name}" names')
    user = _entry(merged, "users", user_name, f'which context "{name}" names') if user_name else {}
    server = str(cluster.get("server") or "")
    if not server:
        raise ClusterError(f'cluster "{cluster_name}" of the kubeconfig has no server', reason="NoConfig")
    if "://" not in server:
        tls = any(cluster.get(k) for k in ("certificate-authority", "certificate-authority-data"))
        server = f"{'https' if tls else 'http'}://{server}"
    return Access(
        server=server.rstrip("/"),
        context=name,
        namespace=str(context.get("namespace") or "default"),
        user_name=user_name,
        cluster_name=cluster_name,
        ca=pem(cluster, "certificate-authority"),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=cluster.get("tls-server-name") or None,
        proxy=cluster.get("proxy-url") or None,
        user=user,
        cluster=cluster,
        files=files,
    )


def _entry(merged: Mapping[str, Any], section: str, name: str, where: str) -> dict[str, Any]:
    entries: dict[str, dict[str, Any]] = merged[section]
    if name in entries:
        return entries[name]
    import difflib

    near = difflib.get_close_matches(name, entries, 1)
    known = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(entries)) or 'none'}"
    raise ClusterError(
        f'no {section[:-1]} "{name}" {where}; {known}', "list them: kubectl config get-contexts", reason="NoContext"
    )


def pem(entry: Mapping[str, Any], key: str) -> str | None:
    """PEM text of `KEY-data` (base64), else of the file that `KEY` names; None when neither is there."""
    data = entry.get(f"{key}-data")
    if data:
        try:
            return base64.b64decode(str(data), validate=False).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise ClusterError(f"{key}-data of the kubeconfig is not base64 of a PEM text", reason="NoConfig") from None
    path = entry.get(key)
    if not path:
        return None
    try:
        return Path(str(path)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "not a text"
        raise ClusterError(f"cannot read {key} {path} of the kubeconfig: {what}", reason="NoConfig") from error


def _in_cluster(env: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> Access | None:
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT", "443")
    token = directory / "token"
    if not host or not os.path.exists(token):
        return None
    namespace = directory / "namespace"
    ca = directory / "ca.crt"
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        context="in-cluster",
        namespace=(namespace.read_text().strip() if os.path.exists(namespace) else "") or "default",
        user_name="service account",
        ca=ca.read_text() if os.path.exists(ca) else None,
        user={"tokenFile": str(token)},
        inside=True,
    )
