"""`drctl failback`: moves clients back to the source cluster of a link."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.app import plan_inputs
from drctl.app.failback import FAILBACK, failback_with
from drctl.app.rebuild import REBUILD, nothing_to_empty
from drctl.cli.console import console
from drctl.cli.grammar import (
    Answers,
    DrainTimeout,
    LinkName,
    PlanRequest,
    WaitForConsumers,
    drain_times,
    takes_request,
    words_of,
)
from drctl.cli.running import MakePlan, plan_or_execute, plan_over_link
from drctl.cli.settings import configuration, neither_responds
from drctl.model.errors import ConfigError, UsageError
from drctl.model.text import quote
from drctl.plans.failback import MIRROR_MAKER, rebuild, reverse_inputs
from drctl.plans.failback import failback as sequence
from drctl.plans.inputs import FailbackInputs
from drctl.reconcile.policy import POLICIES, Action, Policies, parse_policies
from drctl.views.failback import failback_table

if TYPE_CHECKING:
    from drctl.app.link_reader import ClusterLinkReader
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.plan import Plan
    from drctl.plans.inputs import PlanInputs


@dataclass(frozen=True, kw_only=True)
class Failback(PlanRequest):
    """Arguments and options."""

    link: LinkName = None
    check_order: Annotated[
        bool,
        typer.Option(
            "--check-order",
            help="Only check which failback steps have happened and whether their order is safe.",
        ),
    ] = False
    gap: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --check-order: the result of `drctl gap` to use.",
            show_default="the newest result in state_dir",
        ),
    ] = None
    timeout: DrainTimeout = "10m"
    wait_for_consumers: WaitForConsumers = "20s"
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild",
            help="Use if the source lost its records: replicate everything back, after you have"
            " emptied its topics.",
        ),
    ] = False
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="copy|quarantine|export|discard",
            help="What to do with records that only the recovered source holds. Without a policy,"
            " the run ends if there are any. discard requires --topic.",
        ),
    ] = None
    topic: Annotated[
        tuple[str, ...],
        typer.Option(
            metavar="TOPIC[=POLICY]",
            help="Policy for this topic, by its exact name. If used, list every topic. Repeatable.",
            show_default="--policy for all topics",
        ),
    ] = ()
    conflicting: Annotated[
        Action,
        typer.Option(help="What to do with records whose key has a newer record on the target."),
    ] = Action.REFUSE
    answer: Answers = ()


@takes_request
def failback(given: Failback) -> int:
    """Move clients back to the recovered source cluster.

    Replicates the target's records back, handles records that only the source holds, and moves
    the clients. Without --execute nothing is changed: the plan and its blockers are printed.
    `drctl reconcile --help` explains the policies.
    --check-order only checks which failback steps have happened and whether their order is safe:
    it exits with 3 if a step happened out of order, and with 5 if that is unknown.

    Examples:
        drctl failback --check-order            # what comes next?
        drctl failback --policy quarantine      # print the plan
        drctl failback --policy quarantine --execute
        drctl failback --rebuild --execute      # the source lost its disks
    """
    if given.check_order:
        if given.execute or given.policy or given.topic or given.rebuild:
            raise UsageError(
                "--check-order cannot be combined with --execute, --policy, --topic or --rebuild"
            )
        _must_have_one_writer(given.link, "--check-order")
        return _check_order(given.link, given.gap)
    if given.rebuild:
        _must_have_one_writer(given.link, "--rebuild")
    if given.gap is not None:
        raise UsageError(
            "--gap requires --check-order", "omit --gap: failback runs its own comparison"
        )
    policies = _policies(given)
    times_s = drain_times(given.timeout, given.wait_for_consumers)

    def make(reader: "ClusterLinkReader", passed: Mapping[str, str]) -> "Plan":
        inputs = replace(
            _inputs(reader, passed, *times_s),
            policy=given.policy,
            topics=given.topic,
            conflicting=given.conflicting.value,
        )
        if not given.rebuild:
            return sequence(inputs)
        return rebuild(inputs, nothing_to_empty=nothing_to_empty(reader, inputs.reverse_connector))

    words = words_of(given, "timeout", "wait_for_consumers", link=None, override=(), answer=())
    operation = REBUILD if given.rebuild else failback_with(policies)
    return plan_or_execute(given, ["failback", *words], make, operation)


def _must_have_one_writer(name: str | None, option: str) -> None:
    """Refuse an option that only works if the target is a copy of the source.

    Raises:
        UsageError: applications write to both clusters all the time.
    """
    link = configuration().link(name)
    if link.settings.origin_header:
        raise UsageError(
            f"{option}: applications write to both clusters of link {link.name}, so"
            f" {link.target} is not a copy of {link.source}",
            f"show the plan: drctl failback --link {quote(link.name)} --policy copy",
        )


def _check_order(name: str | None, gap: Path | None) -> int:
    from drctl.app.failback import command_context, look_at
    from drctl.app.reconcile_adapters import named
    from drctl.failback.answer import OrderDocument, answer

    config = configuration()
    link = config.link(name)
    if gap is not None:
        named(gap)
    found = answer(look_at(config, link, gap))
    if silent := neither_responds(link):
        raise silent
    shown = failback_table(found, command_context(config, link, found))
    return console().result(shown, OrderDocument.of(found), found.verdict.exit_code)


def either_direction(
    given: PlanRequest, words: Sequence[str], make: MakePlan, *, back: bool, lost: bool
) -> int:
    """Show the plan of a runbook, or execute it.

    Args:
        back: whether it moves clients to the link's source; else to its target.

    Raises:
        Refused: there are blockers, or it was not confirmed.
    """
    if not back:
        return plan_over_link(given, words, make, lost=lost)

    def look(reader: "ClusterLinkReader", passed: Mapping[str, str]) -> "Plan":
        inputs = _inputs(
            reader, passed, *drain_times(Failback.timeout, Failback.wait_for_consumers)
        )
        seen = replace(
            inputs.forward, basis=inputs.reverse.basis, overrides=passed, failback=inputs
        )
        return make(reader.config, seen)

    return plan_or_execute(given, words, look, FAILBACK, lost=lost)


def with_failback(config: "Config", link: "Link", seen: "PlanInputs") -> "PlanInputs":
    """Add the settings for a failback from drctl.yaml; contacts no cluster."""
    from drctl.config.reverse_link import reversed_link

    try:
        reverse = reversed_link(link, map(config.link, config.links))
    except ConfigError:
        return seen
    return replace(
        seen, failback=reverse_inputs(seen, reverse.settings.replicator.connectors.named)
    )


def _policies(given: Failback) -> Policies:
    """Parse the policies, if any are given.

    Raises:
        UsageError: a policy is unknown, or they contradict each other.
    """
    if given.policy is not None and given.policy not in list(POLICIES):
        raise UsageError(
            f"--policy: unknown policy {given.policy!r}", f"policies: {', '.join(POLICIES)}"
        )
    if not given.policy and not given.topic:
        return Policies(Action.REFUSE, {}, given.conflicting)
    policy = Action(given.policy) if given.policy else None
    return parse_policies(policy, given.topic, given.conflicting)


def _inputs(
    reader: "ClusterLinkReader", passed: Mapping[str, str], timeout_s: float, drain_window_s: float
) -> FailbackInputs:
    """Read both clusters for a failback plan, without policies for records.

    Raises:
        ConfigError: drctl.yaml does not name the connector.
    """
    forward_reader = reader.reversed()
    reverse = plan_inputs.look_at(reader.link, reader, passed)
    forward = plan_inputs.look_at(forward_reader.link, forward_reader, {})
    reverse = replace(
        reverse,
        link=forward_reader.link.name,
        basis={**forward.basis, **reverse.basis},
        timeout_s=timeout_s,
        drain_window_s=drain_window_s,
    )
    return FailbackInputs(
        reverse,
        forward,
        _source_connector(reader.link),
        _source_connector(forward_reader.link),
        max_in_flight=reader.config.policy.max_lag_records,
    )


def _source_connector(link: "Link") -> str:
    """The connector whose offsets are set; empty if replication is started manually.

    Raises:
        ConfigError: drctl.yaml does not name it.
    """
    replicator = link.settings.replicator
    if replicator.kind != MIRROR_MAKER:
        return ""
    if not replicator.connect or not replicator.connectors.source:
        raise ConfigError(
            f"drctl.yaml has no connector or no Connect workers for replication from"
            f" {link.source} to {link.target}",
            "add `replicator: {connect: URL, connectors: {source: NAME}}`, and the same in"
            " `reverse:`",
        )
    return replicator.connectors.source
