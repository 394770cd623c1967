"""Plugins: loaded, blocked, broken, listed, traced; providers collected and chosen."""

from __future__ import annotations

import itertools
import random
import textwrap
from pathlib import Path

import pytest

from kubectl_nrl.api import Scheduler
from kubectl_nrl.errors import ConfigError, Origin, PluginError
from kubectl_nrl.manager import BUILTINS, Manager
from kubectl_nrl.plugin_scan import Candidate

HEAD = "from kubectl_nrl import hookimpl\nfrom kubectl_nrl.api import *\n"

KAI = """
class Kai(Scheduler):
    name = "kai"

@hookimpl
def nrl_schedulers():
    yield Kai()
"""

BAD = {
    "syntax": ("def nrl_schedulers(:\n", "SyntaxError"),
    "import": ("import no_such_module_at_all\n", "no_such_module_at_all"),
    "exit": ("import sys\nsys.exit(0)\n", "SystemExit"),
    "misspelt": (
        "@hookimpl\ndef nrl_shedulers():\n    return []\n",
        'no hook "nrl_shedulers" (did you mean nrl_schedulers?)',
    ),
    "argument": ("@hookimpl\ndef nrl_plan_built(plan, wrong):\n    pass\n", "wrong"),
    "default": ("@hookimpl\ndef nrl_plan_built(plan=None):\n    pass\n", '"plan" has a default'),
    "wrapper": ("@hookimpl(wrapper=True)\ndef nrl_plan_built(plan):\n    return (yield)\n", "wrapper"),
    "unmarked": ("def nrl_schedulers():\n    return []\n", "nrl_schedulers lacks @hookimpl"),
    "empty": ("", "implements no hook"),
}


@pytest.fixture
def plugin(tmp_path: Path):
    """Write a plugin file; its path."""
    names = (f"p{i}" for i in itertools.count())

    def write(source: str, name: str = "") -> str:
        file = tmp_path / f"{name or next(names)}.py"
        file.write_text(HEAD + textwrap.dedent(source))
        return str(file)

    return write


def load(*words: str, warn=None, strict=False, trace=None, builtins=None, path=(), env=None) -> Manager:
    return Manager.load(words, env or {}, strict, warn=warn, trace=trace, builtins=builtins or {}, path=path)


def install(site: Path, name: str, version: str, source: str, *, entry: str = "plug") -> None:
    """A distribution as pip leaves it: a module and its dist-info."""
    module = name.replace("-", "_")
    (site / f"{module}.py").write_text(HEAD + source)
    info = site / f"{module}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nlong text\nName: no\n")
    (info / "entry_points.txt").write_text(f"[console_scripts]\nx = y:z\n\n[kubectl_nrl]\n{entry} = {module}\n")


@pytest.mark.parametrize("kind", BAD)
def test_a_broken_plugin_is_one_line_and_leaves_nothing_behind(kind: str, plugin) -> None:
    source, words = BAD[kind]
    # Its good hook comes first by name, so that it is registered when the bad one fails.
    good = "@hookimpl\ndef nrl_commands():\n    yield ('x', 'y', 'z')\n" if kind not in ("unmarked", "empty") else ""
    said: list[str] = []
    manager = load(plugin(good + source, "bad"), plugin(KAI, "good"), warn=said.append)
    assert len(said) == 1, said
    assert "bad.py" in said[0]
    assert words in said[0]
    assert "\n" not in said[0]
    assert list(manager.providers("schedulers")) == ["kai"]
    assert manager.commands() == {}
    broken = {i.name: i.broken for i in manager.infos}
    assert broken["good"] is None
    assert words in (broken["bad"] or "")


@pytest.mark.parametrize("kind", BAD)
def test_strict_makes_it_an_error_that_names_the_plugin(kind: str, plugin) -> None:
    with pytest.raises(PluginError, match=r"bad.py") as caught:
        load(plugin(BAD[kind][0], "bad"), strict=True)
    assert "-p no:bad" in caught.value.hint


