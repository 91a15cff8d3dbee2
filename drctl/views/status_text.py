"""The output of `status`: the document `drctl/status/1`, text, and metrics."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from drctl.checks.causes import Unseen, group_by_cause, network_suspected, one_per_reason
from drctl.checks.check import listed
from drctl.checks.go import SKIPPED_CHECKS, Answer, GroupsNow, Rpo, StatusNow, TopicRpo
from drctl.model.document import Count, Document, From, Seconds, rounded
from drctl.model.finding import Finding, Status
from drctl.model.health import CHECK_NETWORK
from drctl.model.loss import LossRangeDocument
from drctl.model.moments import utc
from drctl.model.replication import Connector, LeftOut
from drctl.model.text import plural
from drctl.model.topology import Unavailable
from drctl.views.findings import (
    CauseDocument,
    FindingDocument,
    finding_lines,
    without_shared_causes,
)
from drctl.views.metrics import Labels, Metric, exposition
from drctl.views.text import plain, sentence
from drctl.views.view import Part, Text, heading, table, view

PREFIX = "drctl_status_"
_RUNNING = "RUNNING"


class ClusterAnswer(Document):
    """A cluster, and whether it answers.

    Attributes:
        reason: why it does not answer; empty if it does.
    """

    cluster: str
    id: str | None
    reachable: bool
    reason: str


def _cluster(name: str, identity: str | Unavailable) -> ClusterAnswer:
    if isinstance(identity, Unavailable):
        return ClusterAnswer(cluster=name, id=None, reachable=False, reason=identity.reason)
    return ClusterAnswer(cluster=name, id=identity, reachable=True, reason="")


class AnswerDocument(Document):
    """Whether a failover could start now."""

    go: bool
    blockers: tuple[FindingDocument, ...]


class RpoDocument(LossRangeDocument):
    """What would not be replicated if the source failed now.

    Attributes:
        seconds: age of the oldest unreplicated record; if the source does not answer, its age at
            the source's last sign of life.
        how: how it was measured.
    """

    now = From(StatusNow)
    seconds: Seconds | None = now(lambda s: rounded(s.rpo.seconds))
    how: str = now(lambda s: s.rpo.how)
    allowed_records: Count = now(lambda s: s.allowed.max_lag_records)
    allowed_seconds: Seconds = now(lambda s: s.allowed.max_rpo_seconds)


class TopicDocument(Document):
    """What one topic would lose.

    Attributes:
        records: best estimate; null if unknown.
        at_most: upper bound, from the replicator's committed offset.
        seconds: age of the oldest unreplicated record.
        how: how it was measured.
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
        tasks: number of tasks by state.
    """

    read = From(Connector)
    name: str
    kind: str
    state: str
    tasks: Mapping[str, Count] = read(lambda c: Counter(task.state for task in c.tasks))


class LeftOutDocument(Document):
    """A committed offset that cannot be translated."""

    read = From(LeftOut)
    group: str
    topic: str = read(lambda p: p.partition.topic)
    partition: Count = read(lambda p: p.partition.partition)
    reason: str


class GroupsDocument(Document):
    """Groups of the link, if the source were lost now.

    Attributes:
        unknown: why this is not known; empty if it is.
    """

    read = From(GroupsNow)
    groups: Count
    committed_offsets: Count = read(lambda g: g.positions)
    groups_not_translated: Count = read(lambda g: len(g.groups_left_out))
    unknown: str
    not_translated: tuple[LeftOutDocument, ...] = read(lambda g: LeftOutDocument.each(g.left_out))


class StatusDocument(Document):
    """The result of `drctl status`.

    Attributes:
        duration_seconds: how long the checks took.
        other_findings: warnings, and checks that could not run, except for blockers.
        causes: why checks could not run, each cause once.
        skipped_checks: prechecks that only `drctl doctor` runs.
    """

    SCHEMA = "drctl/status/1"
    read = From(StatusNow)
    link: str
    source: ClusterAnswer = read(lambda s: _cluster(s.source, s.source_id))
    target: ClusterAnswer = read(lambda s: _cluster(s.target, s.target_id))
    at: datetime = read(lambda s: datetime.fromtimestamp(s.at_ms / 1000, UTC))
    duration_seconds: Seconds = read(lambda s: round(s.took_s, 3))
    planned: AnswerDocument
    unplanned: AnswerDocument
    other_findings: tuple[FindingDocument, ...]
    causes: tuple[CauseDocument, ...]
    skipped_checks: tuple[str, ...] = SKIPPED_CHECKS
    rpo: RpoDocument = read(lambda s: RpoDocument.of(s, **vars(LossRangeDocument.of(s.rpo.lost))))
    topics: tuple[TopicDocument, ...]
    connectors: tuple[ConnectorDocument, ...] = read(
        lambda s: ConnectorDocument.each(each for _, each in sorted(s.connectors.items()))
    )
    groups: GroupsDocument


def status_document(seen: StatusNow) -> StatusDocument:
    """Build the document of a status."""
    every = (*seen.planned.blockers, *seen.unplanned.blockers, *seen.others)
    causes = group_by_cause(every)[1]

    def documents(findings: Sequence[Finding]) -> tuple[FindingDocument, ...]:
        return FindingDocument.each(without_shared_causes(findings, causes))

    return StatusDocument.of(
        seen,
        planned=AnswerDocument(go=seen.planned.go, blockers=documents(seen.planned.blockers)),
        unplanned=AnswerDocument(go=seen.unplanned.go, blockers=documents(seen.unplanned.blockers)),
        other_findings=documents(seen.others),
        causes=CauseDocument.each(causes),
    )


def status_line(seen: StatusNow) -> str:
    """Format a status in one line."""
    parts = (
        utc(seen.at_ms),
        *filter(None, [network_suspected(seen.planned.blockers)]),
        f"planned {word(seen.planned)}",
        f"unplanned {word(seen.unplanned)}",
        rpo_words(seen.rpo),
        *(f"{each.subject}: {each.reason}" for each in seen.undone),
        *(f"{name} does not answer" for name in seen.silent),
        *([groups_words(seen)] if seen.groups.left_out else []),
    )
    return sentence("; ".join(parts))


def word(answer: Answer) -> str:
    """Return GO, or NO-GO with the blockers."""
    if answer.go:
        return "GO"
    own, unseen = group_by_cause(answer.blockers)
    names = tuple(dict.fromkeys(f.check for f in own))
    beside = tuple(f"{each.count} that could not run" for each in unseen)
    return f"NO-GO ({'; '.join(filter(None, (listed(names), *beside)))})"


def rpo_words(rpo: Rpo) -> str:
    """Describe the RPO."""
    if not rpo.lost.known and rpo.seconds is None:
        return "RPO unknown"
    if rpo.records == 0 and not rpo.at_most:
        return "RPO 0 records"
    since = "" if rpo.seconds is None else f" of the last {rpo.seconds:,.1f} s"
    return f"RPO {rpo.lost.message}{since}"


def groups_words(seen: StatusNow) -> str:
    """Say how many groups could continue on the target."""
    groups = seen.groups
    if groups.unknown and not groups.groups:
        return f"groups unknown: {groups.unknown}"
    if not groups.positions and not groups.left_out and not groups.unknown:
        return "no group of the link has committed offsets"
    total = f"{plural(groups.groups, 'group')} with {plural(groups.positions, 'committed offset')}"
    beside = f"; {groups.unknown}" if groups.unknown else ""
    if not groups.left_out:
        return f"{total}: all can be translated{beside}"
    names = groups.groups_left_out
    return (
        f"{total}: {plural(len(groups.left_out), 'committed offset')} of"
        f" {plural(len(names), 'group')} cannot be translated if"
        f" {seen.source} is lost now: {listed(names)}{beside}"
    )


def connector_words(connectors: Iterator[Connector]) -> Iterator[str]:
    """Describe each connector and the states of its tasks."""
    for each in connectors:
        tasks = Counter(task.state for task in each.tasks)
        states = ", ".join(f"{count} {state}" for state, count in sorted(tasks.items()))
        yield f"{each.name} {each.state or '?'}, {f'tasks: {states}' if states else 'no tasks'}"


class Family(NamedTuple):
    """A metric and its help text.

    Attributes:
        labels: labels in addition to link, source and target.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()


