"""Waits: for replication to catch up or drain, or for a condition that a runbook names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from pydantic import Field

from drctl.engine.kind import Description, Facts, Polling, Readback, State, Trait
from drctl.engine.ports import LinkReader
from drctl.engine.source_fence import CHANGED_AFTER_FENCE
from drctl.model.errors import DrctlError, Unreachable
from drctl.model.health import AuthenticationFailed
from drctl.model.topology import Unavailable
from drctl.steps.records import FindMissing
from drctl.steps.stop_replication import RUNNING


def _halted(names: Sequence[str], reader: LinkReader) -> Iterator[str]:
    """Connectors that do not run, each in words: waiting for them is in vain."""
    for name in names:
        try:
            state = reader.connectors().state(name)
        except DrctlError as error:
            yield f"{name} was not asked: {error.message}"
            continue
        if state.state != RUNNING:
            yield state.summary


@dataclass(frozen=True, slots=True)
class CatchUpSettings:
    """Settings from the plan.

    Attributes:
        scope: of the comparison: full or tail.
        at_most: so many records may still be missing.
        connectors: that copy: where they do not run, waiting is in vain.
    """

    source: str
    target: str
    scope: str
    at_most: int
    connectors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CaughtUpIntent:
    """The same, without the names of clusters."""

    scope: str
    at_most: int
    connectors: tuple[str, ...] = ()


class WaitForCatchUp(Polling[CatchUpSettings, CaughtUpIntent, None]):
    """By content: offsets of a connector that leaves records out tell less."""

    name = "wait-for-catch-up"
    traits = Trait.NONE

    def describe(self, settings: CatchUpSettings) -> Description:
        """Describe the step for plans and reports."""
        title = f"wait until {settings.target} has what {settings.source} has"
        what = "a comparison of everything" if settings.scope == "full" else "a comparison"
        return Description(title, f"{what} finds {settings.at_most:,} missing at most")

    def check(self, settings: CatchUpSettings, facts: Facts, reader: LinkReader) -> CaughtUpIntent:
        """Use the settings as the intent."""
        return CaughtUpIntent(settings.scope, settings.at_most, settings.connectors)

    def verify(self, intent: CaughtUpIntent, reader: LinkReader) -> Readback[None]:
        """What is missing now."""
        missing = reader.compared(intent.scope)
        if missing.not_compared:
            words = f"not everything could be compared: {missing.not_compared[0]}"
            return Readback(State.WAITING, words, items=missing.not_compared)
        words = f"{missing.records:,} records are still on their way"
        if missing.records > intent.at_most:
            halted = tuple(_halted(intent.connectors, reader))
            return Readback(State.WAITING, "; ".join((words, *halted)), items=missing.partitions)
        return Readback(State.DONE, words)


@dataclass(frozen=True, slots=True)
class DrainSettings:
    """What a plan says, and what was overridden."""

    target: str
    overrides: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DrainIntent:
    """What may be missing.

    Attributes:
        second_copies: that the source is known to hold. Equal records are counted, so that each of
            these is missing on the target, for good.
        overridden: why whatever else is missing is overridden; empty where it is not.
    """

    second_copies: int = 0
    overridden: str = ""


@dataclass(frozen=True, slots=True)
class DrainFacts:
    """How many records are missing."""

    missing: int


class Drain(Polling[DrainSettings, DrainIntent, DrainFacts]):
    """Compares the tail until nothing of it is missing."""

    name = "drain"
    traits = Trait.DRAINS

    def describe(self, settings: DrainSettings) -> Description:
        """Describe the step for plans and reports."""
        title = f"let replication bring everything to {settings.target}"
        return Description(title, "a comparison of the tail finds no unreplicated record")

    def check(self, settings: DrainSettings, facts: Facts, reader: LinkReader) -> DrainIntent:
        """How many second copies the source is known to hold, and what is overridden."""
        search = facts.of(FindMissing())
        overridden = settings.overrides.get(CHANGED_AFTER_FENCE, "")
        return DrainIntent(search.duplicated if search else 0, overridden)

    def verify(self, intent: DrainIntent, reader: LinkReader) -> Readback[DrainFacts]:
        """What is missing now."""
        second = intent.second_copies
        # A tail may hold some of them and not others: only where all count do they cancel out.
        missing = reader.compared("full") if second else reader.missing()
        if unproven := missing.unproven:
            words = f"{len(unproven):,} partitions are not proven yet: {unproven[0]}"
            return Readback(State.WAITING, words, items=unproven)
        records = missing.but_for(second)
        if records:
            if intent.overridden:
                told = f"{records:,} records are missing, which is passed over: {intent.overridden}"
                return Readback(State.DONE, told, DrainFacts(records), missing.partitions, told)
            words = f"{records:,} records are still missing"
            return Readback(State.WAITING, words, items=missing.partitions)
        before = missing.left_missing_before
        words = "every record is replicated to the target"
        if before:
            words += f", except {before:,} that were quarantined or discarded before"
        return Readback(State.DONE, words, DrainFacts(0))


_SHOWN = 3


@dataclass(frozen=True, slots=True)
class WaitSettings:
    """Settings from the runbook.

    Attributes:
        condition: one of `CONDITIONS`.
    """

    source: str
    target: str
    condition: Annotated[str, Field(alias="for")]
    connectors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """The id of the cluster that answers; empty where that was not asked."""

    cluster_id: str = ""


Observed = Readback[AnswerFacts]


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that can be so.

    Attributes:
        words: what is so then, with `{source}` and `{target}`.
        reader: looks.
    """

    words: str
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
        return Readback(State.WAITING, f"{name} is there: {error.message}")
    except Unreachable as error:
        return Readback(State.DONE, error.message)
    return Readback(State.WAITING, f"{name} still answers")


