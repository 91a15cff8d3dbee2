"""Scenario: lose the primary while replication lags, fail over, recover the primary, fail back.

A real producer writes, and real consumer groups read and commit. Ground truth is collected without
drctl: the acknowledged records, the records that each group consumed on either cluster, and the
records that plain consumers read from both topics. The scenario passes if no group skips a record
that reached the secondary, if `drctl gap` names exactly the unreplicated records, and if after
`drctl failback` no record is lost or duplicated and every key keeps its order.
"""

import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from drctl.lab.cluster import Position, count_of, read_topic
from drctl.lab.loading import Row, flights
from drctl.lab.loads import PARTITIONS, acknowledged_rows
from drctl.lab.mirrors import await_state
from drctl.lab.scenarios.clients import (
    RUNBOOKS,
    Applications,
    Reader,
    ReaderProfile,
    Workload,
    applications,
)
from drctl.lab.scenarios.ground_truth import (
    GroupTruth,
    as_table,
    gap_truth,
    group_truth,
    judge_gap,
    require_acknowledged,
)
from drctl.lab.scenarios.stage import ScenarioResult, Stage, Tracker, deploy, remove
from drctl.lab.settings import CLUSTERS
from drctl.lab.waiting import Patience
from drctl.model.errors import ExitCode, Stopped
from drctl.model.text import plural
from drctl.reconcile.policy import QUARANTINE

FENCE_PRIMARY = "fence-recovered-primary"
RUNBOOK = f"""\
name: {FENCE_PRIMARY}
about: |
  The lost primary is back, and the failover could not fence it. Keep producers and replication off
  it until its unreplicated records are found.
steps:
  - id: secondary-works
    check: [target-unreachable]
  - id: snapshot-state
    step: snapshot-state
  - id: replication-stays-stopped
    wait: {{for: connectors stopped, at_most: 30s}}
  - id: fence-producers
    step: fence-producers
"""


@dataclass(frozen=True, slots=True)
class GapOutcome:
    """The ground truth about unreplicated records, compared with the result of `drctl gap`.

    Attributes:
        message: ground truth and comparison, for the summary.
    """

    correct: bool
    message: str
    page: Path


def restore_primary(
    apps: Applications, there: Mapping[Position, bytes], rows: Mapping[int, bytes]
) -> GapOutcome:
    """Start the primary, fence it, and run `drctl gap` to find its unreplicated records.

    Args:
        there: the records of the secondary.
        rows: the record value of each row number.

    Raises:
        Stopped: the primary does not start, or lost an acknowledged record.
    """
    stage, topic = apps.stage, apps.workload.topic
    stage.heading(5, "Recover the primary: start it, fence it, find its unreplicated records")
    stage.lab.start("primary")
    deploy(stage.lab, topic)
    _fence_primary(apps)
    stage.say("")
    out = stage.folder / "gap"
    stage.say("Compare with Spark, as for large topics (drctl compares small topics in-process).")
    code = stage.drctl("gap", "--engine", "spark", "--out", str(out))
    answer = stage.answer(out)
    primary = read_topic(stage.lab.cluster("primary"), topic)
    acknowledged = acknowledged_rows(apps.writer.log("primary"), topic)
    require_acknowledged("the primary", primary, acknowledged, rows)
    truth = gap_truth(primary, there.values(), acknowledged)
    verdict = judge_gap(truth, answer, code)
    spark = answer["engine"] == "spark"
    found = "exactly these records" if not verdict.difference else verdict.difference
    words = (
        f"Ground truth: the primary acknowledged {plural(truth.acknowledged, 'record')};"
        f" {len(truth.missing):,} of its records never reached the secondary"
        f" ({truth.acknowledged_missing:,} of them acknowledged).\n"
        f"drctl gap reported {verdict.reported:,}: {found}"
        f" ({'Spark' if spark else 'in-process, not Spark'}, {answer['seconds']:.1f} s)."
    )
    return GapOutcome(spark and not verdict.difference, words, out / "gap.html")


def _fence_primary(apps: Applications) -> None:
    folder = apps.stage.folder / RUNBOOKS
    folder.mkdir(exist_ok=True)
    (folder / f"{FENCE_PRIMARY}.yaml").write_text(RUNBOOK, encoding="utf-8")
    code = apps.stage.drctl("runbook", "run", FENCE_PRIMARY, "--execute", "--yes")
    if code != ExitCode.DONE:
        raise Stopped(f"runbook {FENCE_PRIMARY} ended with exit code {code}")


Held = Mapping[Position, bytes]


