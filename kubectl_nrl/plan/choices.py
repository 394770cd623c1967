"""Which life cycle, namespace and providers a Plan uses: structure, settled before anything is built.

Precedence is the same everywhere: a flag, then `--mode` on the command line, then the infra file's own keys, then its runMode macro.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ..api import CodeSource, Context, DraDriver, Kind, Profile, Provider, Scheduler, Submitter
from ..config import Config
from ..errors import Problem
from .model import Options
from .written import origin

if TYPE_CHECKING:
    from ..manager import Manager

ROLES = ("training", "generation", "gym")
#: What the macro `runMode` / `--mode` stands for: (submitter, code source, wait).
MACROS = {"interactive": ("portForward", "upload", True), "batch": ("exec", "image", False)}
#: Without a code source nothing is staged: the image's own working directory and code.
NO_CODE = "none"


class CodeHere(CodeSource):
    """The checkout on this machine: nothing is sent, the entrypoint runs in `--repo-root`."""

    name = "here"

    def __init__(self, directory: str | None) -> None:
        self._directory = directory

    def working_dir(self, ctx: Context) -> str | None:
        return self._directory


def is_local(config: Config, options: Options) -> bool:
    """Whether a run is for this machine: by --local, or by `profile: local`."""
    return options.local or config.infra.get("profile") == "local"


@dataclass(frozen=True)
class Choices:
    """The chosen providers, by kind, and the life cycle."""

    kind: Kind
    namespace: str
    namespace_from: str
    roles: tuple[str, ...]
    attached: Mapping[str, str]
    profile: Profile
    scheduler: Scheduler
    dra: tuple[DraDriver, ...]
    code: CodeSource
    submitter: Submitter
    submission_mode: str
    wait: bool
    notes: tuple[Problem, ...] = ()

    @property
    def has_profile(self) -> bool:
        return bool(self.profile.data)

    def providers(self) -> list[Provider]:
        """The providers of the middle rank, in an order that depends on names only."""
        return [self.scheduler, *self.dra, self.code, self.submitter]


def choose(config: Config, options: Options, profile: Profile, manager: Manager) -> Choices:
    """Settle everything that patches cannot; raises ConfigError for an unknown name."""
    infra = config.infra
    kuberay = _mapping(infra.get("kuberay"))
    roles, attached = _roles(infra)
    kind, notes = _kind(config, options, roles, attached)
    namespace, source = _namespace(infra, options)
    submitter, code, wait = _launching(kind, infra, options)
    return Choices(
        kind, namespace, source, roles, attached, profile,
        scheduler=_scheduler(config, kuberay, manager),
        dra=_dra(config, profile, kuberay, manager),
        code=CodeHere(options.repo_root) if kind == "local" else _code_source(config, code, manager),
        submitter=cast(Submitter, manager.choose("submitters", submitter, origin=origin(config, "submit", "submitter"))),
        submission_mode=_submission_mode(kind, infra, code),
        wait=wait, notes=tuple(notes),
    )  # fmt: skip


def code_on_pods(config: Config, options: Options) -> bool:
    """Whether a run's code is in the image or on shared storage, so that it may differ from a checkout on this machine."""
    kind, _ = _kind(config, options, *_roles(config.infra))
    return kind != "local" and _launching(kind, config.infra, options)[1] not in (NO_CODE, "upload")


