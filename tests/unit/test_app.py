"""From argv to an exit code: verbs, help, errors, bugs, plugins' verbs, and which modules may be imported."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kubectl_nrl.commands.verbs import VERBS
from kubectl_nrl.errors import ExitCode
from kubectl_nrl.testing import Project

PLUGIN = """
import sys, types
from kubectl_nrl import hookimpl
from kubectl_nrl.errors import ClusterError, ExitCode

verb = types.ModuleType("nrl_test_hello")
verb.EXAMPLES = "kubectl nrl hello bob"

def add_arguments(parser):
    parser.add_argument("name")
    parser.add_argument("--fail", choices=("error", "bug", "interrupt", "hidden", "printed"))

def handle(args, session):
    if args.fail == "error":
        raise ClusterError("refused by the test")
    if args.fail == "bug":
        raise ValueError("secret is " + session.env.get("HF_TOKEN", ""))
    if args.fail == "interrupt":
        raise KeyboardInterrupt
    if args.fail == "hidden":  # as Python before 3.12 wraps one that falls into the making of a class
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()
    session.output.line(f"hello {args.name} {session.namespace}")
    if args.fail == "printed":
        raise ClusterError("too late")
    return ExitCode.GAVE_UP

verb.add_arguments, verb.handle = add_arguments, handle
sys.modules["nrl_test_hello"] = verb

@hookimpl
def nrl_commands():
    yield "hello", "greets", "nrl_test_hello"

@hookimpl
def nrl_explain_error(error):
    return "ask the test" if "refused" in error.message else None
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(path=tmp_path)


@pytest.fixture
def hello(tmp_path: Path) -> Project:
    return Project(path=tmp_path, plugin=PLUGIN)


def test_alone_it_prints_help_and_ends_well(project: Project) -> None:
    alone = project.run("").ok()
    assert alone.out == project.run("--help").ok().out == project.run("help").ok().out
    assert "usage: kubectl nrl " in alone.out
    assert 'kubectl passes no flag written before "nrl"' in alone.out
    for verb in VERBS.values():
        assert (f"  {verb.name} " in alone.out) is not verb.hidden


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_examples(verb: str, project: Project) -> None:
    page = project.run(f"{verb} --help").ok()
    assert page.out.startswith(f"usage: kubectl nrl {verb} ")
    assert "examples:\n  kubectl nrl " in page.out or "examples:\n  source " in page.out
    assert page.err == ""
    assert project.run(f"help {verb}").out == project.run(f"-h {verb}").out == page.out


def test_version(project: Project) -> None:
    data = project.run("version -o json").ok().result("version")
    assert data["python"] == ".".join(map(str, sys.version_info[:3]))
    assert project.run("--version").ok().out == project.run("version").out
    assert project.run("-o yaml version").ok().documents == [data]


def test_plugins_are_listed(hello: Project) -> None:
    plugins = {p["name"]: p for p in hello.run("plugins -o json").ok().result("plugins")["plugins"]}
    assert plugins["test_plugin"]["hooks"] == ["nrl_commands", "nrl_explain_error"]
    assert plugins["scheduler_kai"]["providers"] == ["schedulers:kai"]
    assert "scheduler_kai" not in hello.run("plugins -p no:scheduler_kai").ok().out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rnu", 'error: no verb "rnu" (did you mean run?)'),
        ("--rep", 'error: unrecognized argument "--rep"'),
        ("version --no-colour", 'error: unrecognized argument "--no-colour" (did you mean --no-color?)'),
        ("version --verb", 'error: unrecognized argument "--verb" (did you mean --verbose?)'),
        ("version extra", 'error: unrecognized argument "extra"'),
        ("version -o table", 'error: -o "table"'),
        ("version -n", "error: argument -n/--namespace: expected one argument"),
        ("-n", "error: argument -n/--namespace: expected one argument"),
        ("version -p ./absent.py", 'error: no plugin file "./absent.py"'),
        ("completion tcsh", "error: argument SHELL: invalid choice: 'tcsh'"),
        ("completion", "error: the following arguments are required: SHELL"),
        ("check", "error: RECIPE is missing"),
        ("version ''", 'error: unrecognized argument ""'),
    ],
)
def test_wrong_words_end_with_2_and_a_hint(line: str, words: str, project: Project) -> None:
    outcome = project.run(line)
    assert outcome.exit == 2
    assert words in outcome.err
    assert "hint: " in outcome.err
    assert outcome.out == ""
    data = project.run(f"-o json {line}").result("error")
    assert data["exitCode"] == 2
    assert data["error"] in outcome.err


