"""The result of the plain Python reference, on records read by a plain consumer."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from drctl.gap.comparison import Identity, TopicPlan
from drctl.gap.freeze import REPLICATION_HEADERS
from drctl.gap.reference import Verdict, compare_topic
from drctl.model.gap import RecordClass
from drctl.model.topology import Record
from tests.cluster.logs import TopicLog
from tests.cluster.traps import Trap

NOWHERE = TopicLog({}, {})
SPARKS = ("unreplicated", "superseded", "expired", "safe", "conflicting", "unkeyed")
SPARKS += ("misplaced", "repeated")


def identity(settings: Mapping[str, Any]) -> Identity:
    """Return the record identity of a link's settings in drctl.yaml."""
    fields = settings.get("identity", ["key", "value", "headers", "timestamp"])
    return Identity(
        key="key" in fields,
        value="value" in fields,
        headers="headers" in fields,
        timestamp="timestamp" in fields,
        header_names=tuple(f.split(":")[1] for f in fields if ":" in f),
        ignored_headers=REPLICATION_HEADERS | set(settings.get("ignore_headers", ())),
    )


def verdicts(
    trap: Trap, same: Identity, by_partition: bool, source: TopicLog, target: TopicLog
) -> tuple[tuple[Verdict, ...], dict[str, Any]]:
    """Return the reference's verdict on each unreplicated record, and the totals as in gap.json."""
    config = trap.target.config if trap.target else {}
    plan = TopicPlan(
        topic=trap.name,
        target_topic=trap.name,
        by_partition=by_partition,
        timestamps=config.get("message.timestamp.type") != "LogAppendTime",
        bucket_ms=0,
        compacted="compact" in config.get("cleanup.policy", ""),
        source={},
        target={},
        target_deleted={p: low for p, (low, _) in target.bounds.items()},
    )
    outcome = compare_topic(plan, same, source.records, target.records)
    partitions = [
        _partition(p, outcome.missing, source, target)
        for p in sorted(source.records.keys() | target.records.keys())
    ]
    return outcome.missing, {
        "only_on_target": outcome.only_on_target,
        "duplicated_on_target": outcome.duplicated_on_target,
        "partitions": partitions,
    }


def in_words_of_reference(topic: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same of a topic in gap.json."""
    kept = (*SPARKS, "partition", "source_range", "target_range", "read_from_source")
    kept += ("read_from_target", "bytes", "ranges", "oldest_timestamp", "newest_timestamp")
    extra = ("only_on_target", "duplicated_on_target")
    return {
        **{name: sum(p[name] for p in topic["partitions"]) for name in extra},
        "partitions": [{name: p[name] for name in kept} for p in topic["partitions"]],
    }


def _partition(
    number: int, missing: tuple[Verdict, ...], source: TopicLog, target: TopicLog
) -> dict[str, Any]:
    here = [v for v in missing if v.record.partition == number]
    gone = [v for v in here if v.record_class is RecordClass.UNREPLICATED]
    counts: Counter[str] = Counter(str(v.record_class) for v in here)
    counts.update(str(v.order) for v in gone)
    counts["misplaced"] = sum(v.misplaced for v in gone)
    counts["repeated"] = sum(v.repeated for v in gone)
    times = [v.record.timestamp_ms for v in gone]
    there = target.bounds.get(number)
    return {
        **{name: counts[name] for name in SPARKS},
        "partition": number,
        "source_range": list(source.bounds.get(number, (0, 0))),
        "target_range": list(there) if there else None,
        "read_from_source": len(source.records.get(number, ())),
        "read_from_target": len(target.records.get(number, ())),
        "bytes": sum(size(v.record) for v in gone),
        "ranges": _ranges(source.records.get(number, []), {v.record.offset for v in gone}),
        "oldest_timestamp": min(times, default=None),
        "newest_timestamp": max(times, default=None),
    }


def size(record: Record) -> int:
    """Return the bytes of key, value and headers."""
    headers = sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def _ranges(log: list[Record], missing: set[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    before: int | None = None
    for record in log:
        if record.offset in missing:
            if before is not None and before in missing:
                runs[-1][1] = record.offset
            else:
                runs.append([record.offset, record.offset])
        before = record.offset
    return runs