def _led(cluster: str, names: Sequence[str], reader: LinkReader) -> Observed:
    dark = []
    for name, found in reader.cluster_reader(cluster).topics(names).items():
        if isinstance(found, Unavailable):
            dark.append(f"{name}: {found.reason}")
        elif found is not None:
            dark += [f"{name}-{n}" for n, leader in found.partitions.items() if leader is None]
    if dark:
        words = f"{len(dark)} partitions have no leader: {', '.join(sorted(dark)[:_SHOWN])}"
        return Readback(State.WAITING, words, items=tuple(sorted(dark)))
    return Readback(State.DONE, f"every partition of {len(names)} topics has a leader")


def _empty(cluster: str, reader: LinkReader) -> Observed:
    names = reader.link_groups(cluster)
    described = reader.groups(cluster).described(names).items()
    active = sorted(n for n, g in described if isinstance(g, Unavailable) or g.active)
    if active:
        told = ", ".join(active[:_SHOWN])
        words = f"{len(active)} of {len(names)} groups on {cluster} are read in: {told}"
        return Readback(State.WAITING, words, items=tuple(active))
    return Readback(State.DONE, f"nobody reads in any of {len(names)} groups on {cluster}")


def _caught_up(settings: WaitSettings, reader: LinkReader) -> Observed:
    missing = reader.missing()
    if missing.not_compared:
        words = f"not everything could be compared: {missing.not_compared[0]}"
        return Readback(State.WAITING, words, items=missing.not_compared)
    if missing.records:
        words = f"{missing.records:,} records are still missing"
        return Readback(State.WAITING, words, items=missing.partitions)
    return Readback(State.DONE, "every record is replicated to the target")


def _connectors(wanted: str, settings: WaitSettings, reader: LinkReader) -> Observed:
    names = settings.connectors
    if not names:
        return Readback(State.FAILED, "drctl.yaml names no connector of this link")
    states = {name: reader.connectors().state(name).state for name in names}
    others = tuple(f"{name} is {state}" for name, state in states.items() if state != wanted)
    if others:
        return Readback(State.WAITING, "; ".join(others), items=others)
    return Readback(State.DONE, f"all of {len(names)} connectors are {wanted}")


def _copies(reader: LinkReader) -> tuple[str, ...]:
    return tuple(map(reader.target_topic, reader.topics()))


CONDITIONS: Mapping[str, Condition] = {
    "source reachable": Condition("{source} answers", lambda s, r: _answers(s.source, r)),
    "source silent": Condition("{source} does not answer", _silent),
    "source leaders elected": Condition(
        "every partition on {source} has a leader", lambda s, r: _led(s.source, r.topics(), r)
    ),
    "target reachable": Condition("{target} answers", lambda s, r: _answers(s.target, r)),
    "target leaders elected": Condition(
        "every partition on {target} has a leader", lambda s, r: _led(s.target, _copies(r), r)
    ),
    "groups empty": Condition(
        "nobody reads in the link's groups on {source}", lambda s, r: _empty(s.source, r)
    ),
    "target groups empty": Condition(
        "nobody reads in the link's groups on {target}", lambda s, r: _empty(s.target, r)
    ),
    "replication caught up": Condition("{target} lacks no record of the tail", _caught_up),
    "connectors running": Condition(
        "the connectors and their tasks run", partial(_connectors, "RUNNING")
    ),
    "connectors stopped": Condition("the connectors are stopped", partial(_connectors, "STOPPED")),
}
"""By the name that stands in runbooks."""


class Wait(Polling[WaitSettings, WaitSettings, AnswerFacts]):
    """Looks again and again, for as long as the step's patience lasts."""

    name = "wait"
    traits = Trait.NONE

    def describe(self, settings: WaitSettings) -> Description:
        """Describe the step for plans and reports."""
        words = CONDITIONS[settings.condition].words
        told = words.format(source=settings.source, target=settings.target)
        return Description(f"wait until {told}", "it was seen to be so")

    def check(self, settings: WaitSettings, facts: Facts, reader: LinkReader) -> WaitSettings:
        """Use the settings as the intent."""
        return settings

    def verify(self, intent: WaitSettings, reader: LinkReader) -> Observed:
        """Whether it is so now."""
        return CONDITIONS[intent.condition].reader(intent, reader)
