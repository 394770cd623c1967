"""The loop that submitters share: outages are no end, refusals are, and what was written last is read."""

from __future__ import annotations

import pytest
from nrl_plugins.log_bytes import log_bytes

from kubectl_nrl.errors import ClusterError

LOST = ClusterError("cut", reason="ConnectionLost")


def answers(*values: object):
    """A function that returns these in turn, or raises them; the last one for ever."""
    left = list(values)

    def answer(*_: object):
        value = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(value, Exception):
            raise value
        return value

    return answer


def test_what_was_written_last_is_read_after_the_end() -> None:
    log = b"one\ntwo\n"
    over = answers(False, True)
    assert b"".join(log_bytes(lambda at: log[at : at + 3], over, 2, pause=0)) == log[2:]


def test_an_outage_of_either_side_is_no_end() -> None:
    read, over = answers(b"one\n", LOST, b"two\n", b""), answers(False, LOST, False, LOST, True)
    assert list(log_bytes(read, over, 0, pause=0)) == [b"one\n", b"two\n"]


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("side", ["read", "over"])
def test_a_refusal_is_an_error_at_once(side: str, status: int) -> None:
    refused = ClusterError("no", status=status)
    read, over = (answers(refused), answers(False)) if side == "read" else (answers(b""), answers(refused))
    with pytest.raises(ClusterError, match="no"):
        list(log_bytes(read, over, 0, pause=0))


def test_a_log_that_cannot_be_read_after_the_end_is_an_error() -> None:
    with pytest.raises(ClusterError, match="cut"):
        list(log_bytes(answers(LOST), answers(True), 0, pause=0))