def test_a_plugins_verb_is_a_verb(hello: Project) -> None:
    assert re.search(r"hello +greets +\[.*test_plugin.py\]", hello.run("--help").ok().out)
    outcome = hello.run("-n rl hello bob")
    assert (outcome.exit, outcome.out) == (4, "hello bob rl\n")
    assert "kubectl nrl hello bob" in hello.run("hello --help").ok().out
    assert "did you mean hello?" in hello.run("helo").err


def test_a_plugin_named_after_its_own_verb(tmp_path: Path) -> None:
    project = Project({"hello.py": PLUGIN}, path=tmp_path)
    for flag in ("-p ./hello.py", "--plugin=./hello.py", "-p./hello.py"):
        assert project.run(f"hello bob {flag}").out == "hello bob None\n"
    assert project.run("hello bob -- -p ./hello.py").exit == 2


def test_a_plugin_may_not_take_a_built_in_verb(tmp_path: Path) -> None:
    project = Project(path=tmp_path, plugin=PLUGIN.replace('yield "hello"', 'yield "run"'))
    outcome = project.run("--help").ok()
    assert 'test_plugin.py" brings the verb "run", which is built in' in outcome.err
    assert project.run("--help --strict-plugins").exit == 2


@pytest.mark.parametrize(
    "change",
    [
        ('"greets", "nrl_test_hello"', '"greets", "nrl_no_such_module"'),
        ("verb.add_arguments,", "verb.nothing,"),
        ("verb.handle =", "verb.other ="),
    ],
)
def test_a_plugins_verb_that_cannot_be_used_names_it(change: tuple[str, str], tmp_path: Path) -> None:
    outcome = Project(path=tmp_path, plugin=PLUGIN.replace(*change)).run("hello bob")
    assert outcome.exit == 2
    assert re.search(r'test_plugin.py": its verb "hello" cannot be used', outcome.err)


def test_errors_end_with_their_own_code_and_a_plugins_hint(hello: Project) -> None:
    outcome = hello.run("hello bob --fail error")
    assert outcome.exit == 3
    assert outcome.err.splitlines() == ["error: refused by the test", "hint: ask the test"]
    assert hello.run("hello bob --fail error -o json").result("error")["hint"] == "ask the test"
    printed = hello.run("hello bob --fail printed -o json")
    assert (printed.exit, printed.out) == (3, "hello bob None\n")


def test_a_bug_leaves_a_traceback_that_only_its_owner_reads(hello: Project) -> None:
    outcome = hello.run("hello bob --fail bug", env={"HF_TOKEN": "hf_0123456789"})
    assert outcome.exit == 70
    assert "Traceback" not in outcome.err
    assert len(outcome.err.splitlines()) == 1
    found = re.search(r"with (\S+\.traceback\.txt)$", outcome.err.strip())
    assert found, outcome
    file = Path(found[1])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    assert "ValueError" in text
    assert re.search(r'a bug of plugin "\S+test_plugin.py"', outcome.err)
    assert "hf_0123456789" not in text + outcome.err
    assert hello.run("hello bob --fail bug -o json").result("error")["exitCode"] == 70


@pytest.mark.parametrize("how", ["interrupt", "hidden"])
def test_ctrl_c_ends_with_130(hello: Project, how: str) -> None:
    outcome = hello.run(f"hello bob --fail {how}")
    assert (outcome.exit, outcome.out) == (130, "")


def test_a_broken_plugin_is_a_line_and_strict_an_error_with_its_traceback(tmp_path: Path) -> None:
    project = Project(path=tmp_path, plugin="1 / 0\n")
    outcome = project.run("plugins").ok()
    lines = [line for line in outcome.err.splitlines() if "test_plugin.py" in line]
    assert len(lines) == 1
    assert "ZeroDivisionError" in lines[0]
    assert "BROKEN: ZeroDivisionError" in outcome.out
    strict = project.run("plugins --strict-plugins")
    assert strict.exit == 2
    assert "Traceback" in strict.err
    assert "1 / 0" in strict.err


def test_trace_goes_to_stderr(hello: Project) -> None:
    outcome = hello.run("plugins -o json", env={"KUBECTL_NRL_TRACE": "1"}).ok()
    assert re.search(r"trace: nrl_schedulers: \d+ implementations", outcome.err)
    assert re.search(r"trace: +builtin:scheduler_kai: \d+\.\d ms", outcome.err)
    assert "trace: " not in outcome.out
    assert "trace: " not in hello.run("plugins", env={"KUBECTL_NRL_TRACE": "0"}).err


