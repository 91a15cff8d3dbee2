"""Puts the link's groups where they go on on the target; read back position by position."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from drctl.engine.kind import Description, Facts, Polling, Seen, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.groups import Committed, Positions
from drctl.model.plan import Json
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from drctl.offsets.applying import Action, ApplyPlan, Guard, Line, Override, build_plan
from drctl.offsets.wanted import look as look_at

BATCH = 2000
"""Groups that are sent together."""

LEFT_OUT = "groups-left-out"
"""The guard that stands against opening a target on which a group has no place to go on."""

COMMIT = "commit"
"""The word of `policy.unproven_offsets` by which such positions are written."""

_STAND = (Action.SAME, Action.KEPT)
"""A position is there already."""

Position = list[Any]
Change = tuple[str, TopicPartition, Committed | None, Committed | None]


class Reread(NamedTuple):
    """What a group reads again.

    Attributes:
        at_most: a bound; None where none is known.
        likely: while the source is silent; None where that is not known, or the source answers.
        rests_on: the oldest evidence of its positions, its age in seconds, and the condition under
            which it skips records; the condition is empty where the source answers.
    """

    at_most: int | None
    likely: int | None
    rests_on: tuple[str, float | None, str]


@dataclass(frozen=True, slots=True)
class Foreseen:
    """Where groups would resume, by what is known before anything is done.

    Attributes:
        positions: that would stand on the target.
        rows: by group that would have an offset there.
        without_offset: groups that would have none, and patterns of groups nobody knows.
        left_out: positions that would not be committed, and why.
    """

    positions: int
    rows: Mapping[str, Reread]
    without_offset: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def groups(self) -> int:
        """How many would have an offset."""
        return len(self.rows)

    @property
    def rereads_at_most(self) -> int | None:
        """Records that all of them read again; None where no bound is known."""
        return total(each.at_most for each in self.rows.values())

    @property
    def rereads_likely(self) -> int | None:
        """The same if they consumed nothing after the evidence; None where that is not known."""
        return total(each.likely for each in self.rows.values()) if self.rows else None


def foreseen(settings: Json, reader: LinkReader) -> Foreseen:
    """What the step would do now.

    Raises:
        Unreachable: the target did not answer.
    """
    plan, unknown = planned_offsets(settings, reader)
    refused = [line for line in plan.lines if line.action is Action.REFUSED]
    return Foreseen(
        len(plan.lines) - len(refused),
        reread(plan),
        tuple(without_offset(plan, unknown)),
        (*map(_told, refused), *map(_nothing_known, unknown)),
    )


def planned_offsets(settings: Json, reader: LinkReader) -> tuple[ApplyPlan, tuple[str, ...]]:
    """What the step would write by what is known now, and patterns of groups nobody knows.

    Raises:
        Unreachable: the target did not answer.
    """
    cluster, passed = settings["cluster"], settings["overrides"]
    wanted, unknown = reader.translated()
    site = reader.site(cluster)
    plan = build_plan(
        wanted,
        look_at(reader.groups(cluster), site, wanted),
        cluster=cluster,
        cluster_id=site.cluster_id(),
        origin=f"translation of link {settings['link']}",
        made=datetime.now(UTC),
        overrides=[
            Override(guard, passed[guard.value]) for guard in Guard if guard.value in passed
        ],
        # Plans of older drctl do not say: they refused.
        unproven=settings.get("unproven_offsets") == COMMIT,
    )
    return plan, unknown


def reread(plan: ApplyPlan) -> dict[str, Reread]:
    """By group, of the positions that are not refused."""
    lines: dict[str, list[Line]] = {}
    for line in plan.lines:
        if line.action is not Action.REFUSED:
            lines.setdefault(line.group, []).append(line)
    return {
        group: Reread(
            total(map(_again, some)),
            total(line.rereads_likely for line in some),
            _oldest(some),
        )
        for group, some in lines.items()
    }


def without_offset(plan: ApplyPlan, unknown: Iterable[str]) -> list[str]:
    """Groups that would stand nowhere on the target, and patterns of groups nobody knows."""
    stand = {
        line.group
        for line in plan.lines
        if line.before is not None or line.action is not Action.REFUSED
    }
    return [*sorted({line.group for line in plan.lines} - stand), *unknown]


def total(bounds: Iterable[int | None]) -> int | None:
    """None where one of them is not known."""
    found = list(bounds)
    return None if None in found else sum(each for each in found if each is not None)


def _oldest(lines: Iterable[Line]) -> tuple[str, float | None, str]:
    """An age that nobody knows is older than any."""

    def age(line: Line) -> float:
        seconds = line.rests_on.age_seconds
        return float("inf") if seconds is None and line.skips_only_if else seconds or 0.0

    line = max(lines, key=age)
    return line.rests_on.evidence, line.rests_on.age_seconds, line.skips_only_if


class CommitOffsets:
    """Never backwards, and never over unread records, unless that was overridden."""

    name = "commit-offsets"
    traits = Trait.CHANGES | Trait.COMMITS_OFFSETS

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(
            f"commit the translated positions of the link's groups on {settings['cluster']}",
            "every position reads back as it was committed",
            "put back every position that was there before",
        )

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Translate by what is known now, and hold it against the target.

        Raises:
            Refused: a group has no place to go on, and that is not passed over.
            Unreachable: the target did not answer.
        """
        passed = settings["overrides"]
        plan, unknown = planned_offsets(settings, reader)
        refused = [_told(line) for line in plan.lines if line.action is Action.REFUSED]
        left_out = [*refused, *map(_nothing_known, unknown)]
        if left_out and not (settings["leave_out"] or LEFT_OUT in passed):
            first = "; ".join(left_out[:5])
            raise Refused(
                f"{len(left_out)} positions or groups cannot be committed: {first}",
                f"drctl offsets explain tells why; or --override {LEFT_OUT}=REASON",
            )
        rows = reread(plan)
        return {
            "cluster": settings["cluster"],
            "lines": [_line(line) for line in plan.writes],
            "same": len(plan.lines) - len(plan.writes) - len(refused),
            "left_out": left_out,
            "rereads_at_most": total(each.at_most for each in rows.values()),
            "rereads_likely": total(each.likely for each in rows.values()),
            "rereads": {name: each.at_most for name, each in rows.items()},
            "likely": {name: each.likely for name, each in rows.items()},
            "rests_on": {name: list(each.rests_on) for name, each in rows.items()},
            "without_offset": without_offset(plan, unknown),
            "kept": [_kept(line) for line in plan.lines if line.action in _STAND],
        }

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Commit; a group in which somebody reads is refused by its coordinator."""
        return _commit(_changes(intent), intent["cluster"], writer)

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether every position reads back."""
        wanted = [(group, place, to) for group, place, _, to in _changes(intent)]
        others = _others(wanted, intent["cluster"], reader)
        lines, left_out = len(intent["lines"]), intent["left_out"]
        facts = {
            "positions": lines,
            "groups": len({line[0] for line in intent["lines"]}),
            "same": intent["same"],
            "rereads_at_most": intent["rereads_at_most"],
            "rereads_likely": intent.get("rereads_likely"),
            "without_offset": intent.get("without_offset", []),
            "left_out": left_out,
            "stand": _stand(intent),
        }
        if others:
            words = f"{len(others)} of {lines} positions are not there: {others[0]}"
            return Seen(State.WAITING, words, facts, others)
        words = f"{lines} positions of {facts['groups']} groups read back as committed"
        owes = (
            f"{len(left_out)} positions or groups were left out: {left_out[0]}" if left_out else ""
        )
        return Seen(State.DONE, words, facts, tuple(left_out), owes)

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Put back what was there."""
        return _commit(_changes(intent), intent["cluster"], writer, back=True)

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether every position is as before."""
        wanted = [(group, place, before) for group, place, before, _ in _changes(intent)]
        others = _others(wanted, intent["cluster"], reader)
        if others:
            return Seen(State.WAITING, f"{len(others)} are not put back: {others[0]}", {}, others)
        return Seen(State.DONE, f"{len(wanted)} positions are as before")


