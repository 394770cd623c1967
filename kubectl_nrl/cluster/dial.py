"""A connection to the API server: through a proxy where one is configured, and TLS."""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
from dataclasses import dataclass

from .layered_tls import LayeredTls
from .patience import Patience
from .proxy import through_proxy, without_password
from .sockets import Channel, DialError, SocketChannel, connect, secured


@dataclass(frozen=True)
class Address:
    """Where and how to connect. `server_name` is what the certificate must name; `tls` None for plain HTTP."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = None

    def dial(self, patience: Patience) -> Channel:
        """Connect. Raises `DialError` (nothing was sent), or `Cancelled`."""
        try:
            return self._connected(patience)
        except TimeoutError as error:
            raise DialError(f"{self._via()} does not answer: {error}") from error
        except socket.gaierror as error:
            raise DialError(f"{self._via()}: the name cannot be resolved ({error.strerror})") from error
        except ssl.SSLCertVerificationError as error:
            untrusted = f"the certificate of {self._via()} is not trusted: {error.verify_message}"
            raise DialError(untrusted, final=True) from error
        except OSError as error:
            if isinstance(error, DialError):
                raise
            raise DialError(f"{self._via()}: {error.strerror or error}") from error

    def _via(self) -> str:
        where = f"{self.host}:{self.port}"
        return f"{where} through proxy {without_password(self.proxy)}" if self.proxy else where

    def _connected(self, patience: Patience) -> Channel:
        if self.proxy:
            sock = through_proxy(self.proxy, self.host, self.port, patience, self._trust)
        else:
            sock = connect(self.host, self.port, patience)
        if self.tls is None:
            return SocketChannel(sock)
        name = self.server_name or self.host
        try:
            if isinstance(sock, ssl.SSLSocket):
                return LayeredTls(SocketChannel(sock), self.tls, name, patience)
            return SocketChannel(secured(sock, self.tls, name, patience))
        except BaseException:
            sock.close()
            raise

    def _trust(self) -> ssl.SSLContext:
        """What a proxy of the https kind must prove: as with kubectl, what the API server must."""
        return self.tls or ssl.create_default_context()


class TLSProblem(ValueError):
    """Certificates that cannot be used; the text says which."""


def tls_context(ca: str | None, insecure: bool, certificate: tuple[str, str] | None) -> ssl.SSLContext:
    """A client context that trusts `ca` (else the system's), presenting the certificate. Raises `TLSProblem`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif ca:
            context.load_verify_locations(cadata=ca)
        else:
            context.load_default_certs()
    except (ssl.SSLError, ValueError) as error:
        raise TLSProblem(f"certificate authority of the cluster: {error}") from error
    if certificate:
        try:
            _present(context, certificate)
        except (ssl.SSLError, ValueError, OSError) as error:
            raise TLSProblem(f"certificate or key of the user: {error}") from error
    return context


def _present(context: ssl.SSLContext, certificate: tuple[str, str]) -> None:
    """OpenSSL takes a certificate from files only: this one is readable by its owner alone, for an instant."""
    with tempfile.TemporaryDirectory(prefix="kubectl-nrl-") as directory:
        path = os.path.join(directory, "client.pem")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write("\n".join(certificate))
        context.load_cert_chain(path, password="")
