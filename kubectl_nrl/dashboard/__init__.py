"""Ray's dashboard in a browser of this machine: a local port, the way to the head behind it, and proof that the page works."""

from .browser import can_show, show
from .copy_links import copy_links
from .head import HeadDoor
from .local_port import LOOPBACK, LocalPort, port_holder
from .opening import Trouble, asker, is_final, until_decided
from .page import Seen, assets_of, look
from .repair import Links, repair

__all__ = [
    "LOOPBACK",
    "HeadDoor",
    "Links",
    "LocalPort",
    "Seen",
    "Trouble",
    "asker",
    "assets_of",
    "can_show",
    "copy_links",
    "is_final",
    "look",
    "port_holder",
    "repair",
    "show",
    "until_decided",
]
