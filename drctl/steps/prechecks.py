"""Runs the prechecks and records the state before anything is changed.

The plan continues only if every precheck passed or was overridden.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from drctl.checks.causes import group_by_cause, in_words
from drctl.checks.diagnosis import blockers_among
from drctl.engine.kind import Description, Facts, Polling, Readback, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused, Unknown, Unreachable
from drctl.model.finding import Finding, Status
from drctl.model.loss import Mode
from drctl.model.plan import Step
from drctl.model.repairs import TopicShape
from drctl.model.state_snapshot import (
    ClusterSnapshot,
    ConnectorSnapshot,
    StateSnapshot,
    TopicSnapshot,
)
from drctl.model.text import plural
from drctl.model.topology import TopicPartition, Unavailable
from drctl.model.typed_json import to_json


@dataclass(frozen=True, slots=True)
class PreflightSettings:
    """Settings from the plan.

    Attributes:
        overrides: overridden prechecks, each with its reason.
        not_asked: prechecks whose findings do not count.
        compare_ahead: whether to compare idle partitions now instead of during the drain.
    """

    mode: str
    overrides: Mapping[str, str]
    not_asked: tuple[str, ...] = ()
    compare_ahead: bool = False


@dataclass(frozen=True, slots=True)
class Unseen:
    """Prechecks that could not run for one shared cause, which is reported once.

    Attributes:
        what: the cause in a few words.
        why: the error message.
        checks: names of the prechecks that could not run.
    """

    what: str
    why: str
    checks: tuple[str, ...]

    @property
    def message(self) -> str:
        """The cause and the prechecks in one line."""
        number = len(self.checks)
        return f"{plural(number, 'check')} could not run: {self.why} ({', '.join(self.checks)})"


@dataclass(frozen=True, slots=True)
class PreflightFacts:
    """What the prechecks found that does not block the plan.

    Attributes:
        not_run: prechecks that could not run.
        overridden: overridden prechecks, each with its reason.
    """

    warnings: tuple[str, ...] = ()
    not_run: tuple[Unseen, ...] = ()
    overridden: Mapping[str, str] = field(default_factory=dict)


class Preflight(Polling[PreflightSettings, PreflightFacts, PreflightFacts]):
    """Runs all prechecks of a failover."""

    name = "preflight"
    traits = Trait.RUNS_PRECHECKS

    def describe(self, settings: PreflightSettings) -> Description:
        """Describe the step for plans and reports."""
        title = "run the prechecks: clusters, replication, groups, endpoints"
        overridden = ", ".join(sorted(settings.overrides)) or "none"
        return Description(title, f"no precheck fails (overridden: {overridden})")

    def check(
        self, settings: PreflightSettings, facts: Facts, reader: LinkReader
    ) -> PreflightFacts:
        """Run the prechecks.

        Raises:
            Refused: a precheck fails that is not overridden; all of them are listed.
        """
        overrides = settings.overrides
        found = reader.findings(settings.mode)
        findings = [each for each in found if each.check not in settings.not_asked]
        blocking = blockers_among(findings, overrides, Mode(settings.mode))
        if blocking:
            raise Refused(
                "; ".join(in_words(blocking)),
                "; ".join(dict.fromkeys(each.remedy for each in blocking if each.remedy)),
            )
        if settings.compare_ahead:
            reader.compare_ahead()
        others = [each for each in findings if each.status is not Status.OK]
        warnings, unseen = group_by_cause(others)
        return PreflightFacts(
            tuple(map(_warning, warnings)),
            tuple(Unseen(u.cause.what, u.cause.why, tuple(u.checks)) for u in unseen),
            {each.check: overrides[each.check] for each in others if each.check in overrides},
        )

    def verify(self, intent: PreflightFacts, reader: LinkReader) -> Readback[PreflightFacts]:
        """Pass: `check` has just run the prechecks."""
        missing = "".join(f"; {len(u.checks)} could not run: {u.what}" for u in intent.not_run)
        return Readback(
            State.DONE,
            f"all prechecks passed; {plural(len(intent.warnings), 'warning')}{missing}",
            intent,
        )


def _warning(finding: Finding) -> str:
    unknown = " (not checked)" if finding.status is Status.NOT_CHECKED else ""
    return f"{finding.check}: {finding.subject}: {finding.reason}{unknown}"


_BLOCKING = frozenset({Status.FAIL, Status.NOT_CHECKED})


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """The prechecks to run, and the overridden ones, each with its reason."""

    prechecks: tuple[str, ...]
    mode: str
    overrides: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CheckFacts:
    """The prechecks that ran, and their results."""

    prechecks: tuple[str, ...]
    results: tuple[str, ...]


class RunPrechecks(Polling[CheckSettings, CheckFacts, CheckFacts]):
    """Refuses if a precheck fails, could not run, or does not apply."""

    name = "check"
    traits = Trait.RUNS_PRECHECKS

    def describe(self, settings: CheckSettings) -> Description:
        """Describe the step for plans and reports."""
        return Description(
            f"run the prechecks: {', '.join(settings.prechecks)}", "none of them fails"
        )

    def check(self, settings: CheckSettings, facts: Facts, reader: LinkReader) -> CheckFacts:
        """Run the prechecks.

        Raises:
            Refused: a precheck fails that is not overridden; all of them are listed.
        """
        names = settings.prechecks
        found = [each for each in reader.findings(settings.mode) if each.check in names]
        blockers = list(_blockers(names, found, settings.overrides))
        if blockers:
            failing = [each for each in found if each.status in _BLOCKING]
            remedies = dict.fromkeys(each.remedy for each in failing if each.remedy)
            raise Refused("; ".join(blockers), "; ".join(remedies))
        results = (f"{each.check}: {each.subject}: {each.status.value}" for each in found)
        return CheckFacts(names, tuple(results))

    def verify(self, intent: CheckFacts, reader: LinkReader) -> Readback[CheckFacts]:
        """Pass: `check` has just run the prechecks."""
        return Readback(State.DONE, f"every precheck ({len(intent.prechecks)}) passed", intent)


def _blockers(
    names: Sequence[str], found: Sequence[Finding], overrides: Mapping[str, str]
) -> Iterator[str]:
    for name in names:
        if name in overrides:
            continue
        results = [each for each in found if each.check == name]
        if not results:
            yield f"{name}: not run: it does not apply to this link"
        for each in results:
            if each.status in _BLOCKING:
                yield f"{each.check}: {each.subject}: {each.reason}"


def modes_of(steps: Iterable[Step]) -> frozenset[str]:
    """The modes in which a plan runs prechecks."""
    return frozenset(
        kind.read_settings(step.settings).mode
        for step in steps
        for kind in (Preflight(), RunPrechecks())
        if step.kind == kind.name
    )


FILE = "before.json"


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """The clusters and connectors to record."""

    clusters: tuple[str, ...]
    connectors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    """What the recorded state holds.

    Attributes:
        silent: clusters that did not respond.
        active_groups: by cluster.
        committed_groups: by cluster, groups with committed offsets in the link's topics.
    """

    silent: tuple[str, ...] = ()
    active_groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    committed_groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class SnapshotState(Polling[SnapshotSettings, StateSnapshot, SnapshotFacts]):
    """Records topics with their settings, end offsets, committed offsets and connectors."""

    name = "snapshot-state"
    traits = Trait.SNAPSHOTS_STATE

    def describe(self, settings: SnapshotSettings) -> Description:
        """Describe the step for plans and reports."""
        title = "record topics, end offsets, committed offsets and connectors of both clusters"
        return Description(
            title, f"{FILE} is in the run's folder, and its content is in the journal"
        )

    def check(self, settings: SnapshotSettings, facts: Facts, reader: LinkReader) -> StateSnapshot:
        """Observe everything; also record which clusters and connectors do not respond."""
        ahead = reader.early_snapshot() or StateSnapshot()
        left = SnapshotSettings(
            tuple(name for name in settings.clusters if name not in ahead.clusters),
            tuple(name for name in settings.connectors if name not in ahead.connectors),
        )
        found = snapshot_of(left, reader)
        return StateSnapshot(
            {**ahead.clusters, **found.clusters}, {**ahead.connectors, **found.connectors}
        )

    def apply(self, intent: StateSnapshot, writer: LinkWriter) -> tuple[str, ...]:
        """Write the snapshot to the run's folder."""
        writer.save_evidence(FILE, to_json(intent))
        return ()

    def verify(self, intent: StateSnapshot, reader: LinkReader) -> Readback[SnapshotFacts]:
        """Report what was recorded; the journal has it already."""
        clusters = intent.clusters
        silent = tuple(sorted(name for name, stock in clusters.items() if stock.error))
        message = ", ".join(
            f"{name}: no answer"
            if stock.error
            else f"{name}: {plural(len(stock.ends), 'partition')},"
            f" {plural(len(stock.positions), 'group')}"
            for name, stock in clusters.items()
        )
        active = {name: stock.active for name, stock in clusters.items()}
        committed = {name: tuple(_committed(stock)) for name, stock in clusters.items()}
        return Readback(State.DONE, message, SnapshotFacts(silent, active, committed))


