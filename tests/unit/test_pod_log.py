"""A container's log through cuts, restarts and odd bytes: every line once, and what happened to the container said."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.watch import PodLog, PodLogs, pod_log, pod_logs
from kubectl_nrl.watch.pod_lines import Lines

RUNNING = {"running": {"startedAt": "2026-11-30T12:00:00Z"}}


def stamped(number: int, text: bytes | None = None, nanos: int = 0) -> bytes:
    """A line as the API sends it, a tenth of a second after the one before."""
    seconds, tenths = divmod(number, 10)
    minutes, seconds = divmod(seconds, 60)
    time = f"2026-11-30T12:{minutes:02}:{seconds:02}.{tenths}{nanos:08}Z"
    return time.encode() + b" " + (b"line %d" % number if text is None else text) + b"\n"


def pod(restarts: int = 0, state: Mapping[str, Any] = RUNNING, last: Any = None, **more: Any) -> dict[str, Any]:
    status = {
        "name": "ray",
        "restartCount": restarts,
        "state": state,
        "lastState": {"terminated": last} if last else {},
    }
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", **more},
        "spec": {"containers": [{"name": "ray"}], "restartPolicy": "Always"},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }


class Kubelet:
    """One pod's log behind `pod_log_stream`: each call gets what `streams` has next, by the rules of `sinceTime`."""

    def __init__(self, *streams: Any, pods: list[Any] | None = None) -> None:
        self.streams, self.pods = list(streams), pods if pods is not None else []
        self.asked: list[dict[str, str]] = []

    def pod_log_stream(
        self, namespace: str, name: str, query: Mapping[str, str], *, cancelled: Callable[[], bool]
    ) -> Iterator[bytes]:
        self.asked.append(dict(query))
        stream = self.streams.pop(0) if self.streams else b""
        if isinstance(stream, ClusterError):
            raise stream
        return self._pieces(stream)

    @staticmethod
    def _pieces(stream: Any) -> Iterator[bytes]:
        for piece in stream if isinstance(stream, list) else [stream]:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def get(self, api_version: str, kind: str, name: str, namespace: str) -> Any:
        return self.pods.pop(0) if self.pods else None


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_log, "LOOK", 0.001)
    monkeypatch.setattr(pod_logs, "LOOK", 0.001)


