"""What `status` saw: as the document `drctl/status/1`, in words, and as metrics."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from drctl.checks.causes import Unseen, network_suspected, told_once
from drctl.checks.check import listed
from drctl.checks.go import NOT_ASKED, Answer, Rpo, StatusNow, TopicRpo
from drctl.model.finding import Status
from drctl.model.moments import utc
from drctl.model.replication import Connector
from drctl.model.topology import Unavailable
from drctl.views.findings import causes_json, finding_json
from drctl.views.metrics import Labels, Metric, exposition
from drctl.views.text import json_time_of, sentence

PREFIX = "drctl_status_"
_RUNNING = "RUNNING"


def status_document(seen: StatusNow) -> dict[str, Any]:
    """All of it."""
    every = (*seen.planned.blockers, *seen.unplanned.blockers, *seen.others)
    causes = told_once(every)[1]
    return {
        "schema": "drctl/status/1",
        "link": seen.link,
        "source": _cluster(seen.source, seen.source_id),
        "target": _cluster(seen.target, seen.target_id),
        "at": json_time_of(seen.at_ms),
        "seconds": round(seen.took_s, 3),
        "planned": _answer(seen.planned, causes),
        "unplanned": _answer(seen.unplanned, causes),
        "others": [finding_json(each, causes) for each in seen.others],
        "causes": causes_json(causes),
        "not_asked": list(NOT_ASKED),
        "rpo": {
            **seen.rpo.lost.to_json(),
            "seconds": _rounded(seen.rpo.seconds),
            "how": seen.rpo.how,
            "allowed_records": seen.allowed.max_lag_records,
            "allowed_seconds": seen.allowed.max_rpo_seconds,
        },
        "topics": [_topic(each) for each in seen.topics],
        "connectors": [_connector(each) for _, each in sorted(seen.connectors.items())],
        "groups": {
            "groups": seen.groups.groups,
            "positions": seen.groups.positions,
            "groups_left_out": len(seen.groups.groups_left_out),
            "unknown": seen.groups.unknown,
            "left_out": [
                {
                    "group": row.group,
                    "topic": row.partition.topic,
                    "partition": row.partition.partition,
                    "reason": row.reason,
                }
                for row in seen.groups.left_out
            ],
        },
    }


def _cluster(name: str, identity: str | Unavailable) -> dict[str, Any]:
    if isinstance(identity, Unavailable):
        return {"cluster": name, "id": None, "answers": False, "reason": identity.reason}
    return {"cluster": name, "id": identity, "answers": True, "reason": ""}


def _answer(answer: Answer, causes: Sequence[Unseen]) -> dict[str, Any]:
    return {"go": answer.go, "blockers": [finding_json(each, causes) for each in answer.blockers]}


def _topic(row: TopicRpo) -> dict[str, Any]:
    return {
        "topic": row.topic,
        "target_topic": row.target_topic,
        "partitions": row.partitions,
        "unknown_partitions": row.unknown,
        "records": row.rpo.records,
        "at_most": row.rpo.at_most,
        "seconds": _rounded(row.rpo.seconds),
        "how": row.rpo.how,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _connector(each: Connector) -> dict[str, Any]:
    tasks = Counter(task.state for task in each.tasks)
    return {"name": each.name, "kind": each.kind, "state": each.state, "tasks": dict(tasks)}


def status_line(seen: StatusNow) -> str:
    """All of it in one line."""
    parts = (
        utc(seen.at_ms),
        *filter(None, [network_suspected(seen.planned.blockers)]),
        f"planned {word(seen.planned)}",
        f"unplanned {word(seen.unplanned)}",
        rpo_words(seen.rpo),
        *(f"{name} does not answer" for name in seen.silent),
        *([groups_words(seen)] if seen.groups.left_out else []),
    )
    return sentence("; ".join(parts))


def word(answer: Answer) -> str:
    """Go or no-go."""
    if answer.go:
        return "GO"
    told, unseen = told_once(answer.blockers)
    names = tuple(dict.fromkeys(f.check for f in told))
    beside = tuple(f"{each.count} that could not look" for each in unseen)
    return f"NO-GO ({'; '.join(filter(None, (listed(names), *beside)))})"


def rpo_words(rpo: Rpo) -> str:
    """What would be lost."""
    if not rpo.lost.known and rpo.seconds is None:
        return "RPO not known"
    if rpo.records == 0 and not rpo.at_most:
        return "RPO 0 records"
    since = "" if rpo.seconds is None else f" of the last {rpo.seconds:,.1f} s"
    return f"RPO {rpo.lost.words}{since}"


def groups_words(seen: StatusNow) -> str:
    """How many groups could go on."""
    groups = seen.groups
    if groups.unknown and not groups.groups:
        return f"groups: not known: {groups.unknown}"
    total = f"{groups.groups:,} groups with {groups.positions:,} positions"
    beside = f"; {groups.unknown}" if groups.unknown else ""
    if not groups.left_out:
        return f"{total}: all could go on{beside}"
    names = groups.groups_left_out
    return (
        f"{total}: {len(groups.left_out):,} positions of {len(names):,} groups have no place on"
        f" {seen.target} if {seen.source} is lost now: {listed(names)}{beside}"
    )


def connector_words(connectors: Iterator[Connector]) -> Iterator[str]:
    """Each connector and its tasks."""
    for each in connectors:
        tasks = Counter(task.state for task in each.tasks)
        told = ", ".join(f"{count} {state}" for state, count in sorted(tasks.items()))
        yield f"{each.name} {each.state or '?'}" + (f", tasks: {told}" if told else ", no task")


class Family(NamedTuple):
    """A metric, and what it says.

    Attributes:
        labels: beside link, source and target.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()