HEAVY = (
    "kubernetes",
    "ray",
    "omegaconf",
    "hydra",
    "jsonschema",
    "rich",
    "yaml",
    "importlib.metadata",
    "pluggy",
    "antlr4",
)


def imported(project: Project, *words: str) -> set[str]:
    """The modules that one command line loads in an interpreter of its own."""
    code = (
        "import sys; from kubectl_nrl.app import main; code = main(sys.argv[1:]); "
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=project.path,
        env=project.env,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("words", ["--help", "", "version", "version --help", "completion bash"])
def test_what_needs_no_library_imports_none(words: str, project: Project) -> None:
    modules = imported(project, *words.split())
    assert "kubectl_nrl.app" in modules
    assert not modules & set(HEAVY)


@pytest.mark.parametrize(
    "flags", ["", "-o json", "--manifests-only", "--explain", "cluster.num_nodes=2", "+notes=[a,b]"]
)
def test_check_never_imports_a_cluster_client(flags: str, project: Project) -> None:
    project.write("r.yaml", "cluster: {num_nodes: 1, gpus_per_node: 4}\n")
    launch = "{codeSource: image, codePath: /x, entrypoint: python x.py --config r.yaml}"
    project.write("i.yaml", f"profile: generic\nimage: reg.example/x:1\nlaunch: {launch}\n")
    modules = imported(project, *f"check r.yaml --infra i.yaml {flags}".split())
    assert "kubectl_nrl.plan" in modules
    assert not modules & {
        "kubernetes",
        "ray",
        "rich",
        "jsonschema",
        "importlib.metadata",
        "argcomplete",
        "kubectl_nrl.cluster",
    }
    # Hydra and OmegaConf cost as much as all the rest: only an override that is not of the plainest kind, or an
    # interpolation, needs them.
    assert ("hydra" in modules) is ("[" in flags)
    assert ("omegaconf" in modules) is ("[" in flags)


def test_a_dry_run_never_imports_a_cluster_client(project: Project) -> None:
    project.write("r.yaml", "cluster: {num_nodes: 1, gpus_per_node: 4}\n")
    launch = "{codeSource: image, codePath: /x, entrypoint: python x.py --config r.yaml}"
    project.write("i.yaml", f"profile: generic\nimage: reg.example/x:1\nlaunch: {launch}\n")
    modules = imported(project, *["run", "r.yaml", "--infra", "i.yaml", "--dry-run"])
    assert not modules & {"kubernetes", "ray", "rich", "jsonschema", "hydra", "omegaconf"}


def entry(*words: str, env: dict[str, str] | None = None, **how: object) -> subprocess.Popen[bytes]:
    code = "from kubectl_nrl.app import entry; entry()"
    return subprocess.Popen([sys.executable, "-c", code, *words], env={**os.environ, **(env or {})}, **how)  # type: ignore[call-overload, no-any-return]


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    process = entry("--help", stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert err == b""
    assert process.returncode in (0, 141)


def test_a_closed_stdout_is_no_error() -> None:
    code = f"exec {sys.executable} -c 'from kubectl_nrl.app import entry; entry()' version >&-"
    done = subprocess.run(["sh", "-c", code], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full (Linux has one)")
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_full_disk_is_no_bug_of_this_program(stream: str) -> None:
    with open("/dev/full", "wb") as full:
        words = ["version"] if stream == "stdout" else ["nonsense"]
        other = {"stdout": "stderr", "stderr": "stdout"}[stream]
        process = entry(*words, **{stream: full, other: subprocess.PIPE})  # type: ignore[arg-type]
        out, err = process.communicate(timeout=60)
    # Without a result on stdout the command has failed; words that nobody can read change no answer.
    code, said = {
        "stdout": (ExitCode.FAILED, b"error: standard output cannot be written: No space left on device\n"),
        "stderr": (ExitCode.USAGE, b""),
    }[stream]
    assert (process.returncode, out or b"", err or b"") == (code, b"", said)


def test_a_directory_that_may_not_be_written_is_said_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*words: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/there")

    monkeypatch.setattr("kubectl_nrl.commands.version.handle", refuse)
    done = Project().run("version")
    assert (done.exit, done.err) == (ExitCode.CLUSTER, "error: /there: Permission denied\n")