def _commit(
    changes: Sequence[Change], cluster: str, writer: LinkWriter, *, back: bool = False
) -> tuple[str, ...]:
    groups = writer.groups(cluster)
    complaints: list[str] = []
    for batch in _batches(changes):
        wanted: dict[str, dict[TopicPartition, Committed]] = {}
        unwanted: dict[str, list[TopicPartition]] = {}
        for group, place, before, to in batch:
            position = before if back else to
            if position is None:
                unwanted.setdefault(group, []).append(place)
            else:
                wanted.setdefault(group, {})[place] = position
        for answers in (groups.commit(wanted), groups.delete(unwanted)):
            complaints += _complaints(answers)
    return tuple(complaints)


def _batches(changes: Sequence[Change]) -> Iterable[Sequence[Change]]:
    names = list(dict.fromkeys(change[0] for change in changes))
    for start in range(0, len(names), BATCH):
        chosen = set(names[start : start + BATCH])
        yield [change for change in changes if change[0] in chosen]


def _complaints(
    answers: Mapping[str, Mapping[TopicPartition, Unavailable | None]],
) -> list[str]:
    return [
        f"{group} {place}: {why.reason}"
        for group, places in answers.items()
        for place, why in places.items()
        if why is not None
    ]


def _others(
    wanted: Sequence[tuple[str, TopicPartition, Committed | None]], cluster: str, reader: LinkReader
) -> tuple[str, ...]:
    """Each position that is not as wanted, in words."""
    names = tuple(dict.fromkeys(group for group, _, _ in wanted))
    committed = reader.groups(cluster).committed(names) if names else {}
    found = []
    for group, place, position in wanted:
        positions = committed[group]
        if isinstance(positions, Unavailable):
            found.append(f"{group} {place}: {positions.reason}")
        elif positions.get(place) != position:
            now = positions.get(place)
            stands = "has no position" if now is None else f"stands at {now.offset}"
            found.append(f"{group} {place} {stands}")
    return tuple(found)