@dataclass(frozen=True, slots=True)
class ClusterCheck:
    """The records of one cluster, compared with ground truth.

    Attributes:
        lost: acknowledged records that the cluster does not hold and that are not in quarantine.
        duplicated: surplus copies.
        out_of_order: records stored after a later record of the same key.
    """

    cluster: str
    held: int
    lost: int
    duplicated: int
    out_of_order: int

    @property
    def correct(self) -> bool:
        """Whether no record is lost, duplicated or out of order."""
        return not (self.lost or self.duplicated or self.out_of_order)


def check_cluster(
    cluster: str, held: Held, acknowledged: Set[int], rows: Sequence[Row], quarantined: Set[bytes]
) -> ClusterCheck:
    """Compare a cluster's records with those that either cluster acknowledged.

    Args:
        acknowledged: row numbers.
        rows: every row that was produced, by number.
        quarantined: values of the records in quarantine.
    """
    counted = Counter(held.values())
    lost = sum(
        rows[n].value not in counted and rows[n].value not in quarantined for n in acknowledged
    )
    duplicated = counted.total() - len(counted)
    return ClusterCheck(cluster, len(held), lost, duplicated, _out_of_order(held, rows))


def _out_of_order(held: Held, rows: Sequence[Row]) -> int:
    """Count records stored after a later row of the same key."""
    known = {row.value: row for row in rows}
    last: dict[bytes, int] = {}
    found = 0
    for position in sorted(held):
        row = known[held[position]]
        if row.key is not None:
            found += row.number < last.get(row.key, -1)
            last[row.key] = max(row.number, last.get(row.key, -1))
    return found


def skipped(primary: Iterable[bytes], quarantined: Set[bytes], read: Iterable[Set[bytes]]) -> int:
    """Count the primary's records that a group never read; quarantined records do not count."""
    return len(set(primary).difference(quarantined, *read))


_FAILBACK = (
    "failback",
    "--policy",
    "copy",
    "--conflicting",
    "quarantine",
    "--wait-for-consumers",
    "2s",
)

_SLOWDOWN = 8
"""During the failback the application writes at this fraction of the rate."""


@dataclass(frozen=True, slots=True)
class FailbackOutcome:
    """The state of both clusters after the failback, compared with ground truth.

    Attributes:
        message: the comparison, for the summary.
        report: HTML report of the run.
    """

    correct: bool
    message: str
    report: Path


def fail_back(apps: Applications, gap: Path) -> FailbackOutcome:
    """Check the failback order, fail back, and compare both clusters with ground truth.

    Args:
        gap: results folder of drctl gap.

    Raises:
        Stopped: a lab component or drctl failed.
    """
    stage = apps.stage
    stage.heading(6, "Check the failback order: which steps are done, which one is next")
    code = stage.drctl("failback", "--check-order", "--gap", str(gap))
    if code != ExitCode.DONE:
        raise Stopped(f"drctl failback --check-order ended with exit code {code}")
    with _new_members(apps) as others:
        _run_failback(others)
        _work_on_primary(others)
    return _failback_result(apps, others.readers, stage.reports()[-1])


@contextmanager
def _new_members(apps: Applications) -> Iterator[Applications]:
    """Start a new member in each group; the producer stays stopped."""
    topic, endpoint = apps.workload.topic, apps.endpoint
    groups = [each.profile.group for each in apps.readers]
    readers = tuple(Reader(endpoint, topic, ReaderProfile(group)) for group in groups)
    for each in readers:
        each.start()
    try:
        yield replace(apps, readers=readers)
    finally:
        apps.writer.ask_to_stop()
        for each in readers:
            each.ask_to_stop()


def _run_failback(apps: Applications) -> None:
    stage, writer = apps.stage, apps.writer
    stage.heading(7, "Fail back: show the plan, then execute it while the applications run")
    if stage.drctl(*_FAILBACK) != ExitCode.DONE:
        raise Stopped("the plan has blockers")
    stage.say("")
    with stage.running(*_FAILBACK, "--execute", "--yes") as run:
        # A record written during the copy could supersede one of the copied records.
        apps.wait("failback copies the unreplicated records", lambda: run.has_done("reconcile"))
        rate = apps.workload.rate // _SLOWDOWN
        stage.say(f"The application resumes at {plural(rate, 'record')}/s.")
        writer.start(rate)
        code = run.ended()
    if code != ExitCode.DONE:
        raise Stopped(f"drctl failback ended with exit code {code}")
    if apps.endpoint.cluster().name != "primary":
        raise Stopped("the failback did not switch the endpoint to the primary")