def _roles(infra: Mapping[str, Any]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The roles that get a cluster, in their order, and the names of the clusters that others attach to."""
    kuberay = _mapping(infra.get("kuberay"))
    named = _mapping(_mapping(infra.get("launch")).get("attach"))
    attached = {r: str(n) for r, n in named.items() if n and r not in kuberay}
    roles = tuple(r for r in ROLES if r in kuberay) + tuple(r for r in kuberay if r not in ROLES)
    if "training" not in attached and "training" not in roles:
        roles = ("training", *roles)
    return roles, attached


def _kind(
    config: Config, options: Options, roles: tuple[str, ...], attached: Mapping[str, str]
) -> tuple[Kind, list[Problem]]:
    several = len(roles) + len(attached) > 1
    if is_local(config, options):
        return "local", []
    if options.mode == "raycluster":
        return "RayCluster", []
    if options.mode == "rayjob":
        if several or attached:
            names = ", ".join((*roles, *attached))
            return "RayJob", [
                Problem(f"--rayjob runs one role, this infra has several: {names}", hint="use --raycluster")
            ]
        return "RayJob", []
    if several or attached:
        why = f"attaches to {', '.join(attached)}" if attached else f"declares {len(roles)} roles ({', '.join(roles)})"
        return "RayCluster", [Problem(f"this infra {why}, so the run is long-lived (--raycluster)", severity="note")]
    return "RayJob", []


def _namespace(infra: Mapping[str, Any], options: Options) -> tuple[str, str]:
    for value, source in (
        (options.namespace, "flag"),
        (infra.get("namespace"), "infra"),
        (options.context_namespace, "context"),
    ):
        if value:
            return str(value), source
    return "default", "default"


def _launching(kind: Kind, infra: Mapping[str, Any], options: Options) -> tuple[str, str, bool]:
    launch, submit = _mapping(infra.get("launch")), _mapping(infra.get("submit"))
    flag_macro = MACROS.get(options.run_mode or "", (None, None, None))
    if kind != "RayCluster":
        code = options.code_source or flag_macro[1] or launch.get("codeSource") or NO_CODE
        wait = options.wait if options.wait is not None else options.run_mode != "batch"
        return ("rayjob" if kind == "RayJob" else "local"), str(code), wait
    file_macro = MACROS.get(str(launch.get("runMode", "interactive")), MACROS["interactive"])
    submitter = options.submitter or flag_macro[0] or submit.get("submitter") or file_macro[0]
    code = options.code_source or flag_macro[1] or launch.get("codeSource") or file_macro[1]
    wait = next(w for w in (options.wait, flag_macro[2], file_macro[2]) if w is not None)
    return str(submitter), str(code), wait


def _submission_mode(kind: Kind, infra: Mapping[str, Any], code: str) -> str:
    if kind != "RayJob":
        return ""
    if code == "upload":
        return "InteractiveMode"
    return str(_mapping(infra.get("submit")).get("submissionMode") or "HTTPMode")


def _scheduler(config: Config, kuberay: Mapping[str, Any], manager: Manager) -> Scheduler:
    kind = _mapping(config.infra.get("scheduler")).get("kind")
    if kind is None:
        named = {str(spec.get("schedulerName")) for spec in pod_specs(kuberay) if spec.get("schedulerName")}
        for name, scheduler in manager.providers("schedulers").items():
            if named & set(getattr(scheduler, "scheduler_names", ())):
                kind = name
    return cast(
        Scheduler, manager.choose("schedulers", str(kind or "default"), origin=origin(config, "scheduler", "kind"))
    )


def _code_source(config: Config, name: str, manager: Manager) -> CodeSource:
    if name == NO_CODE:
        return CodeSource()
    return cast(CodeSource, manager.choose("code_sources", name, origin=origin(config, "launch", "codeSource")))


def _dra(config: Config, profile: Profile, kuberay: Mapping[str, Any], manager: Manager) -> tuple[DraDriver, ...]:
    """Drivers that `dra` or the profile names; and, unless `dra` is written, those whose claim a hand-written spec holds."""
    written = config.infra.get("dra")
    names = [str(n) for n in (written if written is not None else profile.get("dra", []))]
    if written is None:
        claims = {c.get("name") for spec in pod_specs(kuberay) for c in _list(spec.get("resourceClaims"))}
        for name, driver in manager.providers("dra_drivers").items():
            if getattr(driver, "claim_name", "") in claims and name not in names:
                names.append(name)
    where = origin(config, "dra")
    return tuple(cast(DraDriver, manager.choose("dra_drivers", name, origin=where)) for name in sorted(set(names)))


def pod_specs(kuberay: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The pod specs that a person wrote, of every role: heads and worker groups."""
    found = []
    for role in kuberay.values():
        spec = _mapping(_mapping(role).get("spec"))
        for group in (spec.get("headGroupSpec"), *_list(spec.get("workerGroupSpecs"))):
            pod = _mapping(_mapping(_mapping(group).get("template")).get("spec"))
            if pod:
                found.append(pod)
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []
