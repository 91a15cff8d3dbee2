"""Commits the offsets listed in a plan for inactive groups; the journal keeps the previous ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from drctl.engine.kind import Description, Facts, Permanent, Readback, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.engine.run_state import RunState
from drctl.model.errors import Unreachable
from drctl.model.groups import Committed
from drctl.model.text import plural
from drctl.model.topology import TopicPartition
from drctl.offsets.applying import Action, ApplyPlan, Line, Precheck, Wanted, build_plan, look
from drctl.offsets.results import (
    DONE,
    WRITTEN,
    Change,
    CommitOutcome,
    Outcome,
    Place,
    moved,
    outcome_of,
)

BATCH = 2000
"""Groups per request."""

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Row:
    """An offset to commit, and the committed offset when the plan was made."""

    wanted: Wanted
    before: Committed | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An offset that is not committed, and the precheck that refuses it.

    Attributes:
        reason: empty if the plan already reported it.
        now: the committed offset.
    """

    group: str
    topic: str
    number: int
    precheck: Precheck
    reason: str = ""
    now: Committed | None = None

    @property
    def place(self) -> Place:
        """The group and the partition."""
        return self.group, TopicPartition(self.topic, self.number)


@dataclass(frozen=True, slots=True)
class ApplySettings:
    """Settings from the plan.

    Attributes:
        left_out: offsets that the plan already excluded.
        unproven: whether to commit offsets that may skip records.
    """

    cluster: str
    rows: tuple[Row, ...]
    left_out: tuple[LeftOut, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)
    unproven: bool = False


@dataclass(frozen=True, slots=True)
class ApplyIntent:
    """The changes as decided right before the commit.

    Attributes:
        same: how many offsets are already committed.
    """

    cluster: str
    lines: tuple[Change, ...]
    same: int = 0
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplyFacts:
    """How many offsets of how many groups were changed, and how many needed no change."""

    positions: int
    groups: int
    same: int


