"""The checkout on this machine as a value, and the part of a launch script that holds the code on the pod against it.

The script reads git's files itself, since few images have git, and git refuses a checkout that belongs to another user
(`safe.directory`): gitrepository-layout(5) and gitfile's `gitdir:` line. What it cannot read it says nothing of.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

#: How many digits of a commit a message shows.
SHORT = 9

_SCHEME = re.compile(r"[A-Za-z].*?://")


@dataclass(frozen=True)
class Checkout:
    """A git checkout: its commit in hex, whether tracked files differ from it, and which repository it is (`repository_path`)."""

    commit: str
    repository: str
    dirty: bool = False


def repository_path(url: str) -> str:
    """What two URLs of one repository share, `org/name`; empty when there is none.

    Nothing of a URL's user, password, host, query or fragment is kept, so no credential is (git-fetch(1), GIT URLS).
    """
    rest = re.split(r"[?#]", url, maxsplit=1)[0]
    found = _SCHEME.match(rest)
    rest = rest[found.end() if found else 0 :].rpartition("@")[2]
    if found:
        rest = rest.partition("/")[2]
    elif ":" in rest.partition("/")[0]:
        rest = rest.partition(":")[2]
    return rest.strip("/").removesuffix(".git").rstrip("/")


def comparison(checkout: Checkout, path: str) -> str:
    """POSIX shell that warns in one line on stderr when the code in the current directory is not the checkout's commit.

    Silent unless both are the same repository. It changes nothing and sets no variable of the script around it.
    """
    there = f"kubectl nrl: warning: the code in {path} on this pod is commit "
    here = f", and the checkout that this run was started from is at {checkout.commit[:SHORT]}"
    other = here + (" with uncommitted changes" if checkout.dirty else "")
    same = ", as in the checkout that this run was started from, whose uncommitted changes are here only if they were copied"
    say = f'echo {shlex.quote(there)}"$short"'
    changed = f"{say}{shlex.quote(same)} >&2" if checkout.dirty else ":"
    return f"""\
(
{_READ_GIT}
[ "$path" = {shlex.quote(checkout.repository)} ] || exit 0
short=${{commit%"${{commit#{"?" * SHORT}}}"}}
if [ "$commit" = {checkout.commit} ]; then
  {changed}
else
  {say}{shlex.quote(other)} >&2
fi
) </dev/null"""


#: Sets `commit` and `path` from the checkout around the current directory, or ends the subshell. Reftables, which have no
#: file for a branch, and an origin from an included file are git's to read. `path` is made as by `repository_path`.
_READ_GIT = r"""exec 3>&2 2>/dev/null
top=$(pwd -P)
while [ -n "$top" ] && [ ! -e "$top/.git" ]; do top=${top%/*}; done
git=$top/.git
if [ -f "$git" ]; then
  read -r _ link <"$git"
  case $link in /*) git=$link ;; *) git=$top/$link ;; esac
fi
[ -f "$git/HEAD" ] || exit 0
common=$git
if [ -f "$git/commondir" ]; then
  read -r link <"$git/commondir"
  case $link in /*) common=$link ;; *) common=$git/$link ;; esac
fi
read -r commit ref <"$git/HEAD"
if [ "$commit" = ref: ]; then
  commit=
  if [ -f "$common/$ref" ]; then
    read -r commit <"$common/$ref"
  elif [ -f "$common/packed-refs" ]; then
    commit=$(grep -F " $ref" "$common/packed-refs" | while read -r id name; do [ "$name" != "$ref" ] || echo "$id"; done)
  fi
fi
case $commit in '' | *[!0-9a-f]*) commit=$(git rev-parse HEAD) ;; esac
case $commit in '' | *[!0-9a-f]*) exit 0 ;; esac
url=
part=
while read -r line; do
  case $line in
    '[remote "origin"]'*) part=origin ;;
    '['*) part= ;;
    url=* | url[[:space:]]*=*) [ -z "$part" ] || url=${line#*=} ;;
  esac
done <"$common/config"
[ -n "$url" ] || url=$(git config --get remote.origin.url)
path=${url#"${url%%[![:space:]]*}"}
path=${path%%[?#]*}
case $path in
  [A-Za-z]*://*) path=${path#*://} path=${path##*@}; case $path in */*) path=${path#*/} ;; *) path= ;; esac ;;
  *) path=${path##*@}; case ${path%%/*} in *:*) path=${path#*:} ;; esac ;;
esac
while case $path in /*) ;; *) false ;; esac; do path=${path#/}; done
while case $path in */) ;; *) false ;; esac; do path=${path%/}; done
path=${path%.git}
while case $path in */) ;; *) false ;; esac; do path=${path%/}; done
exec 2>&3"""