def test_a_blocked_plugin_is_never_imported(tmp_path: Path, plugin) -> None:
    mark = tmp_path / "imported"
    file = plugin(f"open({str(mark)!r}, 'w').close()\n" + KAI, "site")
    assert load(file, "no:site").infos == ()
    assert not mark.exists()
    assert [i.name for i in load(file).infos] == ["site"]
    assert mark.exists()


def test_blocking_knows_short_and_full_names_of_built_ins() -> None:
    builtins = {"scheduler_kai": "no_such_module"}
    for word in ("no:scheduler_kai", "no:builtin:scheduler_kai"):
        assert load(word, builtins=builtins).infos == ()


def test_blocking_what_is_not_there_is_said_with_the_nearest_name() -> None:
    said: list[str] = []
    load("no:sheduler_kai", warn=said.append, builtins={"scheduler_kai": "json"})
    assert "did you mean scheduler_kai?" in said[0]


def test_installed_plugins_are_found_by_their_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "acme-nrl", "1.2", KAI)
    (tmp_path / "other-1.0.dist-info").mkdir()
    (tmp_path / "other-1.0.dist-info" / "entry_points.txt").write_text("[console_scripts]\nkubectl_nrl = a:b\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    manager = load(path=["", str(tmp_path), str(tmp_path / "absent")])
    (info,) = manager.infos
    assert (info.name, info.version, info.source) == ("plug", "1.2", "acme-nrl (acme_nrl)")
    assert info.hooks == ("nrl_schedulers",)
    assert info.providers == ("schedulers:kai",)
    assert manager.plugin_of(manager.choose("schedulers", "kai")) == "acme-nrl 1.2"


def test_a_distribution_found_twice_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sites = [tmp_path / "a", tmp_path / "b"]
    for site, version in zip(sites, ("1.0", "2.0"), strict=True):
        site.mkdir()
        install(site, "twice-nrl", version, KAI)
    monkeypatch.syspath_prepend(str(sites[0]))
    (info,) = load(path=[str(s) for s in sites]).infos
    assert info.version == "1.0"


def test_the_environment_names_files_and_modules(plugin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "env_module_plugin.py").write_text(HEAD + KAI.replace('"kai"', '"other"'))
    monkeypatch.syspath_prepend(str(tmp_path))
    manager = load(env={"KUBECTL_NRL_PLUGINS": f"{plugin(KAI)}:env_module_plugin"})
    assert list(manager.providers("schedulers")) == ["kai", "other"]


def test_a_plugin_beside_the_recipe_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "lurking", "1.0", KAI)
    monkeypatch.chdir(tmp_path)
    assert load(path=[""]).infos == ()


def test_two_providers_of_one_name_name_both_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin) -> None:
    install(tmp_path, "acme-two", "1.2", KAI)
    monkeypatch.syspath_prepend(str(tmp_path))
    manager = load(plugin(KAI, "mine"), path=[str(tmp_path)])
    with pytest.raises(PluginError, match=r'"kai" is provided twice, by "acme-two 1.2" and ".*mine.py"') as caught:
        manager.providers("schedulers")
    assert "-p no:mine" in caught.value.hint


RUBBISH = {
    "a string": ("yield 'kai'", "str 'kai'"),
    "none": ("return [None]", "NoneType"),
    "a class": ("yield Scheduler", "type"),
    "of another kind": ("class P(Policy):\n        name = 'x'\n    yield P()", "P"),
    "no name": ("yield Scheduler()", "without a name"),
    "a name that is no string": ("class S(Scheduler):\n        name = 3\n    yield S()", "without a name"),
    "no iterable": ("return 42", "returned int"),
    "a text for a list": ("return 'kai'", "returned str"),
    "an exception": ("raise ValueError('boom')", "ValueError: boom"),
    "an exception after the first": ("yield Scheduler()\n    raise ValueError('late')", "ValueError: late"),
}


