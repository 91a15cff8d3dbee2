"""`drctl failback`: the way home of a link's clients, once its source is back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.app import plan_inputs
from drctl.app.failback import HOME, failback_with
from drctl.app.rebuild import REBUILD, holds_nothing
from drctl.cli.console import console
from drctl.cli.grammar import Acting, Answers, Grace, LinkName, Patience, asks, times, words_of
from drctl.cli.running import MakePlan, show_or_go, show_or_run
from drctl.cli.settings import configuration
from drctl.model.errors import ConfigError, UsageError
from drctl.plans.failback import SEEDED, FailbackInputs, rebuild, turned
from drctl.plans.failback import failback as sequence
from drctl.reconcile.policy import POLICIES, Action, Policies, parse_policies
from drctl.views.failback import failback_table

if TYPE_CHECKING:
    from drctl.app.link_reader import ClusterLinkReader
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.plan import Plan
    from drctl.plans.inputs import Circumstances


@dataclass(frozen=True, kw_only=True)
class Failback(Acting):
    """What the command line says."""

    link: LinkName = None
    check_order: Annotated[
        bool,
        typer.Option("--check-order", help="Judge record order and step order; change nothing."),
    ] = False
    gap: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --check-order: a result of drctl gap to rest on; else the newest kept.",
        ),
    ] = None
    patience: Patience = "10m"
    grace: Grace = "20s"
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild",
            help="The source has lost its records: it is emptied, and everything is copied to it.",
        ),
    ] = False
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="copy|quarantine|export|discard",
            help="What becomes of the records that only the returned source has.",
        ),
    ] = None
    topic: Annotated[
        tuple[str, ...],
        typer.Option(
            metavar="TOPIC[=POLICY]",
            help="The same for one topic; repeatable, and then every topic has to be named.",
        ),
    ] = ()
    conflicting: Annotated[
        Action, typer.Option(help="What becomes of those that the target has something newer than.")
    ] = Action.REFUSE
    answer: Answers = ()


@asks
def failback(given: Failback) -> int:
    """Lead a link's clients home to its source, which was lost and is back.

    Without --execute nothing is changed: the plan is printed, with what stands against it. Exit
    codes: 0 done, or nothing stands against the plan; 1 done, and something is owed; 3 refused; 4
    stopped part-way; 5 unknown: drctl resume looks first; 130 interrupted. --check-order only
    judges how far the way back has come: 0 in order; 3 something happened before its time; 5 not
    every step can be seen.
    """
    if given.check_order:
        if given.execute or given.policy or given.topic or given.rebuild:
            raise UsageError("--check-order only looks: it takes no --execute and no policy")
        return _judge(given.link, given.gap)
    if given.gap is not None:
        raise UsageError("--gap goes with --check-order", "a run finds what is missing by itself")
    policies = _policies(given)
    times_s = times(given.patience, given.grace)

    def make(reader: "ClusterLinkReader", passed: Mapping[str, str]) -> "Plan":
        inputs = replace(
            _inputs(reader, passed, *times_s),
            policy=given.policy,
            topics=given.topic,
            conflicting=given.conflicting.value,
        )
        return rebuild(inputs, empty=holds_nothing(reader)) if given.rebuild else sequence(inputs)

    told = words_of(given, "patience", "grace", link=None, override=(), answer=())
    operation = REBUILD if given.rebuild else failback_with(policies)
    return show_or_go(given, ["failback", *told], make, operation)


def _judge(name: str | None, gap: Path | None) -> int:
    from drctl.app.failback import look_at, site_of
    from drctl.app.reconcile_adapters import named
    from drctl.failback.answer import OrderDocument, answer

    config = configuration()
    link = config.link(name)
    if gap is not None:
        named(gap)
    found = answer(look_at(config, link, gap))
    shown = failback_table(found, site_of(config, link, found))
    return console().result(shown, OrderDocument.of(found), found.verdict.exit_code)


def either_direction(
    given: Acting, words: Sequence[str], make: MakePlan, *, home: bool, lost: bool
) -> int:
    """Show the plan of a runbook, or carry it out.

    Args:
        home: whether it leads home over the link; else it goes from its source to its target.

    Raises:
        Refused: something stands against it, or nobody confirmed.
    """
    if not home:
        return show_or_run(given, words, make, lost=lost)

    def look(reader: "ClusterLinkReader", passed: Mapping[str, str]) -> "Plan":
        inputs = _inputs(reader, passed, *times(Failback.patience, Failback.grace))
        seen = replace(
            inputs.forward, basis=inputs.reverse.basis, overrides=passed, failback=inputs
        )
        return make(reader.config, seen)

    return show_or_go(given, words, look, HOME, lost=lost)


def with_failback(config: "Config", link: "Link", seen: "Circumstances") -> "Circumstances":
    """What drctl.yaml says of a link and of its way home; nobody looks at it."""
    from drctl.config.reverse_link import reversed_link

    try:
        back = reversed_link(link, map(config.link, config.links))
    except ConfigError:
        return seen
    return replace(seen, failback=turned(seen, back.settings.replicator.connectors.named))


def _policies(given: Failback) -> Policies:
    """As they are typed; nothing may be said.

    Raises:
        UsageError: they do not go together.
    """
    if given.policy is not None and given.policy not in list(POLICIES):
        raise UsageError(
            f"there is no policy {given.policy!r}", f"there are: {', '.join(POLICIES)}"
        )
    if not given.policy and not given.topic:
        return Policies(Action.REFUSE, {}, given.conflicting)
    policy = Action(given.policy) if given.policy else None
    return parse_policies(policy, given.topic, given.conflicting)


def _inputs(
    reader: "ClusterLinkReader", passed: Mapping[str, str], timeout_s: float, grace_s: float
) -> FailbackInputs:
    """The way home of a link as both clusters are now, without a decision on any record.

    Raises:
        ConfigError: drctl.yaml does not name what copies.
    """
    old = reader.other_way()
    home = plan_inputs.look_at(reader.link, reader, passed)
    before = plan_inputs.look_at(old.link, old, {})
    basis = {**before.basis, **home.basis}
    home = replace(home, link=old.link.name, basis=basis, timeout_s=timeout_s, grace_s=grace_s)
    return FailbackInputs(
        home,
        before,
        _copying(reader.link),
        _copying(old.link),
        at_most=reader.config.policy.max_lag_records,
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