def _work_on_primary(apps: Applications) -> None:
    stage, writer, workload = apps.stage, apps.writer, apps.workload
    stage.heading(8, "Verify: the applications run on the primary; count every record")
    before = writer.acknowledged("primary")
    apps.wait(
        "the application writes to the primary",
        lambda: writer.acknowledged("primary") >= before + workload.on_primary,
    )
    writer.stop()
    primary = stage.lab.cluster("primary")
    end = count_of(primary, workload.topic)
    apps.wait(
        "every group reads to the end of the primary",
        lambda: all(sum(each.committed("primary").values()) == end for each in apps.readers),
    )
    away = stage.lab.cluster("secondary")
    wanted = len(set(read_topic(primary, workload.topic).values()))
    quarantined = len(read_topic(away, QUARANTINE + workload.topic))
    apps.wait(
        "MirrorMaker 2 replicates to the secondary again",
        lambda: count_of(away, workload.topic) + quarantined >= wanted,
    )
    apps.leave()


def _failback_result(apps: Applications, after: Sequence[Reader], report: Path) -> FailbackOutcome:
    topic, lab, writer = apps.workload.topic, apps.stage.lab, apps.writer
    rows = tuple(flights(0, writer.next_row))
    acknowledged = {
        row for name in CLUSTERS for row in acknowledged_rows(writer.log(name), topic).values()
    }
    held = {name: read_topic(lab.cluster(name), topic) for name in CLUSTERS}
    quarantined = set(read_topic(lab.cluster("secondary"), QUARANTINE + topic).values())
    checked = [
        check_cluster("primary", held["primary"], acknowledged, rows, frozenset()),
        check_cluster("secondary", held["secondary"], acknowledged, rows, quarantined),
    ]
    missed = {
        each.profile.group: skipped(held["primary"].values(), quarantined, _read(each, again))
        for each, again in zip(apps.readers, after, strict=True)
    }
    correct = (
        all(each.correct for each in checked) and not any(missed.values()) and bool(acknowledged)
    )
    lines = [f"After the failback, of {len(acknowledged):,} acknowledged records:"]
    lines += [
        f"  {each.cluster} holds {each.held:,}: {each.lost:,} lost, {each.duplicated:,} duplicated,"
        f" {each.out_of_order:,} out of order by key"
        for each in checked
    ]
    lines.append(f"  {plural(len(missed), 'group')} skipped {sum(missed.values()):,}")
    lines.append(
        " "
        f" {plural(len(quarantined), 'conflicting record is', 'conflicting records are')}"
        " in quarantine"
    )
    return FailbackOutcome(correct, "\n".join(lines), report)


def _read(before: Reader, after: Reader) -> tuple[set[bytes], ...]:
    """The records that a group read before and after each move, per cluster."""
    return (
        before.reads("primary").finished,
        set(before.reads("secondary").values.values()),
        after.reads("secondary").finished,
        set(after.reads("primary").values.values()),
    )


_INITIAL_RATE = 10_000
_STATE_S = 60


def play(stage: Stage, workload: Workload | None = None) -> ScenarioResult:
    """Lose the primary, fail over, work on the secondary, recover the primary, fail back.

    Raises:
        Stopped: a lab component or drctl failed.
    """
    with applications(stage, workload or Workload()) as apps:
        stage.heading(1, "Normal operation: a producer and three consumer groups on the primary")
        with stage.tracked() as tracker:
            _start_work(apps, tracker)
            _lose_primary(apps)
        _fail_over(apps)
        _work_on_secondary(apps)
        rows = {row.number: row.value for row in flights(0, apps.writer.next_row)}
        there = _read_secondary(apps, rows)
        groups = [_group_truth(each, there) for each in apps.readers]
        for line in ("", *as_table(groups).splitlines()):
            stage.say(line)
        report = stage.reports()[-1]
        try:
            gap = restore_primary(apps, there, rows)
            failback = fail_back(apps, gap.page.parent)
        finally:
            remove(stage.lab)
    skipped = sum(each.skipped for each in groups)
    consumed = not skipped and all(each.after for each in groups)
    correct = consumed and gap.correct and failback.correct
    headline = "PASSED: drctl matches ground truth." if correct else "FAILED: see the differences."
    summary = "\n".join(
        (headline, _groups_summary(groups, len(there)), gap.message, failback.message)
    )
    return ScenarioResult(correct, summary, gap.page, report, failback.report)


