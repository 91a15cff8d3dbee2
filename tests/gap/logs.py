"""Generated topics with every trap known to the comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from drctl.gap.comparison import Identity, TopicPlan
from drctl.model.topology import OffsetRange, Record

IGNORED = frozenset({"__replicator_id"})
BASE_TIME = 1_700_000_000_000


Log = Mapping[int, Sequence[Record]]


class GeneratedTopic:
    def __init__(self, plan: TopicPlan, source: Log, target: Log) -> None:
        self.plan, self.source, self.target = plan, source, target

    def __repr__(self) -> str:
        return self.plan.topic  # failing tests print the topics that disagree


HOSTILE = '\x00\x1f"},\\{"key":"h"/é\u2028\U0001f600'
"""A header name that would end its JSON string if it were not escaped."""

# Few distinct values, so that equal records, later records of a key and similar records occur.
keys = st.sampled_from([None, b"", b"a", b"b", b"\x00", b"key-\xff", b"null"])
values = st.sampled_from([None, b"", b"1", b"2", b"\x00", b"\xff\xfe", b"v" * 300])
headers = st.lists(
    st.tuples(
        st.sampled_from(["h", "i", "__replicator_id", "", HOSTILE]),
        st.sampled_from([None, b"", b"h", b"x"]),
    ),
    max_size=3,
).map(tuple)
times = st.integers(0, 40).map(lambda n: BASE_TIME + n * 977)


@st.composite
def source_logs(draw: st.DrawFn, partitions: int) -> dict[int, list[Record]]:
    logs: dict[int, list[Record]] = {}
    for partition in range(partitions):
        offset = draw(st.sampled_from([0, 0, 7, 1_000_000]))
        log = []
        for _ in range(draw(st.integers(0, 14))):
            offset += draw(
                st.sampled_from([1, 1, 1, 1, 2, 5])
            )  # gaps: control records or compaction
            log.append(
                Record(partition, offset, draw(times), draw(keys), draw(values), draw(headers))
            )
        logs[partition] = log
    return logs


@st.composite
def target_logs(
    draw: st.DrawFn, source: Mapping[int, Sequence[Record]], partitions: int, deleted: bool
) -> tuple[dict[int, list[Record]], dict[int, int]]:
    """Draw a target: copies, losses, duplicates, moved records, and records of its own."""
    kept: dict[int, list[tuple[Record, bool]]] = {p: [] for p in range(partitions)}
    copies = draw(st.sampled_from([(1,), (1, 1, 1, 0), (1, 1, 2, 0), (0,)]))
    for partition, log in source.items():
        stop = draw(st.integers(0, len(log)))
        for index, record in enumerate(log):
            lost = index >= stop and draw(st.booleans())
            for _ in range(0 if lost else draw(st.sampled_from(copies))):
                chosen = draw(st.sampled_from([partition] * 8 + list(range(partitions))))
                if chosen in kept:
                    kept[chosen].append((record, True))
    for _ in range(draw(st.integers(0, 4))):
        own = Record(0, 0, draw(times), draw(keys), draw(values), draw(headers))
        kept[draw(st.integers(0, partitions - 1))].append((own, False))
    logs: dict[int, list[Record]] = {}
    starts: dict[int, int] = {}
    for partition, records in kept.items():
        start = draw(st.integers(0, 3)) if deleted else 0
        starts[partition] = start
        logs[partition] = [
            Record(
                partition,
                start + i,
                r.timestamp_ms,
                r.key,
                r.value,
                r.headers + ((("__replicator_id", b"x"),) if copied else ()),
            )
            for i, (r, copied) in enumerate(records[start:])
        ]
    return logs, starts


@st.composite
def topics(draw: st.DrawFn, name: str) -> GeneratedTopic:
    by_partition = draw(st.sampled_from([True, True, False]))
    source_partitions = draw(st.integers(1, 3))
    target_partitions = draw(st.integers(1, 4))
    source = draw(source_logs(source_partitions))
    target, deleted = draw(
        target_logs(source, target_partitions, deleted=draw(st.sampled_from([False, True])))
    )
    timestamps = draw(st.sampled_from([True, True, False]))
    plan = TopicPlan(
        topic=name,
        target_topic=draw(st.sampled_from([name, f"primary.{name}"])),
        by_partition=by_partition,
        timestamps=timestamps,
        bucket_ms=draw(st.sampled_from([0, 1000, 5000])) if timestamps else 0,
        compacted=draw(st.sampled_from([False, False, True])),
        source={p: _range(log) for p, log in source.items()},
        target={p: _range(log) for p, log in target.items()},
        target_deleted=deleted,
    )
    return GeneratedTopic(plan, source, target)


def _range(log: Sequence[Record]) -> OffsetRange:
    return OffsetRange(log[0].offset, log[-1].offset + 1) if log else OffsetRange(0, 0)


identities = st.sampled_from(
    [
        Identity(ignored_headers=IGNORED),
        Identity(ignored_headers=IGNORED),
        Identity(ignored_headers=IGNORED),
        Identity(ignored_headers=IGNORED, origin_headers=IGNORED),
        Identity(headers=False, timestamp=False, origin_headers=IGNORED),
        Identity(value=False, headers=False, timestamp=False),
        Identity(key=True, value=True, headers=False, timestamp=False),
        Identity(False, False, False, False, header_names=("h",)),
    ]
)


@st.composite
def reordered(draw: st.DrawFn, name: str) -> GeneratedTopic:
    """Draw topics whose target has records in another order."""
    generated = draw(topics(name))
    target = {}
    for partition, log in generated.target.items():
        order = draw(st.permutations(log)) if draw(st.booleans()) else log
        target[partition] = [
            replace(record, offset=place.offset) for record, place in zip(order, log, strict=True)
        ]
    return GeneratedTopic(generated.plan, generated.source, target)
