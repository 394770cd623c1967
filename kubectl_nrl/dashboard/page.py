"""Whether Ray's dashboard truly works: its page, what the page loads, and the version behind Ray's token.

`/` alone proves nothing: it answers 200 without a token, and also when every script of the page is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from json import loads
from urllib.parse import urljoin, urlsplit

#: Asks for a path: status and body. Raises `OSError` or `ClusterError` when no answer comes.
Ask = Callable[[str], tuple[int, bytes]]

_BASE = "http://dashboard/"


@dataclass(frozen=True)
class Seen:
    """What the dashboard answered: `page` and `version` are HTTP statuses, `refused` paths of scripts and styles with theirs.

    `ray` is Ray's version, empty when it was not told.
    """

    page: int
    assets: tuple[str, ...]
    refused: tuple[tuple[str, int], ...]
    version: int
    ray: str = ""

    @property
    def answers(self) -> bool:
        """Whether Ray's API is up; 401 and 403 are its own words too: it wants a token."""
        return self.version in (200, 401, 403)

    @property
    def works(self) -> bool:
        return self.answers and self.page == 200 and bool(self.assets) and not self.refused

    @property
    def blank(self) -> bool:
        """The page comes and some of its scripts or styles are refused for good: a browser shows nothing."""
        return self.answers and self.page == 200 and any(status in (403, 404) for _, status in self.refused)

    @property
    def missing(self) -> bool:
        """Ray is up and has no page to show."""
        return self.answers and (400 <= self.page < 500 or (self.page == 200 and not self.assets))

    @property
    def words(self) -> str:
        """What is not there yet, for a line of progress."""
        if not self.answers:
            return f"/api/version answers {self.version}"
        if self.page != 200:
            return f"its page answers {self.page}"
        return ", ".join(f"{path} answers {status}" for path, status in self.refused[:2])


def look(ask: Ask) -> Seen:
    """Ask for the version, the page and everything that the page loads. Raises what `ask` raises."""
    version, said = ask("/api/version")
    page, body = ask("/")
    assets = assets_of(body.decode("utf-8", "replace")) if page == 200 else ()
    refused = []
    for path in assets:
        status, content = ask(path)
        if status != 200 or not content:
            refused.append((path, status))
    return Seen(page, assets, tuple(refused), version, _ray(said) if version == 200 else "")


def assets_of(html: str) -> tuple[str, ...]:
    """Paths of the scripts and style sheets that a page loads from its own server, in order."""
    parser = _Assets()
    parser.feed(html)
    return tuple(dict.fromkeys(parser.found))


class _Assets(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        words = {name: value or "" for name, value in attrs}
        if tag == "script":
            self._add(words.get("src", ""))
        elif tag == "link" and {"stylesheet", "modulepreload"} & set(words.get("rel", "").lower().split()):
            self._add(words.get("href", ""))

    def _add(self, link: str) -> None:
        parts = urlsplit(urljoin(_BASE, link))
        if link and f"{parts.scheme}://{parts.netloc}/" == _BASE:
            self.found.append(parts.path + (f"?{parts.query}" if parts.query else ""))


def _ray(body: bytes) -> str:
    try:
        return str(loads(body).get("ray_version") or "")
    except (ValueError, AttributeError):
        return ""
