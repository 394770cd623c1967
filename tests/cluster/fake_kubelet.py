"""The kubelet's port of fake nodes, in front of kwok: a port-forward to a pod leads to that pod's own address.

kwok knows a port-forward's target by the pod's name, which nobody knows before there is one, or has one target for all pods.
So it is given a rule for each address, and what the API server asks for a pod is asked of kwok for the pod's address. All else
passes as it comes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from ipaddress import ip_network
from json import load
from typing import Any

from .http_framing import PIECE, Head, read_head

#: Namespace, in kwok's rules alone, of the pods that stand for addresses.
ADDRESSES = "addresses"

_FORWARD = re.compile(r"/portForward/(?P<namespace>[^/?]+)/(?P<pod>[^/?]+)")


def rules(pod_range: str, ports: Iterable[int]) -> list[dict[str, Any]]:
    """Return kwok's rules: a port-forward by an address reaches these ports there."""
    return [
        {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "PortForward",
            "metadata": {"name": _name(str(address)), "namespace": ADDRESSES},
            "spec": {
                "forwards": [{"ports": [port], "target": {"address": str(address), "port": port}} for port in ports]
            },
        }
        for address in ip_network(pod_range)
    ]


def _name(address: str) -> str:
    return address.replace(".", "-")


def by_address(request: Head, address: Callable[[str, str], str]) -> Head:
    """Return the request with the pod's address in place of its name, where it is for a port-forward.

    A pod that has no address keeps its name, for which kwok has no rule.
    """
    method, target, version = request.words
    found = _FORWARD.match(target)
    where = address(found["namespace"], found["pod"]) if found else ""
    if not found or not where:
        return request
    target = f"/portForward/{ADDRESSES}/{_name(where)}{target[found.end() :]}"
    return Head(f"{method} {target} {version}", request.headers)


async def serve(host: str, port: int, kwok: int, tls: ssl.SSLContext, address: Callable[[str, str], str]) -> None:
    """Listen for the API server; `kwok` is the port of kwok's own server, `address` a pod's by namespace and name."""
    behind = ssl.create_default_context()
    behind.check_hostname, behind.verify_mode = False, ssl.CERT_NONE  # a port of this machine's own

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            request = await read_head(reader)
            if request is None:
                return
            loop = asyncio.get_running_loop()
            request = await loop.run_in_executor(None, by_address, request, address)
            up_reader, up_writer = await asyncio.open_connection(host, kwok, ssl=behind)
            with contextlib.closing(up_writer):
                up_writer.write(request.encode())
                await _either(_copy(reader, up_writer), _copy(up_reader, writer))

    server = await asyncio.start_server(connection, host, port, ssl=tls)
    await server.serve_forever()


async def _either(*ways: Any) -> None:
    """Until one way of a tunnel has ended: with TLS neither side goes on when the other has closed."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(PIECE):
        writer.write(piece)
        await writer.drain()


def pod_address(server: str, context: ssl.SSLContext, namespace: str, name: str) -> str:
    """Ask the API server for a pod's address; empty when it has none, or there is no such pod. Raises `OSError`."""
    try:
        with urllib.request.urlopen(f"{server}/api/v1/namespaces/{namespace}/pods/{name}", context=context) as answer:
            return str(load(answer)["status"].get("podIP") or "")
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return ""
        raise


def main() -> None:
    """Run as a process of the kwok depth."""
    parser = argparse.ArgumentParser()
    for flag in ("host", "server", "ca", "cert", "key", "tls-cert", "tls-key"):
        parser.add_argument(f"--{flag}", required=True)
    for flag in ("port", "kwok"):
        parser.add_argument(f"--{flag}", required=True, type=int)
    args = parser.parse_args()
    context = ssl.create_default_context(cafile=args.ca)
    context.load_cert_chain(args.cert, args.key)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(args.tls_cert, args.tls_key)
    asyncio.run(serve(args.host, args.port, args.kwok, tls, lambda *pod: pod_address(args.server, context, *pod)))


if __name__ == "__main__":
    main()
