"""What `status` saw: as the document `drctl/status/1`, in words, and as metrics."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from drctl.checks.causes import Unseen, network_suspected, told_once
from drctl.checks.check import listed
from drctl.checks.go import NOT_ASKED, Answer, GroupsNow, Rpo, StatusNow, TopicRpo
from drctl.model.document import Count, Document, From, Seconds, rounded
from drctl.model.finding import Finding, Status
from drctl.model.loss import LossRangeDocument
from drctl.model.moments import utc
from drctl.model.replication import Connector, LeftOut
from drctl.model.topology import Unavailable
from drctl.views.findings import CauseDocument, FindingDocument, beside, finding_lines
from drctl.views.metrics import Labels, Metric, exposition
from drctl.views.text import plain, sentence
from drctl.views.view import Part, Text, heading, table, view

PREFIX = "drctl_status_"
_RUNNING = "RUNNING"


class ClusterAnswer(Document):
    """A cluster, and whether it answers.

    Attributes:
        reason: why it is silent; empty where it answers.
    """

    cluster: str
    id: str | None
    answers: bool
    reason: str


def _cluster(name: str, identity: str | Unavailable) -> ClusterAnswer:
    if isinstance(identity, Unavailable):
        return ClusterAnswer(cluster=name, id=None, answers=False, reason=identity.reason)
    return ClusterAnswer(cluster=name, id=identity, answers=True, reason="")


class AnswerDocument(Document):
    """Whether a failover could begin now."""

    go: bool
    blockers: tuple[FindingDocument, ...]


class RpoDocument(LossRangeDocument):
    """What would be lost if the source were lost now.

    Attributes:
        seconds: how old the oldest of them is; of a source that does not answer, was at its last
            sign of life.
        how: how that was measured.
    """

    now = From(StatusNow)
    seconds: Seconds | None = now(lambda s: rounded(s.rpo.seconds))
    how: str = now(lambda s: s.rpo.how)
    allowed_records: Count = now(lambda s: s.allowed.max_lag_records)
    allowed_seconds: Seconds = now(lambda s: s.allowed.max_rpo_seconds)


class TopicDocument(Document):
    """The same of one topic.

    Attributes:
        records: about so many, by the best that is known; null where nothing tells.
        at_most: by the replicator's own word.
        seconds: how old the oldest of them is.
        how: how that was measured.
    """

    read = From(TopicRpo)
    topic: str
    target_topic: str
    partitions: Count
    unknown_partitions: Count = read(lambda t: t.unknown)
    records: Count | None = read(lambda t: t.rpo.records)
    at_most: Count | None = read(lambda t: t.rpo.at_most)
    seconds: Seconds | None = read(lambda t: rounded(t.rpo.seconds))
    how: str = read(lambda t: t.rpo.how)


class ConnectorDocument(Document):
    """A connector of the workers that replicate the link.

    Attributes:
        tasks: how many, by state.
    """

    read = From(Connector)
    name: str
    kind: str
    state: str
    tasks: Mapping[str, Count] = read(lambda c: Counter(task.state for task in c.tasks))


class LeftOutDocument(Document):
    """A position of a group that has no place on the target."""

    read = From(LeftOut)
    group: str
    topic: str = read(lambda p: p.partition.topic)
    partition: Count = read(lambda p: p.partition.partition)
    reason: str


class GroupsDocument(Document):
    """Groups of the link, if the source were lost now.

    Attributes:
        unknown: why it is not known; empty where it is.
    """

    read = From(GroupsNow)
    groups: Count
    positions: Count
    groups_left_out: Count = read(lambda g: len(g.groups_left_out))
    unknown: str
    left_out: tuple[LeftOutDocument, ...]


class StatusDocument(Document):
    """What `drctl status` saw.

    Attributes:
        seconds: how long it took to look.
        others: what is to be known of beside the blockers.
        causes: what keeps checks from looking, each cause once.
        not_asked: guards that only `drctl doctor` asks.
    """

    SCHEMA = "drctl/status/1"
    read = From(StatusNow)
    link: str
    source: ClusterAnswer = read(lambda s: _cluster(s.source, s.source_id))
    target: ClusterAnswer = read(lambda s: _cluster(s.target, s.target_id))
    at: datetime = read(lambda s: datetime.fromtimestamp(s.at_ms / 1000, UTC))
    seconds: Seconds = read(lambda s: round(s.took_s, 3))
    planned: AnswerDocument
    unplanned: AnswerDocument
    others: tuple[FindingDocument, ...]
    causes: tuple[CauseDocument, ...]
    not_asked: tuple[str, ...] = NOT_ASKED
    rpo: RpoDocument = read(lambda s: RpoDocument.of(s, **vars(LossRangeDocument.of(s.rpo.lost))))
    topics: tuple[TopicDocument, ...]
    connectors: tuple[ConnectorDocument, ...] = read(
        lambda s: ConnectorDocument.each(each for _, each in sorted(s.connectors.items()))
    )
    groups: GroupsDocument


def status_document(seen: StatusNow) -> StatusDocument:
    """All of it."""
    every = (*seen.planned.blockers, *seen.unplanned.blockers, *seen.others)
    causes = told_once(every)[1]

    def told(findings: Sequence[Finding]) -> tuple[FindingDocument, ...]:
        return FindingDocument.each(beside(findings, causes))

    return StatusDocument.of(
        seen,
        planned=AnswerDocument(go=seen.planned.go, blockers=told(seen.planned.blockers)),
        unplanned=AnswerDocument(go=seen.unplanned.go, blockers=told(seen.unplanned.blockers)),
        others=told(seen.others),
        causes=CauseDocument.each(causes),
    )


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


_TOPICS = 10
_OTHERS = 6
_NUMBERS = ("records", "at most", "seconds")


@view
def watched_table(seen: StatusNow, now: float, failed: bool) -> Iterator[Part]:
    """The status with its age."""
    yield status_table(seen)
    age = max(0.0, now - seen.at_ms / 1000 - seen.took_s)
    told = f"looked {age:,.0f} s ago" + ("; the last look failed" if failed else "")
    yield Text(f"{told}; Ctrl-C ends it", "bold red" if failed else "dim")


@view
def waiting_table(link: str) -> Iterator[Part]:
    """Before the first look came to its end."""
    yield Text(f"looking at link {sentence(link)}", "dim")


@view
def status_table(seen: StatusNow) -> Iterator[Part]:
    """Go or no-go, blockers, RPO, replication, groups."""
    if network := network_suspected(seen.planned.blockers):
        yield Text(sentence(network), "bold red")
    yield _answer("planned failover", seen.planned)
    lost = f"if {sentence(seen.source)} were lost now: {sentence(rpo_words(seen.rpo))}"
    allowed = f"allowed are {seen.allowed.max_rpo_seconds:g} s"
    yield _answer(f"{lost}; {allowed}", seen.unplanned)
    yield Text(f"link {plain(seen.link)}: {plain(seen.source)} -> {plain(seen.target)}", "dim")
    yield from _blockers(seen)
    others, more = told_once(seen.others)
    blockers = (*seen.planned.blockers, *seen.unplanned.blockers)
    told_above = {each.because for each in told_once(blockers)[1]}
    unseen = [each for each in more if each.because not in told_above]
    if others or unseen:
        yield heading("To know of")
        for each in others[:_OTHERS]:
            yield from finding_lines(each, "yellow")
        yield from map(_unseen, unseen)
        if len(others) > _OTHERS:
            yield Text(f"  and {len(others) - _OTHERS:,} more: drctl doctor", "dim")
    yield heading("RPO by topic")
    yield from _topics(seen)
    yield heading("Replication")
    connectors = connector_words(c for _, c in sorted(seen.connectors.items()))
    yield Text(f"  {sentence('; '.join(connectors)) or 'no connector is known'}")
    yield heading("Groups")
    yield Text(f"  {sentence(groups_words(seen))}", "yellow" if seen.groups.left_out else "")
    yield Text(
        f"\n{utc(seen.at_ms)}, in {seen.took_s:.1f} s; not asked here, but by drctl doctor:"
        f" {', '.join(NOT_ASKED)}",
        "dim",
    )


def _answer(what: str, answer: Answer) -> Text:
    style, head = ("bold green", "GO   ") if answer.go else ("bold red", "NO-GO")
    return Text(what, style, f"{head}  ")


def _blockers(seen: StatusNow) -> Iterator[Text]:
    planned, unplanned = seen.planned.blockers, seen.unplanned.blockers
    shared = {f.check for f in planned} & {f.check for f in unplanned}
    for title, rows in (
        ("any failover", [f for f in planned if f.check in shared]),
        ("planned", [f for f in planned if f.check not in shared]),
        ("unplanned", [f for f in unplanned if f.check not in shared]),
    ):
        if rows:
            yield heading(f"In the way ({title})")
            told, unseen = told_once(rows)
            for each in told:
                yield from finding_lines(each, "yellow", "remedy")
            yield from map(_unseen, unseen)


def _unseen(unseen: Unseen) -> Text:
    return Text(f"  not-checked {sentence(unseen.words)}", "yellow")


def _topics(seen: StatusNow) -> Iterator[Part]:
    if not seen.topics:
        yield Text(f"  {sentence(seen.rpo.how)}")
        return
    rows = map(_topic, seen.topics[:_TOPICS])
    yield table(rows, "  topic", *_NUMBERS, "how", numbers=_NUMBERS)
    if len(seen.topics) > _TOPICS:
        yield Text(
            f"  and {len(seen.topics) - _TOPICS:,} topics that are not further behind", "dim"
        )


def _topic(row: TopicRpo) -> tuple[str, ...]:
    rpo = row.rpo
    numbers = (rpo.records, rpo.at_most)
    seconds = "?" if rpo.seconds is None else f"{rpo.seconds:,.1f}"
    how = sentence(rpo.how) + (f"; {row.unknown} partitions unknown" if row.unknown else "")
    counts = ("?" if n is None else f"{n:,}" for n in numbers)
    return (f"  {plain(row.topic)}", *counts, seconds, how)
