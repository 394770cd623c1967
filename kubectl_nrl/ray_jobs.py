"""Ray's Jobs API and the driver's log of one Ray cluster, over a transport that is handed in.

The log is read by byte offset from the files on the head, and from the Jobs API only when nothing else answers: that
one sends the whole log each time, and answers 500 when a byte of it is no text.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

from .errors import ClusterError

DASHBOARD_PORT = 8265
#: Ray's dashboard agent; serves the files of the node's log directory, with Range requests.
AGENT_PORT = 52365
#: Key of the token in the Secret that KubeRay makes (KubeRay: RAY_AUTH_TOKEN_SECRET_KEY).
TOKEN_KEY = "auth_token"
#: Most bytes of a log that one request asks for.
CHUNK = 8 * 1024 * 1024

#: Prints a log's bytes from a position; the words come as arguments, so that no name is read as shell.
_TAIL = '[ -f "$1" ] || exit 44; tail -c "+$2" "$1" | head -c "$3"'
_NO_FILE = 44


class Answer(Protocol):
    """An HTTP answer. `headers` have lower-case names."""

    status: int
    headers: dict[str, str]

    def read(self) -> bytes: ...
    def close(self) -> None: ...


class Transport(Protocol):
    """HTTP to one port of the head: `cluster.Forward`, or a pool on this machine. Raises `ClusterError`."""

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float = 30.0,
        cancelled: Callable[[], bool] | None = None,
    ) -> Answer: ...
    def close(self) -> None: ...


#: Runs a command on the head: exit code, stdout, stderr.
Exec = Callable[[Sequence[str]], tuple[int, bytes, bytes]]


@dataclass
class Head:
    """How a head is reached. `agent` and `run` may be absent; `where` names the cluster in messages."""

    api: Transport
    agent: Transport | None = None
    run: Exec | None = None
    token: str | None = field(default=None, repr=False)
    log_dir: str = "/tmp/ray/session_latest/logs"
    where: str = "the Ray cluster"
    pod: str = ""


class RayJobs:
    """The Jobs API of one Ray cluster.

    All methods raise `ClusterError`; 401 and 403 of Ray have reason `RayUnauthorized`.
    """

    def __init__(self, head: Head) -> None:
        self._head = head
        self._may_exec = head.run is not None

    @property
    def pod(self) -> str:
        """Name of the head pod, empty on this machine."""
        return self._head.pod

    def version(self) -> dict[str, Any]:
        """`ray_version` and more;

        an answer is also the proof that the Jobs API is ready (`/` answers without a token).
        """
        return self._json("GET", "/api/version", "read Ray's version")  # type: ignore[no-any-return]

    def list(self) -> list[dict[str, Any]]:
        """All jobs that Ray knows, as it tells them (`submission_id`, `status`, `message`, `start_time`, ...)."""
        return list(self._json("GET", "/api/jobs/", "list the Ray jobs"))

    def get(self, submission_id: str) -> dict[str, Any] | None:
        """The job, or None when Ray does not know it (a head that restarted has forgotten its jobs)."""
        doing = f"read Ray job {submission_id}"
        status, body = self._send("GET", self._path(submission_id), doing)
        if status == 404:
            return None
        return self._decode(status, body, doing)  # type: ignore[no-any-return]

    def stop(self, submission_id: str) -> bool:
        """Ask Ray to stop the job; False when it was not running any more."""
        answer = self._json("POST", self._path(submission_id, "/stop"), f"stop Ray job {submission_id}")
        return bool(answer.get("stopped"))

    def delete(self, submission_id: str) -> bool:
        """Forget a job that has ended."""
        answer = self._json("DELETE", self._path(submission_id), f"delete Ray job {submission_id}")
        return bool(answer.get("deleted"))

    def log_chunk(self, submission_id: str, offset: int, *, limit: int = CHUNK) -> bytes:
        """Bytes of the driver's log from `offset` on, at most `limit`; b"" when there are none yet.

        Exact bytes from the head's agent, else by exec on the head, else from the Jobs API (its text in UTF-8). Reason
        `LogReplaced` when the log is now shorter than `offset`: the head was replaced and it is another log.
        """
        for read in (self._from_agent, self._from_exec):
            chunk = read(submission_id, offset, limit)
            if chunk is not None:
                return chunk
        return self._from_api(submission_id, offset, limit)

    def log(self, submission_id: str, offset: int = 0) -> Iterator[bytes]:
        """The log from `offset` to its present end, in chunks."""
        while chunk := self.log_chunk(submission_id, offset):
            offset += len(chunk)
            yield chunk

    def close(self) -> None:
        self._head.api.close()
        if self._head.agent is not None:
            self._head.agent.close()

    def __enter__(self) -> RayJobs:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _from_agent(self, submission_id: str, offset: int, limit: int) -> bytes | None:
        if self._head.agent is None:
            return None
        path = f"/logs/{quote(log_name(submission_id), safe='')}"
        words = {**self._headers(), "Range": f"bytes={offset}-{offset + limit - 1}"}
        doing = f"read the log of Ray job {submission_id}"
        try:
            answer = self._head.agent.request("GET", path, words)
        except ClusterError as error:
            if error.reason == "Unreachable" or error.status in (403, 404):
                return None
            raise
        body = answer.read()
        if answer.status == 206:
            return body
        if answer.status == 200:
            return _after(body, offset, limit, doing)
        if answer.status == 416:
            size = answer.headers.get("content-range", "").rpartition("/")[2]
            if size.isdecimal() and int(size) < offset:
                raise _replaced(doing, int(size), offset)
            return b""
        if answer.status in (401, 403):
            raise self._unauthorized(answer.status, doing)
        return None

    def _from_exec(self, submission_id: str, offset: int, limit: int) -> bytes | None:
        """By `tail` on the head; given up for good once it is refused (exec is forbidden on many shared clusters)."""
        if not self._may_exec or self._head.run is None:
            return None
        path = f"{self._head.log_dir}/{log_name(submission_id)}"
        try:
            code, out, _ = self._head.run(["sh", "-c", _TAIL, "sh", path, str(offset + 1), str(limit)])
        except ClusterError as error:
            if error.reason not in ("ConnectionLost", "Timeout"):
                self._may_exec = False
            return None
        # A file that is not there may be on another node, which only the Jobs API finds.
        return None if code == _NO_FILE or code else out

    def _from_api(self, submission_id: str, offset: int, limit: int) -> bytes:
        doing = f"read the log of Ray job {submission_id}"
        answer = self._json("GET", self._path(submission_id, "/logs"), doing)
        return _after(str(answer.get("logs") or "").encode("utf-8", "surrogatepass"), offset, limit, doing)

    def _path(self, submission_id: str, more: str = "") -> str:
        return f"/api/jobs/{quote(submission_id, safe='')}{more}"

    def _headers(self) -> dict[str, str]:
        return {"x-ray-authorization": f"Bearer {self._head.token}"} if self._head.token else {}

    def _send(self, method: str, path: str, doing: str) -> tuple[int, bytes]:
        answer = self._head.api.request(method, path, self._headers())
        body = answer.read()
        if answer.status in (401, 403):
            raise self._unauthorized(answer.status, doing)
        return answer.status, body

    def _json(self, method: str, path: str, doing: str) -> Any:
        return self._decode(*self._send(method, path, doing), doing)

    def _decode(self, status: int, body: bytes, doing: str) -> Any:
        if status >= 300:
            reason = {404: "NotFound", 500: "RayError"}.get(status, "RayRefused")
            raise ClusterError(
                f"cannot {doing} on {self._head.where}: {told(body) or f'HTTP {status}'}", status=status, reason=reason
            )
        try:
            return json.loads(body)
        except ValueError:
            raise ClusterError(
                f"cannot {doing} on {self._head.where}: the answer is not JSON", status=status, reason="NotRay"
            ) from None

    def _unauthorized(self, status: int, doing: str) -> ClusterError:
        why = "does not accept the token" if self._head.token else "requires a token, and none is known"
        return ClusterError(
            f"cannot {doing}: Ray on {self._head.where} {why} ({status})",
            "the RayCluster's spec.authOptions names the Secret that holds the token",
            status=status,
            reason="RayUnauthorized",
        )


def log_name(submission_id: str) -> str:
    """Name of a driver's log file in the head's log directory (Ray: JOB_LOGS_PATH_TEMPLATE)."""
    return f"job-driver-{submission_id}.log"


def told(body: bytes) -> str:
    """What Ray's error says, in one line: of a traceback its exception, else the last line that says something."""
    lines = [line.strip() for line in body.decode("utf-8", "replace").splitlines()]
    named = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
    said = [line for line in lines if any(c.isalnum() for c in line)]
    text = "".join(c for c in ((named or said or [""])[-1]) if c.isprintable())
    return text if len(text) <= 300 else text[:297] + "..."