FAMILIES = (
    Family("up", "1 if the last check succeeded, 0 if it failed."),
    Family("last_check_timestamp_seconds", "Unix time of the last successful check, in seconds."),
    Family("last_check_duration_seconds", "Duration of the last check, in seconds."),
    Family("cluster_reachable", "1 if the cluster answered, else 0.", ("cluster",)),
    Family("go", "1 if a failover could start now, else 0.", ("mode",)),
    Family("blockers", "Number of blockers of a failover.", ("mode",)),
    Family("blocked_by", "1 for each precheck that blocks a failover.", ("mode", "check")),
    Family(
        "undone",
        "1 for each part of the last failover that was undone: the source's fence, or a stopped"
        " connector.",
        ("subject",),
    ),
    Family("findings", "Prechecks that are not ok and block nothing, by status.", ("status",)),
    Family("rpo_records", "Records lost if the source were lost now, best estimate."),
    Family("rpo_records_at_least", "Lower bound of rpo_records, if the source does not answer."),
    Family("rpo_records_at_most", "Upper bound of rpo_records."),
    Family("rpo_seconds", "Seconds of writes lost if the source were lost now."),
    Family("rpo_limit_seconds", "policy.max_rpo_seconds in drctl.yaml."),
    Family("rpo_limit_records", "policy.max_lag_records in drctl.yaml."),
    Family("topic_rpo_records", "Unreplicated records of a topic.", ("topic",)),
    Family("topic_rpo_seconds", "Age of the oldest unreplicated record, in seconds.", ("topic",)),
    Family("topic_unknown_partitions", "Partitions of a topic with unknown lag.", ("topic",)),
    Family(
        "connector_running", "1 if the connector and all its tasks are RUNNING.", ("connector",)
    ),
    Family("connector_tasks", "Tasks of a connector by state.", ("connector", "state")),
    Family("groups", "Groups with committed offsets in topics of the link."),
    Family("group_offsets", "Committed offsets in topics of the link."),
    Family("groups_not_translated", "Groups with an offset that cannot be translated."),
    Family("group_offsets_not_translated", "Committed offsets that cannot be translated."),
)
"""All metrics, in order; all are gauges."""


