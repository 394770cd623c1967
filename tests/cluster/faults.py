"""Faults on demand: which request meets which one. Set by tests in their thread, read by the proxy in its own."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field

from waiting import wait_until

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass
class Rule:
    """One fault for the requests whose method and path (with query) match both expressions whole or in part."""

    method: re.Pattern[str]
    path: re.Pattern[str]
    left: int | None  # how often it still acts; None for always
    status: int | None = None
    message: str = ""
    reason: str = ""
    retry_after: int | None = None  # seconds
    in_watch: bool = False
    cut_after: int | None = None  # bytes of the response's body
    whole: bool = False  # whether cut_after counts the response's head too
    delay: float = 0.0  # seconds before the request is passed on or answered
    hits: int = 0  # how often it has acted; for assertions

    def arrived(self, times: int = 1) -> None:
        """Wait until this rule has acted on that many requests; fails the test when they do not come."""
        wait_until(lambda: self.hits >= times, lambda: f"{times} requests for {self.path.pattern}, {self.hits} came")

    def matches(self, method: str, target: str) -> bool:
        """Tell whether this rule acts on that request now."""
        return self.left != 0 and bool(self.method.fullmatch(method)) and bool(self.path.search(target))

    def answer(self) -> bytes:
        """Return the whole response that the API server would give: a Status object, as kind as the real ones."""
        status = json.dumps(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": self.message,
                "reason": self.reason,
                "code": self.status,
                **({"details": {"retryAfterSeconds": self.retry_after}} if self.retry_after is not None else {}),
            }
        )
        code, payload = self.status, status
        if self.in_watch:  # a watch that has begun reports its end as an event
            code, payload = 200, f'{{"type":"ERROR","object":{status}}}\n'
        lines = [f"HTTP/1.1 {code} {'OK' if code == 200 else self.reason}", "Content-Type: application/json"]
        if self.retry_after is not None:
            lines.append(f"Retry-After: {self.retry_after}")
        lines += [f"Content-Length: {len(payload.encode())}", "", payload]
        return "\r\n".join(lines).encode()


@dataclass
class Faults:
    """The rules in force, oldest first."""

    _rules: list[Rule] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(
        self,
        status: int,
        *,
        times: int | None = 1,
        method: str = ".*",
        path: str = "",
        message: str = "",
        retry_after: int | None = None,
        in_watch: bool = False,
    ) -> Rule:
        """Answer the next `times` matching requests with that status instead of passing them on.

        `in_watch` sends it as the ERROR event of a watch that was accepted, as the API server does with 410.
        """
        reason = _REASONS.get(status, "InternalError")
        if status == 429 and retry_after is None:
            retry_after = 1
        text = message or f"{reason} (injected by the fault proxy)"
        return self._add(
            method, path, times, status=status, reason=reason, message=text, retry_after=retry_after, in_watch=in_watch
        )

    def cut_after(
        self, size: int, *, times: int | None = 1, method: str = ".*", path: str = "", whole: bool = False
    ) -> Rule:
        """Cut the connection after `size` bytes of the body of the next `times` matching responses (or tunnels).

        `whole` counts from the first byte of the response, so that a small size cuts within its head.
        """
        return self._add(method, path, times, cut_after=size, whole=whole)

    def latency(self, seconds: float, *, times: int | None = None, method: str = ".*", path: str = "") -> Rule:
        """Hold matching requests back for that long, until `clear`."""
        return self._add(method, path, times, delay=seconds)

    def clear(self) -> None:
        """Remove all rules."""
        with self._lock:
            self._rules.clear()

    def meet(self, method: str, target: str) -> list[Rule]:
        """Return the rules that act on this request, counted: all delays and at most one that answers or cuts."""
        with self._lock:
            met = [rule for rule in self._rules if rule.matches(method, target)]
            ends = [rule for rule in met if rule.status is not None or rule.cut_after is not None][:1]
            acting = [rule for rule in met if rule.delay] + ends
            for rule in acting:
                rule.hits += 1
                rule.left = None if rule.left is None else rule.left - 1
            return acting

    def _add(self, method: str, path: str, times: int | None, **fault: object) -> Rule:
        rule = Rule(re.compile(method), re.compile(path), times, **fault)  # type: ignore[arg-type]
        with self._lock:
            self._rules.append(rule)
        return rule
