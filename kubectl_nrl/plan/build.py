"""Config to Plan: choices, base, patches by rank, policies, checks of what was rendered; every problem found, in one error."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..api import ClusterFacts, Context, Profile, Provider, Resource, RunInfo, Target
from ..api import Patch as ApiPatch
from ..config import Config
from ..errors import ConfigError, NrlError, PluginError, Problem
from ..manifests.merge import Layered
from . import arithmetic, assemble, core_patches, here, judge, lifetime
from .choices import Choices, choose
from .daemons import deployment_checks, plan_daemons
from .drafts import Drafts
from .launching import entrypoint_text, interactive_problems, launch_config_map, log_warning, plan_launch
from .model import Launch, Lifetime, Options, Plan, PlannedObject, RolePlan
from .patching import apply_forced, apply_providers, call, conflicts, drop_unmounted
from .profiles import choose_profile
from .ranks import Rank
from .roles import Sizes, add_user_spec, draft_role, gpus_of
from .summary import role_plans
from .written import as_planned, author

if TYPE_CHECKING:
    from ..manager import Manager


def build(config: Config, run: RunInfo, facts: ClusterFacts, options: Options, providers: Manager) -> Plan:
    """The Plan for this config, run and cluster; raises ConfigError with every problem when one of them is an error."""
    problems: list[Problem] = [*config.problems, *lifetime.option_problems(options)]
    try:
        planner = Planner(config, run, facts, options, providers, problems)
        plan = planner.plan()
    except ConfigError as error:
        raise ConfigError(_unique([*problems, *_news(problems, error.problems)])) from None
    except PluginError:
        raise
    except NrlError as error:
        raise ConfigError(_unique([*problems, Problem(error.message, hint=error.hint)])) from error
    except Exception:
        # values of a wrong shape that were reported already may break what reads them afterwards
        if not any(p.severity == "error" for p in problems):
            raise
        raise ConfigError(_unique(problems)) from None
    if any(p.severity == "error" for p in plan.problems):
        raise ConfigError(plan.problems)
    return plan


def every_problem(unsound: ConfigError, config: Config, options: Options, providers: Manager) -> ConfigError:
    """What is wrong with a configuration that cannot be planned: its own problems, and those of its infra file's shape."""
    shape = judge.written(as_planned(config, options), providers)
    lines = {(p.origin.file, p.origin.line) for p in unsound.problems if p.origin}
    return ConfigError(
        [*unsound.problems, *(p for p in shape if not p.origin or (p.origin.file, p.origin.line) not in lines)]
    )


