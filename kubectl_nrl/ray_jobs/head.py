"""The head of one Ray cluster, as it is reached: its ports, its token, and what its refusals mean."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

from ..errors import ClusterError

DASHBOARD_PORT = 8265
#: Ray's dashboard agent; serves the files of the node's log directory, with Range requests.
AGENT_PORT = 52365


class Answer(Protocol):
    """An HTTP answer. `headers` have lower-case names."""

    status: int
    headers: dict[str, str]

    def read(self) -> bytes: ...
    def chunks(self) -> Iterator[bytes]: ...
    def close(self) -> None: ...


class Body(Protocol):
    """What is sent with a request: bytes, or pieces that are read as they are sent (`upload.Package`)."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[bytes]: ...


class Transport(Protocol):
    """HTTP to one port of the head: `cluster.Forward`, or a pool on this machine. Raises `ClusterError`."""

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | Body = b"",
        *,
        timeout: float = 30.0,
        cancelled: Callable[[], bool] | None = None,
    ) -> Answer: ...
    def close(self) -> None: ...


class Exec(Protocol):
    """Runs a command on the head, in Ray's container: exit code, stdout, stderr. `timeout` in seconds. Raises `ClusterError`."""

    def __call__(
        self, command: Sequence[str], stdin: bytes = b"", timeout: float = 30.0
    ) -> tuple[int, bytes, bytes]: ...


@dataclass
class Head:
    """How a head is reached. `agent` and `run` may be absent; `where` names the cluster in messages.

    `life` changes with the pod and with each start of its container: what Ray kept in another life is lost.
    """

    api: Transport
    agent: Transport | None = None
    run: Exec | None = None
    token: str | None = field(default=None, repr=False)
    log_dir: str = "/tmp/ray/session_latest/logs"
    where: str = "the Ray cluster"
    pod: str = ""
    life: str = ""

    def headers(self) -> dict[str, str]:
        return {"x-ray-authorization": f"Bearer {self.token}"} if self.token else {}

    def ask(
        self, transport: Transport, method: str, path: str, headers: Mapping[str, str] | None = None,
        body: bytes | Body = b"", **words: Any,
    ) -> Answer:  # fmt: skip
        """Send a request with the token; `words` as for `Transport.request`.

        A pod that is gone is `NoHead`: not to be taken for a job that Ray lacks.
        """
        more: dict[str, Any] = {"body": body} if body else {}
        try:
            return transport.request(method, path, {**self.headers(), **(headers or {})}, **more, **words)
        except ClusterError as error:
            if error.status == 404:
                raise self._gone(error) from error
            raise

    def execute(self, command: Sequence[str], stdin: bytes, timeout: float) -> tuple[int, bytes, bytes]:
        """See `Exec`; a pod that is gone is `NoHead` here, too."""
        if self.run is None:
            raise ClusterError(f"no command can be run on the head of {self.where}", reason="NoExec")
        try:
            return self.run(command, stdin, timeout)
        except ClusterError as error:
            if error.status == 404:
                raise self._gone(error) from error
            raise

    def _gone(self, error: ClusterError) -> ClusterError:
        return ClusterError(f"the head of {self.where} is gone: {error.message}", status=404, reason="NoHead")

    def send(
        self, method: str, path: str, doing: str, headers: Mapping[str, str] | None = None, body: bytes | Body = b"",
        **words: Any,
    ) -> tuple[int, bytes]:  # fmt: skip
        answer = self.ask(self.api, method, path, headers, body, **words)
        body = answer.read()
        if answer.status in (401, 403):
            raise self.unauthorized(answer.status, doing)
        return answer.status, body

    def json(self, method: str, path: str, doing: str, shape: type = dict) -> Any:
        return self.decode(*self.send(method, path, doing), doing, shape)

    def decode(self, status: int, body: bytes, doing: str, shape: type = dict) -> Any:
        """What a success says, which is of that shape: something else than Ray may listen there. Raises `ClusterError`."""
        if status >= 300:
            reason = {404: "NotFound", 500: "RayError"}.get(status, "RayRefused")
            raise ClusterError(
                f"cannot {doing} on {self.where}: {told(body) or f'HTTP {status}'}", status=status, reason=reason
            )
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise self.not_json(status, doing) from None
        if not isinstance(found, shape):
            raise ClusterError(
                f"cannot {doing} on {self.where}: the answer is not Ray's", status=status, reason="NotRay"
            )
        return found

    def stream(self, path: str, doing: str, *, timeout: float) -> Answer:
        """GET; a good answer whose body is yet to be read, by `chunks`, and to be closed. `timeout` as for `Transport.request`."""
        answer = self.ask(self.api, "GET", path, timeout=timeout)
        if answer.status in (401, 403):
            answer.close()
            raise self.unauthorized(answer.status, doing)
        if answer.status >= 300:
            self.decode(answer.status, answer.read(), doing)
        return answer

    def not_json(self, status: int, doing: str) -> ClusterError:
        return ClusterError(f"cannot {doing} on {self.where}: the answer is not JSON", status=status, reason="NotRay")

    def unauthorized(self, status: int, doing: str) -> ClusterError:
        why = "does not accept the token" if self.token else "requires a token, and none is known"
        return ClusterError(
            f"cannot {doing}: Ray on {self.where} {why} ({status})",
            "the RayCluster's spec.authOptions names the Secret that holds the token",
            status=status,
            reason="RayUnauthorized",
        )

    def close(self) -> None:
        self.api.close()
        if self.agent is not None:
            self.agent.close()


def job_path(submission_id: str, more: str = "") -> str:
    """Path of a job in the Jobs API; an id cannot break out of it."""
    return f"/api/jobs/{quote(submission_id, safe='')}{more}"


def told(body: bytes) -> str:
    """What Ray's error says, in one line: of a traceback its exception, else the last line that says something."""
    lines = [line.strip() for line in body.decode("utf-8", "replace").splitlines()]
    named = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
    said = [line for line in lines if any(c.isalnum() for c in line)]
    text = "".join(c for c in ((named or said or [""])[-1]) if c.isprintable())
    return text if len(text) <= 300 else text[:297] + "..."
