"""What a live cluster must have for a Plan, looked at before anything is created: all of it at once, each fault with its fix.

Nothing is written here, and no Secret's value is read into a message.
"""

from __future__ import annotations

from .kuberay import kuberay_check
from .least_role import least_needs
from .look import Answers, look
from .permissions import Need, Wanted, by_resource, granted, permission_checks, role_rules
from .room import Room, room_of
from .topic import Topic, blocking, looked_at, refusal, words

__all__ = [
    "Answers",
    "Need",
    "Room",
    "Topic",
    "Wanted",
    "blocking",
    "by_resource",
    "granted",
    "kuberay_check",
    "least_needs",
    "look",
    "looked_at",
    "permission_checks",
    "refusal",
    "role_rules",
    "room_of",
    "words",
]