def _line(line: Line) -> list[Any]:
    return [line.group, *line.partition, _position(line.before), _position(line.to)]


def _again(line: Line) -> int | None:
    """Records that the group reads again at most; also where it stands there already."""
    most = line.rereads_at_most
    if line.skips_only_if:
        return most
    if most is None or line.action is not Action.KEPT or not (line.before and line.to):
        return most
    return max(0, most - (line.before.offset - line.to.offset))


def _kept(line: Line) -> list[Any]:
    return [line.group, *line.partition, line.before.offset if line.before else 0]


def _stand(intent: Json) -> dict[str, list[list[Any]]]:
    """By group where it stands then, also where nothing had to be written for that."""
    found: dict[str, list[list[Any]]] = {}
    # Journals of older drctl do not tell of those that stood there already.
    rows = [
        *intent.get("kept", ()),
        *([*each[:3], each[4][0]] for each in intent["lines"] if each[4]),
    ]
    for group, *place_and_offset in rows:
        found.setdefault(group, []).append(place_and_offset)
    return found


def _position(committed: Committed | None) -> Position | None:
    return None if committed is None else list(committed)


def _changes(intent: Json) -> list[Change]:
    return [
        (group, TopicPartition(topic, number), _committed(before), _committed(to))
        for group, topic, number, before, to in intent["lines"]
    ]


def _committed(data: Position | None) -> Committed | None:
    return None if data is None else Committed(*data)


def _nothing_known(pattern: str) -> str:
    """Where such a group begins, its own settings say: it may read all again, or skip much."""
    return f"{pattern}: no group of this name is known; its source does not answer"


def _told(line: Line) -> str:
    return f"{line.group} {line.partition}: {line.reason}"


_SHOWN = 3

Places = Mapping[str, Mapping[TopicPartition, int]]
"""By group, where it was put."""


class ProveGroups(Polling):
    """A position behind where it was put reads again what was read, and is owed an answer."""

    name = "prove-groups"
    traits = Trait.VERIFIES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        cluster = settings["cluster"]
        return Description(
            f"see where the link's groups stand on {cluster}",
            "each position is where it was committed or further on, up to the end of its log;"
            " what is not is owed",
        )

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Where they were put: by group, rows of `[topic, partition, offset]`."""
        put = facts.get(CommitOffsets.name, {}).get("stand", {})
        return {"cluster": settings["cluster"], "stand": put}

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Where they are now; what cannot be read is waited for."""
        cluster, put = intent["cluster"], _places(intent["stand"])
        committed = reader.groups(cluster).committed(tuple(put)) if put else {}
        places = sorted({place for positions in put.values() for place in positions})
        logs = reader.site(cluster).offsets(places) if places else {}
        unread = tuple(
            f"{what}: {found.reason}"
            for what, found in (*committed.items(), *logs.items())
            if isinstance(found, Unavailable)
        )
        number = sum(map(len, put.values()))
        facts: dict[str, Any] = {"positions": number, "groups": len(put)}
        if unread:
            words = f"where {len(unread)} groups or partitions stand is not known: {unread[0]}"
            return Seen(State.WAITING, words, facts, unread)
        ends = {p: log.end for p, log in logs.items() if isinstance(log, PartitionOffsets)}
        known = {g: p for g, p in committed.items() if not isinstance(p, Unavailable)}
        found = tuple(_wrong(put, known, ends))
        wrong = tuple(words for _, words in found)
        facts |= {"wrong": len(wrong), "wrong_groups": sorted({group for group, _ in found})}
        if not wrong:
            words = f"{number} positions of {len(put)} groups are where they were put or further on"
            return Seen(State.DONE, words, facts)
        told = "; ".join(wrong[:_SHOWN])
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        words = f"{len(wrong)} of {number} positions on {cluster} are not where they should be"
        return Seen(State.DONE, words, facts, wrong, f"{words}: {told}{more}")


def _places(stand: Json) -> Places:
    return {
        group: {TopicPartition(topic, number): at for topic, number, at in rows}
        for group, rows in stand.items()
    }


def _wrong(
    put: Places, committed: Mapping[str, Positions], ends: Mapping[TopicPartition, int]
) -> Iterator[tuple[str, str]]:
    """Each position that is missing, behind, or beyond its log: its group, and words."""
    for group, positions in put.items():
        for place, at in positions.items():
            now, end = committed[group].get(place), ends[place]
            if now is None:
                yield group, f"{group} has no position in {place} any more, and was put at {at:,}"
            elif now.offset < at:
                yield group, f"{group} stands at {now.offset:,} of {place}, and was put at {at:,}"
            elif now.offset > end:
                yield group, f"{group} stands at {now.offset:,} of {place}, which ends at {end:,}"
