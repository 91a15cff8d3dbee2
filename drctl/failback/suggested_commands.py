"""Commands for each single step; `drctl failback` does all steps as one plan."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from drctl.checks.check import listed, several
from drctl.checks.connector_settings import REPLICATOR
from drctl.config.fields import for_commands
from drctl.config.link import Link
from drctl.config.mirrors import simple_class
from drctl.failback.facts import Cluster, Replicator, ReverseStart
from drctl.failback.reverse_destination import written_elsewhere
from drctl.failback.situation import Situation, rebuild_command
from drctl.failback.steps import held_before
from drctl.model.text import command, connector_url, option, put, quote, quote_lines, variable
from drctl.model.topology import TopicPartition, Unavailable
from drctl.steps.source_offsets import ALIAS


@dataclass(frozen=True, slots=True)
class Start:
    """What must happen before reverse replication starts.

    Attributes:
        body: the offsets for `PATCH /connectors/NAME/offsets`; empty if none must be set.
        unsure: why it must not be started yet; empty if it may be.
        twice: whether reverse replication has copied all records twice.
    """

    body: str = ""
    unsure: str = ""
    twice: bool = False


def start_of(seen: Situation) -> Start:
    """How to start reverse replication, from its offsets, destination, boundaries and arrivals."""
    facts = seen.facts
    if elsewhere := written_elsewhere(facts):
        return Start(unsure=several(f"{each.reason}: {each.remedy}" for each in elsewhere))
    if seen.rebuilding:
        return Start()
    if ReverseStart.START in seen.arrived.values():
        return Start(twice=True)
    if seen.all_on_source is True:
        return Start(unsure=f"clients are back on {facts.source}: compare both directions first")
    if isinstance(facts.reverse, Unavailable):
        return Start(unsure=facts.reverse.reason)
    if not facts.reverse.copying:
        return Start(unsure="Connect has no reverse connector: create it STOPPED")
    if isinstance(facts.boundaries, Unavailable):
        return Start(unsure=f"boundary unknown: {facts.boundaries.reason}")
    copier = facts.reverse.copying[0]
    if isinstance(copier.positions, Unavailable):
        return Start(unsure=f"its offsets are unknown: {copier.positions.reason}")
    early = several(_before_arrived(seen, copier.positions))
    if early:
        return Start(unsure=f"{early}: records would be copied twice")
    return Start(_body(copier, dict(_to_be_set(seen, copier.positions))))


def _before_arrived(seen: Situation, positions: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Partitions that are replicated in part and would be replicated again."""
    for place, boundary, came in _started(seen):
        if came is not ReverseStart.BOUNDARY and came is not None:
            yield f"{place}: the first record that arrived is not the first new record"
        elif came and positions.get(place, 0) < boundary:
            offset = positions.get(place, "not set")
            yield (
                f"{place}: its offset is {offset}, but records from offset {boundary} on have"
                " arrived"
            )


def _to_be_set(
    seen: Situation, positions: Mapping[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, int]]:
    """Start offsets of partitions of which no record has arrived."""
    for place, boundary, came in _started(seen):
        offset = positions.get(place, 0)
        if came is None and offset != boundary and held_before(place, boundary, seen):
            yield place, boundary


def _started(
    seen: Situation,
) -> Iterator[tuple[TopicPartition, int, ReverseStart | Unavailable | None]]:
    """Boundary and first arrival by target partition; None if nothing has arrived."""
    partitions = seen.first.partitions if seen.first is not None else ()
    for each in partitions:
        boundary = seen.boundaries.get(each.copy)
        if boundary is not None:
            yield each.copy, boundary, seen.arrived.get(each.place)


def _body(copier: Replicator, wanted: Mapping[TopicPartition, int]) -> str:
    """One partition per line; MirrorMaker 2 stores the last copied offset, not the next."""
    if not wanted:
        return ""
    config = copier.config
    mirror = simple_class(config) != REPLICATOR
    named = {"cluster": config.get(ALIAS, "source")} if mirror else {}
    lines = [
        json.dumps(
            {
                "partition": {**named, "topic": place.topic, "partition": place.partition},
                "offset": {"offset": at - 1 if mirror else at},
            }
        )
        for place, at in sorted(wanted.items())
    ]
    return '{"offsets": [\n' + ",\n".join(lines) + "\n]}"


