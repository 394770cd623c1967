"""Who runs: the name that objects, Secrets and directories carry.

The mapping (lower case, `_` and `.` as `-`) is the one people's Secrets and directories are already named by, so it is changed
further only where its result is no DNS label; such a name gets a piece of a hash, so that two people cannot meet in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ..api import User
from ..errors import Problem

#: Variables that name the user outright, strongest first.
VARIABLES = ("NRL_K8S_USER", "KUBECTL_NRL_USER")

#: Login names that are everybody's in containers and on cloud machines.
GENERIC = frozenset(
    {
        "root", "ubuntu", "jovyan", "admin", "administrator", "user", "users", "ec2-user", "debian", "centos", "rocky",
        "fedora", "opc", "azureuser", "cloud-user", "core", "vagrant", "vscode", "codespace", "gitpod", "runner",
        "jenkins", "nobody", "default", "app", "ray", "nonroot",
    }
)  # fmt: skip

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


def current_user(env: Mapping[str, str]) -> User:
    """The user by `NRL_K8S_USER`, else `KUBECTL_NRL_USER`, else the login name; `uid-N` where the system knows no name."""
    for variable in VARIABLES:
        if env.get(variable, "").strip():
            raw = env[variable].strip()
            return User(label(raw), raw)
    raw, known = _login(env)
    name = label(raw)
    return User(name, raw, generic=not known or name in GENERIC)


def label(raw: str) -> str:
    """A raw name as a DNS label."""
    mapped = raw.lower().replace("_", "-").replace(".", "-")
    if _LABEL.fullmatch(mapped):
        return mapped
    import hashlib
    import unicodedata

    plain = unicodedata.normalize("NFKD", mapped).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:50].strip("-")
    mark = hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{words or 'user'}-{mark}"


def generic_warning(user: User) -> Problem | None:
    """A word about a name that many people share; None for a name of one's own."""
    if not user.generic:
        return None
    return Problem(
        f'you run as "{user.raw}", a name that many people share: yours and theirs cannot be told apart',
        None,
        f"export {VARIABLES[1]}=your-name",
        "warning",
    )


def _login(env: Mapping[str, str]) -> tuple[str, bool]:
    """The login name as Python's getpass finds it, and whether there is one."""
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        if env.get(variable, "").strip():
            return env[variable].strip(), True
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name, True
    except (ImportError, KeyError):
        return f"uid-{os.getuid()}", False
