"""Elects partition leaders inside one cluster; an election cannot be rolled back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from drctl.elections.cluster_state import Kind as Election
from drctl.elections.loss import lost_after
from drctl.elections.planning import Aim, Precheck, plan_again
from drctl.elections.results import ElectionOutcome, Outcome, observed
from drctl.engine.kind import Description, Facts, Permanent, Readback, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.groups import OFFSETS_TOPIC
from drctl.model.text import plural
from drctl.model.topology import OffsetRange, TopicPartition

_NAMED = 5


@dataclass(frozen=True, slots=True)
class ElectSettings:
    """Settings from the plan.

    Attributes:
        overrides: overridden prechecks, each with its reason.
    """

    cluster: str
    election: Election
    partitions: tuple[Aim, ...]
    overrides: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changed:
    """A partition that has changed since the plan was made, and is therefore left alone."""

    topic: str
    partition: int

    @property
    def place(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class ElectIntent:
    """What was observed right before the election.

    Attributes:
        due: partitions whose leaders the controller is asked to elect.
        there: partitions that already have the requested leader.
    """

    cluster: str
    election: Election
    due: tuple[Aim, ...]
    there: tuple[Aim, ...] = ()
    changed: tuple[Changed, ...] = ()

    @property
    def aims(self) -> tuple[Aim, ...]:
        """All partitions that should have the requested leader."""
        return (*self.there, *self.due)


@dataclass(frozen=True, slots=True)
class Elected:
    """A partition that has the requested leader.

    Attributes:
        cut: end of the log that was kept, according to the leader epochs of the new leader.
        lost: how many offsets are known to be lost; None if unknown.
    """

    topic: str
    partition: int
    leader: int
    cut: int | None = None
    lost: int | None = None


@dataclass(frozen=True, slots=True)
class ElectFacts:
    """The partitions that have the requested leader."""

    elected: tuple[Elected, ...]


class ElectLeaders(Permanent[ElectSettings, ElectIntent, ElectFacts]):
    """Elects leaders, once, of all partitions that have not changed since the plan was made."""

    name = "elect-leaders"
    traits = Trait.CHANGES | Trait.IRREVERSIBLE | Trait.RECHECKED

    def describe(self, settings: ElectSettings) -> Description:
        """Describe the step for plans and reports."""
        partitions = plural(len(settings.partitions), "partition")
        if settings.election is Election.PREFERRED:
            title = f"elect the preferred leaders of {partitions} of {settings.cluster}"
            return Description(
                title, "each is led by its preferred replica", "none: nothing is lost"
            )
        losses = "; ".join(f"{aim.place} loses {aim.loss}" for aim in settings.partitions[:_NAMED])
        return Description(
            f"elect leaders of {partitions} of {settings.cluster} that are missing"
            f" records: {losses}",
            "each has a leader that responds; the leader's log shows where it was truncated",
            "none: records that the new leader does not have are lost for good",
        )

    def check(self, settings: ElectSettings, facts: Facts, reader: LinkReader) -> ElectIntent:
        """Find the partitions that have not changed since the plan was made.

        Raises:
            Refused: all have changed.
            Unreachable: no broker responded.
        """
        election, aims = settings.election, settings.partitions
        topics, ends_of = {aim.topic for aim in aims}, [aim.place for aim in aims]
        unclean = election is Election.UNCLEAN
        states = reader.elections(settings.cluster).look(
            sorted({*topics, OFFSETS_TOPIC} if unclean else topics), ends_of if unclean else ()
        )
        passed = {Precheck(name): why for name, why in settings.overrides.items()}
        now = {line.place: line for line in plan_again(election, states, ends_of, passed).lines}
        there = tuple(aim for aim in aims if aim.took_effect(election, states))
        due = tuple(aim for aim in aims if aim.is_still(now[aim.place]))
        kept = {aim.place for aim in (*there, *due)}
        changed = tuple(Changed(*aim.place) for aim in aims if aim.place not in kept)
        if not kept:
            raise Refused(
                f"changed since the plan was made: {', '.join(map(str, ends_of[:_NAMED]))}",
                "make a new plan: run the same command again",
            )
        return ElectIntent(settings.cluster, election, due, there, changed)

    def apply(self, intent: ElectIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Ask the controller; `verify` reports what it refused."""
        if intent.due:
            places = [aim.place for aim in intent.due]
            writer.elections(intent.cluster).elect(intent.election, places)
        return ()

    def verify(self, intent: ElectIntent, reader: LinkReader) -> Readback[ElectFacts]:
        """Compare the leaders with the requested ones."""
        elections = reader.elections(intent.cluster)
        answers = elections.answers()
        found = observed(intent.election, intent.aims, elections, answers)
        open_ = [place for place, each in found.items() if each.outcome is Outcome.UNKNOWN]
        failed = [place for place, each in found.items() if each.outcome is Outcome.FAILED]
        items = tuple(f"{place}: {found[place].reason}" for place in (*open_, *failed))
        if open_:
            # UNKNOWN ends the wait. If this process has not asked yet, asking may still help.
            asked = all(place in answers for place in open_)
            message = f"not yet led by the requested replica: {', '.join(map(str, open_[:_NAMED]))}"
            return Readback(State.UNKNOWN if asked else State.WAITING, message, items=items)
        if failed or intent.changed:
            left = tuple(
                f"{each.place}: changed since the plan was made" for each in intent.changed
            )
            items = (*items, *left)
            return Readback(State.FAILED, f"not elected: {'; '.join(items[:_NAMED])}", items=items)
        return Readback(
            State.DONE, "; ".join(_results(intent, found)), ElectFacts(_elected(intent, found))
        )

    def verify_undo(self, intent: ElectIntent, reader: LinkReader) -> Readback[ElectFacts]:
        """Report what stays changed."""
        found = observed(intent.election, intent.aims, reader.elections(intent.cluster), {})
        elected = _elected(intent, found)
        if not elected:
            return Readback(State.DONE, "no leader was elected")
        message = f"elected leaders are not rolled back: {'; '.join(_results(intent, found))}"
        return Readback(State.DONE, message, ElectFacts(elected), leaves_changes=True)


def _elected(
    intent: ElectIntent, found: Mapping[TopicPartition, ElectionOutcome]
) -> tuple[Elected, ...]:
    rows = []
    for aim in intent.aims:
        each = found[aim.place]
        if each.outcome is Outcome.ELECTED and each.leader is not None:
            cut = each.cut if isinstance(each.cut, int) else None
            lost = _lost(aim, each)
            rows.append(Elected(*aim.place, each.leader, cut, None if lost is None else lost.span))
    return tuple(rows)


def _lost(aim: Aim, each: ElectionOutcome) -> OffsetRange | None:
    return None if each.cut is None or aim.clean else lost_after(each.cut, aim.known_end)


def _results(intent: ElectIntent, found: Mapping[TopicPartition, ElectionOutcome]) -> Iterator[str]:
    if intent.election is Election.PREFERRED:
        led = sum(each.outcome is Outcome.ELECTED for each in found.values())
        yield f"{plural(led, 'partition')} led by the preferred replica"
        return
    for aim in intent.aims:
        each = found[aim.place]
        if each.outcome is not Outcome.ELECTED:
            continue
        message = f"{aim.place}: broker {each.leader} leads it"
        if isinstance(each.cut, int):
            message += f", and its log was kept up to offset {each.cut}"
        if lost := _lost(aim, each):
            least = "" if aim.exact else "at least "
            message += f": {least}{plural(lost.span, 'offset is', 'offsets are')} lost"
        yield message
