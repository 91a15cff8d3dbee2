"""Plans the way home of a link's clients, and with `--execute` goes it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli import circumstances
from drctl.cli.durations import seconds
from drctl.cli.failback_home import HOME
from drctl.cli.plan_run import PlanOptions, show_or_go
from drctl.engine.sequences.failback import WayBack
from drctl.engine.sequences.failback import failback as sequence
from drctl.model.errors import ConfigError, UsageError
from drctl.reconcile.policy import POLICIES, Action, parse_policies

if TYPE_CHECKING:
    from drctl.cli.link_sight import LinkSight
    from drctl.config.link import Link
    from drctl.model.plan import Plan

_SEEDED = "mirrormaker2"
"""The kind of replicator whose offsets drctl sets itself."""


@dataclass(frozen=True, slots=True)
class FailbackOptions:
    """What the command line says of a way home."""

    policy: str | None
    topics: tuple[str, ...]
    conflicting: Action
    patience: str
    grace: str

    @property
    def words(self) -> tuple[str, ...]:
        """As they are typed."""
        words = ["failback", "--patience", self.patience, "--grace", self.grace]
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
    _check_policies(options)
    patience_s, grace_s = seconds(options.patience), seconds(options.grace)

    def make(sight: "LinkSight", passed: Mapping[str, str]) -> "Plan":
        return sequence(_way_back(sight, passed, options, patience_s, grace_s))

    given = PlanOptions(
        options.words, link, False, execute, yes, overrides, answers, plan_out, expect_plan
    )
    return show_or_go(given, make, HOME)


def _check_policies(options: FailbackOptions) -> None:
    if options.policy is not None and options.policy not in list(POLICIES):
        raise UsageError(
            f"there is no policy {options.policy!r}", f"there are: {', '.join(POLICIES)}"
        )
    if options.policy or options.topics:
        policy = Action(options.policy) if options.policy else None
        parse_policies(policy, options.topics, options.conflicting)


def _way_back(
    sight: "LinkSight",
    passed: Mapping[str, str],
    options: FailbackOptions,
    patience_s: float,
    grace_s: float,
) -> WayBack:
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
        options.policy,
        options.topics,
        options.conflicting.value,
        sight.config.policy.max_lag_records,
    )


def _copying(link: "Link") -> str:
    """The connector whose offsets are set; empty where a person starts what copies.

    Raises:
        ConfigError: drctl.yaml does not name it.
    """
    replicator = link.settings.replicator
    if replicator.kind != _SEEDED:
        return ""
    if not replicator.connect or not replicator.connectors.source:
        raise ConfigError(
            f"drctl.yaml does not name the connector that copies from {link.source} to"
            f" {link.target}, or its workers",
            "`replicator: {connect: ..., connectors: {source: NAME}}`, and `reverse:` likewise",
        )
    return replicator.connectors.source