def _after(whole: bytes, offset: int, limit: int, doing: str) -> bytes:
    if len(whole) < offset:
        raise _replaced(doing, len(whole), offset)
    return whole[offset : offset + limit]


def _replaced(doing: str, size: int, offset: int) -> ClusterError:
    return ClusterError(
        f"cannot {doing} from byte {offset}: it has {size} bytes now; the head was replaced, and its log is lost",
        reason="LogReplaced",
    )


class KubernetesReader(Protocol):
    """What `connect` needs of `cluster.Cluster`."""

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Mapping[str, Any] | None: ...
    def list(
        self, api_version: str, kind: str, namespace: str | None = None, *, label_selector: str = ""
    ) -> Sequence[Mapping[str, Any]]: ...
    def forward(self, namespace: str, pod: str, port: int) -> Transport: ...
    def exec(
        self, namespace: str, pod: str, command: Sequence[str], *, container: str | None = None, timeout: float = 30
    ) -> tuple[int, bytes, bytes]: ...


def connect(cluster: KubernetesReader, raycluster: Mapping[str, Any]) -> RayJobs:
    """The Jobs API of a RayCluster object, through port-forwards to its head pod; nothing is sent to Ray yet.

    Raises `ClusterError`: reason `NoHead` when no head pod runs, `RayUnauthorized` when its token cannot be read.
    """
    metadata = raycluster["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    params = ((raycluster.get("spec") or {}).get("headGroupSpec") or {}).get("rayStartParams") or {}
    pod = head_pod(cluster, raycluster)
    pod_name = pod["metadata"]["name"]
    container = pod["spec"]["containers"][0]["name"]

    def run(command: Sequence[str]) -> tuple[int, bytes, bytes]:
        return cluster.exec(namespace, pod_name, command, container=container)

    return RayJobs(
        Head(
            api=cluster.forward(namespace, pod_name, _port(params, "dashboard-port", DASHBOARD_PORT)),
            agent=cluster.forward(namespace, pod_name, _port(params, "dashboard-agent-listen-port", AGENT_PORT)),
            run=run,
            token=token_of(cluster, raycluster),
            log_dir=f"{str(params.get('temp-dir') or '/tmp/ray').rstrip('/')}/session_latest/logs",
            where=f'RayCluster "{name}"',
            pod=pod_name,
        )
    )


def head_pod(cluster: KubernetesReader, raycluster: Mapping[str, Any]) -> Mapping[str, Any]:
    """The running head pod, found by KubeRay's labels; one that is going away, or has ended, does not count.

    Raises `ClusterError` (reason `NoHead`) when there is none.
    """
    metadata = raycluster["metadata"]
    selector = f"ray.io/cluster={metadata['name']},ray.io/node-type=head"
    pods = [
        pod
        for pod in cluster.list("v1", "Pod", metadata["namespace"], label_selector=selector)
        if not pod["metadata"].get("deletionTimestamp") and (pod.get("status") or {}).get("phase") == "Running"
    ]
    if not pods:
        raise ClusterError(
            f'RayCluster "{metadata["name"]}" has no running head pod',
            f"see its pods: kubectl get pods -n {metadata['namespace']} -l ray.io/cluster={metadata['name']}",
            reason="NoHead",
        )
    return max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))