def _committed(stock: ClusterSnapshot) -> Iterator[str]:
    """Yield the groups with committed offsets in the recorded topics."""
    for group, offsets in stock.positions.items():
        if not isinstance(offsets, str) and not stock.ends.keys().isdisjoint(offsets):
            yield group


def snapshot_of(wanted: SnapshotSettings, reader: LinkReader) -> StateSnapshot:
    """Record these clusters and connectors as they are now."""
    with ThreadPoolExecutor(1) as beside:
        # Connect may return thousands of positions: read them in parallel, clients are waiting.
        connectors = beside.submit(
            lambda: {name: _connector(name, reader) for name in wanted.connectors}
        )
        clusters = {name: state_of(name, reader) for name in wanted.clusters}
        return StateSnapshot(clusters, connectors.result())


def state_of(name: str, reader: LinkReader) -> ClusterSnapshot:
    """The state of a cluster, or why it did not respond."""
    try:
        cluster_reader = reader.cluster_reader(name)
        identity = cluster_reader.cluster_id()
        carried = reader.link_groups(name, incomplete=True)
        groups = reader.groups(name)
        described, committed = groups.described(carried), groups.committed(carried)
        overview = cluster_reader.overview().partitions
        topics = sorted(
            {*reader.topics(), *map(reader.target_topic, reader.topics())} & overview.keys()
        )
        places = [TopicPartition(t, number) for t in topics for number in overview[t]]
        offsets = cluster_reader.offsets(places)
        shapes = reader.shapes(name).shapes(topics)
    except Unreachable as error:
        return ClusterSnapshot(error.message)
    return ClusterSnapshot(
        "",
        identity,
        {topic: _shape(found) for topic, found in shapes.items()},
        {
            str(place): found.reason if isinstance(found, Unavailable) else found.end
            for place, found in offsets.items()
        },
        tuple(
            sorted(
                group
                for group, found in described.items()
                if not isinstance(found, Unavailable) and found.active
            )
        ),
        {
            group: found.reason
            if isinstance(found, Unavailable)
            else {str(place): at.offset for place, at in found.items()}
            for group, found in committed.items()
        },
    )


def _shape(found: TopicShape | Unavailable | None) -> TopicSnapshot | str:
    if found is None:
        return "it is gone"
    if isinstance(found, Unavailable):
        return found.reason
    own = {key: each.value for key, each in sorted(found.settings.items()) if each.own}
    return TopicSnapshot(found.partitions, found.replicas, own)


def _connector(name: str, reader: LinkReader) -> ConnectorSnapshot:
    try:
        connectors = reader.connectors()
        state, offsets = connectors.state(name).state, connectors.offsets(name)
    except Unknown as error:
        return ConnectorSnapshot(error.message)
    return ConnectorSnapshot("", state, tuple(offsets))
