"""`kubectl nrl cluster dashboard`: Ray's dashboard in a browser of this machine, once it truly works, until Ctrl-C."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode, NrlError, UsageError
from ..parser import PROG
from .cluster_up import targets
from .session import Session

if TYPE_CHECKING:
    from ..dashboard import Links, Seen
    from .dashboard_target import Target

#: Seconds between two looks at the cluster while the page is open.
CHECK = 5.0

_SYMLINKS = (
    "the image's dashboard files are symlinks, as uv makes them, and Ray serves none that lead out of their directory"
)


@dataclass(frozen=True)
class DashboardResult:
    """Where the dashboard is open. `ray` is Ray's version, `token` the line that prints Ray's token (each empty when there is none).

    `copied` is the number of symlinks that were replaced to make the page work.
    """

    url: str
    words: str
    namespace: str
    pod: str
    ray: str
    token: str
    copied: int

    schema = "cluster_dashboard"

    def text(self) -> str:
        place = f', pod {self.pod} in namespace "{self.namespace}"' if self.pod else ""
        lines = [self.url, f"dashboard of {self.words}{place}{f', Ray {self.ray}' if self.ray else ''}"]
        if self.token:
            lines.append(f"it asks for Ray's token, which this prints: {self.token}")
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "cluster": self.words,
            "namespace": self.namespace,
            "pod": self.pod,
            "rayVersion": self.ray,
            "tokenCommand": self.token,
            "copiedLinks": self.copied,
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("dashboard")
    group.add_argument(
        "--port",
        metavar="PORT",
        type=_port,
        help="port of this machine (default: submit.localDashboardPort, else free)",
    )
    group.add_argument(
        "--open", dest="open_browser", action=argparse.BooleanOptionalAction, help="open the browser (default)"
    )
    group.add_argument(
        "--fix", dest="fix_links", action=argparse.BooleanOptionalAction,
        help="repair, in the head, a page that stays blank because its files are symlinks (default, but for another owner's cluster)",
    )  # fmt: skip


def _port(word: str) -> int:
    if not (word.isascii() and word.isdigit() and int(word) <= 65535):
        raise argparse.ArgumentTypeError(f'"{word}" is no port: 1 to 65535, or 0 for a free one')
    return int(word)


def refuse_flags(args: argparse.Namespace) -> None:
    """Refuse the dashboard's flags to the other actions of `cluster`. Raises `UsageError`."""
    for flag, given in (("port", args.port), ("open", args.open_browser), ("fix", args.fix_links)):
        if given is not None:
            raise UsageError(f"--{flag} belongs to cluster dashboard", f"{PROG} cluster {args.action} --help")


def dashboard(args: argparse.Namespace, session: Session) -> ExitCode:
    """Open it and stay until Ctrl-C, which ends with 0 once it was open. Raises `NrlError`."""
    from ..dashboard import LocalPort, Trouble
    from .dashboard_find import find_target

    role = _role(args)
    target, written = find_target(args, session, role)
    wanted = written if args.port is None else args.port
    deadline, trouble = time.monotonic() + args.timeout, Trouble()
    with ExitStack() as stack:
        if target.own_port and args.port is None:
            port = target.own_port
        else:
            port = stack.enter_context(LocalPort(wanted, target.dial, trouble.note)).port
        result = _Opening(args, session, target, port, trouble, deadline).result()
        session.output.result(result)
        _show(args, session, result.url)
        try:
            _stay(session, target)
        except KeyboardInterrupt:
            return ExitCode.OK
    return ExitCode.OK


def _role(args: argparse.Namespace) -> str:
    for flag in ("dry_run", "recreate", "skip_daemons", "gpus", "yes", "force"):
        if getattr(args, flag):
            raise UsageError(f"--{flag.replace('_', '-')} says nothing to cluster dashboard", "leave it out")
    words = targets(args) or ["kuberay.training"]
    kind, _, role = words[0].partition(".")
    if len(words) > 1 or kind != "kuberay" or not role:
        raise UsageError("a dashboard is that of one role", "--target kuberay.ROLE")
    return role


