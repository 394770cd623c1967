"""Opens a page in the browser of the person who sits here, where there is one."""

from __future__ import annotations

import sys
from collections.abc import Mapping


def can_show(env: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether a browser would show up on this person's screen; a text browser in this terminal would not do."""
    if env.get("BROWSER"):
        return True
    if env.get("SSH_CONNECTION") or env.get("SSH_TTY"):
        # A forwarded display would open the browser of the far machine: slow, and it has no login of this person.
        return False
    return platform in ("darwin", "win32") or bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"))


def show(url: str) -> bool:
    """Open the page; False when no browser took it."""
    import webbrowser

    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False
