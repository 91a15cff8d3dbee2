"""Prepares a stopped connector: where it begins, and whether it leaves drctl's copies out.

MirrorMaker 2 keeps the last offset that it copied, and continues after it; without one it begins
at the beginning, and copies everything twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from drctl.engine.failback_state import Offsets, drops_copies, filter_to_add, filter_to_remove
from drctl.engine.kind import (
    BothClusters,
    Description,
    Facts,
    Permanent,
    Readback,
    State,
    StepKind,
    Trait,
)
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.formats.provenance import HEADER
from drctl.model.errors import Refused
from drctl.steps.first_records import first_new_records
from drctl.steps.records import found
from drctl.steps.reversed import SinceStopped
from drctl.steps.source_offsets import (
    ALIAS,
    SeedFacts,
    SeedIntent,
    alter,
    copies_of,
    kept_offsets,
    log_ends,
    must_be_stopped,
)

_SHOWN = 3

SET_START_OFFSETS_LATEST = "set-start-offsets-latest"
"""The name of `SetStartOffsets` in the direction in which replication ran before the loss."""


@dataclass(frozen=True, slots=True)
class SeedSettings(BothClusters):
    """Settings from the plan."""

    connector: str


@dataclass(frozen=True, kw_only=True)
class SeedSinceStopped(SeedIntent, SinceStopped):
    """Which offsets, and what happened since the old replication was stopped."""


@dataclass(frozen=True, slots=True)
class SetStartOffsets(StepKind[SeedSettings, SeedSinceStopped, SeedFacts]):
    """Sets source offsets through Connect, and reads them back.

    Attributes:
        from_search: whether it begins where a search says; else where its source ends now.
    """

    name: str
    from_search: bool
    traits = Trait.CHANGES

    def describe(self, settings: SeedSettings) -> Description:
        """Describe the step for plans and reports."""
        where = "its end"
        if self.from_search:
            where = f"the first record that {settings.target} has not"
        return Description(
            f"let connector {settings.connector} begin at {where}, in each partition of"
            f" {settings.source}",
            "Connect keeps these offsets, and the connector is STOPPED",
            "give it the offsets back that it had",
        )

    def check(self, settings: SeedSettings, facts: Facts, reader: LinkReader) -> SeedSinceStopped:
        """Which offsets, and what it had.

        Raises:
            Refused: the connector is not stopped; or it would resume before where it has to begin.
            UsageError: there is no such connector.
            Unreachable: a cluster, or every worker, did not respond.
        """
        name, connectors = settings.connector, reader.connectors()
        search = found(facts) if self.from_search else None
        if search and search.started:
            # What has begun at the right place resumes from where it is.
            _see_where_it_goes_on(settings, search.boundaries, reader)
            return SeedSinceStopped(
                connector=name, wanted={}, before={}, begins=search.boundaries, ends=search.ends
            )
        must_be_stopped(name, connectors)
        if search:
            start, ends = search.boundaries, search.ends
        else:
            start = log_ends(reader.cluster_reader(settings.source), reader.topics())
            ends = log_ends(reader.cluster_reader(settings.target), copies_of(reader))
        kept = kept_offsets(name, connectors.offsets(name))
        return SeedSinceStopped(
            connector=name,
            alias=connectors.config(name).get(ALIAS, "source"),
            # It keeps the last offset it copied; nothing, to begin at the beginning.
            wanted={place: at - 1 if at > 0 else None for place, at in sorted(start.items())},
            before={place: kept.get(place) for place in sorted(start)},
            begins=start,
            ends=ends,
        )

    def apply(self, intent: SeedSinceStopped, writer: LinkWriter) -> tuple[str, ...]:
        """Set them."""
        return alter(intent, intent.wanted, writer)

    def verify(self, intent: SeedSinceStopped, reader: LinkReader) -> Readback[SeedFacts]:
        """Whether they read back; a connector that copied since began there."""
        name, facts = intent.connector, SeedFacts(intent.begins, intent.ends)
        if not intent.wanted:
            words = f"nothing to set: {name} resumes where it stopped"
            return Readback(State.DONE, words, facts)
        kept = kept_offsets(name, reader.connectors().offsets(name))
        others = tuple(
            f"{place}: {name} keeps {kept.get(place)}"
            for place, at in intent.wanted.items()
            if not _reached(kept.get(place), at, intent.before.get(place))
        )
        if others:
            words = f"{len(others)} offsets are not there: {'; '.join(others[:_SHOWN])}"
            return Readback(State.WAITING, words, items=others)
        return Readback(
            State.DONE, f"{name} begins there in {len(intent.wanted)} partitions", facts
        )

    def undo(self, intent: SeedSinceStopped, writer: LinkWriter) -> tuple[str, ...]:
        """Give it back what it had."""
        return alter(intent, intent.before, writer)

    def verify_undo(self, intent: SeedSinceStopped, reader: LinkReader) -> Readback[SeedFacts]:
        """Whether it has it."""
        name = intent.connector
        kept = kept_offsets(name, reader.connectors().offsets(name))
        others = tuple(str(place) for place, at in intent.before.items() if kept.get(place) != at)
        if others:
            return Readback(State.WAITING, f"{len(others)} offsets are not restored", items=others)
        return Readback(State.DONE, f"{name} has the offsets that it had")


def _see_where_it_goes_on(settings: SeedSettings, boundaries: Offsets, reader: LinkReader) -> None:
    """Check that it resumes after what is there already, and does not copy it again.

    Raises:
        Refused: it would go on with a record that is older than the first new one. What drctl has
            copied is left out, and may stand between both.
    """
    name, connectors = settings.connector, reader.connectors()
    alias = connectors.config(name).get(ALIAS, "source")
    kept = kept_offsets(name, connectors.offsets(name), alias)
    before = {p: kept.get(p, -1) + 1 for p, at in boundaries.items() if kept.get(p, -1) + 1 < at}
    first = first_new_records(reader.cluster_reader(settings.source), before)
    wrong = tuple(
        f"{place}, offset {one.offset} where {boundaries[place]} is the first new one"
        for place, one in sorted(first.items())
        if one.offset < boundaries[place]
    )
    if wrong:
        told = "; ".join((*wrong[:_SHOWN], *(["..."] if len(wrong) > _SHOWN else [])))
        raise Refused(
            f"the way home has begun, and connector {name} (source.cluster.alias {alias}) does not"
            f" keep how far it came: it would go on with {told}, and copy everything from there on"
            " a second time",
            "give it back the name and the alias with which it began; or set its offsets, while it"
            " is STOPPED, to the last record that has come home: Connect's PATCH"
            f" /connectors/{name}/offsets",
        )


def _reached(kept: int | None, wanted: int | None, before: int | None) -> bool:
    """Whether it is there, or copied from there since; what it had before may be further."""
    if kept == wanted:
        return True
    return kept is not None and kept > (-1 if wanted is None else wanted) and kept != before


_OUT = "what drctl has copied is there for good, and must not come back with whatever starts it"
_ALONG = "a cluster that was emptied gets what drctl has copied in no other way"
_UNSETTLED = frozenset({"UNASSIGNED", "RESTARTING"})


@dataclass(frozen=True, slots=True)
class FilterSettings:
    """Which connector."""

    connector: str


@dataclass(frozen=True, slots=True)
class FilterIntent:
    """Which keys of its configuration are changed; None removes one."""

    connector: str
    changes: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class FilterReconciled(Permanent[FilterSettings, FilterIntent, None]):
    """Adds a filter to its configuration, or takes it out; nothing else of it is read or kept.

    Attributes:
        out: whether copies are to be left out.
    """

    name: str
    out: bool
    traits = Trait.CHANGES | Trait.IRREVERSIBLE

    @property
    def _why(self) -> str:
        return _OUT if self.out else _ALONG

    def describe(self, settings: FilterSettings) -> Description:
        """Describe the step for plans and reports."""
        what = "leave out" if self.out else "take along"
        return Description(
            f"have connector {settings.connector} {what} records with header {HEADER}",
            "its configuration says so",
            f"none: {self._why}",
        )

    def check(self, settings: FilterSettings, facts: Facts, reader: LinkReader) -> FilterIntent:
        """Which keys are to be changed.

        Raises:
            UsageError: there is no such connector.
            Unreachable: no worker responded.
        """
        name = settings.connector
        config = reader.connectors().config(name)
        changes: Mapping[str, str | None] = {}
        if drops_copies(config) is not self.out:
            changes = filter_to_add(config) if self.out else filter_to_remove(config)
        return FilterIntent(name, changes)

    def apply(self, intent: FilterIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Change them."""
        if intent.changes:
            writer.connectors().configure(intent.connector, intent.changes)
        return ()

    def verify(self, intent: FilterIntent, reader: LinkReader) -> Readback[None]:
        """Whether it does so."""
        name = intent.connector
        drops = drops_copies(reader.connectors().config(name))
        words = f"{name} {'leaves out' if drops else 'takes along'} what drctl has copied"
        if drops is not self.out:
            return Readback(State.WAITING, f"{words}, still")
        # Workers assign a connector again once it is configured.
        state = reader.connectors().state(name).state
        if not _UNSETTLED.isdisjoint(state.split("+")):
            return Readback(State.WAITING, f"{name} is {state}")
        return Readback(State.DONE, words)

    def verify_undo(self, intent: FilterIntent, reader: LinkReader) -> Readback[None]:
        """Report that the effect stays."""
        return Readback(State.DONE, self._why, leaves_changes=bool(intent.changes))


SET_START_OFFSETS = SetStartOffsets("set-start-offsets", from_search=True)
EXCLUDE_RECONCILED = FilterReconciled("exclude-reconciled-records", out=True)
INCLUDE_RECONCILED = FilterReconciled("include-reconciled-records", out=False)
