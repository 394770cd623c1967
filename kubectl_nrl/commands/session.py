"""What a command gets beside its arguments: the printer, the plugins, the environment, the person, the clock.

Plugins are loaded on first use, since most verbs need none; the clock and the environment are handed in, so that a
test can fix them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ClusterError, UsageError
from ..output import Output

if TYPE_CHECKING:
    from ..api import RunInfo, User
    from ..manager import Manager
    from ..pasting import Given

#: A run's id is a label value, a Ray submission id and a directory name: Ray hangs on others (a `/` leaves a phantom
#: job).
_RUN_ID = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def now() -> datetime:
    """The time of a run, with its zone."""
    return datetime.now(timezone.utc)


def random_suffix() -> str:
    """Four characters that tell runs of one second apart; no vowels, so that none is a word."""
    import secrets

    return "".join(secrets.choice("bcdfghjkmnpqrstvwxz23456789") for _ in range(4))


@dataclass
class Session:
    """One call of the program. `namespace`, `context` and `kubeconfig` are the flags', None when not given."""

    output: Output
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    cwd: Path = field(default_factory=Path.cwd)
    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None
    plugins: Sequence[str] = ()
    strict_plugins: bool = False
    #: The label of the plugin whose verb is running, empty for a built-in verb.
    verb_plugin: str = ""
    #: This machine's clock.
    clock: Callable[[], datetime] = now
    #: The clock of the API server that is asked, once there is one: None where it does not tell.
    server_clock: Callable[[], datetime | None] | None = None
    suffix: Callable[[], str] = random_suffix
    #: What was typed, without the program's name.
    argv: Sequence[str] = ()
    _manager: Manager | None = None

    @property
    def manager(self) -> Manager:
        """The plugins, loaded on first use; broken ones are a line on stderr."""
        if self._manager is None:
            from ..manager import Manager

            trace = self.env.get("KUBECTL_NRL_TRACE", "") not in ("", "0")
            self._manager = Manager.load(
                self.plugins,
                self.env,
                self.strict_plugins,
                warn=self.output.warn,
                trace=self.output.trace if trace else None,
            )
        return self._manager

    def use_plugins(self, words: Sequence[str]) -> None:
        """Set what -p says; plugins that were loaded by an earlier answer are loaded again."""
        self.plugins = list(words)
        self._manager = None

    @property
    def given(self) -> Given:
        """The flags of this call that say where it works, for commands that it prints."""
        from ..pasting import Given

        plugins = [word if word.startswith("no:") else str(self.cwd / word) for word in self.plugins]
        kubeconfig = str(self.cwd / self.kubeconfig) if self.kubeconfig else ""
        return Given(self.namespace or "", self.context or "", kubeconfig, tuple(plugins))

    @property
    def manager_loaded(self) -> bool:
        return self._manager is not None

    def now(self) -> datetime:
        """The time by which what the cluster wrote is judged and shown: the API server's, else this machine's."""
        try:
            told = self.server_clock() if self.server_clock is not None else None
        except ClusterError:
            told = None
        return told or self.clock()

    @property
    def user(self) -> User:
        """The person, as `${user:}` names them."""
        from ..config import current_user

        return current_user(self.env)

    def new_run(self, run_id: str | None = None) -> RunInfo:
        """The inputs of a Plan that differ from run to run. Raises `UsageError` for an id that no label holds."""
        from ..api import RunInfo

        time = self.clock()
        if run_id is None:
            run_id = f"{time.astimezone(timezone.utc):%Y%m%d-%H%M%S}-{self.suffix()}"
        elif not _RUN_ID.fullmatch(run_id):
            raise UsageError(
                f'--run-id "{run_id}" may contain only letters, digits, ".", "_" and "-", must begin and end with a '
                "letter or digit, and has at most 63 characters",
                "leave --run-id out for a generated one",
            )
        return RunInfo(run_id, time, self.user)