_PAGE = "drctl runbook show before-the-primary-returns"


@dataclass(frozen=True, slots=True)
class CommandContext:
    """What command lines need: the link and its situation.

    Attributes:
        back: the link in the other direction; None if there is none.
    """

    link: Link
    seen: Situation
    back: str | None = None

    @property
    def named(self) -> str:
        """The --link option."""
        return option("--link", self.link.name)

    @property
    def connect(self) -> str:
        """A worker of forward replication, without credentials."""
        return for_commands(self.link.settings.replicator.connect)

    @property
    def forward(self) -> tuple[str, ...]:
        """Connectors of forward replication."""
        return self.link.settings.replicator.connectors.named or ("CONNECTOR",)

    @property
    def connect_back(self) -> str:
        """A worker of reverse replication."""
        reverse = self.link.settings.replicator.reverse
        return for_commands(reverse.connect if reverse else None)

    @property
    def reverse(self) -> tuple[str, ...]:
        """Connectors of reverse replication."""
        reverse = self.link.settings.replicator.reverse
        return (reverse and reverse.connectors.named) or ("CONNECTOR",)

    @property
    def rebuild(self) -> str:
        """The rebuild command, if no boundary separates new records; else empty."""
        return rebuild_command(self.link.name) if self.seen.out_of_order_in else ""


def whole_plan(context: CommandContext) -> str:
    """The command that does all steps."""
    return (
        context.rebuild or f"drctl failback {context.named}{' --rebuild' * context.seen.rebuilding}"
    )


def commands_by_step(context: CommandContext) -> Mapping[str, tuple[str, ...]]:
    """Lines by step: commands, and notes where there is no command."""
    rebuilding = context.seen.rebuilding
    if context.rebuild and not rebuilding:
        boundary = "there is no boundary: do not start reverse replication by hand"
        return {**_of_each(context), "f": (context.rebuild, boundary)}
    return {**_of_each(context), **(_rebuild_commands(context) if rebuilding else {})}


def _rebuild_commands(context: CommandContext) -> Mapping[str, tuple[str, ...]]:
    """Commands of a rebuild."""
    offsets = connector_url(context.connect_back, context.reverse[0], "offsets")
    start = start_of(context.seen)
    return {
        "f": (
            "do what is not done yet, in this order; export before you empty anything:",
            f"drctl gap truncation {context.named} --scope full --export DIR",
            f"empty the link's topics on {context.link.source}:"
            " kafka-topics.sh --delete --topic TOPIC",
            f"with the connector STOPPED: curl -s -X DELETE {offsets}",
            *_one_way_only(context),
            *(_not_yet(start) or _resumed(context)),
        ),
        "g": (
            "while the connector is STOPPED, remove the filter on __drctl_provenance from its"
            " transforms",
        ),
    }


def _of_each(context: CommandContext) -> Mapping[str, tuple[str, ...]]:
    there, link, gap = (
        f"drctl gap {context.named} --scope full",
        context.link,
        context.seen.gap.valid,
    )
    if context.back is None:
        back = (
            f"add a link from {link.target} to {link.source} to drctl.yaml and run drctl gap on it"
        )
        switch = f"{back}; then drctl failover --mode planned on it"
    else:
        back = f"drctl gap {option('--link', context.back)} --scope full"
        switch = f"drctl failover {option('--link', context.back)} --mode planned"
    return {
        "a": (*_before_fencing(context), _deny(context)),
        "b": _stop(context),
        "c": (there,),
        "d": (there, "then read gap.html in its folder"),
        "e": (
            f"drctl reconcile {quote(gap.where if gap else 'DIR')} --policy copy",
            "add --execute to run it",
            f"how to decide: {_PAGE}, steps 7 and 8",
        ),
        "f": _start(context, back),
        "g": (
            "while the reverse connector is STOPPED, add to it"
            " transforms.NAME.type=org.apache.kafka.connect.transforms.Filter with a predicate"
            " HasHeaderKey on __drctl_provenance",
        ),
        "h": (back,),
        "i": (switch,),
        "j": (
            *_again(context),
            *(put(context.connect, name, "resume") for name in context.forward),
        ),
        "k": (there, back, f"drctl offsets translate {context.named}"),
    }


