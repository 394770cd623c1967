"""What proves who is asking: tokens, token files, client certificates and credential plugins, renewed when they expire.

A plugin's output is a secret: it is parsed and kept in memory, and no error quotes it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from ..errors import ClusterError
from .kubeconfig import Access, pem
from .wire import Headers

#: Seconds before its end at which a credential is taken to be over, but no more than that part of its life.
SKEW, SKEW_PART = 30.0, 0.1
#: Seconds for which a token file is believed: kubelets renew projected tokens in place.
TOKEN_FILE_TTL = 60.0


@dataclass(frozen=True)
class Proof:
    """Headers to send, and a client certificate with its key (PEM) to present.

    `expires` is by this machine's clock (`time.time`). `reread` is by one that nobody sets (`time.monotonic`): it must not be put off
    when the other jumps back.
    """

    headers: Headers = field(default_factory=dict)
    certificate: tuple[str, str] | None = None
    expires: float | None = None
    reread: float | None = None

    @property
    def over(self) -> bool:
        return (self.expires is not None and time.time() >= self.expires) or (
            self.reread is not None and time.monotonic() >= self.reread
        )


class Credentials:
    """The proof for one kubeconfig user, made on first use and again when it expired or was refused."""

    def __init__(self, access: Access, env: Mapping[str, str] | None = None) -> None:
        self._access = access
        self._env = os.environ if env is None else env
        self._lock = threading.Lock()
        self._proof: Proof | None = None

    @property
    def renewable(self) -> bool:
        """Whether asking again after a 401 can give another answer."""
        return any(self._access.user.get(key) for key in ("exec", "tokenFile", "auth-provider"))

    def current(self, *, refused: Proof | None = None) -> Proof:
        """The proof to use now.

        `refused` is the one that a 401 answered, which is not used again if it can be renewed.
        """
        with self._lock:
            proof = self._proof
            if proof is None or proof.over or (refused is proof and self.renewable):
                proof = self._proof = self._make()
            return proof

    def _make(self) -> Proof:
        user = self._access.user
        certificate, key = pem(user, "client-certificate"), pem(user, "client-key")
        proof = Proof(certificate=(certificate, key) if certificate and key else None)
        if user.get("token") and not user.get("tokenFile"):
            proof = Proof(_bearer(user["token"]), proof.certificate)
        elif user.get("tokenFile"):
            token = _bearer(_token_file(user["tokenFile"]))
            proof = Proof(token, proof.certificate, reread=time.monotonic() + TOKEN_FILE_TTL)
        elif user.get("username"):
            proof = Proof(_basic(user), proof.certificate)
        elif user.get("exec"):
            proof = run_plugin(user["exec"], self._access, self._env)
        elif user.get("auth-provider"):
            proof = _auth_provider(self._access)
        return replace(proof, headers={**proof.headers, **_impersonation(user)})


def _bearer(token: Any) -> dict[str, str]:
    text = str(token).strip()
    if not text.isascii() or not text.isprintable():
        raise ClusterError("the token of the kubeconfig's user has characters that no token has", reason="NoConfig")
    return {"Authorization": f"Bearer {text}"}


def _basic(user: Mapping[str, Any]) -> dict[str, str]:
    pair = f"{user['username']}:{user.get('password', '')}".encode()
    return {"Authorization": "Basic " + base64.b64encode(pair).decode()}


def _token_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise ClusterError(f"cannot read token file {path}: {error.strerror}", reason="Unauthorized") from error


def _impersonation(user: Mapping[str, Any]) -> Headers:
    """The headers of `as`, `as-uid`, `as-groups` and `as-user-extra`, as client-go sends them."""
    headers: dict[str, str | tuple[str, ...]] = {}
    if user.get("as"):
        headers["Impersonate-User"] = str(user["as"])
    if user.get("as-uid"):
        headers["Impersonate-Uid"] = str(user["as-uid"])
    if user.get("as-groups"):
        headers["Impersonate-Group"] = tuple(map(str, user["as-groups"]))
    for key, values in (user.get("as-user-extra") or {}).items():
        headers[f"Impersonate-Extra-{quote(str(key), safe='')}"] = tuple(map(str, values))
    return headers


def _auth_provider(access: Access) -> Proof:
    """The few users left with `auth-provider` (oidc): the kubernetes package knows how to renew those."""
    from kubernetes import client, config

    configuration = client.Configuration()
    source = os.pathsep.join(access.files)
    load: Callable[..., None] = config.load_kube_config
    cause = "no token"
    token = ""
    try:
        load(config_file=source, context=access.context, client_configuration=configuration)
        # Older releases of the package name the key `authorization`.
        token = configuration.get_api_key_with_prefix("BearerToken", "authorization") or ""
    except Exception as error:
        cause = type(error).__name__
    if not token:
        raise ClusterError(
            f'cannot log in user "{access.user_name}" with its auth-provider ({cause})',
            "log in again with kubectl, then retry: kubectl get namespaces",
            reason="Unauthorized",
        )
    return Proof({"Authorization": token}, reread=time.monotonic() + TOKEN_FILE_TTL)


def run_plugin(plugin: Mapping[str, Any], access: Access, env: Mapping[str, str]) -> Proof:
    """Run a credential plugin (client.authentication.k8s.io ExecCredential) and take what it says.

    Raises `ClusterError`; the plugin's own messages have gone to stderr, where a person can answer a login prompt.
    """
    command = [str(plugin.get("command", "")), *(str(a) for a in plugin.get("args") or [])]
    mode = plugin.get("interactiveMode", "IfAvailable")
    interactive = mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if mode == "Always" and not interactive:
        raise ClusterError(
            f'credential plugin "{command[0]}" of user "{access.user_name}" must ask on a terminal, and there is none',
            "log in first in a terminal, or choose another --context",
            reason="Unauthorized",
        )
    extra = {
        str(e["name"]): str(e.get("value", "")) for e in plugin.get("env") or [] if isinstance(e, dict) and "name" in e
    }
    try:
        done = subprocess.run(
            command,
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**env, **extra, "KUBERNETES_EXEC_INFO": json.dumps(_exec_info(plugin, access, interactive))},
            check=False,
        )
    except OSError as error:
        hint = str(plugin.get("installHint") or f"install {command[0]}, or choose another --context").strip()
        raise ClusterError(
            f'cannot run credential plugin "{command[0]}": {error.strerror}', hint, reason="Unauthorized"
        ) from error
    if done.returncode:
        raise ClusterError(
            f'credential plugin "{command[0]}" of user "{access.user_name}" ended with {done.returncode}',
            "its own messages are above; log in again, then retry",
            reason="Unauthorized",
        )
    return _credential(done.stdout, command[0])


def _exec_info(plugin: Mapping[str, Any], access: Access, interactive: bool) -> dict[str, Any]:
    """What a plugin is told: the ExecCredential that kubectl hands over too."""
    spec = {
        "interactive": interactive,
        **({"cluster": _cluster_info(access)} if plugin.get("provideClusterInfo") else {}),
    }
    version = plugin.get("apiVersion", "client.authentication.k8s.io/v1")
    return {"apiVersion": version, "kind": "ExecCredential", "spec": spec}


def _cluster_info(access: Access) -> dict[str, Any]:
    cluster = access.cluster
    known = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
    info = {key: cluster[key] for key in known if cluster.get(key)}
    if access.ca:  # the file's content, where the kubeconfig names a file
        info["certificate-authority-data"] = base64.b64encode(access.ca.encode()).decode()
    for extension in cluster.get("extensions") or []:
        if isinstance(extension, dict) and extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info


def _credential(output: bytes, command: str) -> Proof:
    try:
        status = json.loads(output)["status"]
        token, certificate, key = (status.get(k) for k in ("token", "clientCertificateData", "clientKeyData"))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ClusterError(f'credential plugin "{command}" printed no ExecCredential', reason="Unauthorized") from None
    if not token and not (certificate and key):
        raise ClusterError(
            f'credential plugin "{command}" gave neither a token nor a certificate', reason="Unauthorized"
        )
    expires = _timestamp(status.get("expirationTimestamp"))
    return Proof(
        _bearer(token) if token else {},
        (certificate, key) if certificate and key else None,
        None if expires is None else expires - min(SKEW, SKEW_PART * max(expires - time.time(), 0)),
    )


def _timestamp(text: Any) -> float | None:
    if not isinstance(text, str):
        return None
    try:
        # Python 3.10 reads neither "Z" nor Go's nanoseconds.
        moment = datetime.fromisoformat(re.sub(r"\.\d+", "", text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