@dataclass
class Planner:
    """The state of one planning; `problems` is shared with the caller, who reports them whatever happens."""

    config: Config
    run: RunInfo
    facts: ClusterFacts
    options: Options
    manager: Manager
    problems: list[Problem]
    ctx: Context = field(init=False)
    choices: Choices = field(init=False)
    drafts: Drafts = field(init=False, default_factory=Drafts)

    def plan(self) -> Plan:
        self.problems += judge.written(as_planned(self.config, self.options), self.manager)
        profile = choose_profile(self.config, self.manager, self.problems)
        if profile.data:
            self.config = self.config.with_infra_defaults(profile.get("defaults", {}), f"profile {profile.name}")
        self.config = as_planned(self.config, self.options)
        self.problems += self.manager.problems("nrl_config_loaded", config=self.config)
        self.choices = choose(self.config, self.options, profile, self.manager)
        self.problems += self.choices.notes
        sizes = Sizes.read(self.config, self.problems)
        self._draft(sizes)
        self.ctx = self._context(profile)
        text = entrypoint_text(self.config, self.problems)
        launch = plan_launch(self.ctx, self.choices, text, self.problems, self.options.checkout)
        self._refusals()
        daemons = plan_daemons(self.ctx, self.choices, self.problems)
        extra = self._patch(launch)
        self._judge_roles(sizes)
        plan = replace(self._assembled(launch, extra), daemons=daemons)
        return replace(plan, problems=(*plan.problems, *self.manager.problems("nrl_plan_built", plan=plan)))

    def _judge_roles(self, sizes: Sizes) -> None:
        if self.choices.kind == "local":
            self.problems += here.problems(self.config, self.options, self.choices)
            return
        for role in self.ctx.roles.values():
            self.problems += arithmetic.check(role, self.config, self.choices, sizes)
        self.problems += judge.names(self.ctx, self.options)

    def active(self) -> list[tuple[str, int, Provider]]:
        """The providers of this Plan with their label and rank."""
        found: list[tuple[str, int, Provider]] = []
        if self.choices.has_profile:
            found.append((f"profile:{self.choices.profile.name}", Rank.PROFILE, self.choices.profile))
        for kind, provider in (
            ("scheduler", self.choices.scheduler),
            ("code", self.choices.code),
            ("submitter", self.choices.submitter),
        ):
            found.append((f"{kind}:{provider.name}", Rank.PROVIDER, provider))
        found += [(f"dra:{driver.name}", Rank.PROVIDER, driver) for driver in self.choices.dra]
        for name, section in self.manager.providers("sections").items():
            if section.active(self.ctx):
                found.append((name, Rank.SECTION, section))
        return found

    def policies(self) -> list[tuple[str, int, Provider]]:
        off = {name for name, value in (self.ctx.get("policies") or {}).items() if value is False}
        return [
            (f"policy:{name}", Rank.POLICY, policy)
            for name, policy in self.manager.providers("policies").items()
            if name not in off and policy.active(self.ctx)
        ]

    def _draft(self, sizes: Sizes) -> None:
        if self.choices.kind == "local":
            return
        for role in self.choices.roles:
            draft = draft_role(role, self.config, self.choices, self.options, self.run, sizes, self.problems)
            self.drafts.roles[role] = draft
        for name, section in (self.config.infra.get("deployments") or {}).items():
            layered = Layered()
            base = {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": str(section.get("name") or name)},
            }
            layered.merge(base, Rank.BUILTIN, "built-in")
            labels = {"app": str(section.get("name") or name)}
            selector = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}
            layered.merge(
                {"spec": {} if (section.get("spec") or {}).get("selector") else selector}, Rank.BUILTIN, "built-in"
            )
            self.drafts.deployments[name] = layered

    def _context(self, profile: Profile) -> Context:
        base = {}
        for name, draft in self.drafts.roles.items():
            whole = copy.deepcopy(draft)
            add_user_spec(whole, self.config)
            base[name] = frozen({"spec": assemble.cluster_spec(whole, splits=False)[0]})
        roles = {name: draft.role for name, draft in self.drafts.roles.items()}
        if self.choices.kind == "local":
            roles = here.roles(self.config, self.choices, self.run)
        return Context(
            config=self.config, kind=self.choices.kind, run=self.run, facts=self.facts, namespace=self.choices.namespace,
            profile=profile, roles=MappingProxyType(roles), base=MappingProxyType(base),
        )  # fmt: skip

    def _refusals(self) -> None:
        refusal = self.choices.submitter.refuses(self.choices.code, self.ctx)
        if refusal:
            self.problems.append(Problem(refusal))
        mode, scheduler = self.choices.submission_mode, self.choices.scheduler
        if mode and mode not in scheduler.traits.submission_modes:
            where = self.config.infra_origins.get("submit.submissionMode")
            usable = ", ".join(scheduler.traits.submission_modes)
            self.problems.append(
                Problem(f"{mode} does not work under scheduler {scheduler.name}", where, hint=f"use one of {usable}")
            )
        self.problems += interactive_problems(self.ctx, mode)
        if self.choices.kind == "RayJob" and self.options.submitter is not None:
            said = f"--submitter {self.options.submitter} has no meaning for a RayJob, which KubeRay submits"
            self.problems.append(Problem(said, hint="add --raycluster for a long-lived cluster"))

    def _patch(self, launch: Launch) -> list[Resource]:
        """Merge every layer up to the forced rank; the answer is the objects that providers bring."""
        extra: list[Resource] = []
        if self.choices.kind == "local":
            return extra
        active = self.active()
        for _, _, provider in active:
            self.problems += call(self.manager, provider, "problems", self.ctx)
            extra += judge.resources(self.manager, provider, call(self.manager, provider, "resources", self.ctx))
        forced = apply_providers(self.drafts, active, self.ctx, self.manager, self.problems)
        core_patches.common(self.drafts, self.ctx)
        for draft in self.drafts.roles.values():
            add_user_spec(draft, self.config)
            section = (self.config.infra.get("kuberay") or {}).get(draft.role.name) or {}
            core_patches.metadata(draft.workload, self.ctx, section, f"kuberay.{draft.role.name}")
        for name, layered in self.drafts.deployments.items():
            section = (self.config.infra.get("deployments") or {}).get(name) or {}
            layered.merge({"spec": section.get("spec") or {}}, Rank.USER, author(self.config, "deployments", name))
            core_patches.metadata(layered, self.ctx, section, f"deployments.{name}")
        core_patches.images_and_owner(self.drafts, self.ctx, self.problems)
        apply_forced(self.drafts, forced, self.ctx, self.manager, self.problems)
        mounted = launch_config_map(self.ctx, launch)
        if mounted:
            extra.append(Resource(mounted[0]))
            self.drafts.apply(ApiPatch(Target.pods("training", "head"), mounted[1]), Rank.FORCED, "kubectl nrl")
        return extra

    def _assembled(self, launch: Launch, extra: list[Resource]) -> Plan:
        life, fields = self._lifetime()
        self._finish()
        splits = self.choices.scheduler.traits.segments == "split"
        objects = assemble.all_objects(self.drafts, self.ctx, launch, fields, extra, splits=splits)
        policies = self.policies()
        if policies:
            seen = replace(self.ctx, rendered=tuple(frozen(o.manifest) for o in objects))
            for _, _, policy in policies:
                self.problems += call(self.manager, policy, "problems", seen)
            if self.choices.kind != "local":
                apply_providers(self.drafts, policies, seen, self.manager, self.problems)
            self._finish()
            objects = assemble.all_objects(self.drafts, self.ctx, launch, fields, extra, splits=splits)
        self.problems += conflicts(self.drafts)
        self.problems += judge.rendered(objects, self.problems)
        self.problems += self._group_limit(objects)
        self.problems += log_warning(self.ctx, launch, life.head_kept, life.form == "keep")
        return Plan(
            kind=self.choices.kind, run=self.run, facts=self.facts, namespace=self.choices.namespace,
            namespace_from=self.choices.namespace_from, profile=self.choices.profile.name, scheduler=self.choices.scheduler.name,
            dra=tuple(d.name for d in self.choices.dra), roles=self._role_plans(objects), objects=objects,
            launch=launch, lifetime=life, problems=_unique(self.problems), wait=self.choices.wait,
            recipe_path=self.config.recipe_path, infra_path=self.config.infra_path, attached=dict(self.choices.attached),
            health_checks=deployment_checks(self.ctx),
        )  # fmt: skip

    def _role_plans(self, objects: Sequence[PlannedObject]) -> tuple[RolePlan, ...]:
        if self.choices.kind == "local":
            return here.role_plans(self.ctx.roles)
        return role_plans(self.drafts, objects, self.choices)

    def _finish(self) -> None:
        for draft in self.drafts.roles.values():
            for group in draft.pods("all", None):
                drop_unmounted(group)

    def _lifetime(self) -> tuple[Lifetime, Mapping[str, Any]]:
        training = self.drafts.roles.get("training")
        gpus = (
            gpus_of(training.head.value, str(self.choices.profile.get("gpus.resource", "nvidia.com/gpu")))
            if training
            else 0
        )
        life, notes = lifetime.decide(
            self.options,
            self.facts,
            self.choices.scheduler,
            self.choices.kind,
            head_gpus=gpus,
            deployments=bool(self.drafts.deployments),
        )
        self.problems += notes
        if training:
            life = replace(life, head_requests=assemble.kept_requests(training, life))
        return life, lifetime.spec_fields(life)

    def _group_limit(self, objects: Sequence[PlannedObject]) -> Iterable[Problem]:
        limit = self.choices.scheduler.traits.max_worker_groups(self.facts, self.choices.submission_mode)
        for role in role_plans(self.drafts, objects, self.choices):
            view = self.drafts.roles[role.name].role
            yield from arithmetic.too_many_groups(view, len(role.groups), self.choices, limit)


def _unique(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(dict.fromkeys(problems))


def _news(known: Iterable[Problem], found: Iterable[Problem]) -> list[Problem]:
    """Problems at places where no error was reported yet: a value of a wrong shape is also a name that does not exist."""
    places = {p.origin for p in known if p.severity == "error" and p.origin}
    return [p for p in found if p.origin not in places]


def frozen(value: Any) -> Any:
    """A read-only view of plain data, so that a provider that edits what it was shown fails by itself."""
    if isinstance(value, Mapping):
        return MappingProxyType({k: frozen(v) for k, v in value.items()})
    return tuple(frozen(v) for v in value) if isinstance(value, list) else value
