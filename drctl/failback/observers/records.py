"""Checks whether records of a gap result are still where the result has them.

Timestamps are compared too, if copies keep them: many records have the same key and value. Copies
have other timestamps if the target topic uses LogAppendTime, or if the link's `identity` omits the
timestamp and names no header instead. Then a matching record may be a copy or another record, but a
record that does not match is certainly no copy.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from drctl.failback.facts import Cluster, Names
from drctl.failback.gap_results import GapEvidence, PartitionResult
from drctl.failback.observers.copies import QUICK_LIMIT, in_chunks, original, same_content, span
from drctl.model.ports import ClusterReader
from drctl.model.text import plural
from drctl.model.topology import OffsetRange, Record, TopicPartition, Unavailable
from drctl.steps.first_records import FIELDS, TIMESTAMP, fields_of

RecordKey = tuple[object, ...]
_HEADER = "header:"


@dataclass(frozen=True, slots=True)
class RecordIdentity:
    """What copies have in common with their originals.

    Attributes:
        identity: of the link: some of `FIELDS`, and header:NAME; `headers` is ignored, because
            replicators may add headers.
        own_time: target topics whose records may have other timestamps than their originals.
    """

    identity: Collection[str] = FIELDS
    own_time: Collection[str] = ()

    def key(self, record: Record, topic: str) -> RecordKey:
        """The parts of a record that its copy in this target topic keeps; empty if none."""
        named = self._headers()
        headers = (each for each in record.headers if each[0] in named)
        return (*fields_of(record, self._fields(topic)), *headers)

    def digest(self, record: Record, topic: str) -> bytes:
        """A digest of `key` (128 bits): records may be large."""
        return blake2b(repr(self.key(record, topic)).encode(), digest_size=16).digest()

    def sure(self, topic: str) -> bool:
        """Whether an equal record counts as the copy."""
        fields = self._fields(topic)
        return bool(self._headers()) or (TIMESTAMP in fields and len(fields) > 1)

    def unsure(self, topic: str) -> Unavailable:
        """A note about an equal record, if equality is weak evidence."""
        return Unavailable(
            f"records of {topic} are compared without timestamps (LogAppendTime, or `identity` of"
            " the link): a matching record may be a copy or another record"
        )

    def _fields(self, topic: str) -> tuple[str, ...]:
        timed = topic not in self.own_time
        return tuple(n for n in FIELDS if n in self.identity and (timed or n != TIMESTAMP))

    def _headers(self) -> frozenset[str]:
        named = (each for each in self.identity if each.startswith(_HEADER))
        return frozenset(each.removeprefix(_HEADER) for each in named)


_ALIKE = RecordIdentity()


def copied_since(
    results: Sequence[GapEvidence],
    origin: str,
    on_target: Cluster,
    source: ClusterReader,
    target: ClusterReader,
    most: int = QUICK_LIMIT,
    record_identity: RecordIdentity = _ALIKE,
) -> Mapping[str, str | Unavailable]:
    """By folder of a result, an unreplicated record that is on the target by now.

    Results without such a record have no entry; if it is unknown, the entry is the reason.

    Args:
        origin: id of the source: copies that name it are drctl's, and are expected.
        most: maximum number of offsets to scan for records missing in the newest result.
        record_identity: how copies are identified.

    Raises:
        Unreachable: a cluster did not answer.
    """
    asked: dict[str, list[tuple[PartitionResult, int]]] = {}
    found: dict[str, str | Unavailable] = {}
    since: dict[TopicPartition, int] = {}
    for result in results:
        rows = list(_firsts(result, on_target))
        compared_ends = {each.copy: _ended(each) for each, _ in rows}
        total = span(compared_ends, on_target)
        # An old result for other logs is never evidence: it is not worth reading weeks of records.
        if total > (most if result.ends == results[0].ends else min(most, QUICK_LIMIT)):
            found[result.where] = Unavailable(
                f"{plural(total, 'offset was', 'offsets were')} written to {target.name} after the"
                " comparison, too many to search for copies of the unreplicated records: run drctl"
                " gap again"
            )
        elif rows:
            asked[result.where] = rows
            since |= {p: min(at, since.get(p, at)) for p, at in compared_ends.items()}
    if not since:
        return found
    places = dict.fromkeys((each.place, at) for rows in asked.values() for each, at in rows)
    missing = source.records(list(places))
    rows_of: dict[TopicPartition, list[tuple[str, PartitionResult, int]]] = defaultdict(list)
    for where, rows in asked.items():
        for each, at in rows:
            rows_of[each.copy].append((where, each, at))
    for copy, records in in_chunks(target, _up_to_now(since, on_target)):
        for where, each, at in rows_of[copy]:
            if _holds(records, missing.get((each.place, at)), each, origin, record_identity):
                text = (
                    f"offset {at} of {each.place} was missing and is on {target.name} now:"
                    " something else copied it after newer records"
                )
                sure = record_identity.sure(copy.topic) or isinstance(found.get(where), str)
                found[where] = text if sure else record_identity.unsure(copy.topic)
    return found


def _up_to_now(since: Mapping[TopicPartition, int], on: Cluster) -> dict[TopicPartition, range]:
    logs = ((place, at, on.logs.get(place)) for place, at in since.items())
    return {p: range(at, log.end) for p, at, log in logs if isinstance(log, OffsetRange)}


def _firsts(result: GapEvidence, on_target: Cluster) -> Iterator[tuple[PartitionResult, int]]:
    """Where the first and last ranges of unreplicated records begin, if the target has grown."""
    for each in result.partitions:
        if not span({each.copy: _ended(each)}, on_target):
            continue
        for first in dict.fromkeys(run[0] for run in (*each.ranges[:1], *each.ranges[-1:])):
            yield each, first


def _ended(each: PartitionResult) -> int:
    """The end offset of the target partition in the result; 0 if it did not exist."""
    return each.target.end if each.target is not None else 0


def _holds(
    records: tuple[Record, ...],
    wanted: Record | Unavailable | None,
    each: PartitionResult,
    origin: str,
    record_identity: RecordIdentity,
) -> bool:
    if not isinstance(wanted, Record):
        return False
    text = record_identity.key(wanted, each.copy.topic)
    return any(
        r.offset >= _ended(each)
        and record_identity.key(r, each.copy.topic) == text
        and original(r, origin, each.place) is None
        for r in records
    )


def source_mismatch(result: GapEvidence, source: ClusterReader) -> str:
    """Why the result belongs to other topics; empty if nothing indicates that.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    if not result.samples:
        return ""
    found = source.records([(each.place, each.offset) for each in result.samples])
    for each in result.samples:
        record = found.get((each.place, each.offset))
        if not isinstance(record, Record):
            continue
        if (record.timestamp_ms, record.key) != (each.timestamp_ms, each.key):
            return (
                f"offset {each.offset} of {each.place} differs from the result: the topic was"
                " recreated"
            )
    return ""


