"""Requests to the API server: authenticated, retried where that is safe, refused in one line.

Only what cannot be carried out twice by a retry is retried: GETs after a broken connection or a 5xx, anything after a
429 (which was not carried out) or when no connection could be made, and once after a 401 with renewed credentials.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import SplitResult, urlencode, urlsplit

from ..errors import ClusterError
from . import errors
from .answered import Answered
from .credentials import Credentials, Proof
from .dial import Address, TLSProblem, tls_context
from .kubeconfig import Access
from .patience import Patience
from .pool import Pool, Response
from .proxy import proxy_for
from .sockets import Channel, DialError
from .wire import Headers, Request, WireError

#: Pauses in seconds before the tries after the first.
PAUSES = (0.25, 1.0)
#: How often, and how long in all, a 429 is waited for.
THROTTLED_TRIES, THROTTLED_SECONDS = 8, 60.0

AGENT = "kubectl-nrl"


class Client:
    """One API server, as one user.

    `trace` gets a line per request (method, path, status, milliseconds), never a header, query or body.
    """

    def __init__(self, access: Access, env: Mapping[str, str], trace: Callable[[str], None] | None = None) -> None:
        url, port = _address(access.server)
        self.access = access
        self.credentials = Credentials(access, env)
        self.answered = Answered()
        #: Streaming subresources for which WebSockets were refused.
        self.spdy_only: set[str] = set()
        self._trace = trace
        self._prefix = url.path.rstrip("/")
        self._host = url.netloc.rpartition("@")[2]
        host = url.hostname or ""
        proxy = proxy_for(url.scheme, host, port, access.proxy, env)
        self._plain = Address(host, port, None, access.server_name, proxy)
        self._https = url.scheme == "https"
        self._contexts: dict[tuple[str, str] | None, ssl.SSLContext] = {}
        self.pool = Pool(self.dial)
        self._lock = threading.Lock()

    def dial(self, patience: Patience) -> Channel:
        """A new connection to the API server, presenting the user's certificate. Raises `DialError`."""
        if not self._https:
            return self._plain.dial(patience)
        certificate = self.credentials.current().certificate
        with self._lock:
            if certificate not in self._contexts:
                self._contexts[certificate] = self._context(certificate)
            context = self._contexts[certificate]
        return replace(self._plain, tls=context).dial(patience)

    def _context(self, certificate: tuple[str, str] | None) -> ssl.SSLContext:
        try:
            return tls_context(self.access.ca, self.access.insecure, certificate)
        except TLSProblem as error:
            raise ClusterError(
                f"the kubeconfig cannot be used: {errors.clean(str(error))}", reason="NoConfig"
            ) from None

    def headers(self, proof: Proof, extra: Headers | None = None) -> Headers:
        """Of any request, with the user's proof."""
        return {"Host": self._host, "User-Agent": AGENT, "Accept": "application/json", **proof.headers, **(extra or {})}

    def target(self, path: str, query: Mapping[str, Any] | Sequence[tuple[str, str]] | None = None) -> str:
        """What a request line names: the path below that of the server's URL, and the query."""
        return f"{self._prefix}{path}" + (f"?{urlencode(query)}" if query else "")

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        *,
        doing: str,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        cancelled: Callable[[], bool] | None = None,
    ) -> tuple[int, bytes]:
        """Status and body of the answer, whatever the status. Raises `ClusterError` when there is no answer."""
        target = self.target(path, query)
        payload = b"" if body is None else json.dumps(body).encode()
        extra = {"Accept-Encoding": "gzip", **(headers or {}), **({"Content-Type": content_type} if payload else {})}
        request = Request(method, target, extra, payload)
        return _Attempts(self, request, doing, timeout=timeout, cancelled=cancelled).run()

    def json(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None, **words: Any
    ) -> Any:
        """The decoded body of a success; every other answer is a `ClusterError`. Further words as for `send`."""
        can_i = words.pop("can_i", "")
        code, data = self.send(method, path, query, body, **words)
        if code >= 300:
            raise self.refusal(words["doing"], code, data, can_i)
        return self.decode(data, words["doing"])

    def decode(self, data: bytes, doing: str) -> Any:
        """The JSON of a success. Raises `ClusterError` (reason NotKubernetes) when it is none."""
        try:
            return json.loads(data)
        except ValueError:
            raise ClusterError(
                f"cannot {doing}: the answer is not JSON; a proxy or login page may stand before the API server",
                "see what answers: kubectl get --raw /version",
                reason="NotKubernetes",
            ) from None

    def refusal(self, doing: str, code: int, body: bytes, can_i: str = "") -> ClusterError:
        """See `errors.refusal`."""
        return errors.refusal(doing, code, body, user=self.access.user_name, can_i=can_i)

    def watch(
        self, path: str, query: Mapping[str, str], *, doing: str, seconds: float, cancelled: Callable[[], bool]
    ) -> Iterator[bytes]:
        """Open a watch on a connection of its own; returns its bytes as they arrive.

        `seconds` is the longest silence. Raises `ClusterError` or `Cancelled` here, and `OSError` or `Cancelled`
        while iterating.
        """

        def ask(proof: Proof) -> Response:
            pool = Pool(self.dial)
            try:
                return pool.request(
                    "GET", self.target(path, query), self.headers(proof), timeout=seconds, cancelled=cancelled
                )
            finally:
                pool.close()

        return _closing(self.upgrade_or_stream(ask, (200,), method="GET", path=path, doing=doing))

    def upgrade_or_stream(
        self,
        ask: Callable[[Proof], Response],
        wanted: tuple[int, ...],
        *,
        method: str,
        path: str,
        doing: str,
        can_i: str = "",
    ) -> Response:
        """The open response of `ask`, asked again with renewed credentials after a 401.

        Raises `ClusterError` for a status that is not wanted.
        """
        refused: Proof | None = None
        while True:
            proof = self.credentials.current(refused=refused)
            try:
                response = ask(proof)
                self.trace(f"{method} {path} {response.status}")
                if response.status in wanted:
                    return response
                body = response.read()
            except DialError as error:
                raise errors.unreachable(self.access.server, error) from error
            except OSError as error:
                raise errors.lost(self.access.server, doing, error) from error
            if response.status == 401 and refused is None and self.credentials.renewable:
                refused = proof
                continue
            raise self.refusal(doing, response.status, body, can_i)

    def trace(self, line: str) -> None:
        """A line for who runs with -v."""
        if self._trace is not None:
            self._trace(line)

    def close(self) -> None:
        self.pool.close()


