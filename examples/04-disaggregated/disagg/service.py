"""JSON over HTTP, asked and answered: all that the three roles need of one another."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def serve(port: int, answers: Mapping[str, Answer]) -> None:
    """Answer POSTs by their path until the process ends; GET /health says that it is there."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200 if self.path == "/health" else 404, {})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            if self.path not in answers:
                return self._send(404, {"error": f"no {self.path} here"})
            try:
                return self._send(200, answers[self.path](asked))
            except Exception as error:
                return self._send(500, {"error": f"{type(error).__name__}: {error}"})

        def _send(self, status: int, data: Mapping[str, Any]) -> None:
            body = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            if not self.path.endswith("/health"):
                print(f"{self.command} {self.path} from {self.client_address[0]}", flush=True)

    ThreadingHTTPServer(("", port), Handler).serve_forever()


def ask(url: str, data: Mapping[str, Any], patience: float = 60.0) -> dict[str, Any]:
    """POST and read the answer; a service that is not there is asked again for `patience` seconds."""
    request = urllib.request.Request(url, json.dumps(data).encode(), {"Content-Type": "application/json"})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + patience
    while True:
        try:
            with direct.open(request, timeout=30) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{url} answers {error.code}: {error.read().decode(errors='replace')}") from error
        except OSError as error:
            if time.monotonic() >= deadline:
                raise SystemExit(f"{url} does not answer: {error}") from error
        time.sleep(0.5)
