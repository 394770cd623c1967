"""Add up what the steps of tests/run left in a directory, and end with `N passed, N failed`.

A step that is a tool leaves NAME.tool with its exit code and counts as one test; a pytest run leaves NAME.suite with
its exit code and NAME.xml with its tests. A run that ended badly without naming a failed test (it crashed, or
collected nothing) counts as one failure, so that a green total cannot hide it.
"""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

#: Suites that may not skip in CI: each of their tests needs a cluster, and CI has one.
NEVER_SKIPPED_IN_CI = ("api", "node")


@dataclass
class Tally:
    """Counts, and one line for each thing that is not right."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    faults: tuple[str, ...] = ()

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.faults + other.faults,
        )

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def of_tool(file: Path) -> Tally:
    """One test: whether the tool ended with 0."""
    status = int(file.read_text())
    return Tally(failed=1, faults=(f"{file.stem} ended with {status}",)) if status else Tally(passed=1)


def of_suite(file: Path, *, may_skip: bool) -> Tally:
    """The tests of one pytest run, by its XML report."""
    status = int(file.read_text())
    tally = Tally()
    report = file.with_suffix(".xml")
    if report.exists():
        for case in ElementTree.parse(report).iter("testcase"):
            tally += _of_case(case, may_skip=may_skip)
    if status and not tally.failed:
        tally += Tally(failed=1, faults=(f"pytest of {file.stem} ended with {status}",))
    return tally


def _of_case(case: ElementTree.Element, *, may_skip: bool) -> Tally:
    name = f"{case.get('classname')}::{case.get('name')}"
    outcomes = {child.tag for child in case}
    if outcomes & {"failure", "error"}:
        return Tally(failed=1, faults=(f"failed: {name}",))
    if "skipped" in outcomes:
        return Tally(skipped=1) if may_skip else Tally(failed=1, faults=(f"skipped where nothing may be: {name}",))
    return Tally(passed=1)


def main(directory: Path, *, ci: bool) -> int:
    """Print the faults and the closing line; 0 when something passed and nothing failed."""
    total = Tally()
    for file in sorted(directory.iterdir()):
        if file.suffix == ".tool":
            total += of_tool(file)
        elif file.suffix == ".suite":
            total += of_suite(file, may_skip=not (ci and file.stem in NEVER_SKIPPED_IN_CI))
    for fault in total.faults:
        print(fault)
    print(total)
    return 0 if total.passed and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), ci=bool(os.environ.get("CI"))))
