"""Watching over a transport that drops, forgets and refuses: every change once, every outage once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_server import Asked, Server, answer

from kubectl_nrl.cluster import Cluster
from kubectl_nrl.cluster.patience import Cancelled
from kubectl_nrl.cluster.watch import Watcher, WatchEvent
from kubectl_nrl.errors import ClusterError


def thing(name: str, version: int, uid: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n", "resourceVersion": str(version), "uid": uid or name}}


def line(kind: str, item: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


GONE = line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


class Script:
    """Lists and watches in turn; exceptions among them are raised. When either runs out the watch is stopped."""

    def __init__(self, lists: list[Any], watches: list[Any]) -> None:
        self.lists, self.watches = lists, watches
        self.stop = threading.Event()
        self.versions: list[str] = []

    def lister(self, cancelled: Callable[[], bool]) -> tuple[list[dict[str, Any]], str]:
        got = self._next(self.lists)
        return got[0], str(got[1])

    def opener(self, version: str, seconds: int, cancelled: Callable[[], bool]) -> Iterator[bytes]:
        self.versions.append(version)
        pieces = self._next(self.watches)

        def stream() -> Iterator[bytes]:
            for piece in pieces:
                if isinstance(piece, Exception):
                    raise piece
                yield piece

        return stream()

    def _next(self, left: list[Any]) -> Any:
        if not left:
            self.stop.set()
            raise Cancelled
        got = left.pop(0)
        if isinstance(got, Exception):
            raise got
        return got

    def run(self) -> list[tuple[str, str]]:
        events = list(Watcher(self.lister, self.opener, self.stop, (0.001,)).events())
        return [told(event) for event in events]


def told(event: WatchEvent) -> tuple[str, str]:
    metadata = event.object.get("metadata", {})
    return event.type, f"{metadata['name']}@{metadata['resourceVersion']}" if metadata else ""


DOWN = ClusterError("cannot reach the API server", reason="Unreachable")


def test_a_list_then_changes() -> None:
    changes = line("ADDED", thing("b", 2)) + line("MODIFIED", thing("a", 3)) + line("DELETED", thing("b", 4))
    script = Script([([thing("a", 1)], 1)], [[changes]])
    assert script.run() == [("ADDED", "a@1"), ("ADDED", "b@2"), ("MODIFIED", "a@3"), ("DELETED", "b@4")]


def test_a_watch_that_ends_goes_on_from_its_last_version_and_bookmarks_count() -> None:
    script = Script([([], 1)], [[line("ADDED", thing("a", 5))], [line("BOOKMARK", thing("", 9))], []])
    assert script.run() == [("ADDED", "a@5")]
    assert script.versions == ["1", "5", "9", "9"]


def test_410_lists_again_and_tells_the_difference_only() -> None:
    before = [thing("same", 1), thing("changed", 2), thing("gone", 3), thing("again", 4, "old")]
    after = [thing("same", 1), thing("changed", 9), thing("again", 8, "new"), thing("fresh", 7)]
    script = Script([(before, 4), (after, 9)], [[GONE], []])
    assert script.run()[4:] == [
        ("DELETED", "gone@3"),
        ("DELETED", "again@4"),
        ("MODIFIED", "changed@9"),
        ("ADDED", "again@8"),
        ("ADDED", "fresh@7"),
    ]


def test_410_as_the_answer_lists_again_too() -> None:
    expired = ClusterError("too old", status=410, reason="Expired")
    script = Script([([thing("a", 1)], 1), ([thing("a", 2)], 2)], [expired, []])
    assert script.run() == [("ADDED", "a@1"), ("MODIFIED", "a@2")]


def test_a_drop_that_is_mended_at_once_is_not_told() -> None:
    script = Script([([], 1)], [[line("ADDED", thing("a", 2)), OSError("reset")], [line("ADDED", thing("b", 3))]])
    assert script.run() == [("ADDED", "a@2"), ("ADDED", "b@3")]
    assert script.versions[:2] == ["1", "2"]


def test_an_outage_is_told_once_and_its_end_once() -> None:
    watches = [[OSError("reset")], DOWN, DOWN, DOWN, [line("ADDED", thing("a", 2))], [OSError("reset")], DOWN, [b""]]
    script = Script([([], 1)], watches)
    assert script.run() == [("LOST", ""), ("BACK", ""), ("ADDED", "a@2"), ("LOST", ""), ("BACK", "")]


def test_an_outage_from_the_start() -> None:
    script = Script([DOWN, DOWN, DOWN, ([thing("a", 1)], 1)], [[]])
    assert script.run() == [("LOST", ""), ("ADDED", "a@1"), ("BACK", "")]


def test_half_a_line_is_not_an_event() -> None:
    whole = line("ADDED", thing("a", 2))
    script = Script([([], 1)], [[whole[:20], OSError("reset")], [whole]])
    assert script.run() == [("ADDED", "a@2")]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_ends_it(status: int) -> None:
    refusal = ClusterError("forbidden", status=status)
    for script in (Script([refusal], []), Script([([], 1)], [refusal])):
        with pytest.raises(ClusterError, match="forbidden"):
            script.run()


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_breaks_the_listener_knows_the_truth(data: st.DataObject) -> None:
    """Random changes, seen through watches that break at random: what was told adds up to what is there."""
    truth: dict[str, int] = {}
    history: list[bytes] = []
    for version in range(1, data.draw(st.integers(1, 15)) + 1):
        name = data.draw(st.sampled_from("abc"))
        if name in truth and data.draw(st.booleans()):
            del truth[name]
            history.append(line("DELETED", thing(name, version)))
        else:
            history.append(line("MODIFIED" if name in truth else "ADDED", thing(name, version)))
            truth[name] = version
    last = len(history)
    stop = threading.Event()

    opened = 0

    def lister(_: Callable[[], bool]) -> tuple[list[dict[str, Any]], str]:
        until = data.draw(st.integers(0, last)) if opened < 12 else last
        items: dict[str, dict[str, Any]] = {}
        for entry in history[:until]:
            event = json.loads(entry)
            name = event["object"]["metadata"]["name"]
            items.pop(name, None)
            if event["type"] != "DELETED":
                items[name] = event["object"]
        return list(items.values()), str(until)

    def opener(version: str, seconds: int, cancelled: Callable[[], bool]) -> Iterator[bytes]:
        nonlocal opened
        opened += 1
        if int(version) >= last:
            stop.set()
        ending = data.draw(st.sampled_from(["end", "reset", "410", "cut"])) if opened < 12 else "end"
        count = data.draw(st.integers(1, 4)) if opened < 12 else last
        rest = history[int(version) : int(version) + count]
        if ending == "cut" and rest:
            rest = [*rest[:-1], rest[-1][:-5]]
        yield from rest
        if ending == "reset":
            raise OSError("reset")
        if ending == "410":
            yield GONE

    known: dict[str, int] = {}
    for event in Watcher(lister, opener, stop, (0.0,)).events():
        if event.type in ("LOST", "BACK"):
            continue
        metadata = event.object["metadata"]
        if event.type == "ADDED":
            assert metadata["name"] not in known
        if event.type == "DELETED":
            known.pop(metadata["name"], None)
        else:
            known[metadata["name"]] = int(metadata["resourceVersion"])
    assert known == truth


def test_stop_is_noticed_while_nothing_arrives(tmp_path: Any) -> None:
    page = answer(200, {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []})
    endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    def reply(asked: Asked) -> bytes:
        return endless if "watch=1" in asked.target else page

    config = {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": ""}}],
        "contexts": [{"name": "c", "context": {"cluster": "k"}}],
    }
    with Server(reply) as server:
        config["clusters"][0]["cluster"]["server"] = server.url  # type: ignore[index]
        (tmp_path / "c").write_text(json.dumps(config))
        stop = threading.Event()
        with Cluster.connect(kubeconfig=str(tmp_path / "c"), env={}) as cluster:
            events: list[WatchEvent] = []
            watching = threading.Thread(target=lambda: events.extend(cluster.watch("v1", "Pod", "n", stop=stop)))
            watching.start()
            while len(server.asked) < 2:
                time.sleep(0.01)
            stop.set()
            watching.join(60)
            assert not watching.is_alive()
    assert events == []
    assert "allowWatchBookmarks=true" in server.asked[1].target and "resourceVersion=1" in server.asked[1].target
