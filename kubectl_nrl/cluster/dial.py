"""A connection to the API server: through a proxy where one is configured, and TLS."""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
from dataclasses import dataclass

from .patience import Patience
from .proxy import through_proxy, without_password
from .sockets import DialError, SocketChannel, connect


@dataclass(frozen=True)
class Address:
    """Where and how to connect. `server_name` is what the certificate must name; `tls` None for plain HTTP."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = None

    def dial(self, patience: Patience) -> SocketChannel:
        """Connect. Raises `DialError` (nothing was sent), or `Cancelled`."""
        try:
            sock = self._tcp(patience)
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
        return SocketChannel(sock)

    def _via(self) -> str:
        where = f"{self.host}:{self.port}"
        return f"{where} through proxy {without_password(self.proxy)}" if self.proxy else where

    def _tcp(self, patience: Patience) -> socket.socket:
        if self.proxy:
            sock = through_proxy(self.proxy, self.host, self.port, patience)
        else:
            sock = connect(self.host, self.port, patience)
        try:
            if self.tls is not None:
                sock = self.tls.wrap_socket(
                    sock, server_hostname=self.server_name or self.host, do_handshake_on_connect=False
                )
                _handshake(sock, patience)
            return sock
        except BaseException:
            sock.close()
            raise


def _handshake(sock: ssl.SSLSocket, patience: Patience) -> None:
    while True:
        sock.settimeout(patience.slice())
        try:
            return sock.do_handshake()
        except (TimeoutError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            continue


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