class _Opening:
    """From a port to a page that works: waits, and repairs a page that stays blank."""

    def __init__(
        self, args: argparse.Namespace, session: Session, target: Target, port: int, trouble: Any, deadline: float
    ) -> None:
        self._session, self._target, self._port, self._trouble = session, target, port, trouble
        self._deadline, self._fix = deadline, args.fix_links
        self._copied = 0

    def result(self) -> DashboardResult:
        from ..dashboard import LOOPBACK, asker, look

        self._wait_for_place()
        ask, close = asker(self._port, self._headers())
        try:
            seen = self._decided(lambda: look(ask))
            if seen.blank:
                self._repair(seen)
                seen = self._decided(lambda: look(ask))
        finally:
            close()
        if seen.blank or seen.missing:
            raise self._broken(seen)
        target = self._target
        url = f"http://{LOOPBACK}:{self._port}"
        token = target.token_command()
        return DashboardResult(url, target.words, target.namespace, target.pod, seen.ray, token, self._copied)

    def _decided(self, see: Callable[[], Seen]) -> Seen:
        from ..dashboard import until_decided

        return until_decided(see, self._trouble, self._session.output.progress, self._deadline)

    def _wait_for_place(self) -> None:
        """Until there is a head. Raises `NrlError` at the deadline, and what `check` raises for good."""
        from ..dashboard import is_final

        said = ""
        while True:
            try:
                return self._target.check()
            except ClusterError as error:
                if is_final(error):
                    raise
                if time.monotonic() >= self._deadline:
                    raise NrlError(error.message, error.hint, exit_code=ExitCode.GAVE_UP) from error
                if error.message != said:
                    said = error.message
                    self._session.output.progress(f"waiting for the dashboard: {said}")
            time.sleep(1.0)

    def _headers(self) -> dict[str, str]:
        """Ray's token for this program's own requests. Without it what is public is still looked at."""
        try:
            token = self._target.token()
        except ClusterError as error:
            self._session.output.warn(f"{error.message}; only what Ray answers without it is looked at")
            return {}
        return {"x-ray-authorization": f"Bearer {token}"} if token else {}

    def _repair(self, seen: Seen) -> None:
        """Put copies in the place of symlinks. Raises `ClusterError` when that is not wanted, not allowed, or not the cause."""
        output, owner = self._session.output, self._target.owner
        if self._fix is False or (owner and not self._fix):
            why = _SYMLINKS if self._links(seen, change=False).links else ""
            theirs = f'; the cluster is "{owner}"\'s, and --fix repairs it there' if why and self._fix is None else ""
            raise self._blank(seen, why + theirs)
        links = self._links(seen, change=True)
        if not links.links:
            raise self._blank(seen, f"no file in {links.folder} is a symlink, so it is not that")
        self._copied = links.copied
        if links.problem:
            raise self._blank(seen, f"{_SYMLINKS}; they cannot be copied in place: {links.problem}")
        output.warn(f"the page was blank: {_SYMLINKS}; {links.copied} were replaced by copies in {links.folder}")
        output.hint(f"this lasts until the head is replaced; for good: {self._target.fix}")

    def _links(self, seen: Seen, *, change: bool) -> Links:
        try:
            return self._target.links(change=change)
        except ClusterError as error:
            why = "you may not exec into the head, which would repair it" if error.status == 403 else error.message
            raise self._blank(seen, f"perhaps {_SYMLINKS}; {why}") from error

    def _blank(self, seen: Seen, why: str) -> ClusterError:
        path, status = seen.refused[0]
        text = f"the dashboard stays blank: its page comes, {len(seen.refused)} of the {len(seen.assets)} files it loads do not"
        text += f" ({path} answers {status}){f': {why}' if why else ''}"
        return ClusterError(text, self._target.fix, reason="Blank")

    def _broken(self, seen: Seen) -> ClusterError:
        if seen.blank:
            return self._blank(seen, f"{self._copied} symlinks were replaced by copies, and it did not help")
        what = f"answers {seen.page}" if seen.page != 200 else "loads nothing"
        return ClusterError(
            f"Ray answers, and has no dashboard to show: its page {what}", "the image needs pip install 'ray[default]'",
            reason="NoPage",
        )  # fmt: skip


def _show(args: argparse.Namespace, session: Session, url: str) -> None:
    from ..dashboard import can_show, show

    output = session.output
    if args.open_browser is False or (args.open_browser is None and not can_show(session.env)):
        if session.env.get("SSH_CONNECTION"):
            port = url.rpartition(":")[2]
            output.progress(f"from your own machine: ssh -L {port}:127.0.0.1:{port} THIS-HOST, then open {url} there")
    elif not show(url):
        output.warn(f"no browser could be opened; open {url}")
    output.progress("it stays open until Ctrl-C")


def between_looks() -> None:
    time.sleep(CHECK)


def _stay(session: Session, target: Target) -> None:
    """Watch that there is something behind the port. Raises `ClusterError` when there never will be again."""
    from ..dashboard import is_final

    said = ""
    while True:
        between_looks()
        try:
            target.check()
            words = ""
        except ClusterError as error:
            if is_final(error):
                raise
            words = error.message
        if words != said:
            said = words
            session.output.progress(words or "the head is there again")
