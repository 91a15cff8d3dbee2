"""Advances the target's producer ids past those in use on the source.

Both clusters count from 0. Where a producer that moves meets another one of its id, records of its
own may be acknowledged and not stored: see `drctl.model.producer_ids`.
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
from drctl.model.topology import TopicPartition, Unavailable
from drctl.model.typed_json import Number
from drctl.steps.groups import PrepareGroups

BATCH = 2000
"""Partitions that are asked about together: each of them may remember thousands of producers."""

NAMED = 20
"""Partitions that are named where more did not respond: what is known goes into the journal."""

NOBODY = -1


@dataclass(slots=True)
class IdsInUse:
    """What the partitions told.

    Attributes:
        highest: of all ids; -1 where none is known.
        unread: how many partitions did not respond.
        named: the first of those, with why.
        silent: why none of them could be asked; empty where they were.
    """

    highest: int = NOBODY
    unread: int = 0
    named: list[str] = field(default_factory=list)
    silent: str = ""


def ids_in_use(source: str, reader: LinkReader) -> IdsInUse:
    """Ask every partition of the link's topics; a cluster that is silent is not waited for."""
    try:
        places = _places(source, reader)
    except (Unreachable, ConfigError) as error:
        return IdsInUse(silent=error.message)
    found, ids = IdsInUse(), reader.producer_ids(source)
    for start in range(0, len(places), BATCH):
        batch = places[start : start + BATCH]
        if not _take(found, _asked(ids, batch)):
            # The rest would take as long, and bring as much.
            found.unread += len(places) - start - len(batch)
            break
    return found


def _places(source: str, reader: LinkReader) -> Sequence[TopicPartition]:
    # The source itself is asked first: where it is dead, the target would tell the topics.
    there = reader.cluster_reader(source).overview().partitions
    return [TopicPartition(t, number) for t in reader.topics() for number in there.get(t, ())]


def _asked(ids: ProducerIdReader, places: Sequence[TopicPartition]) -> Producers:
    try:
        return ids.in_use(places)
    except (Unreachable, ConfigError) as error:
        return dict.fromkeys(places, Unavailable(error.message))


def _take(found: IdsInUse, told: Producers) -> bool:
    """Whether any partition told."""
    found.highest = max(found.highest, highest(told))
    untold = [(p, each) for p, each in told.items() if isinstance(each, Unavailable)]
    found.unread += len(untold)
    found.named += [f"{p}: {why.reason}" for p, why in untold[: NAMED - len(found.named)]]
    return len(untold) < len(told)


CALL_S = 10
"""What a call of the writer may take."""

RESTART = "restart idempotent producers when they move, so that they get new ids"

_EARLIER = (
    "or advance the ids days before, with a runbook that runs this step with a longer timeout"
)

Given = Mapping[int, int | Unavailable]


@dataclass(frozen=True, slots=True)
class AdvanceSettings:
    """Settings from the plan.

    Attributes:
        at_most_seconds: so long it may use up ids.
    """

    source: str
    target: str
    at_most_seconds: Number


