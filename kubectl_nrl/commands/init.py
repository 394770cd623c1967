"""`kubectl nrl init`: a short infra file with comments, and a tiny recipe, that `check` accepts.

What is written is checked before it takes its name: answers that make no valid file are an error, not a file.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import ClusterError, ConfigError, ExitCode, NrlError, UsageError
from .init_answers import Answers, Choosing, Given
from .init_discovery import PATIENCE, Found, discover
from .session import Session

if TYPE_CHECKING:
    from ..api import Profile

EXAMPLES = """
kubectl nrl init
kubectl nrl init grpo --profile gb300 --image registry.example/nemo-rl:v0.7.0 --scheduler kai --queue rl
kubectl nrl init grpo --workspace rl-workspace --out runs
kubectl nrl init grpo --profile local
"""

_HELP = "kubectl nrl init --help"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")


@dataclass(frozen=True)
class Written:
    """The files and what stands in them. `next` are commands to paste."""

    recipe: str
    infra: str
    answers: Answers
    next: Sequence[str]
    schema = "init"

    def text(self) -> str:
        return "\n".join([f"wrote {self.recipe} and {self.infra}", "next:", *(f"  {line}" for line in self.next)])

    def data(self) -> dict[str, Any]:
        answers = self.answers
        return {
            "recipe": self.recipe,
            "infra": self.infra,
            "profile": answers.profile,
            "image": answers.image or None,
            "scheduler": answers.scheduler,
            "queue": answers.queue or None,
            "workspace": answers.workspace or None,
            "next": list(self.next),
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", nargs="?", default="grpo", help="writes NAME.yaml and NAME.infra.yaml (grpo)")
    add("--profile", metavar="NAME|FILE", help="the hardware: a registered profile, a profile file, or local")
    add("--image", metavar="IMAGE", help="the image of the Ray pods")
    add("--scheduler", metavar="NAME", help="default, kai or kueue")
    add("--queue", metavar="NAME", help="the queue, for kai and kueue")
    add("--workspace", metavar="CLAIM", help="a PersistentVolumeClaim that many pods mount, or none")
    add("--out", metavar="DIR", default=".", help="where the files go (the current directory)")
    add("--force", action="store_true", help="overwrite files that are there")


def handle(args: argparse.Namespace, session: Session) -> ExitCode:
    recipe, infra = _targets(args, session)
    given = Given(args.profile, args.image, args.scheduler, args.queue, args.workspace)
    profiles = cast("dict[str, Profile]", dict(session.manager.providers("profiles")))
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    choosing = Choosing(
        given,
        _look(given, session, list(profiles.values())),
        list(profiles),
        session.manager.providers("schedulers"),
        _asker(session) if asks else None,
    )

    def gpus_of(name: str) -> int | None:
        return profiles[name].get("gpus.perNode") if name in profiles else None

    answers = choosing.answers(gpus_of)
    for source in answers.sources:
        session.output.note(source)
    _write(recipe, infra, answers, session)
    session.output.result(_result(recipe, infra, answers, session))
    return ExitCode.OK


def _targets(args: argparse.Namespace, session: Session) -> tuple[Path, Path]:
    """The two paths, before anything is asked. Raises `UsageError` for a bad name or a file that is there."""
    name = args.name.removesuffix(".yaml").removesuffix(".infra")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f'NAME "{args.name}" may hold letters, digits, ".", "_" and "-", at most 61', "kubectl nrl init grpo"
        )
    folder = session.cwd / args.out
    paths = folder / f"{name}.yaml", folder / f"{name}.infra.yaml"
    there = [_shown(path, session) for path in paths if os.path.lexists(path)]
    if there and not args.force:
        raise UsageError(
            f"{' and '.join(there)} {'is' if len(there) == 1 else 'are'} there already",
            f"another name (kubectl nrl init NAME), or --force to overwrite {'it' if len(there) == 1 else 'them'}",
        )
    return paths


def _look(given: Given, session: Session, profiles: list[Profile]) -> Found | None:
    """What the cluster says; None when there is none, it does not answer in time, or nothing is left to ask it."""
    if given.profile == "local" or (None not in (given.profile, given.image, given.scheduler, given.workspace)
                                    and (given.scheduler == "default" or given.queue is not None)):  # fmt: skip
        return None
    from .connecting import open_cluster

    try:
        cluster = open_cluster(session)
    except ClusterError as error:
        session.output.debug(f"no cluster to look at: {error.message}")
        return None
    found = discover(cluster, profiles, session.namespace or cluster.namespace, PATIENCE)
    if found is None:
        session.output.note(f"{cluster.server} does not answer: nothing was read from it")
    return found


def _asker(session: Session) -> Any:
    def ask(name: str, default: str, known: Sequence[str], complaint: str) -> str:
        if complaint:
            session.output.warn(complaint)
        shown = f" ({', '.join(known)})" if known else ""
        while True:
            session.output.plain(f"{name}{shown}{f' [{default}]' if default else ''}:")
            line = sys.stdin.readline()
            if not line:
                raise UsageError("no answer; nothing was written", f"give flags instead: {_HELP}")
            if answer := line.strip() or default:
                return answer

    return ask


def _write(recipe: Path, infra: Path, answers: Answers, session: Session) -> None:
    """Both files, or none: they are written under other names, checked, and renamed."""
    from .init_files import base_recipe, infra_text, recipe_text

    folder, name, user = recipe.parent, recipe.stem, session.user.name
    mark = f".new-{os.getpid()}"
    new = [path.with_name(f"{path.name.removesuffix('.yaml')}{mark}.yaml") for path in (recipe, infra)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        new[0].write_text(recipe_text(name, answers, base_recipe(folder.resolve()), user), encoding="utf-8")
        new[1].write_text(infra_text(name, answers, session.namespace or "", user), encoding="utf-8")
        _check(new[0], new[1], session)
        for written, final in zip(new, (recipe, infra), strict=True):
            os.replace(written, final)
    except OSError as error:
        raise NrlError(f"cannot write to {folder}: {error.strerror or error}", "--out DIR") from error
    finally:
        for path in new:
            with contextlib.suppress(OSError):
                path.unlink()


def _check(recipe: Path, infra: Path, session: Session) -> None:
    from .planning import load_plan, refuse

    words = argparse.Namespace(words=[str(recipe)], infra=str(infra))
    try:
        _, plan = load_plan(words, session)
        refuse(plan.problems)
    except ConfigError as error:
        wrong = next(problem for problem in error.problems if problem.severity == "error")
        raise UsageError(f"these answers make no valid infra file: {wrong.message}", wrong.hint or _HELP) from None


def _result(recipe: Path, infra: Path, answers: Answers, session: Session) -> Written:
    words = [_shown(recipe, session), "--infra", _shown(infra, session)]
    steps = [shlex.join(["kubectl", "nrl", verb, *words]) for verb in ("check", "run")]
    return Written(words[0], words[2], answers, steps)


def _shown(path: Path, session: Session) -> str:
    return os.path.relpath(path, session.cwd)
