"""What one pod's wait is called: the words of kubelet, scheduler and API server, sorted by who can end it.

The texts are other programs' (named beside each pattern), so an unknown one is passed on as it is and counts as something
that may heal: giving up a run on words that nobody here has read would be the worse mistake.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .model import Heals


@dataclass(frozen=True)
class Cause:
    """Why one pod (or the lack of it) waits. `key` is what makes it the same cause again."""

    reason: str
    message: str
    heals: Heals
    key: tuple[str, ...]


def one_line(text: Any, limit: int = 300) -> str:
    words = " ".join(str(text or "").split())
    return words if len(words) <= limit else words[: limit - 3] + "..."


def countless(text: str) -> str:
    """The text without its numbers: what stays the same when only counts change."""
    return re.sub(r"\d+", "#", text)


def cause(reason: str, message: Any = "", heals: Heals = "alone") -> Cause:
    """A cause whose message is another program's text: the same again when only its numbers differ."""
    line = one_line(message)
    return Cause(reason, line, heals, (reason, countless(line)))


#: What is in kubelet's chain of wrapped errors for an image (containerd, CRI-O, the registry), what to say of it, and who
#: can mend it; the first that matches counts. `{last}` is the innermost error.
_PULLS: tuple[tuple[str, str, Heals], ...] = (
    (r"no match for platform", "is not built for this node's kind of CPU (no match for platform)", "by hand"),
    (
        r"pull access denied|may require authorization|insufficient_scope",
        "does not exist, or may not be pulled without imagePullSecrets",
        "by hand",
    ),
    (
        r"(?i:unauthorized|denied|authentication required|forbidden)|\b40[13]\b",
        "may not be pulled (imagePullSecrets?)",
        "by hand",
    ),
    (r"no such host", "cannot be pulled, its registry's name does not resolve: {last}", "by hand"),
    (r"x509|certificate", "cannot be pulled, its registry's certificate is refused: {last}", "by hand"),
    (r"no space left on device", "does not fit on the node's disk (no space left on device)", "alone"),
    (r"not found|manifest unknown", "not found", "by hand"),
    (
        r"i/o timeout|connection refused|connection reset|handshake timeout|deadline exceeded|no route to host|unreachable|"
        r"(?i:toomanyrequests|too many requests)|\b50[0234]\b|server misbehaving|EOF$",
        "cannot be pulled, its registry does not answer: {last}",
        "alone",
    ),
)


def image_cause(image: str, message: str) -> Cause:
    """What kubelet's chain of wrapped errors says of an image."""
    last = one_line(message.rsplit(": ", 1)[-1], 160)
    words = f"cannot be pulled: {last}" if last and not last.startswith("Back-off") else "cannot be pulled"
    heals: Heals = "alone"
    for pattern, said, who_heals in _PULLS:
        if re.search(pattern, message):
            words, heals = said.format(last=last), who_heals
            break
    return Cause("ImagePullBackOff", f'image "{image}" {words}', heals, ("ImagePullBackOff", image))


_MISSING = re.compile(
    r'(?:(secret|configmap|persistentvolumeclaim) "?([^"\s]+)"? not found)|'
    r"(references non-existent (?:secret|config) key)|(couldn't find key \S+ in (?:Secret|ConfigMap) \S+)",
    re.IGNORECASE,
)
_KINDS = {"secret": "Secret", "configmap": "ConfigMap", "persistentvolumeclaim": "PersistentVolumeClaim"}


def missing(message: str) -> Cause | None:
    """A Secret, ConfigMap, key or claim that is named and not there, in whichever of kubelet's or the scheduler's texts."""
    found = _MISSING.search(message)
    if not found:
        return None
    if found[1]:
        kind, name = _KINDS[found[1].lower()], found[2].rpartition("/")[2]
        return Cause(f"{kind}NotFound", f'{found[1].lower()} "{name}" does not exist', "by hand", (kind, name))
    return Cause("KeyNotFound", one_line(message), "by hand", ("KeyNotFound", one_line(message)))


#: kube-scheduler's afterwords, which nobody can act on: on preemption, on claims, and an empty node's "not found".
_AFTERWORDS = re.compile(r",? preemption: .*$|,? no new claims to deallocate,?|(?<=\.) not found$")


#: Reasons of schedulers that time does not cure.
_LASTING = frozenset({"QueueDoesNotExist", "NonPreemptibleOverQuota"})


def unschedulable(reason: str, message: str) -> Cause:
    """A scheduler's words for a pod that it cannot place. Capacity may come back; a claim that is not there does not."""
    found = missing(message)
    if found:
        return found
    words = one_line(_AFTERWORDS.sub("", one_line(message, 4000)))
    named = re.match(r"([A-Z][a-z]+(?:[A-Z][a-z]+)+): (.*)", words)  # a scheduler's own reason before its text
    if named:
        reason, words = named[1], named[2]
    lasting = reason in _LASTING or re.search(
        r"unbound immediate PersistentVolumeClaims|Requested topology \S+ does not exist", words
    )
    return Cause(reason, words, "by hand" if lasting else "alone", (reason, countless(words)))


#: What the API server answers to whoever creates a pod, and how it is called here (quota and limit ranger admission,
#: priority and service account admission, pod security, webhooks, validation).
_DENIALS: tuple[tuple[str, str, Heals], ...] = (
    (r"exceeded quota", "QuotaExceeded", "alone"),
    (r"status unknown for quota", "QuotaUnknown", "alone"),
    (r"failed quota", "QuotaNeedsRequests", "by hand"),
    (r"(?:maximum|minimum) \S+ usage per|limit to request ratio|(?:max|min)imum memory usage", "LimitRange", "by hand"),
    (r"no PriorityClass with name", "PriorityClassNotFound", "by hand"),
    (r'serviceaccount "[^"]*" not found|error looking up service account', "ServiceAccountNotFound", "by hand"),
    (r"violates PodSecurity", "PodSecurity", "by hand"),
    (r"denied the request", "WebhookDenied", "by hand"),
    (r"failed calling webhook", "WebhookUnavailable", "alone"),
    (r"being terminated", "NamespaceTerminating", "never"),
    (r" is invalid: ", "InvalidPod", "never"),
    (r"is forbidden", "Forbidden", "by hand"),
)


def denied(reason: str, message: str) -> Cause:
    """Why a pod (or a RayCluster) could not be created, from what its controller was told."""
    words = one_line(message, 4000)
    # What the controller put before the API server's answer, and the object that it names.
    said = one_line(
        re.sub(r'^.*?(?:\S+ "[^"]*" is (?:forbidden|invalid): |(?=admission webhook|Internal error))', "", words)
    )
    for pattern, name, heals in _DENIALS:
        if re.search(pattern, words):
            return Cause(name, said, heals, (name,))
    return Cause(reason, one_line(words), "alone", (reason,))
