"""The table of verbs and the parsers made from it.

The built-in verbs stand in a static table, so that `--help` imports no command; plugins' verbs are looked for only
when there is a plugin that is not built in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from ..errors import NrlError, PluginError
from ..parser import PROG, Parser, add_globals
from .session import Session

if TYPE_CHECKING:
    from types import ModuleType


@dataclass(frozen=True)
class Verb:
    """A row of the table. The module has `add_arguments(parser)`, `handle(args, session)` and, if it likes, `EXAMPLES`.

    `plugin` is the label of the plugin that brought it; a hidden verb is an alias that the help leaves out.
    """

    name: str
    summary: str
    module: str
    plugin: str = ""
    hidden: bool = False


VERBS: Mapping[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb("init", "write a short infra file and a tiny recipe", "kubectl_nrl.commands.init"),
        Verb("check", "everything that can be known of a run before it, on one screen", "kubectl_nrl.commands.check"),
        Verb("run", "launch a recipe and follow it to its end", "kubectl_nrl.commands.run"),
        Verb("job", "list jobs, show a log, stop a run", "kubectl_nrl.commands.job"),
        Verb("logs", "what a run, its daemons or its pods said", "kubectl_nrl.commands.logs"),
        Verb(
            "status",
            "what runs, what it waits for and what it holds, here and on the cluster",
            "kubectl_nrl.commands.status",
        ),
        Verb(
            "cluster",
            "list Ray clusters, bring long-lived ones up and down, open Ray's dashboard",
            "kubectl_nrl.commands.cluster",
        ),
        Verb(
            "clean", "remove what my runs left behind, on a cluster and on this machine", "kubectl_nrl.commands.clean"
        ),
        Verb("runs", "my runs in this namespace and on this machine, running and past", "kubectl_nrl.commands.runs"),
        Verb(
            "verify",
            "whether a run ended as it should: objects, job, log, wandb page, teardown",
            "kubectl_nrl.commands.verify",
        ),
        Verb("plugins", "what is loaded, from where, what it provides, what is broken", "kubectl_nrl.commands.plugins"),
        Verb(
            "doctor",
            "what is wrong with this machine and this cluster, each with its fix",
            "kubectl_nrl.commands.doctor",
        ),
        Verb("completion", "print the completion script of a shell", "kubectl_nrl.commands.completion"),
        Verb("version", "print the version", "kubectl_nrl.commands.version"),
        Verb("validate", "another word for check", "kubectl_nrl.commands.check", hidden=True),
    )
}

_NOTE = """\
kubectl passes no flag written before "nrl" to a plugin:
write `kubectl nrl -n rl run ...`, not `kubectl -n rl nrl run ...`.
`kubectl nrl VERB --help` shows a verb's flags and examples."""


def top_parser(verbs: Mapping[str, Verb]) -> Parser:
    """The parser of the words before the verb; its help lists the verbs."""
    width = max(len(name) for name in verbs)
    lines = [
        f"  {verb.name:<{width}}  {verb.summary}{f'  [{verb.plugin}]' if verb.plugin else ''}"
        for verb in verbs.values()
        if not verb.hidden
    ]
    parser = Parser(PROG, usage=f"{PROG} [FLAGS] VERB ...")
    parser.description = "Launch NeMo-RL recipes on Kubernetes.\n\nverbs:\n" + "\n".join(lines)
    parser.epilog = _NOTE
    add_globals(parser, default=None)
    parser.add_argument("--version", action="store_true", help="print the version")
    return parser


def verb_parser(verb: Verb) -> tuple[Parser, ModuleType]:
    """A verb's own parser, and its module. Raises `PluginError` when a plugin's module is none that a verb can use."""
    parser = Parser(f"{PROG} {verb.name}", verb.summary)
    try:
        module = import_module(verb.module)
        parser.show_examples(getattr(module, "EXAMPLES", ""))
        module.add_arguments(parser)
        if not callable(getattr(module, "handle", None)):
            raise TypeError("it has no handle")
    except Exception as error:
        if not verb.plugin or isinstance(error, NrlError):
            raise
        raise PluginError(
            f'plugin "{verb.plugin}": its verb "{verb.name}" cannot be used: {type(error).__name__}: {error}',
            f"{verb.module} needs add_arguments(parser) and handle(args, session)",
        ) from error
    add_globals(parser)
    return parser, module


def all_verbs(session: Session) -> dict[str, Verb]:
    """Built-in verbs and those of plugins. What is wrong with the latter is a line on stderr, an error when plugins are
    held to be strict."""
    from ..plugin_scan import external

    verbs = dict(VERBS)
    if not session.manager_loaded and not external(session.plugins, session.env):
        return verbs
    try:
        for name, (summary, module, plugin) in session.manager.commands().items():
            if name in VERBS:
                raise PluginError(f'plugin "{plugin}" brings the verb "{name}", which is built in')
            verbs[name] = Verb(name, summary, module, plugin)
    except PluginError as error:
        if session.strict_plugins:
            raise
        session.output.warn(error.message)
    return verbs
