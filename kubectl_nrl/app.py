"""The program: the way from argv to a handler, and from an error to an exit code.

The words before the verb and the words after it are parsed by two parsers into one namespace (parser.py says why);
an error is caught here and nowhere else.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NoReturn

from .commands.session import Session, now, random_suffix
from .commands.verbs import VERBS, Verb, all_verbs, top_parser, verb_parser
from .endings import Endings
from .errors import ExitCode, NrlError, PluginError, UsageError
from .output import Output
from .parser import FORMATS, PROG, did_you_mean, split_verb
from .streams import silence

#: A full or read-only disk, a quota, too many open files.
_EXHAUSTED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE)


def entry() -> NoReturn:
    """The console script. A reader that went away (`| head -1`) is no error; SIGTERM and SIGHUP end it as Ctrl-C does."""
    # A stream that was closed before the start (`>&-`) is None: there is nobody to tell.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    endings, code = Endings.listen(), int(ExitCode.FAILED)
    try:
        code = endings.exit_code(main(sys.argv[1:]))
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)  # or the interpreter's own flush at exit would complain
        code = 128 + 13
    except OSError:
        # What stdout leads to has no room: `main` has said so, and what is left in the buffer goes nowhere.
        silence(sys.stdout)
        code = code or int(ExitCode.FAILED)
    sys.exit(code)


def main(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    clock: Callable[[], datetime] | None = None,
    suffix: Callable[[], str] | None = None,
) -> int:
    """Run one command line and return its exit code. Raises nothing but `BrokenPipeError`.

    `env` stands for the process's environment in everything the program decides by it; `clock` and `suffix` give a run
    its time and the end of its id.
    """
    env = os.environ if env is None else env
    session = Session(Output(_format(argv), env=env), env=env, clock=clock or now, suffix=suffix or random_suffix)
    session.argv = tuple(argv)
    try:
        return int(_dispatch(list(argv), session))
    except NrlError as error:
        _explain(error, session)
        session.output.failure(error)
        if isinstance(error, PluginError) and session.strict_plugins:
            _print_traceback(error, session.output)
        return int(error.exit_code)
    except SystemExit as end:
        # argparse ends `--help` so.
        return end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        raise
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            # Python before 3.12 makes a RuntimeError of a Ctrl-C that falls into the making of a class.
            return int(ExitCode.INTERRUPTED)
        return _machine_fault(error, session) or _bug(error, argv, session)


def _dispatch(argv: list[str], session: Session) -> int:
    top = top_parser(VERBS)
    before, name, rest = split_verb(argv, top)
    wants_help = name is None or any(word in ("-h", "--help") for word in before)
    if wants_help:
        before = [word for word in before if word not in ("-h", "--help")]
    args = argparse.Namespace()
    top.parse_words(before, args)
    if name is None and args.version:
        name, wants_help = "version", False
    if name is None or (wants_help and name == "help"):
        return _help(args, session)
    if name == "help":
        name, rest = (rest[0], ["--help"]) if rest else (None, [])
        if name is None:
            return _help(args, session)
    elif wants_help:
        rest = [*rest, "--help"]
    _apply(args, session, later=() if name in VERBS else _plugin_words(rest))
    verb = _find(name, session)
    parser, module = verb_parser(verb)
    session.verb_plugin = verb.plugin
    parser.parse_words(rest, args)
    if args.output not in FORMATS and not getattr(module, "WRITES_FILES", False):
        raise UsageError(f'-o "{args.output}" is no format', f"one of: {', '.join(FORMATS)}; only check writes a file")
    _apply(args, session)
    session.output.format = args.output if args.output in FORMATS else "text"
    return int(module.handle(args, session))


def _format(argv: Sequence[str]) -> str:
    """The form asked for, told before anything is parsed: a command line that is wrong ends in that form too."""
    for word, following in zip(argv, [*argv[1:], ""], strict=False):
        flag, _, value = word.partition("=")
        if flag in ("-o", "--output") and (value or following) in FORMATS:
            return value or following
        if word.startswith("-o") and word[2:] in FORMATS:
            return word[2:]
    return "text"


def _plugin_words(rest: Sequence[str]) -> list[str]:
    """The values of -p in words that no parser has seen yet."""
    found = []
    for word, following in zip(rest, [*rest[1:], ""], strict=False):
        if word == "--":
            break
        flag, sign, value = word.partition("=")
        if flag in ("-p", "--plugin"):
            found.append(value if sign else following)
        elif word.startswith("-p"):
            found.append(word[2:])
    return found


def _find(name: str, session: Session) -> Verb:
    verb = VERBS.get(name)
    if verb is not None:
        return verb
    verbs = all_verbs(session)
    if name in verbs:
        return verbs[name]
    visible = [v.name for v in verbs.values() if not v.hidden]
    raise UsageError(f'no verb "{name}"{did_you_mean(name, visible)}', f"{PROG} --help")


def _help(args: argparse.Namespace, session: Session) -> int:
    _apply(args, session)
    session.output.line(top_parser(all_verbs(session)).format_help())
    return ExitCode.OK


def _apply(args: argparse.Namespace, session: Session, later: Sequence[str] = ()) -> None:
    """Hand the global flags to the session; `later` are plugins named after a verb that one of them may bring."""
    from .plugin_scan import check_files

    session.output.configure(verbose=args.verbose, quiet=args.quiet, color=False if args.no_color else None)
    session.namespace, session.context, session.kubeconfig = args.namespace, args.context, args.kubeconfig
    plugins = [*args.plugins, *later]
    if plugins != list(session.plugins):
        check_files(plugins)
        session.use_plugins(plugins)
    session.strict_plugins = args.strict_plugins
    if session.context or session.kubeconfig or session.namespace or plugins:
        session.output.complete_by(session.given.complete)


def _explain(error: NrlError, session: Session) -> None:
    """Ask plugins for a hint where there is none; nothing that goes wrong here may hide the error."""
    if error.hint:
        return
    from .plugin_scan import external

    try:
        if session.manager_loaded or external(session.plugins, session.env):
            error.hint = session.manager.explain(error)
    except NrlError:
        return


def _machine_fault(error: Exception, session: Session) -> int:
    """Say that the disk, or a limit, of this machine is what failed, which is no bug; 0 when it is not."""
    if not isinstance(error, OSError):
        return 0
    if error.errno not in _EXHAUSTED and not (isinstance(error, PermissionError) and error.filename):
        return 0
    where = f"{error.filename}: " if error.filename else ""
    session.output.failure(NrlError(f"{where}{error.strerror}", exit_code=ExitCode.CLUSTER))
    return int(ExitCode.CLUSTER)


def _bug(error: BaseException, argv: Sequence[str], session: Session) -> int:
    """An unexpected exception: its traceback goes into a file that only this user can read."""
    import platform
    import tempfile
    import traceback

    from . import __version__
    from .redaction import redact, secrets_of

    # The arguments are left out: an override may hold what nobody should mail around.
    text = f"kubectl-nrl {__version__}, Python {platform.python_version()}, verb {argv[0] if argv else '-'}\n"
    text += "".join(traceback.format_exception(type(error), error, error.__traceback__))
    place = ""
    try:
        handle, place = tempfile.mkstemp(prefix="kubectl-nrl-", suffix=".traceback.txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(redact(text, secrets_of(session.env)))
    except OSError:
        place = ""
    whose = f' of plugin "{session.verb_plugin}"' if session.verb_plugin else ""
    where = f"please report it with {place}" if place else "its traceback could not be written"
    bug = NrlError(f"unexpected {type(error).__name__}: {error}; this is a bug{whose}, {where}", exit_code=ExitCode.BUG)
    session.output.failure(bug)
    return int(ExitCode.BUG)


def _print_traceback(error: PluginError, output: Output) -> None:
    import traceback

    cause = error.__cause__
    if cause is not None:
        output.plain("".join(traceback.format_exception(type(cause), cause, cause.__traceback__)).rstrip())
