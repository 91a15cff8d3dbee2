"""Advances the target's producer ids past those in use on the source.

Both clusters assign ids from 0. If the target has assigned the id of a producer that moves there to
another producer, records may be acknowledged but not stored: see `drctl.model.producer_ids`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from drctl.engine.kind import Description, Facts, Permanent, Readback, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import ConfigError, Unreachable
from drctl.model.producer_ids import (
    Advanced,
    ProducerIdReader,
    ProducerIdWriter,
    Producers,
    highest,
)
from drctl.model.text import plural
from drctl.model.topology import TopicPartition, Unavailable
from drctl.model.typed_json import Number
from drctl.steps.groups import PrepareGroups

BATCH = 2000
"""Partitions per request: each may remember thousands of producers."""

NAMED = 20
"""How many partitions without a response are named: the journal stores every name."""

NOBODY = -1


@dataclass(slots=True)
class IdsInUse:
    """The producer ids that partitions report.

    Attributes:
        highest: the highest id; -1 if none is known.
        unread: how many partitions could not be read.
        named: the first of these, each with the reason.
        silent: why no partition could be read at all; empty otherwise.
    """

    highest: int = NOBODY
    unread: int = 0
    named: list[str] = field(default_factory=list)
    silent: str = ""


def ids_in_use(source: str, reader: LinkReader) -> IdsInUse:
    """Read the producer ids of all partitions of the link; does not wait for a dead cluster."""
    try:
        places = _places(source, reader)
    except (Unreachable, ConfigError) as error:
        return IdsInUse(silent=error.message)
    found, ids = IdsInUse(), reader.producer_ids(source)
    for start in range(0, len(places), BATCH):
        batch = places[start : start + BATCH]
        if not _add(found, _asked(ids, batch)):
            # The other partitions would time out as well.
            found.unread += len(places) - start - len(batch)
            break
    return found


def _places(source: str, reader: LinkReader) -> Sequence[TopicPartition]:
    # Ask the source first: if it is dead, `topics` would come from the target.
    there = reader.cluster_reader(source).overview().partitions
    return [TopicPartition(t, number) for t in reader.topics() for number in there.get(t, ())]


def _asked(ids: ProducerIdReader, places: Sequence[TopicPartition]) -> Producers:
    try:
        return ids.in_use(places)
    except (Unreachable, ConfigError) as error:
        return dict.fromkeys(places, Unavailable(error.message))


def _add(found: IdsInUse, read: Producers) -> bool:
    """Add what partitions report; return whether any of them could be read."""
    found.highest = max(found.highest, highest(read))
    unread = [(p, each) for p, each in read.items() if isinstance(each, Unavailable)]
    found.unread += len(unread)
    found.named += [f"{p}: {why.reason}" for p, why in unread[: NAMED - len(found.named)]]
    return len(unread) < len(read)


CALL_S = 10
"""How long a call of the writer may take."""

RESTART = "restart idempotent producers when they move, so that they get new ids"

_EARLIER = (
    "or advance the ids days before the failover, with a runbook that runs this step with a longer"
    " timeout"
)

Given = Mapping[int, int | Unavailable]


@dataclass(frozen=True, slots=True)
class AdvanceSettings:
    """Settings from the plan.

    Attributes:
        at_most_seconds: how long the step may use up ids.
    """

    source: str
    target: str
    at_most_seconds: Number


@dataclass(frozen=True, slots=True)
class AdvanceIntent:
    """The ids to use up.

    Attributes:
        beyond: the highest id in use on the source; -1 if none is known.
        silent: why no partition of the source could be read; empty otherwise.
        unread: how many partitions could not be read.
        named: the first of these, each with the reason.
        before: the next id of each broker of the target before the step.
    """

    source: str
    target: str
    at_most_seconds: Number
    beyond: int
    silent: str
    unread: int
    named: tuple[str, ...]
    before: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class AdvanceFacts:
    """The highest id in use on the source, and how many partitions could not be read."""

    beyond: int
    unread: int


class AdvanceProducerIds(Permanent[AdvanceSettings, AdvanceIntent, AdvanceFacts]):
    """Uses up ids until every broker assigns higher ones; skipped ids are never needed."""

    name = "advance-producer-ids"
    traits = Trait.CHANGES | Trait.ADVANCES_PRODUCER_IDS

    def describe(self, settings: AdvanceSettings) -> Description:
        """Describe the step for plans and reports."""
        source, target = settings.source, settings.target
        return Description(
            f"advance the producer ids of {target} past those in use on {source}",
            "every broker assigns an id above the highest in use (each request uses up one id)",
            "none is needed: skipped ids are harmless",
        )

    def check(self, settings: AdvanceSettings, facts: Facts, reader: LinkReader) -> AdvanceIntent:
        """Read the highest id in use on the source, and the next ids on the target.

        An unreachable source blocks nothing: what is unknown becomes an outstanding action.
        """
        # Do not wait again for a source that the step before could not reach.
        prepared, source, target = facts.of(PrepareGroups()), settings.source, settings.target
        silent = prepared.silent if prepared else ""
        known = IdsInUse(silent=silent) if silent else ids_in_use(source, reader)
        return AdvanceIntent(
            source,
            target,
            settings.at_most_seconds,
            known.highest,
            known.silent,
            known.unread,
            tuple(known.named),
            _before(target, reader) if known.highest != NOBODY else {},
        )

    def apply(self, intent: AdvanceIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Use up ids for at most the step's time; a repeated call continues."""
        if intent.beyond == NOBODY:
            return ()
        ids, calls = writer.producer_ids(intent.target), intent.at_most_seconds / CALL_S
        return _silent(_advanced(ids, intent.beyond, max(1, int(calls))))

    def verify(self, intent: AdvanceIntent, reader: LinkReader) -> Readback[AdvanceFacts]:
        """Verify that every broker of the target assigns higher ids."""
        beyond, source, target = intent.beyond, intent.source, intent.target
        facts, items, outstanding = (
            AdvanceFacts(beyond, intent.unread),
            intent.named,
            _outstanding(intent),
        )
        if beyond == NOBODY:
            message = f"no producer id is known to be in use on {source}: nothing to do"
            return Readback(State.DONE, message, facts, items, outstanding)
        try:
            given = reader.producer_ids(target).next_ids()
        except ConfigError as error:
            return Readback(State.FAILED, f"{error.message}; {RESTART}")
        if low := _low(given, intent):
            message = f"{target} assigns ids that may be in use on {source}: {'; '.join(low)}"
            return Readback(State.FAILED, f"{message}; {RESTART}, {_EARLIER}", items=low)
        if silent := _silent(dict(sorted(given.items()))) if given else ("no broker responds",):
            message = (
                f"the next producer ids of some brokers of {target} are unknown:"
                f" {'; '.join(silent)}"
            )
            return Readback(State.WAITING, f"{message}; {RESTART}", items=silent)
        message = (
            f"every broker ({len(given)}) of {target} assigns producer ids above {beyond:,}, the"
            f" highest in use on {source}{_cost(given, intent)}"
        )
        return Readback(State.DONE, message, facts, items, outstanding)

    def verify_undo(self, intent: AdvanceIntent, reader: LinkReader) -> Readback[AdvanceFacts]:
        """Report that skipped ids stay skipped."""
        return Readback(State.DONE, "producer ids stay advanced: skipped ids are harmless")