def read(kubelet: Kubelet, *, follow: bool = True, first: Any = None, **bounds: Any) -> tuple[bytes, list[str]]:
    out: list[bytes] = []
    said: list[str] = []
    PodLog(kubelet, first or pod(), out.append, said.append, **bounds).read(follow=follow)
    return b"".join(out), said


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_line_comes_once_wherever_the_connection_is_cut(data: st.DataObject) -> None:
    # Lines of one moment, of the same text, out of order by a moment, and of bytes that are no text.
    texts = data.draw(
        st.lists(st.sampled_from([b"a", b"", b"\xff\x00 x", b"b\r50%\rc", b"2026-11-30T12:00:00Z y"]), min_size=1)
    )
    order = [i and max(1, i - data.draw(st.sampled_from([0, 0, 0, 3]))) for i in range(len(texts))]
    whole = [stamped(at, text) for at, text in zip(order, texts, strict=True)]
    lines, got = Lines(), b""
    for _ in range(data.draw(st.integers(0, 5))):
        since = lines.resume[:19].encode()
        stream = b"".join(line for line in whole if line[:19] >= since)
        cut = data.draw(st.integers(0, len(stream)))
        lines.reopened()
        for piece in (stream[: cut // 2], stream[cut // 2 : cut]):
            got += b"".join(lines.feed(piece))
    since = lines.resume[:19].encode()
    lines.reopened()
    got += b"".join(lines.feed(b"".join(line for line in whole if line[:19] >= since)))
    assert sorted(got.split(b"\n")) == sorted([*texts, b""])


def test_a_huge_line_in_small_pieces_is_one_line() -> None:
    lines, text = Lines(), b"x" * 3_000_000
    whole = stamped(1, text)
    pieces = [whole[at : at + 16384] for at in range(0, len(whole), 16384)]
    assert b"".join(b"".join(lines.feed(piece)) for piece in pieces) == text + b"\n"


def test_words_of_the_kubelet_that_carry_no_time_are_shown() -> None:
    assert list(Lines().feed(b"unable to retrieve container logs\n")) == [b"unable to retrieve container logs\n"]


def test_a_cut_is_made_good_without_a_word_and_the_bounds_hold_for_the_first_request_only() -> None:
    kubelet = Kubelet([stamped(1), stamped(2)[:30], OSError("reset")], stamped(1) + stamped(2), pods=[pod(), None])
    out, said = read(kubelet, tail=5, since=60)
    assert out == b"line 1\nline 2\n"
    assert said == ["pod p is gone"]
    first, second = kubelet.asked
    assert (first["tailLines"], first["sinceSeconds"]) == ("5", "60")
    assert second["sinceTime"] == "2026-11-30T11:59:59Z"
    assert "tailLines" not in second


def test_an_outage_is_said_once() -> None:
    away = [ClusterError("cannot reach it", reason="Unreachable") for _ in range(4)]
    _, said = read(Kubelet(stamped(1), *away, pods=[pod()] * 5))
    assert said == ["pod p: cannot reach it; reconnecting", "pod p is gone"]


def test_what_the_tail_left_out_does_not_come_after_a_cut() -> None:
    kubelet = Kubelet([stamped(8), stamped(9)], b"".join(map(stamped, range(5, 11))), pods=[pod(), None])
    assert read(kubelet, tail=2)[0] == b"line 8\nline 9\nline 10\n"


def test_a_container_in_a_crash_loop_shows_what_it_said_and_is_followed_when_it_runs_again() -> None:
    ended = {"reason": "Error", "exitCode": 1}
    waiting = pod(3, {"waiting": {"reason": "CrashLoopBackOff"}}, last=ended)
    kubelet = Kubelet(stamped(1), b"", stamped(2), pods=[waiting, pod(4, last=ended), None])
    out, said = read(kubelet, first=waiting)
    assert out == b"line 1\nline 2\n"
    assert said[0] == "pod p ended with Error (exit 1) and is to be started again (CrashLoopBackOff)"
    assert said[1] == "pod p ended with Error (exit 1); container ray was started again"


def test_a_restart_brings_the_last_lines_of_the_old_container_and_says_how_it_ended() -> None:
    killed = {"reason": "OOMKilled", "exitCode": 137}
    kubelet = Kubelet(stamped(1), stamped(1) + stamped(2), stamped(3), pods=[pod(1, last=killed), None])
    out, said = read(kubelet)
    assert out == b"line 1\nline 2\nline 3\n"
    assert kubelet.asked[1]["previous"] == "true"
    assert said[0] == "pod p ended with OOMKilled (exit 137); container ray was started again"


def test_a_container_that_crashed_before_shows_its_last_lines_first() -> None:
    first = pod(2, last={"reason": "Error", "exitCode": 1})
    out, said = read(Kubelet(stamped(1), stamped(5)), follow=False, first=first, tail=10)
    assert out == b"line 1\nline 5\n"
    assert said[0] == "pod p ended with Error (exit 1) before, 2 restart(s) so far; its last lines:"


def test_a_container_that_ended_for_good_is_read_to_its_last_line() -> None:
    over = pod(state={"terminated": {"reason": "Completed", "exitCode": 0}})
    over["spec"]["restartPolicy"] = "Never"
    kubelet = Kubelet([stamped(1), OSError("reset")], stamped(1) + stamped(2)[:-1], pods=[over])
    out, said = read(kubelet)
    assert out == b"line 1\nline 2\n"
    assert said == ["pod p ended with Completed (exit 0)"]


def test_a_container_that_has_not_started_is_waited_for_and_said_once() -> None:
    creating = pod(state={"waiting": {"reason": "ContainerCreating"}})
    out, said = read(Kubelet(stamped(1), pods=[creating, creating, pod(), None]), first=creating)
    assert out == b"line 1\n"
    assert said == ["pod p has not started yet (ContainerCreating)", "pod p is gone"]


def test_a_refusal_ends_it_and_a_log_that_breaks_off_is_no_whole_log() -> None:
    forbidden = ClusterError('pods "p" is forbidden: cannot get resource "pods/log"', status=403, reason="Forbidden")
    with pytest.raises(ClusterError, match="forbidden"):
        read(Kubelet(forbidden))
    broken = [[stamped(1), OSError("reset")]] * 9
    with pytest.raises(ClusterError, match="breaks off: reset"):
        read(Kubelet(*broken), follow=False)


def test_the_container_of_ray_is_read_though_a_sidecar_stands_first() -> None:
    first = pod()
    env = [{"name": "KUBERAY_GEN_RAY_START_CMD", "value": "ray start"}]
    first["spec"]["containers"] = [{"name": "istio"}, {"name": "ray-worker", "env": env}]
    kubelet = Kubelet(stamped(1))
    read(kubelet, first=first, follow=False)
    assert kubelet.asked[0]["container"] == "ray-worker"


def test_a_pod_that_takes_anothers_place_is_followed_too() -> None:
    out: list[bytes] = []
    old, new = pod(), pod(name="q", uid="v")
    looks = [[old], [new], []]

    def find() -> list[Any]:
        return looks.pop(0) if looks else []

    def make(found: Mapping[str, Any], stop: threading.Event) -> PodLog:
        kubelet = Kubelet(stamped(1, found["metadata"]["name"].encode()))
        return PodLog(kubelet, found, out.append, lambda text: None, stop=stop)

    PodLogs(find, make, lambda: not looks, lambda text: None).follow([old])
    assert sorted(out) == [b"p\n", b"q\n"]


def test_what_ends_one_reader_ends_them_all() -> None:
    def gone(line: bytes) -> None:
        raise BrokenPipeError

    def broken(found: Mapping[str, Any], stop: threading.Event) -> PodLog:
        return PodLog(Kubelet(stamped(1)), found, gone, lambda text: None, stop=stop)

    with pytest.raises(BrokenPipeError):
        PodLogs(lambda: [pod()], broken, lambda: False, lambda text: None).follow([pod()])
