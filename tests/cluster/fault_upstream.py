"""The API server behind the fault proxy, and the credentials that the proxy has for it."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from . import packages
from .errors import ClusterError, checked


class Upstream:
    """The API server behind the proxy, and the credentials of the kubeconfig that leads to it."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        view = [packages.kubectl(), f"--kubeconfig={kubeconfig}", "config", "view"]
        config = json.loads(checked([*view, "--raw", "--flatten", "--minify", "--output=json"]))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        url = urlsplit(cluster["server"])
        self.host, self.port = url.hostname or "", url.port or 443
        self.namespace = config["contexts"][0]["context"].get("namespace", "default")
        self.token = user.get("token", "")
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._anonymous, self._identified = (ssl.create_default_context(cadata=ca) for _ in range(2))
        if "client-certificate-data" in user:
            for name in ("certificate", "key"):
                (directory / name).write_bytes(base64.b64decode(user[f"client-{name}-data"]))
            self._identified.load_cert_chain(directory / "certificate", directory / "key")
        elif not self.token:
            raise ClusterError(f"{kubeconfig} has neither a client certificate nor a token; the fault proxy needs one")

    async def connect(self, identified: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, with the kubeconfig's certificate or without (a client's own token would not count beside it)."""
        context = self._identified if identified else self._anonymous
        return await asyncio.open_connection(self.host, self.port, ssl=context, limit=4 * 1024 * 1024)
