"""Code source `upload`: files of this machine, as the working directory that Ray unpacks on every node that needs it.

Everything is packed before the cluster is asked for anything, so that what cannot be sent holds no GPU, and the code that runs is the
code of that moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubectl_nrl import hookimpl
from kubectl_nrl.api import (
    CodeRequest,
    CodeSource,
    Connection,
    NrlError,
    Prepared,
    Problem,
    RunInfo,
    Staged,
    Survey,
    Traits,
)

if TYPE_CHECKING:
    from kubectl_nrl.upload import Package, Selection


@dataclass
class Packed:
    """A package with its survey (`api.Prepared`)."""

    survey: Survey
    size: int
    words: str
    package: Package
    working_dir: str

    def close(self) -> None:
        self.package.close()


class UploadCode(CodeSource):
    name = "upload"
    summary = "code sent from this machine, as Ray's working directory"
    traits = Traits(uploads=True)

    def survey(self, asked: CodeRequest) -> Survey:
        from kubectl_nrl.upload import select

        return _survey(select(asked.root, asked.paths), asked)

    def prepare(self, asked: CodeRequest) -> Prepared:
        from kubectl_nrl.upload import UploadError, pack, select, summary

        selection = select(asked.root, asked.paths)
        survey = _survey(selection, asked)
        refused = [p for p in survey.problems if p.severity == "error"]
        if refused:
            raise UploadError("; ".join(p.message for p in refused), refused[0].hint)
        package = pack(selection, asked.recipe)
        changed = tuple(Problem(text, severity="warning") for text in package.warnings)
        whole = Survey(**{**vars(survey), "problems": (*survey.problems, *changed)})
        return Packed(whole, package.size, summary(selection, package.size), package, package.uri)

    def stage(
        self,
        run: RunInfo,
        connection: Connection,
        prepared: Prepared | None = None,
        progress: Callable[[int], None] = lambda sent: None,
    ) -> Staged:
        """Send the package unless Ray has it. Raises `ClusterError`."""
        if not isinstance(prepared, Packed):
            raise NrlError("nothing was prepared to be uploaded")
        package = prepared.package
        return Staged(package.uri, connection.jobs.upload_package(package.name, package, progress))


def _survey(selection: Selection, asked: CodeRequest) -> Survey:
    from kubectl_nrl.upload import listing, summary, tracked_but_ignored

    problems = [Problem(text, severity="warning") for text in selection.warnings]
    problems += [Problem(text, severity="note") for text in selection.notes]
    if selection.missing:
        names = ", ".join(selection.missing)
        problems.append(
            Problem(
                f"{asked.listed_by} lists what is not in {selection.root}: {names}",
                hint="--repo-root DIR names the directory that the paths are relative to",
            )
        )
    dropped = tracked_but_ignored(selection, os.environ)
    if dropped:
        some = ", ".join(dropped[:5]) + (", ..." if len(dropped) > 5 else "")
        problems.append(
            Problem(f"{len(dropped)} files that git tracks are excluded by .rayignore: {some}", severity="warning")
        )
    return Survey(
        selection.root, selection.paths, selection.size, len(selection.files), selection.excluded, summary(selection),
        tuple(listing(selection)), tuple(problems),
    )  # fmt: skip


@hookimpl
def nrl_code_sources() -> Iterator[CodeSource]:
    yield UploadCode()