def _start(context: CommandContext, back: str) -> tuple[str, ...]:
    """Commands that start reverse replication."""
    start, source = start_of(context.seen), context.link.source
    if start.twice:
        return (
            *(put(context.connect_back, name, "stop") for name in context.reverse),
            f"duplicates stay on {source}; to see them: {back}",
            f"or empty {source} and refill it: {rebuild_command(context.link.name)}",
        )
    return _not_yet(start) or (
        *_one_way_only(context),
        *_begin(context, start.body),
        *_resumed(context),
    )


def _not_yet(start: Start) -> tuple[str, ...]:
    """Why reverse replication must not be started; empty if it may be."""
    return (f"do not start reverse replication yet: {start.unsure}",) if start.unsure else ()


def _resumed(context: CommandContext) -> tuple[str, ...]:
    return tuple(put(context.connect_back, name, "resume") for name in context.reverse)


def _begin(context: CommandContext, body: str) -> tuple[str, ...]:
    if not body:
        return ("its offsets are at the boundary: only start it",)
    return (
        "with the connector STOPPED, set its offsets to the boundary:",
        f"curl -s -X PATCH {connector_url(context.connect_back, context.reverse[0], 'offsets')}"
        f' -H "Content-Type: application/json" --data {quote_lines(body)}',
    )


def _again(context: CommandContext) -> tuple[str, ...]:
    """Commands that check the offsets of the forward connector before it is resumed."""
    name = context.forward[0]
    return (
        "with the connector STOPPED, check that its offsets are not lower than at the switchover:",
        f"drctl connect offsets export {option('--connector', name)} --output-file offsets.json"
        f" {context.named}",
        f"if they are lower: correct that file and run"
        f" drctl connect offsets apply --from offsets.json {context.named} --execute",
    )


def _stop(context: CommandContext) -> tuple[str, ...]:
    replicator = context.link.settings.replicator
    if replicator.stop and not replicator.connect:
        return (command(replicator.stop),)
    return tuple(put(context.connect, name, "stop") for name in context.forward)


def _one_way_only(context: CommandContext) -> tuple[str, ...]:
    """Commands that stop forward replication first: both at once would loop."""
    if not context.seen.forward_runs:
        return ()
    ends = f"{context.link.source} -> {context.link.target}"
    return (
        f"first stop replication {ends}: with both directions running, records loop:",
        *_stop(context),
    )


def _before_fencing(context: CommandContext) -> tuple[str, ...]:
    """A warning not to fence a cluster that applications use."""
    source, seen = context.link.source, context.seen
    if seen.endpoints_on_source:
        there = f"endpoints on {source} now: {listed(seen.endpoints_on_source)}"
        return (f"only after clients are switched to {context.link.target} ({there}):",)
    if seen.all_on_source is None:
        return (f"only if no application uses {source}, which cannot be checked here:",)
    return ()


def _deny(context: CommandContext) -> str:
    principals, seen = context.link.settings.fence.principals, context.seen.facts.on_source
    known = sorted(seen.topics) if isinstance(seen, Cluster) else ()
    who = " ".join(option("--deny-principal", each) for each in principals or ("User:APPLICATION",))
    topics = " ".join(option("--topic", each) for each in known or ("TOPIC",))
    return (
        f'kafka-acls.sh --bootstrap-server "{variable(context.link.source)}"'
        f" --command-config admin.properties --add {who} --operation Write {topics}"
    )