def _start_work(apps: Applications, tracker: Tracker) -> None:
    stage, workload, writer = apps.stage, apps.workload, apps.writer
    stage.say(
        f"Produce {plural(workload.before, 'record')} (flights of 2013) to topic {workload.topic}."
    )
    writer.write(workload.before, _INITIAL_RATE)
    for each in apps.readers:
        stage.say(f"  {each.profile.group}: {_profile_text(each)}")
        each.start()
    writer.start(workload.rate)
    stage.say(f"The application continues at {plural(workload.rate, 'record')}/s.")
    target = stage.lab.cluster("secondary")
    apps.wait(
        "MirrorMaker 2 replicates to the secondary",
        lambda: count_of(target, workload.topic) >= workload.before,
    )
    apps.wait("every group reads", lambda: all(map(_has_caught_up, apps.readers)))
    seen = tracker.passes()
    # The pass in progress may have started before the last group committed.
    apps.wait("drctl offsets track records the groups", lambda: tracker.passes() > seen + 1)
    stage.say("MirrorMaker 2 replicates; drctl offsets track records committed offsets.")


def _profile_text(reader: Reader) -> str:
    profile = reader.profile
    if profile.most:
        return f"reads about {plural(profile.most, 'record')}, then goes idle"
    return f"lags: reads {plural(profile.rate, 'record')}/s" if profile.rate else "keeps up"


def _has_caught_up(reader: Reader) -> bool:
    committed = reader.committed("primary")
    return len(committed) == PARTITIONS and sum(committed.values()) >= reader.profile.most


def _lose_primary(apps: Applications) -> None:
    stage, writer = apps.stage, apps.writer
    stage.heading(2, "Outage: replication stalls, then the primary is killed during writes")
    stage.lab.signal("connect", signal.SIGSTOP)
    stage.say("MirrorMaker 2 is suspended (SIGSTOP); the application keeps writing.")
    wanted = writer.acknowledged("primary") + apps.workload.while_stalled
    try:
        apps.wait(
            "the primary acknowledges more records",
            lambda: writer.acknowledged("primary") >= wanted,
        )
        stage.lab.signal("primary", signal.SIGKILL)
        writer.ask_to_stop()
    finally:
        stage.lab.signal("connect", signal.SIGCONT)
    stage.say("The primary is killed (SIGKILL); MirrorMaker 2 resumes and cannot reach it.")
    stage.say(f"The primary acknowledged {plural(writer.acknowledged('primary'), 'record')}.")
    parts = stage.lab.parts
    client = parts.worker.client()
    try:
        await_state(client, parts.directions, ("RUNNING",), Patience.of(_STATE_S))
    finally:
        client.close()


def _fail_over(apps: Applications) -> None:
    stage = apps.stage
    stage.heading(3, "Fail over: show the plan, then execute it")
    words = ("failover", "--mode", "unplanned")
    if stage.drctl(*words) != ExitCode.DONE:
        raise Stopped("the plan has blockers")
    stage.say("")
    code = stage.drctl(*words, "--execute", "--yes")
    if code not in (ExitCode.DONE, ExitCode.FOUND):
        raise Stopped(f"drctl failover ended with exit code {code}")
    if apps.endpoint.cluster().name != "secondary":
        raise Stopped("the failover did not switch the endpoint to the secondary")


def _work_on_secondary(apps: Applications) -> None:
    stage, writer, after = apps.stage, apps.writer, apps.workload.after
    stage.heading(4, "After the failover: the applications reconnect to the secondary")
    writer.stop()
    stage.say(
        f"{plural(writer.failed('primary'), 'record was', 'records were')} not"
        " acknowledged by the primary."
    )
    stage.say(f"The application writes {plural(after, 'record')} to the secondary.")
    writer.write(after)
    end = count_of(stage.lab.cluster("secondary"), apps.workload.topic)
    stage.say("Every group reads from its committed offset to the end.")
    apps.wait(
        "every group reads to the end of the secondary",
        lambda: all(sum(each.committed("secondary").values()) == end for each in apps.readers),
    )
    apps.leave()


def _read_secondary(apps: Applications, rows: Mapping[int, bytes]) -> Mapping[Position, bytes]:
    """Read the secondary's records; each one it acknowledged must be there."""
    topic = apps.workload.topic
    there = read_topic(apps.stage.lab.cluster("secondary"), topic)
    acknowledged = acknowledged_rows(apps.writer.log("secondary"), topic)
    require_acknowledged("the secondary", there, acknowledged, rows)
    return there


def _group_truth(reader: Reader, there: Mapping[Position, bytes]) -> GroupTruth:
    group = reader.profile.group
    return group_truth(group, reader.reads("primary"), reader.reads("secondary"), there.values())


def _groups_summary(groups: list[GroupTruth], held: int) -> str:
    reread = sum(each.duplicated for each in groups)
    skipped = {each.group: each.skipped for each in groups if each.skipped}
    found = ", ".join(f"{count:,} ({group})" for group, count in skipped.items())
    return (
        f"After the failover, of {held:,} records on the secondary:"
        f" {plural(len(groups), 'group')} skipped"
        f" {found or 0} and read {reread:,} twice."
    )
