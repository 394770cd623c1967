"""Container images for the node, written as docker-archives by Python alone: no Docker, no registry.

The Ray image has three layers: Debian with Python, Ray's wheels, and the quickstart example. The two large ones are
cached by version; the example is its own layer, so that changing it costs one small tar.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from . import go_builds, packages, versions
from .cache import cache_dir, cached, content_key
from .errors import checked

RAY_IMAGE = f"kubectl-nrl-tests/ray:{versions.RAY}"  # one stable name; what it holds may change with the example
SYMLINK_IMAGE = f"kubectl-nrl-tests/ray-symlinks:{versions.RAY}"
PAUSE_IMAGE = "kubectl-nrl-tests/pause:1"
QUICKSTART = Path(__file__).resolve().parents[2] / "examples" / "01-quickstart"

_RAY_REQUIREMENTS = (f"ray[default]=={versions.RAY}", "numpy==2.2.6")
_DEBIAN_PACKAGES = ("python3", "wget", "ca-certificates", "procps")
_LAUNCHERS = {"ray": '#!/bin/sh\nexec /usr/bin/python3 -m ray.scripts.scripts "$@"\n'}
_IGNORED = ("__pycache__", ".git", ".pytest_cache")


@dataclass(frozen=True)
class Image:
    """An image to be: its name, its layers (tar files, lowest first) and what its containers start with."""

    name: str
    layers: Sequence[Path]
    env: Sequence[str] = ()
    command: Sequence[str] = ()
    workdir: str = "/"
    labels: dict[str, str] = field(default_factory=dict)

    def config(self) -> bytes:
        """Return the image's configuration; its sha256 is the image id."""
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        return json.dumps(
            {
                "architecture": machine,
                "os": "linux",
                "config": {
                    "Env": list(self.env),
                    "Cmd": list(self.command),
                    "WorkingDir": self.workdir,
                    "Labels": self.labels,
                },
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest(layer)}" for layer in self.layers]},
            },
            sort_keys=True,
        ).encode()

    def id(self) -> str:
        """Return the image id, `sha256:...`: two images of one id are the same image."""
        return f"sha256:{hashlib.sha256(self.config()).hexdigest()}"

    def write(self, out: IO[bytes]) -> None:
        """Write the image as a docker-archive to a stream that need not be seekable."""
        config = self.config()
        config_name = f"{hashlib.sha256(config).hexdigest()}.json"
        names = [f"{digest(layer)}.tar" for layer in self.layers]
        manifest = json.dumps([{"Config": config_name, "RepoTags": [self.name], "Layers": names}]).encode()
        with tarfile.open(fileobj=out, mode="w|") as archive:
            for name, data in ((config_name, config), ("manifest.json", manifest)):
                archive.addfile(_entry(name, 0o644, len(data)), io.BytesIO(data))
            for name, layer in zip(names, self.layers, strict=True):
                with layer.open("rb") as data_file:
                    archive.addfile(_entry(name, 0o644, layer.stat().st_size), data_file)


def digest(layer: Path) -> str:
    """Return the sha256 of a layer, kept beside it: hashing 700 MB at every start would cost seconds."""
    beside = layer.with_name(layer.name + ".sha256")
    if not beside.exists():
        value = hashlib.sha256()
        with layer.open("rb") as data:
            while block := data.read(1 << 20):
                value.update(block)
        draft = beside.with_name(f"{beside.name}.{os.getpid()}")
        draft.write_text(value.hexdigest())
        os.rename(draft, beside)
    return beside.read_text()


def ray_image() -> Image:
    """Return the image for Ray pods, its layers built when absent (about 2 min cold)."""
    return Image(
        name=RAY_IMAGE,
        layers=(_debian_layer(), _ray_layer(), quickstart_layer(QUICKSTART)),
        env=(
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH=/opt/ray",
            "LANG=C.UTF-8",
            "RAY_USAGE_STATS_ENABLED=0",  # nothing here may ask for an address outside this machine
            # on a busy machine a module takes longer than the 30 s after which Ray gives its dashboard up for good
            "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT=300",
        ),
        command=("bash",),
        workdir="/root",
    )


def symlink_image() -> Image:
    """Return the Ray image as uv makes it with link mode symlink: each file of Ray's dashboard is a link into uv's cache."""
    plain = ray_image()
    return replace(plain, name=SYMLINK_IMAGE, layers=(*plain.layers, _symlink_layer()))


