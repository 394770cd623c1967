"""Why a pod's containers do not run, from their statuses: what waits, what ended, what came back after it had ended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..raycluster_state import condition
from ..rayjob_state import parse_time
from .causes import Cause, cause, image_cause, missing
from .model import Heals
from .pods import Pod, container_statuses

#: Waiting reasons of a container that is simply on its way.
ON_ITS_WAY = frozenset({"ContainerCreating", "PodInitializing"})
#: kubelet's words for an image that it cannot get; it alternates between the first two for one and the same image.
_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"})
#: Seconds that a container may run without being ready before that is a cause: Ray's dashboard needs some of them.
NOT_READY = 90.0
#: Seconds that an image may be pulled, and that workers may wait for their head, before that is worth a line.
SLOW, HEAD_SLOW = 30.0, 60.0
#: The init container in which KubeRay has a worker wait for the head (ray-operator common/pod.go).
WAITS_FOR_HEAD = "wait-gcs-ready"
#: Seconds that a worker may wait for a head that is ready before the way to it is suspected.
UNREACHED = 120.0


def broken(pod: Pod) -> Cause | None:
    """The first container that cannot start or has died."""
    for container in container_statuses(pod):
        found = _waiting(container) or _terminated(container) or _crashing(container)
        if found:
            return found
    return None


def slow(pod: Pod, now: datetime | None, head_ready: bool) -> Cause | None:
    """The container that should have been through by `now`: an init container, an image's pull, a readiness probe."""
    status = pod.get("status") or {}
    for container in status.get("initContainerStatuses") or ():
        found = _initializing(container, now, head_ready)
        if found:
            return found
    started = condition(pod, "PodReadyToStartContainers")
    if started.get("status") == "True" and older(started.get("lastTransitionTime"), now, SLOW):
        for container in container_statuses(pod):
            reason = ((container.get("state") or {}).get("waiting") or {}).get("reason")
            if reason == "ContainerCreating" or (reason == "PodInitializing" and _of_init(pod, container)):
                image = str(container.get("image") or "")
                return Cause("Pulling", f'image "{image}" (a large one takes minutes)', "alone", ("Pulling", image))
    for container in status.get("containerStatuses") or ():
        found = _not_ready(container, now)
        if found:
            return found
    return None


def restarted(pod: Pod, now: datetime | None) -> Cause | None:
    """A container of a ready pod that was killed or crashed, and came back.

    Told of a head for good, because Ray's jobs and their history went with it; of a worker for ten minutes.
    """
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        last = (container.get("lastState") or {}).get("terminated") or {}
        if container.get("restartCount") and last:
            head = (pod["metadata"].get("labels") or {}).get("ray.io/node-type") == "head"
            if not head and older(last.get("finishedAt"), now, 600.0):
                continue
            lost = ": Ray's jobs and their history are lost" if head else ""
            ended = parse_time(last.get("finishedAt"))
            when = f" at {ended:%Y-%m-%d %H:%M:%S} UTC" if ended else ""
            text = f"container {container.get('name')} was restarted{when} after {_end(last)}{lost}"
            return Cause("Restarted", text, "alone", ("Restarted", str(container.get("name"))))
    return None


def _end(terminated: Mapping[str, Any]) -> str:
    """`OOMKilled (exit 137)`."""
    return f"{terminated.get('reason') or 'Error'} (exit {terminated.get('exitCode')})"


def _waiting(container: Mapping[str, Any]) -> Cause | None:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    if not reason or reason in ON_ITS_WAY:
        return None
    image = str(container.get("image") or "")
    if reason in _IMAGE:
        return image_cause(image, message)
    if reason in ("InvalidImageName", "ErrImageNeverPull"):
        words = (
            "is no image name" if reason == "InvalidImageName" else "is not on the node, and imagePullPolicy is Never"
        )
        return Cause(reason, f'image "{image}" {words}', "by hand", (reason, image))
    if reason == "CrashLoopBackOff":
        return _crashed(container)
    found = missing(message)
    if found:
        return found
    lasting: Heals = "by hand" if _certain(reason, message) else "alone"
    return cause(reason, message, lasting)


def _certain(reason: str, message: str) -> bool:
    """Whether starting the container again will say the same (kubelet's and runc's texts)."""
    return reason == "CreateContainerConfigError" or any(
        word in message for word in ("executable file not found", "no such file or directory", "permission denied")
    )


def _terminated(container: Mapping[str, Any]) -> Cause | None:
    ended = (container.get("state") or {}).get("terminated") or {}
    if not ended or ended.get("exitCode") == 0:
        return None
    reason, name = str(ended.get("reason") or "Error"), str(container.get("name"))
    return Cause(reason, f"container {name} ended with {ended.get('exitCode')}", "alone", ("Crashing", name))


def _crashing(container: Mapping[str, Any]) -> Cause | None:
    """Between two crashes it runs: still the same trouble, for as long as it has not become ready."""
    last = (container.get("lastState") or {}).get("terminated") or {}
    if container.get("ready") or not last or int(container.get("restartCount") or 0) < 2:
        return None
    return None if last.get("exitCode") == 0 else _crashed(container)


def _crashed(container: Mapping[str, Any]) -> Cause:
    last, name = (container.get("lastState") or {}).get("terminated") or {}, str(container.get("name"))
    reason = str(last.get("reason") or "")
    named = reason if reason not in ("", "Error", "Completed") else "CrashLoopBackOff"
    code = f", last exit {last['exitCode']}" if "exitCode" in last else ""
    times = f", {container.get('restartCount')} restarts" if container.get("restartCount") else ""
    return Cause(named, f"container {name} ends again and again{code}{times}", "by hand", ("Crashing", name))


def _initializing(container: Mapping[str, Any], now: datetime | None, head_ready: bool) -> Cause | None:
    running, name = (container.get("state") or {}).get("running") or {}, str(container.get("name"))
    since = running.get("startedAt")
    if not running or container.get("restartPolicy") == "Always":  # a sidecar
        return None
    if name != WAITS_FOR_HEAD:
        if not older(since, now, NOT_READY):
            return None
        return Cause("InitContainer", f"init container {name} has not ended yet", "alone", ("InitContainer", name))
    if not head_ready and older(since, now, HEAD_SLOW):
        return Cause("WaitsForHead", "Ray's head does not answer yet", "alone", ("WaitsForHead",))
    if head_ready and older(since, now, UNREACHED):
        text = "the head is ready, but its port 6379 is not reached from here (NetworkPolicy, DNS?)"
        return Cause("HeadNotReached", text, "by hand", ("HeadNotReached",))
    return None


def _of_init(pod: Pod, container: Mapping[str, Any]) -> bool:
    """Whether it is the init container whose turn it is: those before it are through."""
    for other in (pod.get("status") or {}).get("initContainerStatuses") or ():
        if other is container:
            return True
        if not ((other.get("state") or {}).get("terminated") or {}):
            return False
    return False


def _not_ready(container: Mapping[str, Any], now: datetime | None) -> Cause | None:
    """A container that runs and stays unready: its probe says so in events only."""
    running, name = (container.get("state") or {}).get("running") or {}, str(container.get("name"))
    if container.get("ready") or not older(running.get("startedAt"), now, NOT_READY):
        return None
    text = f"container {name} has run for over {NOT_READY:.0f} s and fails its readiness probe"
    return Cause("NotReady", text, "alone", ("NotReady", name))


def older(time: Any, now: datetime | None, seconds: float) -> bool:
    """Whether a Kubernetes time lies at least `seconds` before `now`; never when either is not known."""
    then = parse_time(time)
    return now is not None and then is not None and (now - then).total_seconds() >= seconds
