"""How far replication is behind, from offsets and times alone; no record is read for it."""

from collections.abc import Mapping
from typing import NamedTuple

from drctl.model.moments import utc
from drctl.model.replication import Lag, ReplicatedTo, Tail
from drctl.model.topology import OffsetRange, TopicPartition, TopicState, Unavailable

SOON_MS = 10 * 60_000
"""For so long a drain may last."""

_KEPT_FOR_EVER = -1
_NOBODY = "nobody says how far replication came, and the newest copy does not tell"


class Newest(NamedTuple):
    """What the newest copy says.

    Attributes:
        copied_ms: its time, milliseconds UTC.
        offset: on the source, of the first record that is newer; the end where none is.
        first_ms: the time of that record, milliseconds UTC; -1 where there is none.
    """

    copied_ms: int
    offset: int
    first_ms: int = -1


def lags(
    logs: Mapping[TopicPartition, OffsetRange | Unavailable],
    told: Mapping[TopicPartition, ReplicatedTo],
    newest: Mapping[TopicPartition, Newest],
    why_not_told: str = "",
) -> dict[TopicPartition, Lag | Unavailable]:
    """By partition of the source.

    Args:
        told: how far the replicator says that it came.
        why_not_told: why it says nothing, where it does not.
    """
    nobody = Unavailable(f"{_NOBODY}: {why_not_told}" if why_not_told else _NOBODY)
    return {
        place: log
        if isinstance(log, Unavailable)
        else _lag(log, told.get(place), newest.get(place)) or nobody
        for place, log in logs.items()
    }


def _lag(log: OffsetRange, told: ReplicatedTo | None, newest: Newest | None) -> Lag | None:
    if not log.span:
        return Lag(0, 0, "it holds nothing")
    if told is None and newest is None:
        return None
    words = [told.evidence] if told is not None else []
    if newest is not None:
        words.append(f"its newest copy is of {utc(newest.copied_ms)}")
    places = [each.offset for each in (told, newest) if each is not None]
    sure = told.offset if told is not None else max(places)
    records = _behind(log, max(places))
    oldest_ms = newest.first_ms if newest is not None and records else -1
    return Lag(records, _behind(log, sure), ", ".join(words), oldest_ms)


def _behind(log: OffsetRange, position: int) -> int:
    return max(0, log.end - max(log.start, position))


class Limits(NamedTuple):
    """Times of a topic: what is older than these is deleted within a while.

    Attributes:
        soon_ms: within the time of a drain.
        later_ms: within a quarter of the time that records are kept.
    """

    soon_ms: int
    later_ms: int


def limits(topic: TopicState, now_ms: int) -> Limits | Unavailable | None:
    """Of a topic of the source; None where it deletes nothing for its age."""
    if not topic.config:
        return Unavailable("its configuration may not be read")
    text = topic.config.get("retention.ms", "")
    if not text.lstrip("-").isdecimal():
        return Unavailable("its retention.ms is not known")
    kept_ms = int(text)
    if "delete" not in topic.config.get("cleanup.policy", "delete") or kept_ms == _KEPT_FOR_EVER:
        return None
    return Limits(now_ms - kept_ms + SOON_MS, now_ms - kept_ms + kept_ms // 4)


def by_size(topic: TopicState) -> str:
    """By which size it deletes records whatever their age; empty where by none."""
    limit = topic.config.get("retention.bytes", "-1")
    deletes = "delete" in topic.config.get("cleanup.policy", "delete")
    return f"retention.bytes={limit} deletes records whatever their age" * (
        deletes and limit != "-1"
    )


class Ages(NamedTuple):
    """Offsets up to which a partition's records are deleted within a while."""

    soon: int
    later: int


def tail(log: OffsetRange, lag: Lag, told: ReplicatedTo | None, ages: Ages, sized: str) -> Tail:
    """What retention has done, and is about to do, to what lags."""
    begin = log.end - lag.at_most
    lost = 0 if told is None else max(0, log.start - told.offset)
    return Tail(lost, max(0, ages.soon - begin), max(0, ages.later - begin), sized)
