"""One driver on a head, by commands that each may break off at any byte and be given again.

The files are checked by their length and sum before they are put in place, the first to make a link starts the driver, and a log is
asked for by offset: so an answer that got lost is settled by asking again, and nothing is started twice.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import ClusterError, ExitCode, NrlError
from .answer import Answer, parse

#: Runs a command on the head with bytes for its input and seconds it may take: exit code, stdout, stderr. Raises `ClusterError`.
Run = Callable[[Sequence[str], bytes, float], tuple[int, bytes, bytes]]

#: Seconds during which a start whose answer got lost is tried again, and between tries.
PATIENCE, PAUSE = 180.0, 2.0
#: How often a question is asked whose connection broke.
TRIES = 3
#: Seconds that a command may take besides what it waits for by itself.
ANSWER = 60.0
#: Most blocks of the log (64 KiB each) that one answer holds.
BLOCKS = 64
#: Seconds that a driver gets to end before it is killed, and to be gone then.
GRACE, GONE = 10.0, 10.0
#: Seconds that one command waits for processes to end, and of one of the head's turns.
STEP, TURN = 3.0, 0.2

#: Puts the files in place: $1 directory, $2 bytes to come, $3 of them driver.sh, $4 their SHA-256, $5 the submission's mark.
_STAGE = """\
d=$1 t=$1/.in.$$
mkdir -p -m 700 "$d" || exit 40
[ -L "$d/mark" ] || ln -s "$5" "$d/mark" || [ -L "$d/mark" ] || exit 40
[ "$(readlink "$d/mark")" = "$5" ] || exit 42
head -c "$2" >"$t" || { rm -f "$t"; exit 40; }
[ "$(wc -c <"$t")" -eq "$2" ] || { rm -f "$t"; exit 41; }
s=$(sha256sum <"$t" 2>/dev/null) && [ "${s%% *}" != "$4" ] && { rm -f "$t"; exit 41; }
head -c "$3" "$t" >"$t.sh" && tail -c "+$(($3+1))" "$t" >"$t.run" &&
mv "$t.run" "$d/script" && mv "$t.sh" "$d/driver.sh" || { rm -f "$t"*; exit 40; }
rm -f "$t"
exec sh "$d/driver.sh" start "$d"
"""
#: Asks driver.sh, where it is there.
_ASK = """\
[ -f "$1/driver.sh" ] || { echo "nrl1 absent - - - - - -"; exit 0; }
d=$1 v=$2
shift 2
exec sh "$d/driver.sh" "$v" "$d" "$@"
"""
#: Exit statuses of `_STAGE` and of driver.sh's start.
_NO_ROOM, _CUT, _TAKEN, _NO_SESSION, _NO_KEEPER = 40, 41, 42, 43, 44


class HeadDriver:
    """A run's driver in `directory` of a head (an absolute path): all methods raise `ClusterError`."""

    def __init__(self, run: Run, directory: str) -> None:
        self._run, self._directory = run, directory

    def start(self, script: str, mark: str) -> Answer:
        """Start it with that launch script, exactly once for a `mark`; what the head then says of it.

        Reasons: `AlreadyExists` for a directory that another mark has, `NotStaged` when nothing could be started, a passing one
        (`ConnectionLost`, ...) when after `PATIENCE` seconds it is still not known.
        """
        program = Path(__file__).with_name("driver.sh").read_bytes()
        sent = program + script.encode()
        sizes = [str(len(sent)), str(len(program)), hashlib.sha256(sent).hexdigest()]
        words = ["sh", "-c", _STAGE, "sh", self._directory, *sizes, mark]
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._started(*self._run(words, sent, ANSWER))
            except ClusterError as error:
                if not _passing(error) or time.monotonic() >= deadline:
                    raise
            time.sleep(PAUSE)

    def _started(self, code: int, out: bytes, err: bytes) -> Answer:
        if code == 0:
            return parse(out, f"start the driver in {self._directory}")
        said = _last_line(err)
        if code == _CUT:
            raise ClusterError(
                f"cannot stage the driver in {self._directory}: the input broke off", reason="ConnectionLost"
            )
        if code == _TAKEN:
            raise ClusterError(
                f"{self._directory} on the head holds a driver already",
                "choose another --run-id",
                reason="AlreadyExists",
            )
        why = {
            _NO_ROOM: f"cannot write to {self._directory} on the head",
            _NO_SESSION: "the head's image has no setsid and no python3, so a driver would end with the connection",
            _NO_KEEPER: f"the driver in {self._directory} did not start within 20 s",
        }.get(code, f"cannot start a driver in {self._directory} on the head (exit status {code})")
        hint = "submit.execTmpDir names another directory" if code == _NO_ROOM else ""
        raise ClusterError(why + (f": {said}" if said else "") + "; nothing was started", hint, reason="NotStaged")

    def look(self) -> Answer:
        """Its state, with what is left of one that has ended."""
        return self._ask_again("look", 0, 0, 0)

    def read(self, offset: int, wait: float = 0.0) -> Answer:
        """Its state and a piece of the log from byte `offset` on; waits on the head up to `wait` seconds for news.

        Reason `LogReplaced` when the log is shorter than that: it is another one.
        """
        answer = self._ask("look", offset, BLOCKS, round(wait / TURN))
        if answer.word != "absent" and answer.size < offset:
            raise ClusterError(
                f"the log in {self._directory} has {answer.size} bytes now, {offset} were read", reason="LogReplaced"
            )
        if not answer.log and answer.size > offset:
            raise ClusterError(f"cannot read the log in {self._directory}: it broke off", reason="ConnectionLost")
        return answer

    def stop(self, *, grace: float = GRACE) -> Answer:
        """End it and all that it started, by SIGTERM, after `grace` seconds by SIGKILL; returns when that is done.

        Raises `NrlError` (GAVE_UP) for processes that a kill does not end.
        """
        answer = self._end("TERM", grace) if grace > 0 else self.look()
        if answer.live or answer.left or grace <= 0:
            answer = self._end("KILL", GONE)
        if answer.live or answer.left:
            pids = ", ".join(map(str, answer.left))
            raise NrlError(
                f"still running on the head {GONE:.0f} s after SIGKILL: {f'processes {pids}' if pids else 'the driver'}",
                exit_code=ExitCode.GAVE_UP,
            )
        return answer

    def _end(self, signal: str, within: float) -> Answer:
        """Signal once (a kill again and again) and look, `within` seconds at most."""
        deadline = time.monotonic() + within
        while True:
            answer = self._ask_again("stop", signal, round(min(within, STEP) / TURN))
            if not (answer.live or answer.left) or answer.word == "absent" or time.monotonic() >= deadline:
                return answer
            # Sent already: what is going to end by it is only looked at.
            signal = "KILL" if signal == "KILL" else "-"

    def _ask_again(self, verb: str, *arguments: int | str) -> Answer:
        """As `_ask`; a connection that breaks is tried again at once, `TRIES` in all."""
        for _ in range(TRIES - 1):
            try:
                return self._ask(verb, *arguments)
            except ClusterError as error:
                if error.reason != "ConnectionLost":
                    raise
        return self._ask(verb, *arguments)

    def _ask(self, verb: str, *arguments: int | str) -> Answer:
        doing = f"ask for the driver in {self._directory}"
        words = ["sh", "-c", _ASK, "sh", self._directory, verb, *map(str, arguments)]
        code, out, err = self._run(words, b"", ANSWER)
        if code:
            raise ClusterError(f"cannot {doing}: exit status {code}, {_last_line(err)}", reason="HeadTrouble")
        return parse(out, doing)


def _passing(error: ClusterError) -> bool:
    """Whether a start may have happened, or may happen when it is tried again: outages, never a refusal."""
    return error.reason in ("ConnectionLost", "Timeout", "Unreachable") or error.status in (429, 502, 503, 504)


def _last_line(said: bytes) -> str:
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return "".join(c for c in lines[-1] if c.isprintable())[:300] if lines else ""