@pytest.mark.parametrize("kind", RUBBISH)
def test_rubbish_from_a_provider_hook_names_the_plugin(kind: str, plugin) -> None:
    body, words = RUBBISH[kind]
    manager = load(plugin(f"@hookimpl\ndef nrl_schedulers():\n    {body}\n", "rubbish"))
    with pytest.raises(PluginError) as caught:
        manager.providers("schedulers")
    assert "rubbish.py" in caught.value.message
    assert words in caught.value.message
    assert words in (manager.infos[0].broken or "")


def test_an_unknown_choice_has_its_line_and_the_nearest_name(plugin) -> None:
    manager = load(plugin(KAI))
    with pytest.raises(ConfigError) as caught:
        manager.choose("schedulers", "kia", origin=Origin("infra.yaml", 4, 9))
    (problem,) = caught.value.problems
    assert str(problem) == 'infra.yaml:4:9: error: no scheduler "kia" (did you mean kai?)'
    assert problem.hint == "one of: kai"


def test_an_observer_that_raises_costs_one_warning(plugin) -> None:
    said: list[str] = []
    bad = plugin("@hookimpl\ndef nrl_event(event):\n    raise RuntimeError('no disk')\n", "bad")
    good = plugin(
        "seen = []\n@hookimpl\ndef nrl_event(event):\n    seen.append(event)\n    event['n'].append(1)\n", "good"
    )
    manager = load(bad, good, warn=said.append)
    count: list[int] = []
    for _ in range(3):
        manager.observe({"n": count})
    assert len(count) == 3
    assert len(said) == 1
    assert "bad.py" in said[0]
    assert "RuntimeError: no disk" in said[0]


def test_an_exception_in_a_hook_names_hook_and_plugin(plugin) -> None:
    manager = load(plugin("@hookimpl\ndef nrl_plan_built(plan):\n    1 / 0\n", "bad"))
    with pytest.raises(PluginError, match=r'"\S*bad.py" failed in nrl_plan_built: ZeroDivisionError'):
        manager.hook.nrl_plan_built(plan=None)


def test_an_error_raised_on_purpose_keeps_its_hint(plugin) -> None:
    source = "@hookimpl\ndef nrl_plan_built(plan):\n    raise NrlError('not on fridays', 'wait', exit_code=4)\n"
    with pytest.raises(PluginError, match=r'strict.py": not on fridays') as caught:
        load(plugin(source, "strict")).hook.nrl_plan_built(plan=None)
    assert (caught.value.hint, caught.value.exit_code) == ("wait", 4)


def test_the_first_hint_wins_and_a_failing_one_hides_nothing(plugin) -> None:
    silent = plugin("@hookimpl\ndef nrl_explain_error(error):\n    return None\n", "a")
    answers = plugin("@hookimpl\ndef nrl_explain_error(error):\n    return 'ask ops'\n", "b")
    raises = plugin("@hookimpl\ndef nrl_explain_error(error):\n    raise OSError\n", "c")
    error = PluginError("x")
    assert load(silent, answers, raises).explain(error) == "ask ops"
    assert load(raises).explain(error) == ""


FAILURE = "@hookimpl\ndef nrl_failure_patterns():\n    yield FailurePattern('{id}', '{match}', 'what', 'help')\n"


def test_known_failures_of_plugins_come_before_the_built_in_ones(plugin) -> None:
    head = "from kubectl_nrl.api import FailurePattern\n"
    manager = load(
        plugin(head + FAILURE.format(id="ours", match="x+"), "zz"),
        builtins={"failures_builtin": "nrl_plugins.failures_builtin"},
    )
    found = [pattern.id for pattern in manager.failure_patterns()]
    assert found[0] == "ours"
    assert "cuda-out-of-memory" in found[1:]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (FAILURE.format(id="ours", match="("), 'failure pattern "ours": match is no regular expression'),
        ("@hookimpl\ndef nrl_failure_patterns():\n    yield 'x'\n", "not a FailurePattern"),
        ("@hookimpl\ndef nrl_failure_patterns():\n    return 7\n", "returned int, not an iterable"),
        ("@hookimpl\ndef nrl_failure_patterns():\n    raise OSError('no disk')\n", "OSError: no disk"),
    ],
    ids=["regex", "item", "answer", "raises"],
)
def test_a_plugin_whose_known_failures_are_rubbish_costs_one_warning(plugin, source: str, words: str) -> None:
    """A run has failed when they are asked for: that must still be told, with all that is right."""
    head, said = "from kubectl_nrl.api import FailurePattern\n", []
    right = FAILURE.format(id="right", match="y")
    manager = load(plugin(head + source, "bad"), plugin(head + right, "good"), warn=said.append)
    assert [pattern.id for pattern in manager.failure_patterns()] == ["right"]
    assert len(said) == 1
    assert "bad.py" in said[0]
    assert words in said[0]


