"""What a run needs to be allowed to do, asked before anything is created.

Creating is not asked about here: the strict dry run is a create, and the API server's answer to it is the truth.
"""

from __future__ import annotations

from typing import Any

from ..api import Check

#: (verb, group, resource, subresource, what for, whether the run is refused without it)
_NEEDS = (
    ("get", "ray.io", "rayjobs", "", "to see the run's state", True),
    ("watch", "ray.io", "rayjobs", "", "to wait for the run's end", True),
    ("list", "", "pods", "", "to say why pods wait", False),
    ("watch", "", "pods", "", "to say why pods wait", False),
    ("create", "", "pods", "portforward", "to show the driver's log", False),
)

#: The same for a run whose code is uploaded.
_UPLOADS = (
    ("create", "", "pods", "portforward", "to upload the code", True),
    ("patch", "ray.io", "rayjobs", "", "to tell KubeRay of the submission", True),
)


def permission_checks(cluster: Any, namespace: str, *, wait: bool, uploads: bool = False) -> list[Check]:
    """One check for each permission; a missing one that only costs comfort has `ok=None`."""
    checks = []
    needs = [need for need in _NEEDS if wait or uploads or need[0] == "get"]
    if uploads:
        needs = [*(need for need in needs if need[3] != "portforward"), *_UPLOADS]
    for verb, group, resource, sub, why, needed in needs:
        what = f"{resource}{'/' + sub if sub else ''}{'.' + group if group else ''}"
        allowed = cluster.can_i(verb, group, resource, namespace, subresource=sub)
        title = f'{verb} {what} in namespace "{namespace}"'
        if allowed is False:
            checks.append(
                Check(
                    title,
                    False if needed else None,
                    f'you ({cluster.user}) may not {verb} {what} in "{namespace}" (needed {why})',
                    f'ask an admin for verb "{verb}" on {what} in namespace "{namespace}"',
                )
            )
        else:
            checks.append(Check(title, allowed))
    return checks
