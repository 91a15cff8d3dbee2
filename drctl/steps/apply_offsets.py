"""Commits the offsets listed in a plan for inactive groups; the journal keeps the previous ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from drctl.engine.kind import Description, Facts, Permanent, Readback, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.engine.run_state import RunState
from drctl.model.errors import Unreachable
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition
from drctl.offsets.applying import Action, ApplyPlan, Line, Precheck, Wanted, build_plan, look
from drctl.offsets.results import DONE, WRITTEN, Became, Change, Outcome, Place, became, moved
from drctl.steps.repairs import counted

BATCH = 2000
"""Groups that are sent together."""

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One offset that is wanted, and the one that was there when that was planned."""

    wanted: Wanted
    before: Committed | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One that is not committed, and the precheck that refuses it.

    Attributes:
        reason: in words; empty where the plan said it already.
        now: the offset that is there.
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
    """What a plan says.

    Attributes:
        left_out: by the plan already.
        unproven: whether what skips records only under a condition is committed.
    """

    cluster: str
    rows: tuple[Row, ...]
    left_out: tuple[LeftOut, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)
    unproven: bool = False


@dataclass(frozen=True, slots=True)
class ApplyIntent:
    """What was decided right before the commit.

    Attributes:
        same: how many are committed already by now.
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
    # It asks its own prechecks, and its intent is the snapshot from which it is undone.
    traits = (
        Trait.RUNS_PRECHECKS
        | Trait.SNAPSHOTS_STATE
        | Trait.CHANGES
        | Trait.COMMITS_OFFSETS
        | Trait.IRREVERSIBLE
        | Trait.RECHECKED
    )

    def describe(self, settings: ApplySettings) -> Description:
        """The step in words."""
        groups = counted(len({row.wanted.group for row in settings.rows}), "group")
        left = f"; {len(settings.left_out)} excluded" if settings.left_out else ""
        return Description(
            f"commit {counted(len(settings.rows), 'offset')} of {groups} on"
            f" {settings.cluster}{left}",
            "every committed offset reads back",
            "drctl offsets undo restores the previous offsets from the journal",
        )

    def check(self, settings: ApplySettings, facts: Facts, reader: LinkReader) -> ApplyIntent:
        """Run every precheck again.

        Raises:
            Unreachable: the cluster did not answer.
        """
        before = {(row.wanted.group, row.wanted.partition): row.before for row in settings.rows}
        due, left, same = [], [*settings.left_out], 0
        wanted = [row.wanted for row in settings.rows]
        cluster, overrides = settings.cluster, settings.overrides
        plan = guarded(wanted, cluster, reader, overrides=overrides, unproven=settings.unproven)
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
        """Commit; a group that is active is refused by its coordinator."""
        return commit(intent.lines, intent.cluster, writer)

    def verify(self, intent: ApplyIntent, reader: LinkReader) -> Readback[ApplyFacts]:
        """What became of each."""
        found = read_back(intent, reader)
        wrong = {place: each for place, each in found.items() if each.outcome not in DONE}
        told = tuple(f"{_name(place)}: {each.reason}" for place, each in wrong.items())
        if not all(each.sent for each in wrong.values()):
            return Readback(State.WAITING, _words("not committed yet", told), items=told)
        if any(each.outcome is Outcome.UNKNOWN for each in wrong.values()):
            return Readback(State.UNKNOWN, _words("not known to be committed", told), items=told)
        written = f"{counted(len(found) - len(wrong), 'offset')} committed"
        if left := (*told, *map(_left_out, intent.left_out)):
            return Readback(State.FAILED, f"{written}; {_words('not committed', left)}", items=left)
        groups = len({change.group for change in intent.lines})
        words = (
            f"{written} for {counted(groups, 'group')}, and read back; {intent.same}"
            f" already committed"
        )
        return Readback(State.DONE, words, ApplyFacts(len(found), groups, intent.same))

    def verify_undo(self, intent: ApplyIntent, reader: LinkReader) -> Readback[ApplyFacts]:
        """What stays."""
        found = read_back(intent, reader)
        if any(each.outcome is Outcome.UNKNOWN for each in found.values()):
            return Readback(State.UNKNOWN, "the committed offsets of the groups are unknown")
        stay = sum(each.outcome in WRITTEN for each in found.values())
        if not stay:
            return Readback(State.DONE, "no offset was committed")
        words = (
            f"{counted(stay, 'offset')} committed: drctl offsets undo restores the previous offsets"
        )
        return Readback(State.DONE, words, leaves_changes=True)


def guarded(
    wanted: Sequence[Wanted],
    cluster: str,
    reader: LinkReader,
    *,
    overrides: Mapping[str, str],
    unproven: bool,
    origin: str = "",
    notes: Sequence[str] = (),
) -> ApplyPlan:
    """What the prechecks say now of everything that is wanted on a cluster.

    Args:
        origin, notes: as in the plan.

    Raises:
        Unreachable: the cluster did not answer.
    """
    site = reader.cluster_reader(cluster)
    return build_plan(
        wanted,
        look(reader.groups(cluster), site, wanted),
        cluster=cluster,
        cluster_id=site.cluster_id(),
        origin=origin,
        made=datetime.now(UTC),
        overrides=overrides,
        notes=notes,
        unproven=unproven,
    )


def read_back(intent: ApplyIntent, reader: LinkReader) -> dict[Place, Became]:
    """What became of every change.

    Raises:
        Unreachable: the cluster did not answer.
    """
    names = tuple(dict.fromkeys(change.group for change in intent.lines))
    groups = reader.groups(intent.cluster)
    positions = groups.committed(names) if names else {}
    answers = reader.offset_answers()
    return {c.place: became(c, positions[c.group], answers) for c in intent.lines}


def became_of(run: RunState, reader: LinkReader) -> Mapping[Place, Became]:
    """What became of everything that a run was to commit, looked at once more.

    It is empty where the run decided on nothing.
    """
    step = next(each for each in run.plan.steps if each.kind == ApplyOffsets.name)
    effect = run.effect_of(step.id)
    if effect is None:
        return {}
    intent = ApplyOffsets().read_intent(effect.intent)
    try:
        found = read_back(intent, reader)
    except Unreachable as silent:
        unknown = Became(Outcome.UNKNOWN, None, f"not read back: {silent.message}")
        found = {change.place: unknown for change in intent.lines}
    for each in intent.left_out:
        found[each.place] = Became(Outcome.REFUSED, each.now, each.reason, each.precheck)
    rows = ApplyOffsets().read_settings(step.settings).rows
    same = {(row.wanted.group, row.wanted.partition): row.wanted.to for row in rows}
    return {place: Became(Outcome.SAME, to) for place, to in same.items()} | found


def _words(what: str, items: Sequence[str]) -> str:
    more = f"; and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return f"{len(items)} {what}: {'; '.join(items[:_NAMED])}{more}"


def _left_out(each: LeftOut) -> str:
    return f"{_name(each.place)}: {each.precheck}{f': {each.reason}' if each.reason else ''}"


def _name(place: Place) -> str:
    group, partition = place
    return f"{group} {partition}"


def changes(lines: Iterable[Line]) -> tuple[Change, ...]:
    """What is changed for the lines of a plan."""
    return tuple(Change(line.group, *line.partition, line.before, line.to) for line in lines)


def commit(changes: Sequence[Change], cluster: str, writer: LinkWriter) -> tuple[str, ...]:
    """Commit, or remove, what each is to be; what was not done, each with its reason."""
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