def test_trace_prints_calls_implementations_and_times(plugin) -> None:
    lines: list[str] = []
    load(plugin(KAI, "one"), trace=lines.append).providers("schedulers")
    assert lines[0] == "nrl_schedulers: 1 implementation"
    assert "one.py: " in lines[1]
    assert lines[1].endswith(" ms")


def test_verbs_of_plugins_are_checked(plugin) -> None:
    file = plugin("@hookimpl\ndef nrl_commands():\n    yield ('hi', 'greets', 'mod')\n")
    assert load(file).commands() == {"hi": ("greets", "mod", file)}
    with pytest.raises(PluginError, match="nrl_commands yielded"):
        load(plugin("@hookimpl\ndef nrl_commands():\n    yield 'hi'\n")).commands()


def test_schemas_of_providers_by_key(plugin) -> None:
    source = """
class S(Section):
    name = "topsec"
    def schema(self): return {"type": "object"}
class K(Scheduler):
    name = "kai"
    def schema(self): return {"required": ["queue"]}
class N(Scheduler):
    name = "none"
@hookimpl
def nrl_sections(): yield S()
@hookimpl
def nrl_schedulers(): yield from (K(), N())
"""
    assert load(plugin(source)).fragments() == {
        "topsec": {"type": "object"},
        "scheduler.kai": {"required": ["queue"]},
        "scheduler.none": {},
    }
    for body in ("raise KeyError('x')", "return 'object'"):
        bad = KAI + f"\ndef schema(self):\n    {body}\nKai.schema = schema\n"
        with pytest.raises(PluginError, match=r"bad.py.*schema\(\) of scheduler"):
            load(plugin(bad, "bad")).fragments()


def test_order_of_registration_changes_nothing(plugin) -> None:
    files = [plugin(KAI.replace('"kai"', f'"s{i}"'), f"f{i}") for i in range(4)]
    hints = [plugin(f"@hookimpl\ndef nrl_explain_error(error):\n    return 'h{i}'\n", f"h{i}") for i in range(3)]
    candidates = [Candidate(Path(f).stem, "file", f) for f in files + hints]
    seen = set()
    for seed in range(12):
        shuffled = random.Random(seed).sample(candidates, len(candidates))
        manager = Manager(shuffled)
        seen.add((tuple(manager.providers("schedulers")), manager.explain(PluginError("x")), manager.infos))
    assert len(seen) == 1
    assert next(iter(seen))[:2] == (("s0", "s1", "s2", "s3"), "h0")


def test_providers_are_collected_once(plugin) -> None:
    manager = load(plugin(KAI))
    assert manager.providers("schedulers")["kai"] is manager.choose("schedulers", "kai")


@pytest.mark.parametrize("name", BUILTINS)
def test_built_ins_load(name: str) -> None:
    (info,) = load(builtins={name: BUILTINS[name]}, strict=True).infos
    assert info.broken is None
    assert info.providers or info.hooks


def test_built_ins_have_one_provider_of_each_name() -> None:
    manager = load(builtins=BUILTINS)
    assert isinstance(manager.choose("schedulers", "kai"), Scheduler)
    assert {"generic", "gb300"} <= set(manager.providers("profiles"))
