"""The final precheck before the target is opened for writes: is the source as it was left?

A fence names the topics that were there, and somebody may have removed its rules since. An
unplanned failover rests on a source that is dead, and minutes may have passed since that was seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from drctl.engine.kind import Facts
from drctl.engine.ports import LinkReader
from drctl.model.errors import Refused, Unreachable
from drctl.model.health import AuthenticationFailed
from drctl.model.plan import Json
from drctl.model.topology import TopicPartition, Unavailable

MOVED = "moved-behind-fence"
"""Blocks opening a target while its source still takes records."""

ALIVE = "source-alive"
"""Blocks an unplanned failover while the source answers; `--override` overrides it."""


@dataclass(frozen=True, slots=True)
class FenceFacts:
    """What a fence of producers was proven with.

    Attributes:
        ends: of the logs, by partition, which did not move.
        brokers: that deny writes.
        answer: of the person who was asked whether it is set.
    """

    ends: Mapping[str, int] = field(default_factory=dict)
    brokers: tuple[int, ...] = ()
    answer: str = ""


_FENCES = ("fence-producers", "command-fence", "manual-fence")
_SHOWN = 3


def look_at_source(settings: Json, facts: Facts, reader: LinkReader) -> None:
    """Check that the source has not changed since the steps before looked at it.

    Raises:
        Refused: it has, or it is back.
        Unreachable: the target did not answer.
    """
    # Journals of drctl before 0.6 do not name it.
    source, passed = settings.get("source", ""), settings.get("overrides", {})
    if settings.get("must_be_silent", False):
        if ALIVE not in passed:
            _refuse_if_alive(source, reader)
    elif source and not settings.get("given_up", False) and MOVED not in passed:
        _refuse_if_moved(source, fenced_ends(facts), reader)


def _refuse_if_alive(source: str, reader: LinkReader) -> None:
    try:
        reader.alive(source)
    except AuthenticationFailed:
        told = "somebody is there, and does not let drctl in"
    except Unreachable:
        return
    else:
        told = "it answers again"
    raise Refused(
        f"{ALIVE}: cluster {source}: {told}",
        "use --mode planned, which loses nothing; or where it is to be given up all the same, say"
        f" why with --override {ALIVE}=REASON",
    )


def fenced_ends(facts: Facts) -> Mapping[str, int]:
    """The end offsets of partitions when they were fenced; none where no fence was proven."""
    found: dict[str, int] = {}
    for kind in _FENCES:
        for place, end in facts.get(kind, {}).get("ends", {}).items():
            found[place] = max(end, found.get(place, 0))
    return found


def _refuse_if_moved(source: str, fenced: Mapping[str, int], reader: LinkReader) -> None:
    if not fenced:
        return
    try:
        topics, site = reader.topics(), reader.site(source)
        there = site.overview().partitions
        places = [TopicPartition(t, number) for t in topics for number in there.get(t, ())]
        offsets = site.offsets(places)
    except Unreachable:
        # One that has died since it was fenced takes no record any more.
        return
    named = {place.rpartition("-")[0] for place in fenced}
    new = [topic for topic in topics if topic not in named]
    if new:
        raise Refused(
            f"{MOVED}: {len(new)} topics were made on {source} behind the fence, which does not"
            f" name them: {', '.join(new[:_SHOWN])}",
            "begin again: the fence names what is there by then. Where clients make topics all the"
            f" time, deny them CREATE on {source} before",
        )
    # One without a leader takes no record.
    grown = [
        str(place)
        for place, found in offsets.items()
        if not isinstance(found, Unavailable) and found.end > fenced.get(str(place), 0)
    ]
    if grown:
        _refuse_if_missing(source, grown, reader)


def _refuse_if_missing(source: str, grown: list[str], reader: LinkReader) -> None:
    """The end of a transaction moves an end, too, and is no record."""
    missing = reader.missing()
    if not missing.records and not missing.not_compared:
        return
    told = missing.not_compared[0] if missing.not_compared else f"{missing.records:,} are missing"
    raise Refused(
        f"{MOVED}: {len(grown)} partitions of {source} grew behind the fence,"
        f" {', '.join(grown[:_SHOWN])}: {told}",
        f"find who writes there (another principal than fence.principals, a super user, or rules"
        f" that somebody lifted: kafka-acls.sh --list on {source}), keep it away, and begin again",
    )