def observe_filled(
    names: Names,
    on_source: Cluster,
    on_target: Cluster,
    source: ClusterReader,
    target: ClusterReader,
) -> bool:
    """Whether the source's content is a prefix of the target's; False if the source is empty.

    The first and the last record of each partition are compared.

    Args:
        names: the source name of each target topic.

    Raises:
        Unreachable: a cluster did not answer.
    """
    copies = {
        TopicPartition(names.get(copy.topic, copy.topic), copy.partition): copy
        for copy in on_target.logs
    }
    first: dict[TopicPartition, tuple[int, int]] = {}
    last: dict[TopicPartition, tuple[int, int]] = {}
    for place, log in on_source.logs.items():
        if isinstance(log, Unavailable):
            return False
        if log.end == log.start:
            continue
        there = on_target.logs.get(copies.get(place, place))
        if not isinstance(there, OffsetRange) or there.end - there.start < log.end - log.start:
            return False
        first[place] = log.start, there.start
        last[place] = log.end - 1, there.start + log.end - log.start - 1
    if not first:
        return False
    return all(_same(asked, copies, source, target) for asked in (first, last))


def _same(
    asked: Mapping[TopicPartition, tuple[int, int]],
    copies: Mapping[TopicPartition, TopicPartition],
    source: ClusterReader,
    target: ClusterReader,
) -> bool:
    here = source.records([(place, at) for place, (at, _) in asked.items()])
    there = target.records([(copies[place], at) for place, (_, at) in asked.items()])
    return all(
        same_content(here.get((place, at)), there.get((copies[place], copy)))
        for place, (at, copy) in asked.items()
    )
