"""What is rendered depends on files and ranks, never on the order in which plugins are found, registered or called."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kubectl_nrl import manager as managers
from kubectl_nrl.testing import Project

FILES = Path(__file__).parents[1] / "golden" / "upstream"
EXAMPLES = Path(__file__).parents[2] / "examples"

#: One plugin of each kind that patches: all of one rank and touching one another's neighbours.
SITE = """
from kubectl_nrl import hookimpl
from kubectl_nrl.api import DraDriver, Patch, Policy, Problem, Section, Target


class Site(Section):
    def __init__(self, name):
        self.name = name

    def active(self, ctx):
        return True

    def patches(self, ctx):
        yield Patch(Target.pods(), {"metadata": {"labels": {self.name: "here"}}})
        env = [{"name": f"FROM_{self.name.upper()}", "value": "1"}]
        yield Patch(Target.pods(which="workers"), {"container": {"ray": {"env": env}}})
        yield Patch(Target.pods(which="workers"), {"spec": {"tolerations": [{"key": self.name, "operator": "Exists"}]}})

    def problems(self, ctx):
        yield Problem(f"section {self.name} looked", severity="note")


class House(Policy):
    def __init__(self, name):
        self.name = name

    def patches(self, ctx):
        yield Patch(Target.object("Workload"), {"metadata": {"annotations": {self.name: "ruled"}}})


@hookimpl
def nrl_sections():
    yield from map(Site, NAMES)


@hookimpl
def nrl_policies():
    yield from map(House, [f"house-{name}" for name in NAMES])
"""
NAMES = ("a", "m", "z")

LINES = {
    "written": (FILES, "grpo-48n4g.yaml --infra grpo-48n4g.gb300.infra.yaml"),
    "three roles": (FILES, "disagg.yaml --infra sections.infra.yaml --raycluster"),
    "short": (EXAMPLES, "03-gb300/grpo-64n.yaml --infra 03-gb300/gb300.infra.yaml"),
}


@pytest.fixture
def projects(tmp_path: Path) -> dict[Path, Project]:
    found = {}
    for index, source in enumerate((FILES, EXAMPLES)):
        files = {path.relative_to(source).as_posix(): path.read_text() for path in source.rglob("*.yaml")}
        project = found[source] = Project(files, path=tmp_path / str(index))
        plugins = [project.root / f"site_{name}.py" for name in NAMES]
        for name, file in zip(NAMES, plugins, strict=True):
            file.write_text(SITE.replace("NAMES", repr((name,))))
        project.env["KUBECTL_NRL_PLUGINS"] = ":".join(map(str, plugins))
    return found


def _answers(projects: dict[Path, Project], line: tuple[Path, str]) -> tuple[str, ...]:
    project, words = projects[line[0]], line[1]
    outcomes = [project.run(f"check {words}{flag}").ok() for flag in ("", " --explain", " --manifests-only")]
    return tuple(text for outcome in outcomes for text in (outcome.out, outcome.err))


@pytest.mark.parametrize("name", LINES)
def test_shuffled_registration_gives_one_result(
    projects: dict[Path, Project], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    wanted = _answers(projects, LINES[name])
    assert all(f"house-{plugin}" in wanted[4] and f"FROM_{plugin.upper()}" in wanted[4] for plugin in NAMES)
    orders = set()
    for seed in range(4):
        shuffle = random.Random(seed)
        # Registration itself is sorted, so that pluggy's last-registered-first is the same everywhere; here it is not.
        monkeypatch.setattr(managers, "_order", lambda _candidate, shuffle=shuffle: shuffle.random())
        registered: list[str] = []
        load = managers.Manager._load
        monkeypatch.setattr(
            managers.Manager,
            "_load",
            lambda self, c, load=load, seen=registered: (seen.append(c.name), load(self, c))[1],
        )
        assert _answers(projects, LINES[name]) == wanted
        orders.add(tuple(registered))
        monkeypatch.undo()
    assert len(orders) == 4