def _before(target: str, reader: LinkReader) -> dict[str, int]:
    """The next id of each broker that responds; `verify` asks the others again."""
    try:
        given = reader.producer_ids(target).next_ids()
    except (Unreachable, ConfigError):
        return {}
    return {str(broker): each for broker, each in given.items() if isinstance(each, int)}


def _advanced(
    ids: ProducerIdWriter, beyond: int, calls: int
) -> Mapping[int, Advanced | Unavailable]:
    """Repeat the call until all brokers are done, or `calls` times; return the last answers."""
    while True:
        answers, calls = ids.advance(beyond), calls - 1
        short = [each for each in answers.values() if isinstance(each, Advanced) and not each.done]
        if not short or not calls:
            return answers


def _low(given: Given, intent: AdvanceIntent) -> tuple[str, ...]:
    """Each broker whose next id is too low, with numbers."""
    found = []
    for broker, now in sorted(given.items()):
        if isinstance(now, int) and now <= intent.beyond:
            before = intent.before.get(str(broker))
            came = "" if before is None else f"advanced by {now - before:,} and "
            left = intent.beyond - now
            found.append(f"broker {broker} {came}is at {now:,}, {left:,} below the highest")
    return tuple(found)


def _silent(answers: Mapping[int, object]) -> tuple[str, ...]:
    """Each broker that did not respond, and why."""
    return tuple(
        f"broker {broker}: {each.reason}"
        for broker, each in answers.items()
        if isinstance(each, Unavailable)
    )


def _cost(given: Given, intent: AdvanceIntent) -> str:
    """How many ids were used up: all brokers of a cluster share one sequence."""
    now = max(each for each in given.values() if isinstance(each, int))
    before = intent.before.values()
    return f"; used {now - max(before):,} of 2^63 ids" if before else ""


def _outstanding(intent: AdvanceIntent) -> str:
    source, unread = intent.source, intent.unread
    named = f"once {source} is back, drctl doctor names the ids still in use (producer-ids-collide)"
    if intent.silent:
        return f"{RESTART}; {named}; the ids in use on {source} are unknown: {intent.silent}"
    if unread:
        where = f"{plural(unread, 'partition')} of {source}"
        return f"{RESTART}; {named}; the ids in use in {where} are unknown: {intent.named[0]}"
    return ""
