"""Puts copies in the place of symlinks that lead out of the directory of the dashboard's files.

This file is also sent to the head and run there as it is, by the Python that runs Ray (3.9 or newer): it imports the standard library
alone.
"""

from __future__ import annotations

import json
import os
import shutil
import sys


def links_out(folder: str) -> list[str]:
    """Symlinks below `folder` whose target is not inside it: aiohttp refuses to serve those (its `follow_symlinks=False`)."""
    inside = os.path.realpath(folder)
    found = []
    for here, folders, files in os.walk(inside):
        for name in folders + files:
            path = os.path.join(here, name)
            if os.path.islink(path) and not (os.path.realpath(path) + os.sep).startswith(inside + os.sep):
                found.append(path)
    return sorted(found)


def copy_links(folder: str, change: bool) -> dict[str, object]:
    """Copy what each such link leads to into its place, when `change` is set; nothing else is written.

    Returns `folder`, the number of `links` found, those `copied`, and `problem`: empty, or why the rest was left as it is. May be
    repeated: what was copied is no link any more.
    """
    links, copied, problem = links_out(folder), 0, ""
    for path in links if change else ():
        draft = path + ".nrl-copy"
        try:
            _replace(path, draft)
        except OSError as error:
            if not os.path.islink(path):
                continue  # somebody else repairs at the same time, and was first
            problem = f"{error.filename or path}: {error.strerror or error}"
            break
        finally:
            _remove(draft)
        copied += 1
    return {"folder": folder, "links": len(links), "copied": copied, "problem": problem}


def _replace(path: str, draft: str) -> None:
    _remove(draft)  # of a copy that was cut short
    if os.path.isdir(path):
        shutil.copytree(path, draft)
        os.unlink(path)
        os.rename(draft, path)
    else:
        shutil.copy(path, draft)
        os.replace(draft, path)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)


if __name__ == "__main__":
    print(json.dumps(copy_links(sys.argv[2], sys.argv[1] == "change")))
