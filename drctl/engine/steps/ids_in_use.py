"""Which producer ids the link's topics remember on a source that may be dead, or hardly alive."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from drctl.engine.ports import Look
from drctl.model.errors import ConfigError, Unreachable
from drctl.model.producer_ids import ProducerIdReader, Producers, highest
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


def ids_in_use(source: str, look: Look) -> IdsInUse:
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


def _places(source: str, look: Look) -> Sequence[TopicPartition]:
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
