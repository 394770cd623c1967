"""Runs beside a driver on its head pod: ends it when another role's head is gone for a minute, instead of a hang that holds every GPU.

The launch script carries this file's text, so it needs nothing but the image's Python (3.8 or newer) and no permission on the cluster: a
head is gone when its Service refuses connections, or has no address, without a break. A name server that does not answer says nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time

#: Seconds that a peer must be gone; the environment variable is for tests.
GONE = float(os.environ.get("NRL_PEER_SECONDS") or 60)
#: A name that every cluster has.
EVER = "kubernetes.default.svc"
#: Looks within that time that must all fail, so that a process that was itself stopped for a minute takes no one for gone.
LOOKS = 4
#: Seconds between two looks, for one connection, and from SIGTERM to SIGKILL.
EVERY, CONNECT, GRACE = GONE / 12, 5.0, GONE / 6


class Peer:
    """One role's head: `name=host:port,port`. It is watched from its first answer on: a network may never let one through."""

    def __init__(self, word: str) -> None:
        self.name, _, where = word.partition("=")
        self.host, _, ports = where.rpartition(":")
        self.ports = [int(port) for port in ports.split(",")]
        self.seen = False
        self.since = 0.0
        self.looks = 0

    def gone(self, answers: bool | None, now: float) -> bool:
        """Take in a look (None: it said nothing); whether it is gone for good."""
        if answers:
            self.seen = True
        if answers or not self.seen:
            self.looks = 0
        elif answers is False:
            self.since = self.since if self.looks else now
            self.looks += 1
        return self.looks >= LOOKS and now - self.since >= GONE

    def look(self) -> bool | None:
        """Whether one of its ports takes a connection; None when its name could not be asked for."""
        told: bool | None = False
        for port in self.ports:
            try:
                socket.create_connection((self.host, port), CONNECT).close()
                return True
            except socket.gaierror as error:
                if error.errno == socket.EAI_AGAIN and not names_resolve():
                    told = None
            except OSError:
                pass
        return told


def names_resolve() -> bool:
    """Whether the cluster's name server answers at all.

    Of a name that is gone it may say the same as in its own trouble: the resolver asks for it outside the cluster last, and there is no
    outside on many clusters.
    """
    try:
        socket.getaddrinfo(EVER, 443)
    except OSError:
        return False
    return True


def processes() -> dict[int, tuple[int, int]]:
    """Parent and process group of every process (proc(5))."""
    found = {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat") as file:
                words = file.read().rpartition(")")[2].split()
            found[int(name)] = (int(words[1]), int(words[2]))
        except (OSError, ValueError, IndexError):
            continue  # it has ended, or is no process
    return found


def driver_of(root: int) -> list[int]:
    """The driver's processes: what descends from it, and what is left in its group (Ray gives each job a group of its own)."""
    known, group = processes(), os.getpgrp()
    keep: set[int] = set()
    above = os.getpid()
    while above in known:
        keep.add(above)
        above = known[above][0]
    tree = {root}
    grown = True
    while grown:
        more = {pid for pid, (parent, _) in known.items() if parent in tree} - tree
        grown = bool(more)
        tree |= more
    if group in keep:
        tree |= {pid for pid, (_, its) in known.items() if its == group}
    return sorted(pid for pid in tree - keep if pid in known)


def end(root: int) -> None:
    """End the driver: politely, then not."""
    deadline = time.monotonic() + GRACE
    kill(driver_of(root), signal.SIGTERM)
    while time.monotonic() < deadline and driver_of(root):
        time.sleep(0.1)
    kill(driver_of(root), signal.SIGKILL)


def kill(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def watch(directory: str, script: int, peers: list[Peer]) -> None:
    """Watch until the launch script, the parent of this process, is gone or says so, or a peer is gone.

    `script` is its process id: one that was killed before this program had begun is gone as well.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    told = time.monotonic() + GONE
    while os.getppid() == script:
        for peer in peers:
            if peer.gone(peer.look(), time.monotonic()):
                with open(f"{directory}/peer-gone", "w") as file:
                    file.write(
                        f"kubectl nrl: {peer.name} ({peer.host}) is gone for {time.monotonic() - peer.since:.0f} s: the driver, "
                        "which would wait for it and hold its GPUs, was ended (launch.peerWatcher: false switches this off)\n"
                    )
                with open(f"{directory}/driver.pid") as file:
                    end(int(file.read()))
                return
        if told and time.monotonic() >= told:
            told = 0.0
            for peer in peers:
                if not peer.seen:
                    print(
                        f"kubectl nrl: {peer.name} ({peer.host}) cannot be reached from here, and is not watched",
                        file=sys.stderr,
                    )
        until = time.monotonic() + EVERY
        while time.monotonic() < until and os.getppid() == script:
            time.sleep(min(EVERY, 0.5))


if __name__ == "__main__":
    watch(sys.argv[1], int(sys.argv[2]), [Peer(word) for word in sys.argv[3:]])