def pause_image() -> Image:
    """Return the image that every pod's sandbox runs."""

    def build(target: Path) -> None:
        with tarfile.open(target, "w") as layer:
            layer.add(go_builds.pause(), "pause", filter=lambda entry: _owned_by_root(entry, mode=0o755))

    layer = cached("layer-pause", content_key(go_builds.PAUSE_SOURCE), build)
    return Image(name=PAUSE_IMAGE, layers=(layer,), command=("/pause",))


def quickstart_layer(source: Path) -> Path:
    """Return a layer with `source` as /opt/quickstart; the same content gives the same bytes."""
    source = source if source.is_dir() else cache_dir() / ".no-quickstart"
    source.mkdir(exist_ok=True)

    def build(target: Path) -> None:
        with tarfile.open(target, "w") as layer:
            directory = _entry("opt/quickstart", 0o755, 0)
            directory.type = tarfile.DIRTYPE
            layer.addfile(directory)
            for path in sorted(source.rglob("*")):
                if not set(_IGNORED) & set(path.relative_to(source).parts):
                    name = f"opt/quickstart/{path.relative_to(source).as_posix()}"
                    layer.add(path, name, recursive=False, filter=_owned_by_root)

    return cached("layer-quickstart", content_key(source), build)


def _debian_layer() -> Path:
    packages.ensure_debian({"mmdebstrap": versions.NODE_PACKAGES["mmdebstrap"]})

    def build(target: Path) -> None:
        include = ",".join(_DEBIAN_PACKAGES)
        draft = target.with_name("debian.tar")
        options = ["--quiet", "--variant=minbase", f"--include={include}", "--aptopt=APT::Install-Recommends false"]
        excludes = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]
        checked(["nice", "-n", "10", "mmdebstrap", *options, *excludes, versions.DEBIAN, draft])
        os.rename(draft, target)

    key = content_key(versions.DEBIAN, *_DEBIAN_PACKAGES)
    return cached("layer-debian", key, build, about="1 min")


def _ray_layer() -> Path:
    def build(target: Path) -> None:
        site = target.with_name("site")
        machine = platform.machine()
        wheels = [f"--platform=manylinux{tag}_{machine}" for tag in ("2014", "_2_17", "_2_28", "_2_34")]
        choose = ["--only-binary=:all:", "--implementation=cp", f"--python-version={versions.IMAGE_PYTHON}", *wheels]
        into = ["install", "-q", "--no-compile", "--target", site]
        checked(["nice", "-n", "10", *packages.pip(), *into, *choose, *_RAY_REQUIREMENTS])
        with tarfile.open(target, "w") as layer:
            layer.add(site, "opt/ray", filter=_owned_by_root)
            for name, text in _LAUNCHERS.items():
                layer.addfile(_entry(f"usr/local/bin/{name}", 0o755, len(text)), io.BytesIO(text.encode()))
            link = _entry("usr/local/bin/python", 0o777, 0)
            link.type, link.linkname = tarfile.SYMTYPE, "/usr/bin/python3"
            layer.addfile(link)

    key = content_key(versions.IMAGE_PYTHON, *_RAY_REQUIREMENTS, json.dumps(_LAUNCHERS))
    return cached("layer-ray", f"{versions.RAY}-{key}", build, about="1 min")


def _symlink_layer() -> Path:
    """The dashboard's files of the Ray layer once more: moved into a cache, and links to them in their places."""
    inside, away = "opt/ray/ray/dashboard/client/build/", "root/.cache/uv/archive-v0/ray/dashboard/client/build/"

    def build(target: Path) -> None:
        with tarfile.open(_ray_layer()) as ray, tarfile.open(target, "w") as layer:
            for entry in ray:
                if not (entry.isfile() and entry.name.startswith(inside)):
                    continue
                rest = entry.name.removeprefix(inside)
                copy = _entry(away + rest, entry.mode, entry.size)
                layer.addfile(copy, ray.extractfile(entry))
                link = _entry(entry.name, 0o777, 0)
                link.type, link.linkname = tarfile.SYMTYPE, f"/{away}{rest}"
                layer.addfile(link)

    return cached("layer-symlinks", f"{_ray_layer().name.removeprefix('layer-ray-')}-1", build)


def _entry(name: str, mode: int, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.size = mode, size
    return entry


def _owned_by_root(entry: tarfile.TarInfo, mode: int | None = None) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = 0
    if mode is not None:
        entry.mode = mode
    return entry
