"""Makes the units of a long-lived Plan, all at the same time, and takes back what it made when one of them fails.

Everything is only ever created: a server-side apply by two people at once would hand the object of one to the other without a word.
An object that appears meanwhile is judged as if it had been there before.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..api import User
from ..diff import Judgement, judge
from ..errors import ClusterError
from .create import Created, Say, Tell, await_made, owned_by, owner_reference, roll_back
from .existing import TERMINATING
from .release import wait_gone
from .together import Stopped, together

if TYPE_CHECKING:
    from ..plan.model import PlannedObject
    from .units import Standing

#: Seconds that a controller gets to make what the pods refer to.
CONTROLLER = 60.0
#: How often an object that comes and goes while it is being made is tried again.
TRIES = 5


class BringUp:
    """One call's making of units. `made` holds what it created, whatever happens."""

    def __init__(
        self, cluster: Any, namespace: str, user: User, *, ignores: Sequence[str] = (), say: Say, warn: Say,
        event: Tell = lambda event: None,
    ) -> None:  # fmt: skip
        self._cluster, self._namespace, self._user, self._ignores = cluster, namespace, user, tuple(ignores)
        self._say, self._warn, self._event = say, warn, event
        self.made = Created()

    def create(self, standings: Sequence[Standing]) -> dict[str, dict[str, Any]]:
        """Make what is missing of each; the main objects as they are then, by role.

        A failure of one takes back all that this call made, then raises; so does Ctrl-C.
        """
        steps = {s.unit.role: self._step(s) for s in standings}
        try:
            return together(steps)
        except BaseException:
            self.take_back()
            raise

    def take_back(self) -> None:
        """Delete all that this call made, last first."""
        roll_back(self._cluster, self.made, self._say, self._warn)

    def _step(self, standing: Standing) -> Any:
        return lambda stop: self._unit(standing, stop)

    def _unit(self, standing: Standing, stop: threading.Event) -> dict[str, Any]:
        """Children, the main object, then who owns whom; what is there already stays."""
        unit, live = standing.unit, []
        present = standing.main.verdict in ("same", "drifted")
        for obj in unit.before:
            live.append(self._ensure(obj, stop, owner=None if present else unit.main))
            for ref in obj.await_refs:
                await_made(ref, obj, self._namespace, self._cluster, say=self._say, within=CONTROLLER)
        main = self._ensure(unit.main, stop)
        live += [self._ensure(obj, stop) for obj in unit.after]
        for child in live:
            self._own(child, main)
        return main

    def _ensure(
        self, obj: PlannedObject, stop: threading.Event, *, owner: PlannedObject | None = None
    ) -> dict[str, Any]:
        """The object, made unless it is there; one of mine that differs stays.

        With `owner`, whose object did not exist a moment ago, what an earlier one left is made anew.
        """
        words = f"{obj.kind.lower()}/{obj.name}"
        for _ in range(TRIES):
            if stop.is_set():
                raise Stopped
            live = self._cluster.get(obj.api_version, obj.kind, obj.name, self._namespace)
            found = judge(obj, live, self._user, self._ignores)
            if found.verdict == "absent":
                made = self._create(obj)
                if made is not None:
                    return made
                continue
            if found.verdict == "foreign":
                raise belongs_to_another(found, self._namespace, self._user)
            assert live is not None
            live.setdefault("apiVersion", obj.api_version)
            live.setdefault("kind", obj.kind)
            if found.verdict == "going":
                self._say(f"{words} is still being deleted; waiting for it to go")
            elif owner is None or not self._left_over(found, owner):
                return dict(live)
            else:
                self._say(f"{words} is left of an earlier {owner.kind}; making it anew")
                self._cluster.delete(obj.api_version, obj.kind, obj.name, self._namespace, uid=live["metadata"]["uid"])
            wait_gone(self._cluster, live, within=TERMINATING, say=self._say)
        raise ClusterError(f"{words} was made and deleted by somebody else {TRIES} times while this command ran")

    def _left_over(self, found: Judgement, owner: PlannedObject) -> bool:
        """Whether a child is none that can be used: it differs, or its owner is gone and the garbage collector will take it."""
        assert found.live is not None
        owners = {ref.get("uid") for ref in found.live["metadata"].get("ownerReferences") or ()}
        if not owners:
            return found.verdict == "drifted"
        live = self._cluster.get(owner.api_version, owner.kind, owner.name, self._namespace)
        return live is None or live["metadata"]["uid"] not in owners

    def _create(self, obj: PlannedObject) -> dict[str, Any] | None:
        """The new object; None when somebody was faster, or the answer was lost and it may be there now."""
        try:
            made: dict[str, Any] = self._cluster.create(copy.deepcopy(dict(obj.manifest)), namespace=self._namespace)
        except ClusterError as error:
            if error.reason == "AlreadyExists":
                return None
            if error.reason in ("ConnectionLost", "Timeout"):
                time.sleep(1.0)
                return None
            raise
        made.setdefault("apiVersion", obj.api_version)
        made.setdefault("kind", obj.kind)
        self.made.objects.append(made)
        self._event({"event": "created", "kind": obj.kind, "name": obj.name, "namespace": self._namespace})
        return made

    def _own(self, child: Mapping[str, Any], main: Mapping[str, Any]) -> None:
        """Tell a child whose it is; one that an earlier cluster of this name left is handed on."""
        meta, owner = child["metadata"], owner_reference(main)
        if [ref.get("uid") for ref in meta.get("ownerReferences") or ()] == [owner["uid"]]:
            return
        try:
            self._cluster.patch(
                child["apiVersion"], child["kind"], meta["name"], self._namespace, owned_by(owner, meta)
            )
        except ClusterError as error:
            self._warn(f"{child['kind'].lower()}/{meta['name']} will not be removed with its cluster: {error.message}")


def belongs_to_another(found: Judgement, namespace: str, user: User) -> ClusterError:
    """The refusal of a name that somebody else holds."""
    owner = found.owner.words if found.owner else "nobody"
    hint = "choose another name in the infra file"
    if found.planned.kind == "RayCluster":
        role = found.planned.role
        hint += f"; or use that cluster as it is: launch: {{attach: {{{role}: {found.planned.name}}}}} without kuberay.{role}"
    return ClusterError(
        f'{found.words} in namespace "{namespace}" belongs to {owner} (you are "{user.name}"): it is left alone',
        hint,
        status=409,
        reason="AlreadyExists",
    )