@dataclass(frozen=True, slots=True)
class StatusMetrics:
    """The metrics of the last check.

    Attributes:
        labels: labels of every metric.
        seen: the last status; None before the first check.
        failed: whether a later check failed.
    """

    labels: Labels = field(default_factory=dict)
    seen: StatusNow | None = None
    failed: bool = False

    def text(self) -> str:
        """Return the metrics in Prometheus text format."""
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
    yield "last_check_timestamp_seconds", [({}, seen.at_ms / 1000 + seen.took_s)]
    yield "last_check_duration_seconds", [({}, seen.took_s)]
    ends = ((seen.source, seen.source_id), (seen.target, seen.target_id))
    yield "cluster_reachable", [({"cluster": n}, not isinstance(i, Unavailable)) for n, i in ends]
    modes = (("planned", seen.planned), ("unplanned", seen.unplanned))
    yield "go", [({"mode": mode}, answer.go) for mode, answer in modes]
    yield "blockers", [({"mode": mode}, len(answer.blockers)) for mode, answer in modes]
    yield "blocked_by", [row for mode, answer in modes for row in _blocked(mode, answer)]
    yield "undone", [({"subject": each.subject}, 1) for each in seen.undone]
    yield "findings", [({"status": s}, sum(f.status is s for f in seen.others)) for s in Status]
    yield from _rpo(seen.rpo)
    yield "rpo_limit_seconds", [({}, seen.allowed.max_rpo_seconds)]
    yield "rpo_limit_records", [({}, seen.allowed.max_lag_records)]
    topics = seen.topics
    yield "topic_rpo_records", _known((each.topic, each.rpo.records) for each in topics)
    yield "topic_rpo_seconds", _known((each.topic, each.rpo.seconds) for each in topics)
    yield "topic_unknown_partitions", [({"topic": each.topic}, each.unknown) for each in topics]
    yield from _connectors(seen)
    groups = seen.groups
    if not groups.unknown:
        yield "groups", [({}, groups.groups)]
        yield "group_offsets", [({}, groups.positions)]
        yield "groups_not_translated", [({}, len(groups.groups_left_out))]
        yield "group_offsets_not_translated", [({}, len(groups.left_out))]


def _blocked(mode: str, answer: Answer) -> Rows:
    return [
        ({"mode": mode, "check": name}, 1) for name in sorted({f.check for f in answer.blockers})
    ]


def _rpo(rpo: Rpo) -> Iterator[tuple[str, Rows]]:
    """Omit unknown numbers instead of reporting 0."""
    least, likely, most = rpo.lost.numbers
    numbers = (
        ("records", likely),
        ("records_at_least", least),
        ("records_at_most", most),
        ("seconds", rpo.seconds),
    )
    for name, value in numbers:
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
_BLOCKERS = 2
"""Number of blockers that are shown with their remedy; the others are counted."""
_NUMBERS = ("records", "at most", "seconds")


