"""Prepares a stopped connector: its start offsets, and whether it excludes records drctl copied.

MirrorMaker 2 stores the last offset that it copied and continues after it. Without stored offsets
it starts at the beginning and replicates everything twice.
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
from drctl.model.text import plural
from drctl.steps.first_records import first_new_records
from drctl.steps.records import FindMissing, found
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
from drctl.steps.stop_replication import UNASSIGNED, awaited

_SHOWN = 3

SET_START_OFFSETS_LATEST = "set-start-offsets-latest"
"""The name of `SetStartOffsets` in the direction in which replication ran before the loss."""

SET_START_OFFSETS_AFTER_SEARCH = "set-start-offsets-after-search"
"""The name of the `SetStartOffsets` that starts where a comparison of this direction ended."""

SET_START_OFFSETS_REVERSE = "set-start-offsets-reverse"
"""The name of `SetStartOffsets` in the reverse direction."""


@dataclass(frozen=True, slots=True)
class SeedSettings(BothClusters):
    """Settings from the plan."""

    connector: str


@dataclass(frozen=True, kw_only=True)
class SeedSinceStopped(SeedIntent, SinceStopped):
    """The offsets to set, and whether forward replication has moved since it was stopped."""


@dataclass(frozen=True, slots=True)
class SetStartOffsets(StepKind[SeedSettings, SeedSinceStopped, SeedFacts]):
    """Sets source offsets through Connect, and reads them back.

    Attributes:
        from_search: whether to start at the boundaries of a search, instead of the end offsets.
        search: the kind of the step that searched.
    """

    name: str
    from_search: bool
    search: str = FindMissing.name
    traits = Trait.CHANGES

    def describe(self, settings: SeedSettings) -> Description:
        """Describe the step for plans and reports."""
        where = "the end offset"
        if self.from_search:
            where = f"the first record that is missing on {settings.target}"
        if self.name in (SET_START_OFFSETS_AFTER_SEARCH, SET_START_OFFSETS_REVERSE):
            where = "the end offset that the comparison read"
        return Description(
            f"set connector {settings.connector} to start at {where}, in each partition of"
            f" {settings.source}",
            "Connect stores these offsets, and the connector is STOPPED",
            "restore its previous source offsets",
        )

    def check(self, settings: SeedSettings, facts: Facts, reader: LinkReader) -> SeedSinceStopped:
        """Determine the start offsets, and read the previous source offsets.

        Raises:
            Refused: the connector is not stopped, or would replicate records again.
            UsageError: the connector does not exist.
            Unreachable: a cluster, or Connect, did not respond.
        """
        name, connectors = settings.connector, reader.connectors()
        search = found(facts, self.search) if self.from_search else None
        if search and search.started:
            # Replication has started at the right offsets already: it resumes.
            _check_resume_offsets(settings, search.boundaries, reader)
            return SeedSinceStopped(
                connector=name, wanted={}, before={}, begins=search.boundaries, ends=search.ends
            )
        must_be_stopped(name, connectors)
        if search:
            start = search.boundaries
            ends = search.ends or log_ends(
                reader.cluster_reader(settings.target), copies_of(reader)
            )
        else:
            start = log_ends(reader.cluster_reader(settings.source), reader.topics())
            ends = log_ends(reader.cluster_reader(settings.target), copies_of(reader))
        kept = kept_offsets(name, connectors.offsets(name))
        return SeedSinceStopped(
            connector=name,
            alias=connectors.config(name).get(ALIAS, "source"),
            # Connect stores the last copied offset, or nothing to start at the beginning.
            wanted={place: at - 1 if at > 0 else None for place, at in sorted(start.items())},
            before={place: kept.get(place) for place in sorted(start)},
            begins=start,
            ends=ends,
        )

    def apply(self, intent: SeedSinceStopped, writer: LinkWriter) -> tuple[str, ...]:
        """Set the source offsets."""
        return alter(intent, intent.wanted, writer)

    def verify(self, intent: SeedSinceStopped, reader: LinkReader) -> Readback[SeedFacts]:
        """Verify that the offsets read back, or that the connector has since copied from there."""
        name, facts = intent.connector, SeedFacts(intent.begins, intent.ends)
        if not intent.wanted:
            message = f"nothing to set: {name} resumes where it stopped"
            return Readback(State.DONE, message, facts)
        kept = kept_offsets(name, reader.connectors().offsets(name))
        others = tuple(
            f"{place}: Connect stores {kept.get(place)} for {name}"
            for place, at in intent.wanted.items()
            if not _reached(kept.get(place), at, intent.before.get(place))
        )
        if others:
            message = (
                f"{plural(len(others), 'offset is', 'offsets are')} not set:"
                f" {'; '.join(others[:_SHOWN])}"
            )
            return Readback(State.WAITING, message, items=others)
        return Readback(
            State.DONE,
            f"{name} has its start offsets in {plural(len(intent.wanted), 'partition')}",
            facts,
        )

    def undo(self, intent: SeedSinceStopped, writer: LinkWriter) -> tuple[str, ...]:
        """Restore the previous source offsets."""
        return alter(intent, intent.before, writer)

    def verify_undo(self, intent: SeedSinceStopped, reader: LinkReader) -> Readback[SeedFacts]:
        """Verify that the previous source offsets are restored."""
        name = intent.connector
        kept = kept_offsets(name, reader.connectors().offsets(name))
        others = tuple(str(place) for place, at in intent.before.items() if kept.get(place) != at)
        if others:
            return Readback(
                State.WAITING,
                f"{plural(len(others), 'offset is', 'offsets are')} not restored",
                items=others,
            )
        return Readback(State.DONE, f"{name} has its previous offsets")


def _check_resume_offsets(settings: SeedSettings, boundaries: Offsets, reader: LinkReader) -> None:
    """Check that the connector resumes after the records that it has already replicated.

    Raises:
        Refused: it would resume at a record before the first new one. Records that drctl copied are
            ignored: the connector excludes them.
    """
    name, connectors = settings.connector, reader.connectors()
    alias = connectors.config(name).get(ALIAS, "source")
    kept = kept_offsets(name, connectors.offsets(name), alias)
    before = {p: kept.get(p, -1) + 1 for p, at in boundaries.items() if kept.get(p, -1) + 1 < at}
    first = first_new_records(reader.cluster_reader(settings.source), before)
    wrong = tuple(
        f"{place} offset {one.offset} (first new record: {boundaries[place]})"
        for place, one in sorted(first.items())
        if one.offset < boundaries[place]
    )
    if wrong:
        shown = "; ".join((*wrong[:_SHOWN], *(["..."] if len(wrong) > _SHOWN else [])))
        raise Refused(
            f"reverse replication has already started, but the stored offsets of connector {name}"
            f" (source.cluster.alias {alias}) are missing or too low: it would resume at {shown},"
            " and replicate all records from there again",
            "restore the connector name and alias with which it started; or, while it is STOPPED,"
            " set its offsets to the last replicated record: PATCH"
            f" /connectors/{name}/offsets",
        )


def _reached(kept: int | None, wanted: int | None, before: int | None) -> bool:
    """Whether the wanted offset was reached; a higher one that is unchanged does not count."""
    if kept == wanted:
        return True
    return kept is not None and kept > (-1 if wanted is None else wanted) and kept != before


_OUT = "records that drctl copied are on both clusters: the connector must never replicate them"
_ALONG = (
    "the emptied cluster is refilled by replication alone, which must not skip records that drctl"
    " copied"
)
_UNSETTLED = frozenset({UNASSIGNED, "RESTARTING"})


@dataclass(frozen=True, slots=True)
class FilterSettings:
    """The connector to configure."""

    connector: str


@dataclass(frozen=True, slots=True)
class FilterIntent:
    """The configuration keys to change; None removes a key."""

    connector: str
    changes: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class FilterReconciled(Permanent[FilterSettings, FilterIntent, None]):
    """Adds or removes a filter in the connector's configuration; journals no other keys.

    Attributes:
        out: whether to exclude the records that drctl copied.
    """

    name: str
    out: bool
    traits = Trait.CHANGES | Trait.IRREVERSIBLE

    @property
    def _why(self) -> str:
        return _OUT if self.out else _ALONG

    def describe(self, settings: FilterSettings) -> Description:
        """Describe the step for plans and reports."""
        verb = "exclude" if self.out else "include"
        return Description(
            f"configure connector {settings.connector} to {verb} records with header {HEADER}",
            "Connect returns the changed configuration",
            f"none: {self._why}",
        )

    def check(self, settings: FilterSettings, facts: Facts, reader: LinkReader) -> FilterIntent:
        """Find the keys to change.

        Raises:
            UsageError: the connector does not exist.
            Unreachable: no worker responded.
        """
        name = settings.connector
        config = reader.connectors().config(name)
        changes: Mapping[str, str | None] = {}
        if drops_copies(config) is not self.out:
            changes = filter_to_add(config) if self.out else filter_to_remove(config)
        return FilterIntent(name, changes)

    def apply(self, intent: FilterIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Change the configuration."""
        if intent.changes:
            writer.connectors().configure(intent.connector, intent.changes)
        return ()

    def verify(self, intent: FilterIntent, reader: LinkReader) -> Readback[None]:
        """Verify the configuration, and that the connector is assigned."""
        name = intent.connector
        drops = drops_copies(reader.connectors().config(name))
        message = f"{name} {'excludes' if drops else 'includes'} records that drctl copied"
        if drops is not self.out:
            return Readback(State.WAITING, f"not changed yet: {message}")
        # Workers reassign a connector after a configuration change.
        state = reader.connectors().state(name).state
        if not _UNSETTLED.isdisjoint(state.split("+")):
            return Readback(State.WAITING, awaited(name, state))
        return Readback(State.DONE, message)

    def verify_undo(self, intent: FilterIntent, reader: LinkReader) -> Readback[None]:
        """Report that the effect stays."""
        return Readback(State.DONE, self._why, leaves_changes=bool(intent.changes))


SET_START_OFFSETS = SetStartOffsets("set-start-offsets", from_search=True)
EXCLUDE_RECONCILED = FilterReconciled("exclude-reconciled-records", out=True)
INCLUDE_RECONCILED = FilterReconciled("include-reconciled-records", out=False)
