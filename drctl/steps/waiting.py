"""Waits for replication to catch up or drain, or for a condition from a runbook."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from pydantic import Field

from drctl.engine.kind import Description, Facts, Polling, Readback, State, Trait
from drctl.engine.ports import LinkReader
from drctl.engine.source_fence import CHANGED_AFTER_FENCE
from drctl.gap.arrival import AFTER_OPEN
from drctl.model.errors import DrctlError, Unreachable
from drctl.model.health import AuthenticationFailed
from drctl.model.text import plural
from drctl.model.topology import Unavailable
from drctl.steps.records import FindMissing
from drctl.steps.source_offsets import copies_of
from drctl.steps.stop_replication import RUNNING
from drctl.steps.transactions import blocked_by_transactions


def _halted(names: Sequence[str], reader: LinkReader) -> Iterator[str]:
    """Connectors that are not running, described: waiting for them is pointless."""
    for name in names:
        try:
            state = reader.connectors().state(name)
        except DrctlError as error:
            yield f"{name}: {error.message}"
            continue
        if state.state != RUNNING:
            yield state.summary


@dataclass(frozen=True, slots=True)
class CatchUpSettings:
    """Settings from the plan.

    Attributes:
        scope: scope of the comparison: full or tail.
        at_most: how many records may still be unreplicated.
        connectors: the replicating connectors, to report those that are not running.
    """

    source: str
    target: str
    scope: str
    at_most: int
    connectors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CaughtUpIntent:
    """The settings without the clusters."""

    scope: str
    at_most: int
    connectors: tuple[str, ...] = ()


class WaitForCatchUp(Polling[CatchUpSettings, CaughtUpIntent, None]):
    """Compares by content: offsets are inconclusive if a connector excludes records."""

    name = "wait-for-catch-up"
    traits = Trait.NONE

    def describe(self, settings: CatchUpSettings) -> Description:
        """Describe the step for plans and reports."""
        title = f"wait until replication from {settings.source} to {settings.target} has caught up"
        what = "a comparison of everything" if settings.scope == "full" else "a comparison"
        return Description(
            title, f"{what} finds at most {plural(settings.at_most, 'unreplicated record')}"
        )

    def check(self, settings: CatchUpSettings, facts: Facts, reader: LinkReader) -> CaughtUpIntent:
        """Use the settings as the intent."""
        return CaughtUpIntent(settings.scope, settings.at_most, settings.connectors)

    def verify(self, intent: CaughtUpIntent, reader: LinkReader) -> Readback[None]:
        """Compare the clusters as they are now."""
        missing = reader.compared(intent.scope)
        if missing.not_compared:
            message = f"not everything could be compared: {missing.not_compared[0]}"
            return Readback(State.WAITING, message, items=missing.not_compared)
        message = f"{plural(missing.records, 'record is', 'records are')} not replicated yet"
        if not missing.records:
            message = "every record is replicated"
        if missing.records > intent.at_most:
            halted = tuple(_halted(intent.connectors, reader))
            return Readback(State.WAITING, "; ".join((message, *halted)), items=missing.partitions)
        return Readback(State.DONE, message)


@dataclass(frozen=True, slots=True)
class DrainSettings:
    """Settings from the plan.

    Attributes:
        source: the cluster whose open transactions the step names while it waits; may be empty.
    """

    target: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True, slots=True)
class DrainIntent:
    """The differences that are allowed.

    Attributes:
        second_copies: how many second copies the source is known to hold. Equal records are
            counted, so each of these always counts as missing on the target.
        overridden: why other missing records are overridden; empty if they are not.
        source: the cluster whose open transactions are named; may be empty.
    """

    second_copies: int = 0
    overridden: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class DrainFacts:
    """How many records are missing."""

    missing: int


class Drain(Polling[DrainSettings, DrainIntent, DrainFacts]):
    """Compares the tail until no record is missing."""

    name = "drain"
    traits = Trait.DRAINS

    def describe(self, settings: DrainSettings) -> Description:
        """Describe the step for plans and reports."""
        title = f"wait until replication has copied everything to {settings.target}"
        return Description(title, "a comparison of the tail finds no unreplicated record")

    def check(self, settings: DrainSettings, facts: Facts, reader: LinkReader) -> DrainIntent:
        """Derive the allowed differences from earlier steps and overrides."""
        search = facts.of(FindMissing())
        overridden = settings.overrides.get(CHANGED_AFTER_FENCE, "")
        return DrainIntent(search.duplicated if search else 0, overridden, settings.source)

    def verify(self, intent: DrainIntent, reader: LinkReader) -> Readback[DrainFacts]:
        """Compare the clusters as they are now."""
        second = intent.second_copies
        # A tail may hold only some of the second copies: only a full comparison counts them all.
        missing = reader.compared("full") if second else reader.missing()
        if unproven := missing.unproven:
            message = (
                f"{plural(len(unproven), 'partition is', 'partitions are')} not verified yet:"
                f" {unproven[0]}"
            )
            if any(AFTER_OPEN in each for each in unproven):
                message += blocked_by_transactions(intent.source, reader)
            return Readback(State.WAITING, message, items=unproven)
        records = missing.but_for(second)
        if records:
            if intent.overridden:
                message = (
                    f"{plural(records, 'record is', 'records are')} not replicated;"
                    f" overridden: {intent.overridden}"
                )
                return Readback(
                    State.DONE, message, DrainFacts(records), missing.partitions, message
                )
            message = f"{plural(records, 'record is', 'records are')} not replicated yet"
            return Readback(State.WAITING, message, items=missing.partitions)
        before = missing.left_missing_before
        message = "every record is replicated"
        if before:
            message += f", except {before:,} that were quarantined or discarded before"
        return Readback(State.DONE, message, DrainFacts(0))


_SHOWN = 3


@dataclass(frozen=True, slots=True)
class WaitSettings:
    """Settings from the runbook.

    Attributes:
        condition: a key of `CONDITIONS`.
    """

    source: str
    target: str
    condition: Annotated[str, Field(alias="for")]
    connectors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """The id of the cluster that responds; empty for other conditions."""

    cluster_id: str = ""


Observed = Readback[AnswerFacts]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that can be waited for.

    Attributes:
        message: its description, with `{source}` and `{target}`.
        reader: checks it.
    """

    message: str
    reader: Callable[[WaitSettings, LinkReader], Observed]