@dataclass(frozen=True, slots=True)
class AdvanceIntent:
    """Which ids are used up.

    Attributes:
        beyond: the highest id in use on the source; -1 where none is known.
        silent: why its partitions could not be asked; empty where they were.
        unread: how many of them did not respond.
        named: the first of those, with why.
        before: by broker of the target, the id that it gave.
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
    """The highest id in use on the source, and how many partitions did not respond."""

    beyond: int
    unread: int


class AdvanceProducerIds(Permanent[AdvanceSettings, AdvanceIntent, AdvanceFacts]):
    """Uses up ids until every broker gives higher ones; skipped ids are never needed."""

    name = "advance-producer-ids"
    traits = Trait.CHANGES | Trait.ADVANCES_PRODUCER_IDS

    def describe(self, settings: AdvanceSettings) -> Description:
        """Describe the step for plans and reports."""
        source, target = settings.source, settings.target
        return Description(
            f"advance the producer ids of {target} past those in use on {source}",
            "every broker assigns an id above the highest in use (each request uses one)",
            "none is needed: skipped ids are harmless",
        )

    def check(self, settings: AdvanceSettings, facts: Facts, reader: LinkReader) -> AdvanceIntent:
        """The highest id in use on the source, and where the brokers of the target are.

        A source that does not answer blocks nothing: what is not known is owed.
        """
        # Whom the step before could not reach is not waited for again.
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
        """Use up ids, for no longer than the step may take; done again, it continues."""
        if intent.beyond == NOBODY:
            return ()
        ids, calls = writer.producer_ids(intent.target), intent.at_most_seconds / CALL_S
        return _silent(_advanced(ids, intent.beyond, max(1, int(calls))))

    def verify(self, intent: AdvanceIntent, reader: LinkReader) -> Readback[AdvanceFacts]:
        """Whether every broker of the target gives higher ids."""
        beyond, source, target = intent.beyond, intent.source, intent.target
        facts, items, outstanding = (
            AdvanceFacts(beyond, intent.unread),
            intent.named,
            _outstanding(intent),
        )
        if beyond == NOBODY:
            words = f"no producer id is known to be in use on {source}: nothing to do"
            return Readback(State.DONE, words, facts, items, outstanding)
        try:
            given = reader.producer_ids(target).next_ids()
        except ConfigError as error:
            return Readback(State.FAILED, f"{error.message}; {RESTART}")
        if low := _low(given, intent):
            words = f"{target} assigns ids that may be in use on {source}: {'; '.join(low)}"
            return Readback(State.FAILED, f"{words}; {RESTART}, {_EARLIER}", items=low)
        if silent := _silent(dict(sorted(given.items()))) if given else ("no broker responds",):
            words = (
                f"the next producer ids of some brokers of {target} are unknown:"
                f" {'; '.join(silent)}"
            )
            return Readback(State.WAITING, f"{words}; {RESTART}", items=silent)
        words = (
            f"all {len(given)} brokers of {target} assign producer ids above {beyond:,},"
            f" the highest"
            f" in use on {source}{_cost(given, intent)}"
        )
        return Readback(State.DONE, words, facts, items, outstanding)

    def verify_undo(self, intent: AdvanceIntent, reader: LinkReader) -> Readback[AdvanceFacts]:
        """What was skipped stays so."""
        return Readback(State.DONE, "producer ids stay advanced: skipped ids are harmless")


def _before(target: str, reader: LinkReader) -> dict[str, int]:
    """By broker the id that it gives now; without those that do not tell: verify looks again."""
    try:
        given = reader.producer_ids(target).next_ids()
    except (Unreachable, ConfigError):
        return {}
    return {str(broker): each for broker, each in given.items() if isinstance(each, int)}


def _advanced(
    ids: ProducerIdWriter, beyond: int, calls: int
) -> Mapping[int, Advanced | Unavailable]:
    """The answers of the last call: all brokers are far enough, or no call is left."""
    while True:
        answers, calls = ids.advance(beyond), calls - 1
        short = [each for each in answers.values() if isinstance(each, Advanced) and not each.done]
        if not short or not calls:
            return answers


def _low(given: Given, intent: AdvanceIntent) -> tuple[str, ...]:
    """Each broker that is not far enough, with figures."""
    found = []
    for broker, now in sorted(given.items()):
        if isinstance(now, int) and now <= intent.beyond:
            before = intent.before.get(str(broker))
            came = "" if before is None else f"advanced by {now - before:,} and "
            left = intent.beyond - now
            found.append(f"broker {broker} {came}is at {now:,}, {left:,} below the highest")
    return tuple(found)


def _silent(answers: Mapping[int, object]) -> tuple[str, ...]:
    """Each broker that did not answer, and why."""
    return tuple(
        f"broker {broker}: {each.reason}"
        for broker, each in answers.items()
        if isinstance(each, Unavailable)
    )


def _cost(given: Given, intent: AdvanceIntent) -> str:
    """The cluster's brokers share one sequence: how much further it is now."""
    now = max(each for each in given.values() if isinstance(each, int))
    before = intent.before.values()
    return f"; used {now - max(before):,} of 2^63 ids" if before else ""


def _outstanding(intent: AdvanceIntent) -> str:
    source, unread = intent.source, intent.unread
    if intent.silent:
        return f"{RESTART}; the ids in use on {source} are unknown: {intent.silent}"
    if unread:
        told = f"{RESTART}; the ids in use in {unread:,} partitions of {source} are unknown"
        return f"{told}: {intent.named[0]}"
    return ""
