"""Commits translated offsets for the link's groups on the target and reads each one back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from drctl.engine.kind import Description, Facts, Polling, Readback, State, StepKind, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.groups import Committed, Positions
from drctl.model.text import plural
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from drctl.offsets.applying import Action, ApplyPlan, Line
from drctl.offsets.results import Change
from drctl.steps.apply_offsets import changes, checked_plan, commit
from drctl.steps.prechecks import SnapshotState

LEFT_OUT = "groups-not-translated"
"""Blocks a failover after which a group has no offset to resume from."""

COMMIT = "commit"
"""The value of `policy.unproven_offsets` that commits unproven offsets."""

_UNCHANGED = (Action.SAME, Action.KEPT)
"""Actions with which the group keeps the offset that it already has."""


class Reread(NamedTuple):
    """How many records a group reads again.

    Attributes:
        at_most: an upper bound; None if none is known.
        likely: the likely number; None if it is unknown, or if the source responds.
        based_on: the oldest evidence for its offsets, its age in seconds, and the condition under
            which the group skips records; the condition is empty if the source responds.
    """

    at_most: int | None
    likely: int | None
    based_on: tuple[str, float | None, str]


@dataclass(frozen=True, slots=True)
class Foreseen:
    """Where groups would resume, as known before the run starts.

    Attributes:
        positions: how many offsets the groups would have on the target.
        rows: what each group with an offset would read again.
        without_offset: groups that would have none, and patterns that match no known group.
        left_out: offsets that would not be committed, each with the reason.
    """

    positions: int
    rows: Mapping[str, Reread]
    without_offset: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def groups(self) -> int:
        """How many groups would have an offset."""
        return len(self.rows)

    @property
    def rereads_at_most(self) -> int | None:
        """Upper bound for records that all groups read again; None if unknown."""
        return total(each.at_most for each in self.rows.values())

    @property
    def rereads_likely(self) -> int | None:
        """The number if groups consumed nothing after the evidence; None if unknown."""
        return total(each.likely for each in self.rows.values()) if self.rows else None


def foreseen(settings: "CommitSettings", reader: LinkReader) -> Foreseen:
    """Preview the step.

    Raises:
        Unreachable: the target did not respond.
    """
    plan, unknown = planned_offsets(settings, reader)
    refused = [line for line in plan.lines if line.action is Action.REFUSED]
    return Foreseen(
        len(plan.lines) - len(refused),
        reread(plan),
        tuple(without_offset(plan, unknown)),
        (*map(_refusal, refused), *map(_nothing_known, unknown)),
    )


def planned_offsets(
    settings: "CommitSettings", reader: LinkReader
) -> tuple[ApplyPlan, tuple[str, ...]]:
    """Translate offsets as of now; also returns patterns that match no known group.

    Raises:
        Unreachable: the target did not respond.
    """
    wanted, unknown = reader.translated()
    plan = checked_plan(
        wanted,
        settings.cluster,
        reader,
        overrides=settings.overrides,
        unproven=settings.unproven_offsets == COMMIT,
        origin=f"translation of link {settings.link}",
    )
    return plan, unknown


def reread(plan: ApplyPlan) -> dict[str, Reread]:
    """What each group reads again, counting offsets that are not refused."""
    lines: dict[str, list[Line]] = {}
    for line in plan.lines:
        if line.action is not Action.REFUSED:
            lines.setdefault(line.group, []).append(line)
    return {
        group: Reread(
            total(map(_again, some)), total(line.rereads_likely for line in some), _oldest(some)
        )
        for group, some in lines.items()
    }


def without_offset(plan: ApplyPlan, unknown: Iterable[str]) -> list[str]:
    """Groups that would have no offset on the target, and patterns without a known group."""
    stand = {
        line.group
        for line in plan.lines
        if line.before is not None or line.action is not Action.REFUSED
    }
    return [*sorted({line.group for line in plan.lines} - stand), *unknown]


def total(bounds: Iterable[int | None]) -> int | None:
    """The sum; None if one of the numbers is unknown."""
    found = list(bounds)
    return None if None in found else sum(each for each in found if each is not None)


def _oldest(lines: Iterable[Line]) -> tuple[str, float | None, str]:
    """The oldest evidence; evidence of unknown age counts as the oldest."""

    def age(line: Line) -> float:
        seconds = line.based_on.age_seconds
        return float("inf") if seconds is None and line.skips_only_if else seconds or 0.0

    line = max(lines, key=age)
    return line.based_on.evidence, line.based_on.age_seconds, line.skips_only_if


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """Settings from the plan.

    Attributes:
        leave_out: whether to continue without groups that have no offset to resume from.
        unproven_offsets: `policy.unproven_offsets` if the source is lost; None if it responds.
        both_write: whether applications write to the same topics on both clusters.
    """

    link: str
    cluster: str
    overrides: Mapping[str, str]
    leave_out: bool
    unproven_offsets: str | None = None
    both_write: bool = False


class Kept(NamedTuple):
    """An offset that a group already has."""

    group: str
    topic: str
    number: int
    offset: int


Stand = Mapping[str, tuple[tuple[str, int, int], ...]]
"""By group, its committed offsets: topic, partition number, offset."""


@dataclass(frozen=True, slots=True)
class CommitIntent:
    """The changes, and what is known about the groups.

    Attributes:
        same: how many offsets need no change.
        left_out: what is not committed, each with the reason.
        rereads_at_most: upper bound for records that all groups read again; None if unknown.
        rereads_likely: the number if they consumed nothing after the evidence.
        rereads: the upper bound of each group.
        likely: the likely number of each group.
        based_on: the evidence for each group, as in `Reread`.
        without_offset: groups that have no offset afterwards.
        kept: offsets that the groups already have.
    """

    cluster: str
    lines: tuple[Change, ...]
    same: int
    left_out: tuple[str, ...]
    rereads_at_most: int | None
    rereads_likely: int | None = None
    rereads: Mapping[str, int | None] = field(default_factory=dict)
    likely: Mapping[str, int | None] = field(default_factory=dict)
    based_on: Mapping[str, tuple[str, float | None, str]] = field(default_factory=dict)
    without_offset: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """What was committed; fields as in the intent.

    Attributes:
        stand: the offsets that each group has now, committed by this step or before.
    """

    positions: int
    groups: int
    same: int
    rereads_at_most: int | None
    rereads_likely: int | None = None
    without_offset: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    stand: Stand = field(default_factory=dict)


class CommitOffsets(StepKind[CommitSettings, CommitIntent, CommitFacts]):
    """Never moves a group backwards or past unread records, unless overridden."""

    name = "commit-offsets"
    traits = Trait.CHANGES | Trait.COMMITS_OFFSETS

    def describe(self, settings: CommitSettings) -> Description:
        """Describe the step for plans and reports."""
        cluster = settings.cluster
        title = f"commit the translated offsets of the link's groups on {cluster}"
        if settings.both_write:
            # Each cluster interleaves the records of both differently.
            title += (
                f"; applications also write to {cluster}, and groups can skip some of those records"
                " unread: if a group must not, reset its offsets to an earlier time"
            )
        return Description(
            title, "every committed offset reads back", "restore every previously committed offset"
        )

    def check(self, settings: CommitSettings, facts: Facts, reader: LinkReader) -> CommitIntent:
        """Translate offsets as of now, and compare them with the target's.

        Raises:
            Refused: a group has no offset to resume from, and that is not overridden.
            Unreachable: the target did not respond.
        """
        plan, unknown = planned_offsets(settings, reader)
        refused = [_refusal(line) for line in plan.lines if line.action is Action.REFUSED]
        left_out = [*refused, *map(_nothing_known, unknown), *_unlisted(settings, facts, plan)]
        if left_out and not (settings.leave_out or LEFT_OUT in settings.overrides):
            first = "; ".join(left_out[:5])
            raise Refused(
                f"offsets of {_places_in_words(len(left_out))} cannot be committed: {first}",
                f"see why: drctl offsets explain; to continue without them: --override"
                f" {LEFT_OUT}=REASON",
            )
        rows = reread(plan)
        return CommitIntent(
            settings.cluster,
            changes(plan.writes),
            len(plan.lines) - len(plan.writes) - len(refused),
            tuple(left_out),
            total(each.at_most for each in rows.values()),
            total(each.likely for each in rows.values()),
            {name: each.at_most for name, each in rows.items()},
            {name: each.likely for name, each in rows.items()},
            {name: each.based_on for name, each in rows.items()},
            tuple(without_offset(plan, unknown)),
            tuple(_kept(line) for line in plan.lines if line.action in _UNCHANGED),
        )

    def apply(self, intent: CommitIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Commit the offsets; coordinators refuse active groups."""
        return commit(intent.lines, intent.cluster, writer)

    def verify(self, intent: CommitIntent, reader: LinkReader) -> Readback[CommitFacts]:
        """Verify that every committed offset reads back."""
        wanted = [(*each.place, each.to) for each in intent.lines]
        others = _others(wanted, intent.cluster, reader)
        lines, left_out = len(intent.lines), intent.left_out
        facts = CommitFacts(
            lines,
            len({each.group for each in intent.lines}),
            intent.same,
            intent.rereads_at_most,
            intent.rereads_likely,
            intent.without_offset,
            left_out,
            _stand(intent),
        )
        if others:
            message = f"offsets not committed: {len(others):,} of {lines:,}; {others[0]}"
            return Readback(State.WAITING, message, facts, others)
        message = (
            f"{plural(lines, 'offset')} of {plural(facts.groups, 'group')} committed and read back"
        )
        outstanding = (
            f"groups or partitions left out: {len(left_out):,}, for example {left_out[0]}"
            if left_out
            else ""
        )
        return Readback(State.DONE, message, facts, left_out, outstanding)

    def undo(self, intent: CommitIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Restore the previous offsets."""
        back = [each._replace(before=each.to, to=each.before) for each in intent.lines]
        return commit(back, intent.cluster, writer)

    def verify_undo(self, intent: CommitIntent, reader: LinkReader) -> Readback[CommitFacts]:
        """Verify that every previous offset is restored."""
        wanted = [(*each.place, each.before) for each in intent.lines]
        others = _others(wanted, intent.cluster, reader)
        if others:
            message = f"{plural(len(others), 'offset is', 'offsets are')} not restored: {others[0]}"
            return Readback(State.WAITING, message, items=others)
        return Readback(State.DONE, f"{plural(len(wanted), 'offset')} restored")


def _others(
    wanted: Sequence[tuple[str, TopicPartition, Committed | None]], cluster: str, reader: LinkReader
) -> tuple[str, ...]:
    """Each offset that differs from the target offset, described."""
    names = tuple(dict.fromkeys(group for group, _, _ in wanted))
    committed = reader.groups(cluster).committed(names) if names else {}
    found = []
    for group, place, position in wanted:
        positions = committed[group]
        if isinstance(positions, Unavailable):
            found.append(f"{group} {place}: {positions.reason}")
        elif positions.get(place) != position:
            now = positions.get(place)
            found_at = "has no committed offset" if now is None else f"is at offset {now.offset}"
            found.append(f"{group} {place} {found_at}")
    return tuple(found)


def _again(line: Line) -> int | None:
    """Upper bound for records that the group reads again, also if it keeps its offset."""
    most = line.rereads_at_most
    if line.skips_only_if:
        return most
    if most is None or line.action is not Action.KEPT or not (line.before and line.to):
        return most
    return max(0, most - (line.before.offset - line.to.offset))


def _kept(line: Line) -> Kept:
    return Kept(line.group, *line.partition, line.before.offset if line.before else 0)


def _stand(intent: CommitIntent) -> Stand:
    """The offsets that each group has afterwards, including unchanged ones."""
    put = (Kept(*each[:3], each.to.offset) for each in intent.lines if each.to)
    found: dict[str, list[tuple[str, int, int]]] = {}
    for group, topic, number, offset in (*intent.kept, *put):
        found.setdefault(group, []).append((topic, number, offset))
    return {group: tuple(rows) for group, rows in found.items()}


def _nothing_known(pattern: str) -> str:
    """Describe a pattern that matches no known group.

    A group that it matches would start by its `auto.offset.reset`, and may skip everything.
    """
    return f"{pattern}: no known group matches, and the source does not respond"


def _unlisted(settings: CommitSettings, facts: Facts, plan: ApplyPlan) -> Iterator[str]:
    """Describe the groups that had offsets when the state was recorded, and now have none."""
    recorded = facts.of(SnapshotState())
    translated = {line.group for line in plan.lines}
    for cluster, groups in (recorded.committed_groups if recorded else {}).items():
        for group in groups if cluster != settings.cluster else ():
            if group not in translated:
                yield f"{group}: {cluster}, where it had committed offsets, no longer lists it"


def _refusal(line: Line) -> str:
    return f"{line.group} {line.partition}: {line.reason}"


_SHOWN = 3

Places = Mapping[str, Mapping[TopicPartition, int]]
"""By group, the offsets that were set."""


@dataclass(frozen=True, slots=True)
class VerifySettings:
    """Settings from the plan."""

    cluster: str


@dataclass(frozen=True, slots=True)
class VerifyIntent:
    """The offsets that were set."""

    cluster: str
    stand: Stand


@dataclass(frozen=True, slots=True)
class VerifyFacts:
    """The result of the verification.

    Attributes:
        wrong: how many offsets are wrong; None if some could not be read.
    """

    positions: int
    groups: int
    wrong: int | None = None
    wrong_groups: tuple[str, ...] = ()


class VerifyGroups(Polling[VerifySettings, VerifyIntent, VerifyFacts]):
    """Verifies that no group fell below the offset that was set; those that did are outstanding."""

    name = "verify-groups"
    traits = Trait.VERIFIES

    def describe(self, settings: VerifySettings) -> Description:
        """Describe the step for plans and reports."""
        return Description(
            f"verify the committed offsets of the link's groups on {settings.cluster}",
            "each committed offset is at or after the one that was set, and within its log;"
            " any other is an outstanding action",
        )

    def check(self, settings: VerifySettings, facts: Facts, reader: LinkReader) -> VerifyIntent:
        """Take the offsets that `commit-offsets` set."""
        put = facts.of(CommitOffsets())
        return VerifyIntent(settings.cluster, put.stand if put else {})

    def verify(self, intent: VerifyIntent, reader: LinkReader) -> Readback[VerifyFacts]:
        """Compare the offsets as they are now; wait for those that cannot be read."""
        cluster, put = intent.cluster, _places(intent.stand)
        committed = reader.groups(cluster).committed(tuple(put)) if put else {}
        places = sorted({place for positions in put.values() for place in positions})
        logs = reader.cluster_reader(cluster).offsets(places) if places else {}
        unread = tuple(
            f"{what}: {found.reason}"
            for what, found in (*committed.items(), *logs.items())
            if isinstance(found, Unavailable)
        )
        number = sum(map(len, put.values()))
        if unread:
            many = _places_in_words(len(unread))
            message = f"the offsets of {many} are unknown: {unread[0]}"
            return Readback(State.WAITING, message, VerifyFacts(number, len(put)), unread)
        ends = {p: log.end for p, log in logs.items() if isinstance(log, PartitionOffsets)}
        known = {g: p for g, p in committed.items() if not isinstance(p, Unavailable)}
        found = tuple(_wrong(put, known, ends))
        wrong = tuple(message for _, message in found)
        names = tuple(sorted({group for group, _ in found}))
        facts = VerifyFacts(number, len(put), len(wrong), names)
        if not wrong:
            message = (
                f"{plural(number, 'offset')} of {plural(len(put), 'group')}: none is before the"
                " offset that was set"
            )
            return Readback(State.DONE, message, facts)
        shown = "; ".join(wrong[:_SHOWN])
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        message = f"wrong offsets on {cluster}: {len(wrong):,} of {number:,}"
        return Readback(State.DONE, message, facts, wrong, f"{message}; {shown}{more}")


def _places_in_words(number: int) -> str:
    return plural(number, "group or partition", "groups or partitions")


def _places(stand: Stand) -> Places:
    return {
        group: {TopicPartition(topic, number): at for topic, number, at in rows}
        for group, rows in stand.items()
    }


def _wrong(
    put: Places, committed: Mapping[str, Positions], ends: Mapping[TopicPartition, int]
) -> Iterator[tuple[str, str]]:
    """Each offset that is missing, too low or beyond its log: its group, and a description."""
    for group, positions in put.items():
        for place, at in positions.items():
            now, end = committed[group].get(place), ends[place]
            if now is None:
                yield group, f"{group} has no offset in {place} any more; it was set to {at:,}"
            elif now.offset < at:
                yield group, f"{group} is at offset {now.offset:,} of {place}; it was set to {at:,}"
            elif now.offset > end:
                yield (
                    group,
                    f"{group} is at offset {now.offset:,} of {place}, which ends at {end:,}",
                )