class ApplyOffsets(Permanent[ApplySettings, ApplyIntent, ApplyFacts]):
    """Rechecks each offset right before the commit and reads it back; skips refused ones."""

    name = "apply-offsets"
    # It runs its own prechecks; its intent is the snapshot that `drctl offsets undo` restores.
    traits = (
        Trait.RUNS_PRECHECKS
        | Trait.SNAPSHOTS_STATE
        | Trait.CHANGES
        | Trait.COMMITS_OFFSETS
        | Trait.IRREVERSIBLE
        | Trait.RECHECKED
    )

    def describe(self, settings: ApplySettings) -> Description:
        """Describe the step for plans and reports."""
        groups = plural(len({row.wanted.group for row in settings.rows}), "group")
        left = f"; {len(settings.left_out)} excluded" if settings.left_out else ""
        return Description(
            f"commit {plural(len(settings.rows), 'offset')} of {groups} on"
            f" {settings.cluster}{left}",
            "every committed offset reads back",
            "drctl offsets undo restores the previous offsets from the journal",
        )

    def check(self, settings: ApplySettings, facts: Facts, reader: LinkReader) -> ApplyIntent:
        """Run every precheck again, and keep the offsets that pass.

        Raises:
            Unreachable: the cluster did not respond.
        """
        before = {(row.wanted.group, row.wanted.partition): row.before for row in settings.rows}
        due, left, same = [], [*settings.left_out], 0
        wanted = [row.wanted for row in settings.rows]
        cluster, overrides = settings.cluster, settings.overrides
        plan = checked_plan(
            wanted, cluster, reader, overrides=overrides, unproven=settings.unproven
        )
        for line in plan.lines:
            at, now = (line.group, *line.partition), line.before
            changed = now != before[line.group, line.partition]
            if line.action is Action.SAME:
                same += 1
            elif line.precheck and not (changed and line.precheck.overridable):
                left.append(LeftOut(*at, line.precheck, line.reason, now))
            elif changed:
                left.append(LeftOut(*at, Precheck.CHANGED_SINCE, moved(now), now))
            else:
                due.append(line)
        return ApplyIntent(settings.cluster, changes(due), same, tuple(left))

    def apply(self, intent: ApplyIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Commit the offsets; coordinators refuse active groups."""
        return commit(intent.lines, intent.cluster, writer)

    def verify(self, intent: ApplyIntent, reader: LinkReader) -> Readback[ApplyFacts]:
        """Read each offset back."""
        found = read_back(intent, reader)
        wrong = {place: each for place, each in found.items() if each.outcome not in DONE}
        open_ = tuple(f"{_name(place)}: {each.reason}" for place, each in wrong.items())
        if not all(each.sent for each in wrong.values()):
            return Readback(State.WAITING, _words("not committed yet", open_), items=open_)
        if any(each.outcome is Outcome.UNKNOWN for each in wrong.values()):
            return Readback(State.UNKNOWN, _words("not known to be committed", open_), items=open_)
        written = f"{plural(len(found) - len(wrong), 'offset')} committed"
        if left := (*open_, *map(_left_out, intent.left_out)):
            return Readback(State.FAILED, f"{written}; {_words('not committed', left)}", items=left)
        groups = len({change.group for change in intent.lines})
        message = (
            f"{written} for {plural(groups, 'group')}, and read back; {intent.same}"
            f" already committed"
        )
        return Readback(State.DONE, message, ApplyFacts(len(found), groups, intent.same))

    def verify_undo(self, intent: ApplyIntent, reader: LinkReader) -> Readback[ApplyFacts]:
        """Report what stays changed."""
        found = read_back(intent, reader)
        if any(each.outcome is Outcome.UNKNOWN for each in found.values()):
            return Readback(State.UNKNOWN, "the committed offsets of the groups are unknown")
        stay = sum(each.outcome in WRITTEN for each in found.values())
        if not stay:
            return Readback(State.DONE, "no offset was committed")
        message = (
            f"{plural(stay, 'offset')} committed: drctl offsets undo restores the previous offsets"
        )
        return Readback(State.DONE, message, leaves_changes=True)


def checked_plan(
    wanted: Sequence[Wanted],
    cluster: str,
    reader: LinkReader,
    *,
    overrides: Mapping[str, str],
    unproven: bool,
    origin: str = "",
    notes: Sequence[str] = (),
) -> ApplyPlan:
    """Run the prechecks for offsets on a cluster as it is now.

    Args:
        overrides: overridden prechecks, each with its reason.
        unproven: whether to commit offsets that may skip records.
        origin, notes: copied into the plan.

    Raises:
        Unreachable: the cluster did not respond.
    """
    cluster_reader = reader.cluster_reader(cluster)
    state = look(
        reader.groups(cluster),
        cluster_reader,
        lambda epochs: reader.elections(cluster).ends_before(epochs),
        wanted,
    )
    return build_plan(
        wanted,
        state,
        cluster=cluster,
        cluster_id=cluster_reader.cluster_id(),
        origin=origin,
        made=datetime.now(UTC),
        overrides=overrides,
        notes=notes,
        unproven=unproven,
    )


def read_back(intent: ApplyIntent, reader: LinkReader) -> dict[Place, CommitOutcome]:
    """Read back every change.

    Raises:
        Unreachable: the cluster did not respond.
    """
    names = tuple(dict.fromkeys(change.group for change in intent.lines))
    groups = reader.groups(intent.cluster)
    positions = groups.committed(names) if names else {}
    answers = reader.offset_answers()
    return {c.place: outcome_of(c, positions[c.group], answers) for c in intent.lines}


def outcomes_of(run: RunState, reader: LinkReader) -> Mapping[Place, CommitOutcome]:
    """Read back everything that a run had to commit.

    Empty if the run ended before it decided on a change.
    """
    step = next(each for each in run.plan.steps if each.kind == ApplyOffsets.name)
    effect = run.effect_of(step.id)
    if effect is None:
        return {}
    intent = ApplyOffsets().read_intent(effect.intent)
    try:
        found = read_back(intent, reader)
    except Unreachable as silent:
        unknown = CommitOutcome(Outcome.UNKNOWN, None, f"not read back: {silent.message}")
        found = {change.place: unknown for change in intent.lines}
    for each in intent.left_out:
        found[each.place] = CommitOutcome(Outcome.REFUSED, each.now, each.reason, each.precheck)
    rows = ApplyOffsets().read_settings(step.settings).rows
    same = {(row.wanted.group, row.wanted.partition): row.wanted.to for row in rows}
    return {place: CommitOutcome(Outcome.SAME, to) for place, to in same.items()} | found


def _words(what: str, items: Sequence[str]) -> str:
    more = f"; and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return f"{len(items)} {what}: {'; '.join(items[:_NAMED])}{more}"


def _left_out(each: LeftOut) -> str:
    return f"{_name(each.place)}: {each.precheck}{f': {each.reason}' if each.reason else ''}"


def _name(place: Place) -> str:
    group, partition = place
    return f"{group} {partition}"


def changes(lines: Iterable[Line]) -> tuple[Change, ...]:
    """The changes that the lines of a plan stand for."""
    return tuple(Change(line.group, *line.partition, line.before, line.to) for line in lines)


def commit(changes: Sequence[Change], cluster: str, writer: LinkWriter) -> tuple[str, ...]:
    """Commit or delete offsets; returns what failed, each with its reason."""
    groups = writer.groups(cluster)
    errors: list[str] = []
    for batch in _batches(changes):
        wanted: dict[str, dict[TopicPartition, Committed]] = {}
        unwanted: dict[str, list[TopicPartition]] = {}
        for each in batch:
            if each.to is None:
                unwanted.setdefault(each.group, []).append(each.partition)
            else:
                wanted.setdefault(each.group, {})[each.partition] = each.to
        errors += (
            f"{group} {place}: {why.reason}"
            for answers in (groups.commit(wanted), groups.delete(unwanted))
            for group, places in answers.items()
            for place, why in places.items()
            if why is not None
        )
    return tuple(errors)


def _batches(changes: Sequence[Change]) -> Iterable[Sequence[Change]]:
    names = list(dict.fromkeys(each.group for each in changes))
    for start in range(0, len(names), BATCH):
        chosen = set(names[start : start + BATCH])
        yield [each for each in changes if each.group in chosen]
