"""The launch script that runs an entrypoint, and the one safe line in which it reaches Ray.

The line is a single quoted word without `$`, backticks, double quotes or backslashes, because KubeRay's submission modes paste it into
different shells (dash on the head, bash in a submitter that joins the words again): so newlines, quotes and `${}` of the entrypoint
mean the same on every path.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
import shlex
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .checkout import Checkout, comparison

#: The longest encoded line: one argument of a Linux process ends at 128 KiB.
LINE_MAX = 96 * 1024

#: Bytes of the largest text that is unpacked from what lies on a cluster; a script in a ConfigMap has a tenth of that.
UNPACKED_MAX = 64 << 20

#: Where the ConfigMap with a script too long for a line is mounted.
MOUNT = "/etc/kubectl-nrl"
MOUNTED_SCRIPT = "launch.sh.gz"

#: Exit status of a driver that was ended because another role is gone (see `peer_watch`).
PEER_GONE = 98

#: Exit status of a line whose script could not be unpacked (no base64 or gzip in the image).
NOT_UNPACKED = 97

_LINE = re.compile(
    rf"sh -c ': nrl [^;]*; \(echo ([A-Za-z0-9+/=]+) \| base64 -d \| gzip -dc; echo exit {NOT_UNPACKED}\) \| sh'"
)


def launch_script(
    entrypoint: str,
    *,
    run_id: str,
    recipe: str,
    env: Mapping[str, str] | None = None,
    working_dir: str | None = None,
    checkout: Checkout | None = None,
    log_file: str | None = None,
    peers: Mapping[str, str] | None = None,
) -> str:
    """The POSIX shell script that runs `entrypoint` under `bash -o pipefail` with its recipe and environment.

    `recipe` is the composed recipe's YAML, which `NRL_RECIPE` points at; `log_file` an absolute path that gets a copy of the output.
    `peers` are the other roles' heads (`host:port,port` by role), of which one that is gone for a minute ends the entrypoint.
    With a `checkout`, code in `working_dir` that is of another commit draws a warning, and runs.
    The script's exit status is the entrypoint's, or `PEER_GONE`.
    """
    text = entrypoint.replace("\r\n", "\n").replace("\r", "\n")
    parts = [
        f"# kubectl nrl: launches run {run_id}",
        'nrl_dir=$(mktemp -d "${TMPDIR:-/tmp}/nrl-XXXXXXXX") || exit 1',
        _file("recipe.yaml", recipe),
        _file("entrypoint.sh", text),
        f"export NRL_K8S_RUN_ID={shlex.quote(run_id)}",
        f'export RAY_JOB_SUBMISSION_ID="${{RAY_JOB_SUBMISSION_ID:-{run_id}}}"',
        'export NRL_RECIPE="$nrl_dir/recipe.yaml"',
        *(f"export {name}={shlex.quote(value)}" for name, value in (env or {}).items()),
    ]
    if working_dir is not None:
        parts.append(_enter(working_dir))
        if checkout is not None:
            parts.append(comparison(checkout, working_dir))
    parts.append(_shell(text))
    parts.append(_watched(peers, _run(log_file), log_file) if peers else _run(log_file))
    parts += ['rm -rf "$nrl_dir"', 'exit "$nrl_status"', ""]
    return "\n".join(parts)


def encoded_line(run_id: str, script: str) -> str:
    """The script as one line that every shell and submission mode passes on unchanged."""
    packed = base64.b64encode(pack(script)).decode()
    return f"sh -c ': nrl {run_id}; (echo {packed} | base64 -d | gzip -dc; echo exit {NOT_UNPACKED}) | sh'"


def mounted_line(run_id: str) -> str:
    """The line for a script that is too long for one, mounted from a ConfigMap at `MOUNT`."""
    return f"sh -c ': nrl {run_id}; (gzip -dc {MOUNT}/{MOUNTED_SCRIPT}; echo exit {NOT_UNPACKED}) | sh'"


def decode(line: str) -> str | None:
    """The script inside an encoded line; None when the text is no such line, or holds no script."""
    found = _LINE.fullmatch(line.strip())
    return unpack(found[1]) if found else None


def unpack(packed: Any) -> str | None:
    """The text that was gzipped and encoded in base64; None for what is no such text, or expands beyond all measure.

    What lies on a cluster may be anybody's: a megabyte of it may expand to a gigabyte.
    """
    try:
        expander = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        data = expander.decompress(base64.b64decode(str(packed), validate=True), UNPACKED_MAX)
        return data.decode() if expander.eof else None
    except (ValueError, zlib.error):
        return None


def embedded(script: str, name: str) -> str:
    """The text of one of a launch script's files (`recipe.yaml`, `entrypoint.sh`). Raises ValueError when it holds none."""
    found = re.search(
        rf"^cat >\"\$nrl_dir/{re.escape(name)}\" <<'(NRL_[0-9a-f]+)'\n(.*?)^\1$", script, re.MULTILINE | re.DOTALL
    )
    if not found:
        raise ValueError(f"no {name} in the launch script")
    return found[2]