FAMILIES = (
    Family("up", "Whether the last look came to an end: 0 where it failed."),
    Family("look_timestamp_seconds", "When the last look ended, in seconds since 1970 UTC."),
    Family("look_seconds", "How long the last look took."),
    Family("cluster_answers", "Whether a cluster answered.", ("cluster",)),
    Family("go", "Whether a failover could begin now.", ("mode",)),
    Family("blockers", "What stands against a failover.", ("mode",)),
    Family("blocked_by", "A guard for which a failover would be refused: 1.", ("mode", "check")),
    Family("findings", "Guards beside the blockers, by what they say.", ("status",)),
    Family("rpo_records", "About so many records would be lost if the source were lost now."),
    Family("rpo_records_at_least", "No fewer than so many; told of a source that does not answer."),
    Family("rpo_records_at_most", "No more than so many."),
    Family("rpo_seconds", "Writes of so many seconds would be lost if the source were lost now."),
    Family("rpo_allowed_seconds", "policy.max_rpo_seconds of drctl.yaml."),
    Family("rpo_allowed_records", "policy.max_lag_records of drctl.yaml."),
    Family("topic_rpo_records", "The records of one topic.", ("topic",)),
    Family("topic_rpo_seconds", "The seconds of one topic.", ("topic",)),
    Family("topic_unknown_partitions", "Partitions of which nothing is known.", ("topic",)),
    Family("connector_running", "Whether a connector and all its tasks run.", ("connector",)),
    Family("connector_tasks", "Tasks of a connector by their state.", ("connector", "state")),
    Family("groups", "Groups with positions in topics of the link."),
    Family("group_positions", "Positions that these have."),
    Family("groups_left_out", "Groups that would not go on where they stopped."),
    Family("positions_left_out", "Positions of which nothing on the target tells the place."),
)
"""In their order; all of them gauges."""


@dataclass(frozen=True, slots=True)
class StatusMetrics:
    """The numbers of the last look.

    Attributes:
        labels: of every metric.
        seen: None as long as there was no look.
        failed: whether a look that ended later failed.
    """

    labels: Labels = field(default_factory=dict)
    seen: StatusNow | None = None
    failed: bool = False

    def text(self) -> str:
        """As Prometheus reads it."""
        numbers = dict(_numbers(self.seen, failed=self.failed))
        return exposition(
            (
                Metric(
                    PREFIX + family.name,
                    "gauge",
                    family.help,
                    [(labels, float(value)) for labels, value in numbers.get(family.name, [])],
                )
                for family in FAMILIES
            ),
            self.labels,
        )


Rows = list[tuple[Labels, float]]


def _numbers(seen: StatusNow | None, *, failed: bool) -> Iterator[tuple[str, Rows]]:
    yield "up", [({}, float(seen is not None and not failed))]
    if seen is None:
        return
    yield "look_timestamp_seconds", [({}, seen.at_ms / 1000 + seen.took_s)]
    yield "look_seconds", [({}, seen.took_s)]
    ends = ((seen.source, seen.source_id), (seen.target, seen.target_id))
    yield "cluster_answers", [({"cluster": n}, not isinstance(i, Unavailable)) for n, i in ends]
    modes = (("planned", seen.planned), ("unplanned", seen.unplanned))
    yield "go", [({"mode": mode}, answer.go) for mode, answer in modes]
    yield "blockers", [({"mode": mode}, len(answer.blockers)) for mode, answer in modes]
    yield "blocked_by", [row for mode, answer in modes for row in _blocked(mode, answer)]
    yield "findings", [({"status": s}, sum(f.status is s for f in seen.others)) for s in Status]
    yield from _rpo(seen.rpo)
    yield "rpo_allowed_seconds", [({}, seen.allowed.max_rpo_seconds)]
    yield "rpo_allowed_records", [({}, seen.allowed.max_lag_records)]
    topics = seen.topics
    yield "topic_rpo_records", _known((each.topic, each.rpo.records) for each in topics)
    yield "topic_rpo_seconds", _known((each.topic, each.rpo.seconds) for each in topics)
    yield "topic_unknown_partitions", [({"topic": each.topic}, each.unknown) for each in topics]
    yield from _connectors(seen)
    groups = seen.groups
    if not groups.unknown:
        yield "groups", [({}, groups.groups)]
        yield "group_positions", [({}, groups.positions)]
        yield "groups_left_out", [({}, len(groups.groups_left_out))]
        yield "positions_left_out", [({}, len(groups.left_out))]


def _blocked(mode: str, answer: Answer) -> Rows:
    return [
        ({"mode": mode, "check": name}, 1) for name in sorted({f.check for f in answer.blockers})
    ]


def _rpo(rpo: Rpo) -> Iterator[tuple[str, Rows]]:
    """What is not known is left out: 0 would be a promise."""
    least, likely, most = rpo.lost.numbers
    told = (
        ("records", likely),
        ("records_at_least", least),
        ("records_at_most", most),
        ("seconds", rpo.seconds),
    )
    for name, value in told:
        if value is not None:
            yield f"rpo_{name}", [({}, value)]


def _known(rows: Iterable[tuple[str, float | None]]) -> Rows:
    return [({"topic": name}, value) for name, value in rows if value is not None]


def _connectors(seen: StatusNow) -> Iterator[tuple[str, Rows]]:
    running: Rows = []
    tasks: Rows = []
    for name, each in sorted(seen.connectors.items()):
        states = [task.state for task in each.tasks]
        runs = each.state == _RUNNING and all(state == _RUNNING for state in states)
        running.append(({"connector": name}, runs))
        tasks += [
            ({"connector": name, "state": state}, states.count(state))
            for state in sorted({*states})
        ]
    yield "connector_running", running
    yield "connector_tasks", tasks
