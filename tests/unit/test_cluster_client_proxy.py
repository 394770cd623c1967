"""Which proxy stands between: the cluster's own, the environment's, or none."""

from __future__ import annotations

import socket
import threading

import pytest

from kubectl_nrl.cluster.patience import Patience
from kubectl_nrl.cluster.proxy import proxy_for, through_proxy, without_password
from kubectl_nrl.cluster.sockets import DialError

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("host", "no_proxy", "used"),
    [
        ("api.example.com", "", True),
        ("localhost", "", False),
        ("127.0.0.1", "", False),
        ("127.9.9.9", "", False),
        ("::1", "", False),
        ("api.example.com", "*", False),
        ("api.example.com", "other, example.com", False),
        ("api.example.com", ".example.com", False),
        ("api.example.com", "*.example.com", False),
        ("api.example.com", "API.Example.com", False),
        ("example.com", ".example.com", True),
        ("badexample.com", "example.com", True),
        ("api.example.com", "example.com:6443", False),
        ("api.example.com", "example.com:443", True),
        ("10.1.2.3", "10.0.0.0/8", False),
        ("10.1.2.3", "10.1.2.3", False),
        ("10.1.2.3", "10.1.2.3:6443", False),
        ("10.1.2.3", "2.3", True),
        ("10.1.2.3", "11.0.0.0/8,rubbish/99", True),
        ("fd00::5", "fd00::/8", False),
        ("fd00::5", "[fd00::5]:6443", False),
        ("fd00::5", "fd00::6", True),
    ],
)
def test_the_environments_proxy_and_its_exceptions(host: str, no_proxy: str, used: bool) -> None:
    for names in (("HTTPS_PROXY", "NO_PROXY"), ("https_proxy", "no_proxy")):
        env = {names[0]: PROXY, names[1]: no_proxy}
        assert proxy_for("https", host, 6443, None, env) == (PROXY if used else None)


def test_the_clusters_own_proxy_knows_no_exceptions() -> None:
    assert proxy_for("https", "localhost", 1, PROXY, {"NO_PROXY": "*"}) == PROXY


def test_each_scheme_has_its_own_variable() -> None:
    assert proxy_for("https", "a", 1, None, {"HTTP_PROXY": PROXY}) is None
    assert proxy_for("http", "a", 1, None, {"HTTP_PROXY": PROXY}) == PROXY


def socks(script: list[tuple[bytes, bytes]], proxy: str) -> None:
    """Dial `api.example:6443` through a scripted SOCKS server: (what must arrive, what to answer), in turn."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        wrong: list[tuple[bytes, bytes]] = []

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                for expected, reply in script:
                    got = connection.recv(1000)
                    if got != expected:
                        wrong.append((got, expected))
                    connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            url = proxy.format(listener.getsockname()[1])
            through_proxy(url, "api.example", 6443, Patience(60)).close()
        finally:
            thread.join(60)
        assert wrong == []


ASK = b"\x05\x01\x00\x03\x0bapi.example\x19\x2b"
GRANTED = b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"


def test_socks5() -> None:
    socks([(b"\x05\x01\x00", b"\x05\x00"), (ASK, GRANTED)], "socks5://127.0.0.1:{}")


def test_socks5_with_a_password() -> None:
    login = (b"\x01\x02me\x02pw", b"\x01\x00")
    socks([(b"\x05\x01\x02", b"\x05\x02"), login, (ASK, GRANTED)], "socks5h://me:pw@127.0.0.1:{}")


def test_socks5_refusals() -> None:
    with pytest.raises(DialError, match="could not connect"):
        socks([(b"\x05\x01\x00", b"\x05\x00"), (ASK, b"\x05\x05\x00\x01" + b"\0" * 6)], "socks5://127.0.0.1:{}")
    with pytest.raises(DialError, match="does not accept the user"):
        socks([(b"\x05\x01\x02", b"\x05\x02"), (b"\x01\x02me\x02pw", b"\x01\x01")], "socks5://me:pw@127.0.0.1:{}")
    with pytest.raises(DialError, match="closed the connection"):
        socks([(b"\x05\x01\x00", b"")], "socks5://127.0.0.1:{}")


def test_a_kind_of_proxy_that_is_not_known() -> None:
    with pytest.raises(
        DialError, match=r"proxy ftp://p:1 .*not supported \(ftp; http, https and socks5 are\)"
    ) as caught:
        through_proxy("ftp://me:pw@p:1", "a", 1, Patience(1))
    assert caught.value.final, "trying again cannot help"


@pytest.mark.parametrize("proxy", ["http://me:pass-word@host:port", "http://[::1", "http://h:99999"])
def test_a_proxy_that_is_no_address_is_said_without_its_password(proxy: str) -> None:
    with pytest.raises(DialError, match="is no address of the form") as caught:
        through_proxy(proxy, "api", 6443, Patience(5.0))
    assert "pass-word" not in str(caught.value) + without_password(proxy)
