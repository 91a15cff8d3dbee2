"""Plans the way home of a link's clients, and with `--execute` goes it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli.durations import times
from drctl.cli.failback.home import HOME, home_with
from drctl.cli.failback.rebuild import REBUILD, holds_nothing
from drctl.cli.runs import circumstances
from drctl.cli.runs.plan_run import MakePlan, PlanOptions, show_or_go, show_or_run
from drctl.engine.sequences.failback import SEEDED, WayBack, turned
from drctl.engine.sequences.failback import failback as sequence
from drctl.engine.sequences.rebuild import rebuild
from drctl.model.errors import ConfigError, UsageError
from drctl.reconcile.policy import POLICIES, Action, Policies, parse_policies

if TYPE_CHECKING:
    from drctl.cli.runs.link_sight import LinkSight
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.engine.sequences.circumstances import Circumstances
    from drctl.model.plan import Plan

PATIENCE, GRACE = "10m", "20s"
"""How long replication, and consumers, may take where nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class FailbackOptions:
    """What the command line says of a way home."""

    policy: str | None
    topics: tuple[str, ...]
    conflicting: Action
    patience: str
    grace: str
    rebuild: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """As they are typed."""
        words = ["failback", "--patience", self.patience, "--grace", self.grace]
        words += ["--rebuild"] if self.rebuild else []
        words += ["--policy", self.policy] if self.policy else []
        for topic in self.topics:
            words += ["--topic", topic]
        if self.conflicting is not Action.REFUSE:
            words += ["--conflicting", self.conflicting.value]
        return tuple(words)


def lead_home(
    options: FailbackOptions,
    link: str | None,
    execute: bool,
    yes: bool,
    overrides: tuple[str, ...],
    answers: tuple[str, ...],
    plan_out: Path | None,
    expect_plan: Path | None,
) -> int:
    """Show the plan, or carry it out.

    Raises:
        UsageError: policies do not go together.
        Refused: something stands against it, or nobody confirmed.
    """
    policies = _policies(options)
    patience_s, grace_s = times(options.patience, options.grace)

    def make(sight: "LinkSight", passed: Mapping[str, str]) -> "Plan":
        way = way_back(sight, passed, patience_s, grace_s)
        conflicting = options.conflicting.value
        way = replace(way, policy=options.policy, topics=options.topics, conflicting=conflicting)
        return rebuild(way, empty=holds_nothing(sight)) if options.rebuild else sequence(way)

    given = PlanOptions(
        options.words, link, False, execute, yes, overrides, answers, plan_out, expect_plan
    )
    return show_or_go(given, make, REBUILD if options.rebuild else home_with(policies))


def home_or_there(given: PlanOptions, make: MakePlan, *, home: bool) -> int:
    """Show the plan of a runbook, or carry it out.

    Args:
        home: whether it leads home over the link; else it goes from its source to its target.

    Raises:
        Refused: something stands against it, or nobody confirmed.
    """
    if not home:
        return show_or_run(given, make)

    def look(sight: "LinkSight", passed: Mapping[str, str]) -> "Plan":
        way = way_back(sight, passed, *times(PATIENCE, GRACE))
        seen = replace(way.old, basis=way.home.basis, overrides=passed, way_back=way)
        return make(sight.config, seen)

    return show_or_go(given, look, HOME)


def with_way_back(config: "Config", link: "Link", seen: "Circumstances") -> "Circumstances":
    """What drctl.yaml says of a link and of its way home; nobody looks at it."""
    from drctl.config.way_back import way_home

    try:
        named = way_home(link, map(config.link, config.links)).settings.replicator.connectors
    except ConfigError:
        return seen
    connectors = tuple(filter(None, (named.source, named.checkpoint, named.heartbeat)))
    return replace(seen, way_back=turned(seen, connectors))


def _policies(options: FailbackOptions) -> Policies:
    """As they are typed; nothing may be said.

    Raises:
        UsageError: they do not go together.
    """
    if options.policy is not None and options.policy not in list(POLICIES):
        raise UsageError(
            f"there is no policy {options.policy!r}", f"there are: {', '.join(POLICIES)}"
        )
    if not options.policy and not options.topics:
        return Policies(Action.REFUSE, {}, options.conflicting)
    policy = Action(options.policy) if options.policy else None
    return parse_policies(policy, options.topics, options.conflicting)


def way_back(
    sight: "LinkSight", passed: Mapping[str, str], patience_s: float, grace_s: float
) -> WayBack:
    """The way home of a link as both clusters are now, without a decision on any record.

    Raises:
        ConfigError: drctl.yaml does not name what copies.
    """
    old = sight.other_way()
    home = circumstances.look_at(sight.link, sight, passed)
    before = circumstances.look_at(old.link, old, {})
    basis = {**before.basis, **home.basis}
    home = replace(home, link=old.link.name, basis=basis, patience_s=patience_s, grace_s=grace_s)
    return WayBack(
        home,
        before,
        _copying(sight.link),
        _copying(old.link),
        at_most=sight.config.policy.max_lag_records,
    )


def _copying(link: "Link") -> str:
    """The connector whose offsets are set; empty where a person starts what copies.

    Raises:
        ConfigError: drctl.yaml does not name it.
    """
    replicator = link.settings.replicator
    if replicator.kind != SEEDED:
        return ""
    if not replicator.connect or not replicator.connectors.source:
        raise ConfigError(
            f"drctl.yaml does not name the connector that copies from {link.source} to"
            f" {link.target}, or its workers",
            "`replicator: {connect: ..., connectors: {source: NAME}}`, and `reverse:` likewise",
        )
    return replicator.connectors.source
