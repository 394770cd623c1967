"""Certificates and kubeconfigs of a cluster, made by openssl.

One authority per cluster; a client's name and groups are its certificate's CN and O, as Kubernetes reads them.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path

from .errors import checked
from .state import State

_DAYS = "365"


def authority(state: State) -> Path:
    """Return the cluster's CA certificate, made with its key when absent."""
    ca = state.dir("certs") / "ca.crt"
    if not ca.exists():
        key = _key(state, "ca")
        checked(
            [
                "openssl",
                "req",
                "-x509",
                "-new",
                "-sha256",
                "-days",
                _DAYS,
                "-key",
                key,
                "-out",
                ca,
                "-subj",
                "/CN=kubectl-nrl-tests",
            ]
        )
    return ca


def service_account_keys(state: State) -> tuple[Path, Path]:
    """Return the public key that checks service account tokens and the private one that signs them."""
    private = _key(state, "service-account")
    public = private.with_suffix(".pub")
    if not public.exists():
        checked(["openssl", "pkey", "-in", private, "-pubout", "-out", public])
    return public, private


def server(state: State, name: str, addresses: Sequence[str]) -> tuple[Path, Path]:
    """Return certificate and key of a server that is reached by those IP addresses or host names."""
    alternatives = ",".join(("IP:" if address[0].isdigit() else "DNS:") + address for address in addresses)
    return _signed(
        state, name, f"/CN={name}", f"subjectAltName={alternatives}\nextendedKeyUsage=serverAuth,clientAuth\n"
    )


def client(state: State, user: str, group: str = "") -> tuple[Path, Path]:
    """Return certificate and key of a client called `user`, in `group`."""
    subject = (f"/O={group}" if group else "") + f"/CN={user}"
    return _signed(state, user.replace(":", "-"), subject, "extendedKeyUsage=clientAuth\n")


def kubeconfig(state: State, user: str, group: str = "", *, server_url: str, name: str | None = None) -> Path:
    """Return a kubeconfig (the files' contents inside, so that it can be copied) for that user."""
    cert, key = client(state, user, group)
    inline = {what: base64.b64encode(path.read_bytes()).decode() for what, path in (("cert", cert), ("key", key))}
    ca = base64.b64encode(authority(state).read_bytes()).decode()
    path = state.write(
        f"{name or user.replace(':', '-')}.kubeconfig",
        f"""apiVersion: v1
kind: Config
current-context: test
clusters: [{{name: test, cluster: {{server: "{server_url}", certificate-authority-data: {ca}}}}}]
users: [{{name: {user!r}, user: {{client-certificate-data: {inline["cert"]}, client-key-data: {inline["key"]}}}}}]
contexts: [{{name: test, context: {{cluster: test, user: {user!r}, namespace: default}}}}]
""",
    )
    path.chmod(0o600)
    return path


def _key(state: State, name: str) -> Path:
    path = state.dir("certs") / f"{name}.key"
    if not path.exists():
        draft = path.with_suffix(".draft")
        checked(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", draft])
        draft.chmod(0o600)
        os.rename(draft, path)
    return path


def _signed(state: State, name: str, subject: str, extensions: str) -> tuple[Path, Path]:
    ca, key = authority(state), _key(state, name)
    cert = state.dir("certs") / f"{name}.crt"
    if not cert.exists():
        request = checked(["openssl", "req", "-new", "-key", key, "-subj", subject])
        wanted = state.write(f"certs/{name}.ext", extensions)
        signing = ["-CA", ca, "-CAkey", ca.with_suffix(".key"), "-CAcreateserial", "-days", _DAYS, "-sha256"]
        checked(["openssl", "x509", "-req", *signing, "-extfile", wanted, "-out", cert], stdin=request)
    return cert, key
