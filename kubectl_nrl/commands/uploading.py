"""Code that is sent from this machine: looked at by `check`, made ready by `run` and `job resume`, and said before it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ..errors import NrlError, Problem
from .session import Session

if TYPE_CHECKING:
    from ..api import CodeRequest, CodeSource, Prepared, Survey
    from ..plan import Plan


def code_source(session: Session, name: str) -> CodeSource:
    """The code source of that name. Raises `ConfigError` when there is none."""
    from ..api import CodeSource

    return cast(CodeSource, session.manager.choose("code_sources", name))


def uploads(session: Session, plan: Plan) -> bool:
    """Whether the Plan's code is sent from this machine."""
    return plan.launch.code_source != "none" and code_source(session, plan.launch.code_source).traits.uploads


def request(session: Session, repo_root: str | None, paths: Sequence[str] | None, recipe: str) -> CodeRequest:
    """What is asked of a code source; `repo_root` as the flag says it, else the current directory."""
    from ..api import CodeRequest

    root = Path(session.cwd) / Path(repo_root).expanduser() if repo_root else Path(session.cwd)
    return CodeRequest(root, None if paths is None else tuple(paths), recipe)


@dataclass(frozen=True)
class Looked:
    """What `check` found: the survey, None when it could not be made, and what is wrong as warnings."""

    survey: Survey | None
    problems: tuple[Problem, ...]


def look(session: Session, plan: Plan, repo_root: str | None) -> Looked:
    """Survey what a run would send. A directory that `run` would refuse is a warning: `check` may be asked elsewhere."""
    from dataclasses import replace

    if plan.kind == "local" or not uploads(session, plan):
        return Looked(None, ())
    asked = request(session, repo_root, plan.launch.upload_paths, plan.launch.recipe)
    try:
        survey = code_source(session, plan.launch.code_source).survey(asked)
    except NrlError as error:
        return Looked(None, (Problem(f"{error.message}; run refuses it", hint=error.hint, severity="warning"),))
    found = survey.problems if survey else ()
    return Looked(survey, tuple(replace(p, severity="warning") if p.severity == "error" else p for p in found))


def prepare(session: Session, source: CodeSource, asked: CodeRequest, *, say: bool = True) -> Prepared | None:
    """Make the code ready and say what will be sent. Raises `NrlError` for what cannot be."""
    prepared = source.prepare(asked)
    if prepared is not None and say:
        session.output.problems(p for p in prepared.survey.problems if p.severity != "error")
        session.output.progress(f"uploading {prepared.words}, of {prepared.survey.root}")
        for line in prepared.survey.lines:
            session.output.progress(f"  {line}")
    return prepared


class Packages:
    """Code of this machine, packed once for everything that sends the same paths and recipe, and listed once for the same paths."""

    def __init__(self, session: Session, plan: Plan, repo_root: str | None) -> None:
        self._session, self._plan, self._root = session, plan, repo_root
        self._made: dict[tuple[tuple[str, ...] | None, str], Prepared | None] = {}

    def of(self, paths: Sequence[str] | None, recipe: str) -> Prepared | None:
        """The package of those paths, with that recipe at its top; None when the Plan sends no code. Raises `NrlError`."""
        key = (None if paths is None else tuple(paths), recipe)
        if key not in self._made and uploads(self._session, self._plan):
            source = code_source(self._session, self._plan.launch.code_source)
            asked, known = request(self._session, self._root, paths, recipe), any(key[0] == k for k, _ in self._made)
            self._made[key] = prepare(self._session, source, asked, say=not known)
        return self._made.get(key)

    def close(self) -> None:
        for made in self._made.values():
            if made is not None:
                made.close()
