"""A dashboard that answers as Ray's does, for tests: a page that loads two files, a version behind a token, and faults on demand."""

from __future__ import annotations

from dataclasses import dataclass, field

from scripted_server import Asked, answer

PAGE = (
    '<html><head><script defer src="./static/js/main.js"></script><link href="./static/css/main.css" rel="stylesheet">'
    '<link rel="icon" href="./favicon.ico"></head><body><div id="root"></div></body></html>'
)


@dataclass
class Dashboard:
    """`faults` are statuses by path; `token` is what Ray wants to be told, empty for none."""

    token: str = ""
    page: str = PAGE
    faults: dict[str, int] = field(default_factory=dict)

    def __call__(self, asked: Asked) -> bytes:
        if asked.target in self.faults:
            return answer(self.faults[asked.target], b"no")
        if asked.target == "/":
            return answer(200, self.page.encode())
        if asked.target.startswith("/static/"):
            return answer(200, b"content")
        if self.token and asked.headers.get("x-ray-authorization") != f"Bearer {self.token}":
            return answer(401, b"Missing authentication token")
        return answer(200, {"ray_version": "2.52.0"})

    def blank(self) -> None:
        """As with symlinks: the page comes, and nothing that it loads."""
        self.faults |= {"/static/js/main.js": 404, "/static/css/main.css": 404}
