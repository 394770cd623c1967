"""Every example renders what its golden says, without a warning, and the commands of its README are commands that work."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from packed import masked

from kubectl_nrl.testing import Project, golden

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
EXPECTED = HERE / "expected" / "examples"

CASES = {
    "01-quickstart": ("01-quickstart", "recipe.yaml --infra kubernetes.infra.yaml"),
    "01-quickstart-local": ("01-quickstart", "recipe.yaml --infra local.infra.yaml"),
    "02-rayjob": ("02-rayjob", "grpo.yaml --infra grpo.infra.yaml"),
    "03-gb300-4n": ("03-gb300", "grpo-4n.yaml --infra gb300.infra.yaml"),
    "03-gb300-64n": ("03-gb300", "grpo-64n.yaml --infra gb300.infra.yaml"),
    "04-disaggregated": ("04-disaggregated", "--raycluster recipe.yaml --infra kubernetes.infra.yaml"),
    "04-disaggregated-local": ("04-disaggregated", "recipe.yaml --infra local.infra.yaml"),
    "03-gb300-64n-by-hand": ("03-gb300", "grpo-64n.yaml --infra grpo-64n.gb300.prod.infra.yaml"),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the examples in it, as a checkout has them."""
    root = tmp_path_factory.mktemp("checkout")
    shutil.copytree(EXAMPLES, root / "examples")
    return root


def _in(root: Path, directory: Path) -> Project:
    project = Project(path=root)
    project.path = directory
    return project


@pytest.mark.parametrize("case", CASES)
def test_what_check_says_and_what_is_rendered(root: Path, case: str) -> None:
    directory, files = CASES[case]
    project = _in(root, root / "examples" / directory)
    screen = project.run(f"check {files}").ok()
    assert screen.err == ""
    golden(EXPECTED / f"{case}.txt", f"$ {screen.command}\n\n{screen.out.replace(str(root), '/CHECKOUT')}")
    rendered = project.run(f"check {files} --manifests-only").ok().out
    if "local.infra" in files:
        assert rendered.strip() == ""  # no object: what is rendered is the script that runs
        golden(EXPECTED / f"{case}.sh", project.run(f"run {files} --dry-run").ok().out)
    else:
        golden(EXPECTED / f"{case}.yaml", masked(rendered))


def test_every_infra_file_of_the_examples_is_tried() -> None:
    tried = {f"{directory}/{files.split()[-1]}" for directory, files in CASES.values()}
    assert {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.glob("*/*.infra.yaml")} == tried


def test_every_example_has_a_readme_and_its_line_in_the_first_page() -> None:
    page = (EXAMPLES / "README.md").read_text()
    for directory in sorted(path for path in EXAMPLES.iterdir() if path.is_dir()):
        assert (directory / "README.md").exists()
        assert page.count(f"({directory.name}/README.md)") == 1


def _commands() -> list[tuple[str, str]]:
    """(directory, command line) of each `kubectl nrl` of a sh block in a README, backslash lines joined."""
    found = []
    for page in sorted(EXAMPLES.glob("*/README.md")):
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            lines = block.replace("\\\n", " ").splitlines()
            found += [(page.parent.name, line) for line in lines if line.startswith("kubectl nrl ")]
    return found


@pytest.mark.parametrize(("directory", "line"), _commands())
def test_the_commands_of_the_readmes(root: Path, directory: str, line: str) -> None:
    """As printed, but that a `run` is only rendered."""
    words = shlex.split(line, comments=True)
    rendered = [*words, "--dry-run"] if words[2] == "run" and "--dry-run" not in words else words
    from_the_top = any(word.startswith("examples/") for word in words)
    project = _in(root, root if from_the_top else root / "examples" / directory)
    if words[2] in ("check", "run"):
        assert project.run(rendered).ok().out
    else:
        assert project.run([*words[:3], "--help"]).ok().out