def token_of(cluster: KubernetesReader, raycluster: Mapping[str, Any]) -> str | None:
    """Ray's token, when the RayCluster has `authOptions.mode:

    token`: from its Secret (KubeRay's, or the user's own).
    """
    auth = (raycluster.get("spec") or {}).get("authOptions") or {}
    if auth.get("mode") != "token":
        return None
    metadata = raycluster["metadata"]
    namespace, name = metadata["namespace"], str(auth.get("secretName") or metadata["name"])
    try:
        secret = cluster.get("v1", "Secret", name, namespace)
    except ClusterError as error:
        if error.status != 403:
            raise
        raise ClusterError(
            f"Ray requires a token; cannot read Secret {namespace}/{name} (forbidden)",
            f"ask for: kubectl auth can-i get secrets/{name} -n {namespace}",
            status=403,
            reason="RayUnauthorized",
        ) from error
    data = (secret or {}).get("data") or {}
    if TOKEN_KEY not in data:
        what = f"has no key {TOKEN_KEY}" if secret else "is not there"
        raise ClusterError(f"Ray requires a token; Secret {namespace}/{name} {what}", reason="RayUnauthorized")
    return base64.b64decode(data[TOKEN_KEY]).decode().strip()


def _port(params: Mapping[str, Any], key: str, default: int) -> int:
    value = str(params.get(key) or "")
    return int(value) if value.isdecimal() else default