@view
def watched_table(seen: StatusNow, now: float, failed: bool) -> Iterator[Part]:
    """Show the status, with the time since the check."""
    yield status_table(seen)
    age = max(0.0, now - seen.at_ms / 1000 - seen.took_s)
    checked = f"checked {age:,.0f} s ago" + ("; the last check failed" if failed else "")
    yield Text(f"{checked}; Ctrl-C to stop", "bold red" if failed else "dim")


@view
def waiting_table(link: str) -> Iterator[Part]:
    """Show a placeholder until the first check is complete."""
    yield Text(f"checking link {sentence(link)}", "dim")


@view
def status_table(seen: StatusNow) -> Iterator[Part]:
    """Show go or no-go, blockers, RPO, replication and groups."""
    if network := network_suspected(seen.planned.blockers):
        yield Text(sentence(network), "bold red")
        yield Text(f"Fix: {CHECK_NETWORK}", "dim")
    yield _answer("planned failover", seen.planned)
    lost = f"unplanned failover: {sentence(rpo_words(seen.rpo))}"
    yield _answer(f"{lost}; limit {seen.allowed.max_rpo_seconds:g} s", seen.unplanned)
    yield Text(f"link {plain(seen.link)}: {plain(seen.source)} -> {plain(seen.target)}", "dim")
    if network:
        yield Text(
            f"{utc(seen.at_ms)}: nothing else could be checked; drctl doctor lists all checks",
            "dim",
        )
        return
    yield from _blockers(seen)
    others, more = group_by_cause(seen.others)
    others = one_per_reason(others)
    blockers = (*seen.planned.blockers, *seen.unplanned.blockers)
    shown_above = {each.cause for each in group_by_cause(blockers)[1]}
    unseen = [each for each in more if each.cause not in shown_above]
    if others or unseen:
        yield heading("Warnings")
        for each in others[:_OTHERS]:
            yield from finding_lines(each, "yellow")
        yield from map(_unseen, unseen)
        if len(others) > _OTHERS:
            yield Text(f"  and {len(others) - _OTHERS:,} more: drctl doctor", "dim")
    yield heading("RPO by topic")
    yield from _topics(seen)
    yield heading("Replication")
    if not seen.connectors:
        yield Text("  no connectors found")
    for line in connector_words(c for _, c in sorted(seen.connectors.items())):
        yield Text(f"  {sentence(line)}")
    yield heading("Groups")
    yield Text(f"  {sentence(groups_words(seen))}", "yellow" if seen.groups.left_out else "")
    yield Text(
        f"\n{utc(seen.at_ms)}, in {seen.took_s:.1f} s; only checked by drctl doctor:"
        f" {', '.join(SKIPPED_CHECKS)}",
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
            yield heading(f"Blockers ({title})")
            own, unseen = group_by_cause(rows)
            own = one_per_reason(own)
            shown = max(_BLOCKERS, len(seen.undone) + 1)
            for each in own[:shown]:
                yield from finding_lines(each, "bold red", "remedy")
            yield from map(_unseen, unseen)
            if more := own[shown:]:
                names = listed(list(dict.fromkeys(each.check for each in more)))
                yield Text(f"  and {len(more)} more ({names}): drctl doctor", "dim")


def _unseen(unseen: Unseen) -> Text:
    return Text(sentence(unseen.message), "yellow", "  not-checked ")


def _topics(seen: StatusNow) -> Iterator[Part]:
    if not seen.topics:
        yield Text(f"  {sentence(seen.rpo.how)}")
        return
    rows = map(_topic, seen.topics[:_TOPICS])
    yield table(rows, "  topic", *_NUMBERS, "how", numbers=_NUMBERS)
    if len(seen.topics) > _TOPICS:
        yield Text(f"  and {plural(len(seen.topics) - _TOPICS, 'topic')} with no larger lag", "dim")


def _topic(row: TopicRpo) -> tuple[str, ...]:
    rpo = row.rpo
    numbers = (rpo.records, rpo.at_most)
    seconds = "?" if rpo.seconds is None else f"{rpo.seconds:,.1f}"
    how = sentence(rpo.how) + (
        f"; {plural(row.unknown, 'partition')} unknown" if row.unknown else ""
    )
    counts = ("?" if n is None else f"{n:,}" for n in numbers)
    return (f"  {plain(row.topic)}", *counts, seconds, how)
