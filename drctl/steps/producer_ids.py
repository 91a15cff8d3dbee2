"""Has the target give only producer ids that nobody brings along from the source.

Both clusters count from 0. Where a producer that moves meets another one of its id, records of its
own may be acknowledged and not stored: see `drctl.model.producer_ids`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import ConfigError, Unreachable
from drctl.model.plan import Json
from drctl.model.producer_ids import (
    Advanced,
    ProducerIdReader,
    ProducerIdWriter,
    Producers,
    highest,
)
from drctl.model.topology import TopicPartition, Unavailable

BATCH = 2000
"""Partitions that are asked about together: each of them may remember thousands of producers."""

NAMED = 20
"""Partitions that are named where more did not tell: what is known goes into the journal."""

NOBODY = -1


@dataclass(slots=True)
class IdsInUse:
    """What the partitions told.

    Attributes:
        highest: of all ids; -1 where none is known.
        unread: how many partitions did not tell.
        named: the first of those, with why.
        silent: why none of them could be asked; empty where they were.
    """

    highest: int = NOBODY
    unread: int = 0
    named: list[str] = field(default_factory=list)
    silent: str = ""


def ids_in_use(source: str, look: LinkReader) -> IdsInUse:
    """Ask every partition of the link's topics; whoever does not answer keeps nobody waiting."""
    try:
        places = _places(source, look)
    except (Unreachable, ConfigError) as error:
        return IdsInUse(silent=error.message)
    found, reader = IdsInUse(), look.producer_ids(source)
    for start in range(0, len(places), BATCH):
        batch = places[start : start + BATCH]
        if not _take(found, _told(reader, batch)):
            # The rest would take as long, and bring as much.
            found.unread += len(places) - start - len(batch)
            break
    return found


def _places(source: str, look: LinkReader) -> Sequence[TopicPartition]:
    # The source itself is asked first: where it is dead, the target would tell the topics.
    there = look.site(source).overview().partitions
    return [TopicPartition(t, number) for t in look.topics() for number in there.get(t, ())]


def _told(reader: ProducerIdReader, places: Sequence[TopicPartition]) -> Producers:
    try:
        return reader.in_use(places)
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

RESTART = "restart idempotent producers when they are moved: they get new ids"

_EARLIER = "or skip ids days before, by a runbook with this step and more `patience`"

Given = Mapping[int, int | Unavailable]


class SkipProducerIds:
    """Uses up ids until every broker gives higher ones; nobody misses those that are skipped."""

    name = "skip-producer-ids"
    traits = Trait.CHANGES | Trait.SKIPS_PRODUCER_IDS

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        source, target = settings["source"], settings["target"]
        return Description(
            f"have {target} skip the producer ids that are in use on {source}",
            "every broker gives an id above the highest in use (to ask costs it one)",
            "none is needed: nobody misses ids that were skipped",
        )

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        """The highest id in use on the source, and where the brokers of the target are.

        A source that does not answer keeps nobody: what is not known is owed.
        """
        # Whom the step before could not reach is not waited for again.
        silent = facts.get("prepare-groups", {}).get("silent", "")
        known = IdsInUse(silent=silent) if silent else ids_in_use(settings["source"], look)
        return {
            **settings,
            "beyond": known.highest,
            "silent": known.silent,
            "unread": known.unread,
            "named": known.named,
            "before": _before(settings["target"], look) if known.highest != NOBODY else {},
        }

    def apply(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Use up ids, for no longer than the step may take; done again, it goes on."""
        if intent["beyond"] == NOBODY:
            return ()
        writer, calls = hands.producer_ids(intent["target"]), intent["at_most_seconds"] / CALL_S
        answers = _advanced(writer, intent["beyond"], max(1, int(calls)))
        return tuple(
            f"broker {broker}: {each.reason}"
            for broker, each in answers.items()
            if isinstance(each, Unavailable)
        )

    def verify(self, intent: Json, look: LinkReader) -> Seen:
        """Whether every broker of the target gives higher ids."""
        beyond, source, target = intent["beyond"], intent["source"], intent["target"]
        facts = {"beyond": beyond, "unread": intent["unread"]}
        items, owes = tuple(intent["named"]), _owes(intent)
        if beyond == NOBODY:
            words = f"no producer id is known to be in use on {source}: none is skipped"
            return Seen(State.DONE, words, facts, items, owes)
        try:
            given = look.producer_ids(target).next_ids()
        except ConfigError as error:
            return Seen(State.FAILED, f"{error.message}; {RESTART}")
        if low := _low(given, intent):
            words = f"{target} gives ids that may be in use on {source}: {'; '.join(low)}"
            return Seen(State.FAILED, f"{words}; {RESTART}, {_EARLIER}", {}, low)
        if untold := _untold(given):
            words = f"which ids {target} gives is not known of all brokers: {'; '.join(untold)}"
            return Seen(State.WAITING, f"{words}; {RESTART}", {}, untold)
        words = (
            f"all {len(given)} brokers of {target} give producer ids above {beyond:,}, the highest"
            f" in use on {source}{_cost(given, intent)}"
        )
        return Seen(State.DONE, words, facts, items, owes)

    def undo(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Nothing: no id is given twice."""
        return ()

    def undone(self, intent: Json, look: LinkReader) -> Seen:
        """What was skipped stays so."""
        return Seen(State.DONE, "producer ids stay skipped: nobody misses them")


def _before(target: str, look: LinkReader) -> dict[str, int]:
    """By broker the id that it gives now; without those that do not tell: verify looks again."""
    try:
        given = look.producer_ids(target).next_ids()
    except (Unreachable, ConfigError):
        return {}
    return {str(broker): each for broker, each in given.items() if isinstance(each, int)}


def _advanced(
    writer: ProducerIdWriter, beyond: int, calls: int
) -> Mapping[int, Advanced | Unavailable]:
    """The answers of the last call; there is no other where all are there, or none goes on."""
    while True:
        answers, calls = writer.advance(beyond), calls - 1
        short = [each for each in answers.values() if isinstance(each, Advanced) and not each.done]
        if not short or not calls:
            return answers


def _low(given: Given, intent: Json) -> tuple[str, ...]:
    """Each broker that is not far enough, with figures."""
    found = []
    for broker, now in sorted(given.items()):
        if isinstance(now, int) and now <= intent["beyond"]:
            before = intent["before"].get(str(broker))
            came = "" if before is None else f"came {now - before:,} further, and "
            left = intent["beyond"] - now
            found.append(f"broker {broker} {came}is at {now:,}, {left:,} below the highest")
    return tuple(found)


def _untold(given: Given) -> tuple[str, ...]:
    """Each broker that did not say."""
    if not given:
        return ("no broker is there",)
    return tuple(
        f"broker {broker}: {each.reason}"
        for broker, each in sorted(given.items())
        if isinstance(each, Unavailable)
    )


def _cost(given: Given, intent: Json) -> str:
    """The cluster's brokers share one sequence: how much further it is now."""
    now = max(each for each in given.values() if isinstance(each, int))
    before = intent["before"].values()
    return f"; it cost {now - max(before):,} of 2^63" if before else ""


def _owes(intent: Json) -> str:
    source, unread = intent["source"], intent["unread"]
    if intent["silent"]:
        return f"{RESTART}; which ones they bring from {source} is not known: {intent['silent']}"
    if unread:
        told = f"{RESTART}; those in use in {unread:,} partitions of {source} are not known"
        return f"{told}: {intent['named'][0]}"
    return ""