def pack(script: str) -> bytes:
    """The script compressed, the same bytes for the same text (no time in the header)."""
    return gzip.compress(script.encode(), 9, mtime=0)


def _file(name: str, text: str) -> str:
    """Shell that writes `text` to a file of the run's directory; the here-document's end cannot occur in the text."""
    body = text if text.endswith("\n") else text + "\n"
    end = f"NRL_{hashlib.sha256(body.encode()).hexdigest()[:16]}"
    return f"cat >\"$nrl_dir/{name}\" <<'{end}'\n{body}{end}"


def _enter(path: str) -> str:
    where = shlex.quote(path)
    said = f"kubectl nrl: the working directory {path} (launch.codePath)"
    absent = shlex.quote(f"{said} does not exist in this container")
    closed = shlex.quote(f"{said} is no directory, or one that the user of this container may not enter")
    return f"""\
cd {where} 2>/dev/null || {{
  if [ -e {where} ]; then echo {closed} >&2; else echo {absent} >&2; fi
  rm -rf "$nrl_dir"
  exit 1
}}"""


def _shell(entrypoint: str) -> str:
    warn = ""
    if "|" in entrypoint:
        warn = (
            "\n  echo 'kubectl nrl: this image has no bash, so a failure before a | in the entrypoint goes unseen' >&2"
        )
    return (
        "if command -v bash >/dev/null 2>&1; then\n"
        '  set -- bash -o pipefail "$nrl_dir/entrypoint.sh"\n'
        "else\n"
        f'  set -- sh "$nrl_dir/entrypoint.sh"{warn}\n'
        "fi"
    )


def _watched(peers: Mapping[str, str], run: str, log_file: str | None) -> str:
    """`run` with the peers' watcher beside it; a driver that it ended is told to have been, in both logs.

    The driver stays in the foreground, so that signals mean to it what they always do; the shell before it leaves its pid.
    """
    source = Path(__file__).with_name("peer_watch.py").read_text(encoding="utf-8")
    words = " ".join(shlex.quote(f"{role}={where}") for role, where in sorted(peers.items()))
    copy = f'\n  cat "$nrl_dir/peer-gone" >>{shlex.quote(log_file)} 2>/dev/null' if log_file else ""
    return f"""\
{_file("peer_watch.py", source)}
nrl_watch=
if nrl_python=$(command -v python3 || command -v python); then
  "$nrl_python" -IS "$nrl_dir/peer_watch.py" "$nrl_dir" "$$" {words} </dev/null &
  nrl_watch=$!
else
  echo 'kubectl nrl: this image has no python, so the other roles are not watched' >&2
fi
set -- sh -c 'echo $$ >"$0"; exec "$@"' "$nrl_dir/driver.pid" "$@"
{run}
if [ -n "$nrl_watch" ]; then
  if [ -f "$nrl_dir/peer-gone" ]; then wait "$nrl_watch"; else kill "$nrl_watch" 2>/dev/null; wait "$nrl_watch" 2>/dev/null; fi
fi
if [ -f "$nrl_dir/peer-gone" ]; then
  cat "$nrl_dir/peer-gone" >&2{copy}
  nrl_status={PEER_GONE}
fi"""


def _run(log_file: str | None) -> str:
    """Shell that runs `"$@"`; with a log file its output also goes there, and a log that cannot be written stops nothing.

    `tee` outlives a stop signal to write the last lines, but not by more than ten seconds a background child that keeps the pipe open.
    """
    plain = '"$@" </dev/null\nnrl_status=$?'
    if log_file is None:
        return plain
    log = shlex.quote(log_file)
    folder = shlex.quote(log_file.rsplit("/", 1)[0] or "/")
    said = shlex.quote(f"kubectl nrl: cannot write {log_file}; the log is on the head pod only")
    return f"""\
if mkdir -p {folder} 2>/dev/null && (: >>{log}) 2>/dev/null && mkfifo "$nrl_dir/log"; then
  (trap '' TERM INT; exec tee -a {log} <"$nrl_dir/log") &
  nrl_tee=$!
  "$@" </dev/null >"$nrl_dir/log" 2>&1
  nrl_status=$?
  nrl_wait=0
  while kill -0 "$nrl_tee" 2>/dev/null && [ "$nrl_wait" -lt 100 ]; do
    sleep 0.1
    nrl_wait=$((nrl_wait + 1))
  done
  kill -KILL "$nrl_tee" 2>/dev/null
else
  echo {said} >&2
  {plain.replace(chr(10), chr(10) + "  ")}
fi"""
