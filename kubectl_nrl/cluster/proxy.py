"""Proxies between this machine and the API server, chosen and asked as kubectl does.

The cluster's `proxy-url` wins, else the environment's; the environment's never captures a loopback address.
"""

from __future__ import annotations

import base64
import ipaddress
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from urllib.parse import SplitResult, unquote, urlsplit

from .patience import Patience
from .sockets import DialError, SocketChannel, connect, secured

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


def through_proxy(
    proxy: str,
    host: str,
    port: int,
    patience: Patience,
    trust: Callable[[], ssl.SSLContext] = ssl.create_default_context,
) -> socket.socket:
    """A connection to `host` by a proxy: TLS to the proxy itself where its kind is `https`, by the context that `trust` gives.

    Raises `DialError`, or `OSError` when the proxy is not reached.
    """
    url, url_port = _parts(proxy)
    if url.scheme not in _PORTS or not url.hostname:
        known = "http, https and socks5"
        said = f"proxy {without_password(proxy)} is of a kind that is not supported ({url.scheme}; {known} are)"
        raise DialError(said, final=True)
    sock = connect(url.hostname, url_port or _PORTS[url.scheme], patience)
    try:
        if url.scheme == "https":
            sock = secured(sock, trust(), url.hostname, patience)
        login = (unquote(url.username or ""), unquote(url.password or ""))
        ask = _socks5 if url.scheme.startswith("socks5") else _http_connect
        ask(SocketChannel(sock), (host, port), login, patience)
        return sock
    except BaseException:
        sock.close()
        raise


def _parts(proxy: str) -> tuple[SplitResult, int | None]:
    """The parts of a proxy's address and its port. Raises `DialError`, which quotes nothing: a password may stand in it."""
    try:
        url = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        return url, url.port
    except ValueError:
        raise DialError(
            "the proxy (proxy-url, HTTPS_PROXY or HTTP_PROXY) is no address of the form http://HOST:PORT", final=True
        ) from None


def _http_connect(channel: SocketChannel, to: tuple[str, int], login: tuple[str, str], patience: Patience) -> None:
    (host, port), (user, password) = to, login
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    words = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if user:
        words.append("Proxy-Authorization: Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())
    channel.send(("\r\n".join(words) + "\r\n\r\n").encode(), patience)
    head = b""
    while b"\r\n\r\n" not in head:
        piece = channel.recv(patience)
        if not piece or len(head) > 65536:
            raise DialError("the proxy closed the connection")
        head += piece
    status = head.split(b"\r\n", 1)[0].split(b" ")
    if len(status) < 2 or status[1][:1] != b"2":
        raise DialError(f"the proxy refused: {head.split(bytes([13]), 1)[0].decode('latin-1')[:100]}")


def _socks5(channel: SocketChannel, to: tuple[str, int], login: tuple[str, str], patience: Patience) -> None:
    """RFC 1928, with the proxy resolving the name, and RFC 1929 where there is a user."""
    (host, port), (user, password) = to, login
    buffer = b""

    def take(count: int) -> bytes:
        nonlocal buffer
        while len(buffer) < count:
            piece = channel.recv(patience)
            if not piece:
                raise DialError("the proxy closed the connection")
            buffer += piece
        taken, buffer = buffer[:count], buffer[count:]
        return taken

    channel.send(b"\x05\x01\x02" if user else b"\x05\x01\x00", patience)
    if take(2) not in (b"\x05\x00", b"\x05\x02"):
        raise DialError("the proxy offers no way to log in that is known")
    if user:
        name, word = user.encode()[:255], password.encode()[:255]
        channel.send(b"\x01" + bytes([len(name)]) + name + bytes([len(word)]) + word, patience)
        if take(2)[1]:
            raise DialError("the proxy does not accept the user and password of proxy-url")
    encoded = host.encode("idna")
    channel.send(b"\x05\x01\x00\x03" + bytes([len(encoded)]) + encoded + struct.pack(">H", port), patience)
    _, code, _, kind = take(4)
    if code:
        raise DialError(f"the proxy could not connect (SOCKS code {code})")
    take({1: 4, 4: 16}.get(kind) or take(1)[0])
    take(2)


def without_password(proxy: str | None) -> str:
    try:
        url, port = _parts(proxy or "")
    except DialError:
        return "of proxy-url"
    return f"{url.scheme}://{url.hostname}:{port}" if url.hostname and port else (url.hostname or "of proxy-url")


def proxy_for(scheme: str, host: str, port: int, configured: str | None, env: Mapping[str, str]) -> str | None:
    """The proxy to use: `proxy-url`, else HTTPS_PROXY / HTTP_PROXY unless NO_PROXY or loopback exempts the host."""
    if configured:
        return configured
    names = ("HTTPS_PROXY", "https_proxy") if scheme == "https" else ("HTTP_PROXY", "http_proxy")
    proxy = next((env[n] for n in names if env.get(n)), None)
    if not proxy or _loopback(host):
        return None
    exempt = env.get("NO_PROXY") or env.get("no_proxy") or ""
    return None if any(_exempts(rule.strip().lower(), host.lower(), port) for rule in exempt.split(",")) else proxy


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _loopback(host: str) -> bool:
    address = _ip(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _exempts(rule: str, host: str, port: int) -> bool:
    """One word of NO_PROXY as Go reads it: `*`, an address, a network, a domain (with subdomains), any with a port."""
    address = _ip(host)
    if "/" in rule:
        try:
            return address is not None and address in ipaddress.ip_network(rule, strict=False)
        except ValueError:
            return False
    name, colon, number = rule.rpartition(":")
    if colon and number.isdecimal() and (":" not in name or name.endswith("]")):
        if int(number) != port:
            return False
        rule = name
    rule = rule.strip("[]").removeprefix("*") if rule != "*" else rule
    if rule == "*" or address is not None:
        return rule == "*" or _ip(rule) == address
    return bool(rule) and (host.endswith(rule) if rule.startswith(".") else host == rule or host.endswith("." + rule))
