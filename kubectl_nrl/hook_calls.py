"""Register plugins with pluggy and call their hooks one implementation at a time.

pluggy validates and orders; the calling is ours (see manager.py). So wrappers around hooks are refused: nothing
would call them.
"""

from __future__ import annotations

import importlib
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pluggy

from . import PROJECT, hookspecs
from .errors import ConfigError, NrlError, PluginError
from .parser import did_you_mean
from .plugin_scan import Candidate


class Hooks:
    """The hook relay: `hooks.nrl_plan_built(plan=plan)` gives the list of answers, a firstresult hook its first one."""

    def __init__(self, trace: Callable[[str], None] | None = None) -> None:
        self._pluggy = pluggy.PluginManager(PROJECT)
        self._pluggy.add_hookspecs(hookspecs)
        self._names = [name for name in vars(hookspecs) if name.startswith("nrl_")]
        self._owners: dict[str, Candidate] = {}
        self._trace = trace

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or name not in self._names:
            raise AttributeError(name)

        def call(**arguments: Any) -> Any:
            spec = getattr(self._pluggy.hook, name).spec
            answers = (answer for _, answer in self._answers(name, arguments))
            if spec.opts.get("firstresult"):
                return next(answers, None)
            return list(answers)

        return call

    def items(
        self, name: str, arguments: Mapping[str, Any], only: Candidate | None = None
    ) -> list[tuple[Candidate, Any]]:
        """What a plural hook yields, each with its plugin. Raises `PluginError` for an answer that is no iterable."""
        found: list[tuple[Candidate, Any]] = []
        for owner, answer in self._answers(name, arguments, only):
            if isinstance(answer, str) or not hasattr(answer, "__iter__"):
                raise PluginError(f'plugin "{owner.label}": {name} returned {type(answer).__name__}, not an iterable')
            found += [(owner, item) for item in answer]
        return found

    def observe(self, name: str, arguments: Mapping[str, Any]) -> list[tuple[Candidate, Exception]]:
        """Call every implementation whatever the others do; the ones that raised, with what."""
        failed: list[tuple[Candidate, Exception]] = []
        for implementation in self._calling(name):
            owner = self._owners[implementation.plugin_name]
            try:
                self._run(name, owner, implementation, arguments)
            except Exception as error:
                failed.append((owner, error.__cause__ if isinstance(error.__cause__, Exception) else error))
        return failed

    def of(self, candidate: Candidate) -> list[str]:
        """The hooks that a loaded plugin implements, by name."""
        return sorted(
            name
            for name in self._names
            for i in self._implementations(name)
            if self._owners[i.plugin_name] == candidate
        )

    def register(self, candidate: Candidate) -> None:
        """Import a plugin and register it whole, or raise and leave nothing of it behind."""
        name = candidate.label
        if name in self._owners:
            raise PluginError(f'a plugin "{name}" is loaded already')
        plugin = _import(candidate)
        self._owners[name] = candidate
        try:
            if self._pluggy.register(plugin, name) is None:
                raise PluginError(f'the name "{name}" is blocked')
            self._examine(plugin)
        except BaseException as error:
            if self._pluggy.get_plugin(name) is not None:
                self._pluggy.unregister(name=name)
            del self._owners[name]
            if isinstance(error, pluggy.PluginValidationError):
                raise PluginError(_first_line_of(error)) from error
            raise

    def check_pending(self) -> None:
        """pluggy's own last look: no implementation is left without a hook."""
        self._pluggy.check_pending()

    def _examine(self, plugin: object) -> None:
        """Refuse what pluggy lets through: unknown hooks, arguments with defaults, wrappers, a plugin without hooks."""
        callers = self._pluggy.get_hookcallers(plugin) or []
        for caller in callers:
            if not caller.has_spec():
                raise PluginError(f'no hook "{caller.name}"{did_you_mean(caller.name, self._names)}')
            for implementation in caller.get_hookimpls():
                if implementation.plugin is not plugin:
                    continue
                if implementation.hookwrapper or implementation.wrapper:
                    raise PluginError(f"{caller.name} is a hook wrapper, and hooks here have none")
                for parameter in inspect.signature(implementation.function).parameters.values():
                    if parameter.default is not parameter.empty:
                        raise PluginError(
                            f'{caller.name}: argument "{parameter.name}" has a default, '
                            "which pluggy would pass instead of the value"
                        )
        if not callers:
            unmarked = [name for name in dir(plugin) if name in self._names]
            missing = f"{unmarked[0]} lacks @hookimpl" if unmarked else "it implements no hook"
            raise PluginError(f"{missing} (from kubectl_nrl import hookimpl)")

    def _implementations(self, name: str) -> list[Any]:
        """In calling order. pluggy calls the last registered first; here the first registered is called first."""
        implementations = getattr(self._pluggy.hook, name).get_hookimpls()
        rank = {True: 0, False: 1}
        return sorted(implementations, key=lambda i: 2 if i.trylast else rank[bool(i.tryfirst)])

    def _calling(self, name: str) -> list[Any]:
        implementations = self._implementations(name)
        if self._trace:
            self._trace(f"{name}: {len(implementations)} implementation{'' if len(implementations) == 1 else 's'}")
        return implementations

    def _answers(
        self, name: str, arguments: Mapping[str, Any], only: Candidate | None = None
    ) -> Iterator[tuple[Candidate, Any]]:
        for implementation in self._calling(name):
            owner = self._owners[implementation.plugin_name]
            if only is None or owner == only:
                answer = self._run(name, owner, implementation, arguments)
                if answer is not None:
                    yield owner, answer

    def _run(self, name: str, owner: Candidate, implementation: Any, arguments: Mapping[str, Any]) -> Any:
        """One implementation, its generator consumed, its exception turned into one that names the plugin."""
        started = time.perf_counter()
        try:
            answer = implementation.function(*[arguments[a] for a in implementation.argnames])
            return list(answer) if isinstance(answer, Iterator) else answer
        except ConfigError:
            raise
        except NrlError as error:
            message = f'plugin "{owner.label}": {error.message}'
            raise PluginError(message, error.hint, exit_code=error.exit_code) from error
        except Exception as error:
            raise PluginError(
                f'plugin "{owner.label}" failed in {name}: {type(error).__name__}: {error}',
                f"-p no:{owner.name} runs without it; --strict-plugins shows the traceback",
            ) from error
        finally:
            if self._trace:
                self._trace(f"  {owner.label}: {(time.perf_counter() - started) * 1000:.1f} ms")


def _import(candidate: Candidate) -> object:
    if candidate.origin == "file":
        return _import_file(candidate)
    module_name, _, attribute = candidate.target.partition(":")
    plugin: object = importlib.import_module(module_name)
    for part in filter(None, attribute.split(".")):
        plugin = getattr(plugin, part)
    return plugin


def _import_file(candidate: Candidate) -> object:
    import os
    import sys
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.abspath(candidate.target)
    name = f"kubectl_nrl_plugin_{candidate.name}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f'"{candidate.target}" is not a Python file')
    module = module_from_spec(spec)
    # Dataclasses and pickling look a class's module up by name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _first_line_of(error: Exception) -> str:
    """pluggy's validation errors run over several lines; what is wrong stands in the lines that are no headings."""
    return " ".join(str(error).split())
