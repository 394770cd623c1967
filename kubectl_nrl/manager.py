"""Load, block, list and trace plugins; collect and choose the named providers they yield.

Hooks are called by our own loop over pluggy's implementations, not by pluggy's: a result must be attributed to its
plugin, a generator consumed before the call returns, an observer that raises isolated, and an exception must name
who raised it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import ConfigError, NrlError, Origin, PluginError, Problem
from .parser import did_you_mean
from .plugin_scan import Candidate, blocked, external

if TYPE_CHECKING:
    from .api import FailurePattern, Provider
    from .hook_calls import Hooks

#: The built-in plugins, by name; each is one file.
BUILTINS: Mapping[str, str] = {
    name: f"nrl_plugins.{name}"
    for name in (
        "profiles_builtin", "scheduler_default", "scheduler_kai", "scheduler_kueue", "dra_computedomain", "dra_roce",
        "section_placement", "section_networking", "section_workspace", "section_hf_cache", "section_checkpoints",
        "section_resources", "section_secrets", "code_image", "code_lustre", "code_upload", "submitter_rayjob",
        "submitter_local", "submitter_portforward", "submitter_exec", "policy_nemorl", "failures_builtin",
    )
}  # fmt: skip

#: Provider kinds, the base class each must be of, and how a message names one.
KINDS: Mapping[str, tuple[str, str]] = {
    "profiles": ("Profile", "profile"),
    "schedulers": ("Scheduler", "scheduler"),
    "dra_drivers": ("DraDriver", "DRA driver"),
    "submitters": ("Submitter", "submitter"),
    "code_sources": ("CodeSource", "code source"),
    "sections": ("Section", "section"),
    "policies": ("Policy", "policy"),
}


@dataclass(frozen=True)
class PluginInfo:
    """One line of `kubectl nrl plugins`. `providers` are `kind:name`; `broken` says why it is not loaded."""

    name: str
    version: str
    source: str
    hooks: tuple[str, ...]
    providers: tuple[str, ...]
    broken: str | None = None


class Manager:
    """The loaded plugins. Make one with `Manager.load`."""

    def __init__(
        self,
        candidates: Iterable[Candidate],
        *,
        strict: bool = False,
        trace: Callable[[str], None] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        from .hook_calls import Hooks

        self.hook: Hooks = Hooks(trace)
        self._strict = strict
        self._warn = warn or (lambda text: None)
        self._broken: dict[Candidate, str] = {}
        self._loaded: list[Candidate] = []
        self._providers: dict[str, dict[str, Provider]] = {}
        self._owners: dict[int, Candidate] = {}
        self._observers_warned: set[str] = set()
        for candidate in sorted(candidates, key=_order):
            self._load(candidate)
        self.hook.check_pending()

    @classmethod
    def load(
        cls,
        argv_plugins: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        strict: bool = False,
        *,
        warn: Callable[[str], None] | None = None,
        trace: Callable[[str], None] | None = None,
        builtins: Mapping[str, str] = BUILTINS,
        path: Sequence[str] | None = None,
    ) -> Manager:
        """Find and load everything that is not blocked.

        `warn` gets a line for each broken plugin; with `strict` it is a `PluginError` instead. `trace` gets a line
        for every hook call and implementation.
        """
        env = os.environ if env is None else env
        candidates = [Candidate(name, "builtin", module) for name, module in builtins.items()]
        candidates += external(argv_plugins, env, path)
        for name in blocked(argv_plugins):
            kept = [c for c in candidates if not c.named(name)]
            if len(kept) == len(candidates) and warn:
                near = did_you_mean(name, [c.name for c in candidates])
                warn(f"-p no:{name} keeps nothing from loading: no plugin has that name{near}")
            candidates = kept
        return cls(candidates, strict=strict, warn=warn, trace=trace)

    def commands(self) -> dict[str, tuple[str, str, str]]:
        """Verbs of plugins: name -> (summary, module, label). Rubbish is a `PluginError` that names the plugin."""
        found: dict[str, tuple[str, str, str]] = {}
        for owner, item in self.hook.items("nrl_commands", {}):
            if not (
                isinstance(item, tuple) and len(item) == 3 and all(isinstance(word, str) and word for word in item)
            ):
                raise PluginError(
                    f'plugin "{owner.label}": nrl_commands yielded {_show(item)}',
                    "yield (name, one-line summary, module)",
                )
            name, summary, module = item
            if name in found:
                raise PluginError(f'plugins "{found[name][2]}" and "{owner.label}" both bring the verb "{name}"',
                                  f"-p no:{owner.name} keeps one from loading")  # fmt: skip
            found[name] = (summary, module, owner.label)
        return found

    def providers(self, kind: str) -> Mapping[str, Provider]:
        """The providers of a kind (a key of `KINDS`), by name, sorted.

        Raises `PluginError` for what is no such provider, has no name, or has the name of another: both plugins are
        named.
        """
        if kind not in self._providers:
            found: dict[str, Provider] = {}
            for owner, item in self.hook.items(f"nrl_{kind}", {}):
                provider = self._checked(kind, owner, item)
                if provider.name in found:
                    first = self._owners[id(found[provider.name])]
                    raise PluginError(
                        f'{KINDS[kind][1]} "{provider.name}" is provided twice, by "{first.label}" and "{owner.label}"',
                        f"-p no:{owner.name} or -p no:{first.name} keeps one from loading",
                    )
                found[provider.name] = provider
                self._owners[id(provider)] = owner
            self._providers[kind] = dict(sorted(found.items()))
        return self._providers[kind]

    def choose(self, kind: str, name: str, *, origin: Origin | None = None) -> Provider:
        """The provider of that name. Raises `ConfigError` at `origin`, with the nearest real name."""
        known = self.providers(kind)
        if name in known:
            return known[name]
        word = KINDS[kind][1]
        message = f'no {word} "{name}"{did_you_mean(name, known)}'
        raise ConfigError([Problem(message, origin, f"one of: {', '.join(known) or 'none is loaded'}")])

    def fragments(self) -> dict[str, dict[str, Any]]:
        """JSON Schemas that providers own, by their key: `networking`, `scheduler.kai`, `policies.nemorl`.

        A provider without settings has an empty one: its name is known by its key.
        """
        found: dict[str, dict[str, Any]] = {}
        for kind, prefix in (("sections", ""), ("schedulers", "scheduler."), ("policies", "policies.")):
            for name, provider in self.providers(kind).items():
                try:
                    schema = provider.schema()
                except Exception as error:
                    raise PluginError(
                        f'plugin "{self.plugin_of(provider)}" failed in schema() of {KINDS[kind][1]} "{name}": '
                        f"{type(error).__name__}: {error}"
                    ) from error
                if not isinstance(schema, (dict, type(None))):
                    raise PluginError(
                        f'plugin "{self.plugin_of(provider)}": schema() of {KINDS[kind][1]} "{name}" '
                        f"returned {_show(schema)}"
                    )
                found[prefix + name] = schema or {}
        return found

    def plugin_of(self, provider: Provider) -> str:
        """The label of the plugin that yielded a provider: `builtin:scheduler_kai`, `acme-nrl 1.2`."""
        owner = self._owners.get(id(provider))
        return owner.label if owner else type(provider).__module__

    def problems(self, hook: str, **arguments: Any) -> list[Problem]:
        """What the plugins that implement a hook object to. An answer that is no `Problem` is a `PluginError`."""
        found: list[Problem] = []
        for owner, item in self.hook.items(hook, arguments):
            if not isinstance(item, Problem):
                raise PluginError(f'plugin "{owner.label}": {hook} answered {_show(item)}, not a Problem')
            found.append(item)
        return found

    def failure_patterns(self) -> list[FailurePattern]:
        """Known failures: those of plugins, then the built-in ones. Rubbish is a warning that names the plugin, and left out:
        what a run died of is told when something has gone wrong already."""
        found: list[FailurePattern] = []
        for owner in sorted(self._loaded, key=lambda candidate: candidate.origin == "builtin"):
            try:
                found += [_pattern(owner, item) for _, item in self.hook.items("nrl_failure_patterns", {}, only=owner)]
            except NrlError as error:
                self._warn(error.message)
        return found

    def observe(self, event: Mapping[str, Any]) -> None:
        """Tell every `nrl_event`. One that raises is told once, as a warning, and costs the run nothing."""
        for owner, error in self.hook.observe("nrl_event", {"event": event}):
            if owner.label not in self._observers_warned:
                self._observers_warned.add(owner.label)
                self._warn(f'plugin "{owner.label}" failed in nrl_event: {type(error).__name__}: {error}')

    def explain(self, error: NrlError) -> str:
        """A hint for an error that has none, from the first plugin with an answer; a plugin that raises has none."""
        try:
            answer = self.hook.nrl_explain_error(error=error)
        except NrlError:
            return ""
        return answer if isinstance(answer, str) else ""

    @property
    def infos(self) -> tuple[PluginInfo, ...]:
        """Every plugin found, loaded or broken; providers are collected to be listed."""
        names: dict[Candidate, list[str]] = {}
        broken = dict(self._broken)
        for kind in KINDS:
            for owner in self._loaded:
                try:
                    for _, item in self.hook.items(f"nrl_{kind}", {}, only=owner):
                        names.setdefault(owner, []).append(f"{kind}:{self._checked(kind, owner, item).name}")
                except PluginError as error:
                    broken.setdefault(owner, error.message)
        found = sorted([*self._loaded, *self._broken], key=_order)
        return tuple(
            PluginInfo(
                c.name, c.version, c.source, tuple(self.hook.of(c)), tuple(sorted(names.get(c, ()))), broken.get(c)
            )
            for c in found
        )

    def _checked(self, kind: str, owner: Candidate, item: object) -> Provider:
        from . import api

        class_name, word = KINDS[kind]
        base = getattr(api, class_name)
        if not isinstance(item, base):
            raise PluginError(
                f'plugin "{owner.label}": nrl_{kind} yielded {_show(item)}, not a {class_name}',
                f"a {word} is an instance of a subclass of kubectl_nrl.api.{class_name}",
            )
        provider: Provider = item
        if not isinstance(provider.name, str) or not provider.name:
            raise PluginError(f'plugin "{owner.label}": nrl_{kind} yielded {_show(item)} without a name',
                              'set `name = "..."` in the class')  # fmt: skip
        return provider

    def _load(self, candidate: Candidate) -> None:
        try:
            self.hook.register(candidate)
        except (Exception, SystemExit) as error:
            # A plugin's code may fail in any way, sys.exit() included; what it had registered is gone already.
            reason = error.message if isinstance(error, NrlError) else f"{type(error).__name__}: {error}"
            line = f'plugin "{candidate.label}" is broken and not loaded: {" ".join(reason.split())}'
            if self._strict:
                raise PluginError(line, f"-p no:{candidate.name} runs without it") from error
            self._broken[candidate] = reason
            self._warn(line)
        else:
            self._loaded.append(candidate)


def _pattern(owner: Candidate, item: object) -> FailurePattern:
    """What a plugin yielded as a known failure. Raises `PluginError` for what is none, or could not be searched for."""
    import re

    from .api import FailurePattern

    if not isinstance(item, FailurePattern):
        raise PluginError(f'plugin "{owner.label}": nrl_failure_patterns yielded {_show(item)}, not a FailurePattern')
    try:
        re.compile(item.match)
    except (re.error, TypeError) as error:
        raise PluginError(
            f'plugin "{owner.label}": failure pattern "{item.id}": match is no regular expression: {error}'
        ) from error
    return item


def _order(candidate: Candidate) -> tuple[int, str, str]:
    """Built-ins first, then by name: neither sys.path nor the order of flags decides anything."""
    kinds = ("builtin", "entry point", "module", "file")
    return kinds.index(candidate.origin), candidate.name, candidate.target


def _show(item: object) -> str:
    """An object as an error shows it: its type, and its value when that is short."""
    text = repr(item)
    return f"{type(item).__name__} {text}" if len(text) <= 60 else type(item).__name__