def _answers(name: str, reader: LinkReader) -> Observed:
    try:
        identity = reader.live_cluster_id(name)
    except Unreachable as error:
        return Readback(State.WAITING, error.message)
    return Readback(State.DONE, f"{name} answers", AnswerFacts(identity))


def _silent(settings: WaitSettings, reader: LinkReader) -> Observed:
    name = settings.source
    try:
        reader.live_cluster_id(name)
    except AuthenticationFailed as error:
        return Readback(State.WAITING, f"{name} still answers: {error.message}")
    except Unreachable as error:
        return Readback(State.DONE, error.message)
    return Readback(State.WAITING, f"{name} still answers")


def _led(cluster: str, names: Sequence[str], reader: LinkReader) -> Observed:
    leaderless = []
    for name, found in reader.cluster_reader(cluster).topics(names).items():
        if isinstance(found, Unavailable):
            leaderless.append(f"{name}: {found.reason}")
        elif found is not None:
            leaderless += [
                f"{name}-{n}" for n, leader in found.partitions.items() if leader is None
            ]
    if leaderless:
        message = (
            f"{plural(len(leaderless), 'partition has', 'partitions have')} no leader:"
            f" {', '.join(sorted(leaderless)[:_SHOWN])}"
        )
        return Readback(State.WAITING, message, items=tuple(sorted(leaderless)))
    return Readback(State.DONE, f"every partition of {plural(len(names), 'topic')} has a leader")


def _empty(cluster: str, reader: LinkReader) -> Observed:
    names = reader.link_groups(cluster)
    described = reader.groups(cluster).described(names).items()
    active = sorted(n for n, g in described if isinstance(g, Unavailable) or g.active)
    if active:
        shown = ", ".join(active[:_SHOWN])
        message = f"{len(active)} of {len(names)} groups active on {cluster}: {shown}"
        return Readback(State.WAITING, message, items=tuple(active))
    return Readback(State.DONE, f"0 of {len(names)} groups active on {cluster}")


def _caught_up(settings: WaitSettings, reader: LinkReader) -> Observed:
    missing = reader.missing()
    if missing.not_compared:
        message = f"not everything could be compared: {missing.not_compared[0]}"
        return Readback(State.WAITING, message, items=missing.not_compared)
    if missing.records:
        message = f"{plural(missing.records, 'record is', 'records are')} not replicated yet"
        return Readback(State.WAITING, message, items=missing.partitions)
    return Readback(State.DONE, "every record is replicated to the target")


def _connectors(wanted: str, settings: WaitSettings, reader: LinkReader) -> Observed:
    names = settings.connectors
    if not names:
        return Readback(State.FAILED, "drctl.yaml names no connector of this link")
    states = {name: reader.connectors().state(name).state for name in names}
    others = tuple(f"{name} is {state}" for name, state in states.items() if state != wanted)
    if others:
        return Readback(State.WAITING, "; ".join(others), items=others)
    return Readback(State.DONE, f"every connector ({len(names)}) is {wanted}")


CONDITIONS: Mapping[str, Condition] = {
    "source reachable": Condition("{source} answers", lambda s, r: _answers(s.source, r)),
    "source silent": Condition("{source} does not answer", _silent),
    "source leaders elected": Condition(
        "every partition on {source} has a leader", lambda s, r: _led(s.source, r.topics(), r)
    ),
    "target reachable": Condition("{target} answers", lambda s, r: _answers(s.target, r)),
    "target leaders elected": Condition(
        "every partition on {target} has a leader", lambda s, r: _led(s.target, copies_of(r), r)
    ),
    "groups empty": Condition(
        "no group of the link is active on {source}", lambda s, r: _empty(s.source, r)
    ),
    "target groups empty": Condition(
        "no group of the link is active on {target}", lambda s, r: _empty(s.target, r)
    ),
    "replication caught up": Condition("{target} has every recent record of {source}", _caught_up),
    "connectors running": Condition(
        "the connectors and their tasks run", partial(_connectors, "RUNNING")
    ),
    "connectors stopped": Condition("the connectors are stopped", partial(_connectors, "STOPPED")),
}
"""Conditions by their names in runbooks."""


class Wait(Polling[WaitSettings, WaitSettings, AnswerFacts]):
    """Checks a condition repeatedly until the step times out."""

    name = "wait"
    traits = Trait.NONE

    def describe(self, settings: WaitSettings) -> Description:
        """Describe the step for plans and reports."""
        message = CONDITIONS[settings.condition].message
        condition = message.format(source=settings.source, target=settings.target)
        return Description(f"wait until {condition}", "the condition was observed")

    def check(self, settings: WaitSettings, facts: Facts, reader: LinkReader) -> WaitSettings:
        """Use the settings as the intent."""
        return settings

    def verify(self, intent: WaitSettings, reader: LinkReader) -> Observed:
        """Check the condition."""
        return CONDITIONS[intent.condition].reader(intent, reader)