def _address(server: str) -> tuple[SplitResult, int]:
    """The parts of the server's URL, and its port."""
    try:
        url = urlsplit(server)
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError:
        url, port = SplitResult("", "", "", "", ""), 0
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ClusterError(f"server {server} of the kubeconfig is not an http(s) address", reason="NoConfig")
    return url, port


class _Attempts:
    """One request through its retries."""

    def __init__(
        self, client: Client, request: Request, doing: str, *, timeout: float, cancelled: Callable[[], bool] | None
    ) -> None:
        self._client, self._request = client, request
        self._doing, self._timeout, self._cancelled = doing, timeout, cancelled
        self._pauses = list(PAUSES)
        self._throttled_until = time.monotonic() + THROTTLED_SECONDS
        self._throttled = 0
        self._refused: Proof | None = None

    def run(self) -> tuple[int, bytes]:
        while True:
            answer = self._try()
            if answer is not None:
                return answer

    def _try(self) -> tuple[int, bytes] | None:
        """The answer, or None to try again."""
        client, request = self._client, self._request
        proof = client.credentials.current(refused=self._refused)
        headers = client.headers(proof, request.headers)
        started = time.monotonic()
        try:
            with client.pool.request(
                request.method,
                request.target,
                headers,
                request.body,
                timeout=self._timeout,
                cancelled=self._cancelled,
            ) as response:
                client.answered.at(response.headers.get("date", ""))
                body = response.read()
        except DialError as error:
            if not error.final and self._pause():
                return None
            raise errors.unreachable(client.access.server, error) from error
        except (WireError, TimeoutError, OSError) as error:
            if self._request.method == "GET" and not isinstance(error, TimeoutError) and self._pause():
                return None
            raise errors.lost(client.access.server, self._doing, error) from error
        path = self._request.target.partition("?")[0]
        client.trace(f"{self._request.method} {path} {response.status} in {(time.monotonic() - started) * 1000:.0f} ms")
        return None if self._again(response, proof) else (response.status, body)

    def _again(self, response: Response, proof: Proof) -> bool:
        if response.status == 401 and self._refused is None and self._client.credentials.renewable:
            self._refused = proof
            return True
        if response.status == 429:
            return self._wait_as_told(response.headers.get("retry-after", ""))
        if response.status in (500, 502, 503, 504) and self._request.method == "GET":
            return self._pause()
        return False

    def _wait_as_told(self, words: str) -> bool:
        """Wait out a 429; one that does not say for how long (an eviction's, a budget's) is an answer."""
        self._throttled += 1
        if not words.isdecimal() or self._throttled > THROTTLED_TRIES:
            return False
        seconds = float(words)
        if time.monotonic() + seconds > self._throttled_until:
            return False
        self._sleep(max(seconds, 0.1))
        return True

    def _pause(self) -> bool:
        if not self._pauses:
            return False
        self._sleep(self._pauses.pop(0))
        return True

    def _sleep(self, seconds: float) -> None:
        patience = Patience(seconds, self._cancelled)
        try:
            while True:
                time.sleep(patience.slice())
        except TimeoutError:
            return


def _closing(response: Response) -> Iterator[bytes]:
    """The response's pieces; its connection is closed when the reader goes away."""
    with response:
        yield from response.chunks()
