"""A package `ray` whose `ray start` behaves as the real one towards a supervisor, in a fraction of the time.

It binds the ports it is given, says where it is in `ray_current_cluster` when it is up, leaves a worker behind that only its
open file gives away, and does what FAKE_RAY says: `fail` to start, `die` when a file called `die` appears, lose a port when `busy`,
or start `after FILE` is there.
"""

from __future__ import annotations

from pathlib import Path

_START = """
import os, signal, socket, subprocess, sys, time
from pathlib import Path

flags = dict(word[2:].partition("=")[::2] for word in sys.argv[2:] if word.startswith("--"))
folder, how = Path(flags["temp-dir"]), os.environ.get("FAKE_RAY", "")
print("ray start", " ".join(sys.argv[2:]), flush=True)
assert os.environ["RAY_AUTH_MODE"] == "token" and Path(os.environ["RAY_AUTH_TOKEN_PATH"]).read_text()
if how == "fail":
    sys.exit("ValueError: no room for an object store")
if how == "busy" and not (folder.parent / "blocked").exists():
    (folder.parent / "blocked").touch()
    # It has the port until the supervisor, whose descendant it is, ends what this start has left.
    held = "import socket, time; s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(('0.0.0.0', %s)); s.listen()"
    thief = subprocess.Popen(
        [sys.executable, "-c", held % flags["port"] + "; print('has it', flush=True); time.sleep(600)"],
        env={}, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )
    thief.stdout.readline()
    sys.exit("OSError: Address already in use")
while how.startswith("after ") and not Path(how.removeprefix("after ")).exists():
    time.sleep(0.05)
held = []
for name, value in flags.items():
    if name.endswith("port") and name[:3] not in ("min", "max"):
        held.append(socket.socket())
        held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held[-1].bind(("127.0.0.1", int(value)))
        held[-1].listen()
logs = folder / "logs"
logs.mkdir()
with open(logs / "worker.out", "ab") as out:
    # As Ray's workers after setproctitle: no environment to be known by, a parent that is gone.
    worker = subprocess.Popen(["sh", "-c", "sleep 600 & sleep 600"], env={}, stdout=out, stderr=out, start_new_session=True)
    with open(Path(os.environ["HOME"]) / "workers", "a") as known:
        print(worker.pid, file=known)
(folder / "ray_current_cluster").write_text("127.0.0.1:" + flags["port"])
while not (how == "die" and (folder.parent / "die").exists()):
    time.sleep(0.05)
sys.exit("Some Ray subprocesses exited unexpectedly: raylet [exit code=-9]")
"""


def install(place: Path) -> Path:
    """Write the package under `place`; the directory to put on PYTHONPATH."""
    scripts = place / "ray" / "scripts"
    scripts.mkdir(parents=True)
    for package in (scripts.parent, scripts):
        (package / "__init__.py").write_text("")
    (scripts / "scripts.py").write_text(_START)
    return place
