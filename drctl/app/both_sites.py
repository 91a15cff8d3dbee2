"""What the steps of a failback read and change if applications write to both clusters all the time.

Each direction has a link in drctl.yaml. Records that only one cluster has are found and reconciled
over the link from that cluster; clients fail back over the reverse of the link from the lost
cluster.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app import adapters, failback, reconcile_adapters, run_adapters
from drctl.app.failback_search import TRANSACTIONS_S, missing_before, new_folder, search_of
from drctl.app.gap import GapOptions, GapRuns
from drctl.app.link_reader import ClusterLinkReader
from drctl.app.link_writer import ClusterLinkWriter
from drctl.app.plan_inputs import connector_names
from drctl.app.prechecks import run_prechecks
from drctl.checks.connector_settings import SOURCE
from drctl.config.mirrors import origin_fault, simple_class
from drctl.config.reverse_link import reversed_link
from drctl.engine.failback_state import OutstandingAction, ReconcileRequest, Reconciliation, Search
from drctl.engine.run_state import run_states
from drctl.failback.blockers import (
    CLIENTS_ON_SOURCE,
    LOST,
    REVERSE,
    SILENT,
    UNDECIDED,
    health_findings,
)
from drctl.model.errors import DrctlError, Refused, Unknown, Unreachable, UsageError
from drctl.model.finding import Finding, Status
from drctl.model.text import kafka_tool, plural, put, quote
from drctl.reconcile.policy import Action
from drctl.steps.failback import CYCLES, FAILBACK_MODE
from drctl.steps.source_offsets import kept_offsets, log_ends
from drctl.steps.stop_replication import COMMITS_OFFSETS

if TYPE_CHECKING:
    from drctl.app.notices import Prompts
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.failback.gap_results import GapEvidence
    from drctl.model.gap import GapResult
    from drctl.reconcile.policy import Policies

ORDER = "order-between-sites"
OVERWRITTEN = "group-offsets-overwritten"
_SHOWN = 3


@dataclass(slots=True)
class SiteReader(ClusterLinkReader):
    """Reads one direction.

    Attributes:
        records: the link opposite to this reader's own link; it is searched for records that only
            its source has.
    """

    records: "Link" = field(kw_only=True)

    def search_result(self) -> Search:
        """The records that only this reader's target has, by content.

        Raises:
            Refused: copies cannot be distinguished from other records.
            Unknown: not everything could be compared.
        """
        return searched(self.config, self.records)

    def reconciliation(self, request: ReconcileRequest) -> Reconciliation:
        """The progress of reconciling the records of a search.

        Raises:
            Refused: they cannot be reconciled.
            Unknown: the result is not on this host.
        """
        _must_be_here(request)
        return failback.reconciliation(self.config, self.records, request)

    def outstanding(self) -> Sequence[OutstandingAction]:
        """Outstanding actions of the last completed failback and of later runs, newest first.

        Raises:
            Unreachable: the journal did not answer.
        """
        reader = run_adapters.journal_reader(self.records)
        return failback.outstanding_since_failback(run_states(reader))


@dataclass(slots=True)
class SiteWriter(ClusterLinkWriter):
    """Changes one direction; `records` is as in `SiteReader`."""

    records: "Link" = field(kw_only=True)

    def reconcile(self, request: ReconcileRequest) -> None:
        """Reconcile the records of a search, each exactly once, even after a crash.

        Raises:
            DrctlError: some records were not reconciled, or their state is unknown.
        """
        _must_be_here(request)
        failback.reconcile(self.config, self.records, request)


def both_sites_reader(
    config: "Config", link: "Link", other: "Link", prompts: "Prompts", policies: "Policies | None"
) -> SiteReader:
    """The reader for the failback of a link.

    Args:
        other: the link in the opposite direction.
        policies: what to do with records that only the recovered cluster has; None if the
            prechecks do not ask for policies.
    """
    forward = SiteReader(config, link, run_prechecks, prompts, records=other)
    back, judge = reversed_link(link, (other,)), partial(_findings, policies)
    return SiteReader(config, back, judge, prompts, opposite=forward, records=link)


def both_sites_writer(reader: SiteReader, folder: Path) -> SiteWriter:
    """The writer for the failback of a link."""
    forward = reader.reversed()
    assert isinstance(forward, SiteReader)
    config = reader.config
    old = SiteWriter(config, forward.link, folder, forward.commands, records=forward.records)
    return SiteWriter(config, reader.link, folder, reader.commands, old, records=reader.records)


def _must_be_here(request: ReconcileRequest) -> None:
    """Check that the result is on this host.

    A new comparison would start at later offsets than those that the run has journaled.
    """
    if not (Path(request.folder) / "gap.json").is_file():
        raise Unknown(
            f"gap result {request.result}: {request.folder}: not on this host",
            "resume on the host that has it, or copy the folder here",
        )


def searched(config: "Config", link: "Link") -> Search:
    """Find the records that only the source of a link has; replication is stopped.

    Replication can start where the comparison ended: all earlier records were compared.

    Raises:
        Refused: copies cannot be distinguished from other records.
        Unknown: not everything could be compared.
    """
    whole = GapOptions((), "full", ledger=False, submit=False, budget_s=0, timeout_s=TRANSACTIONS_S)
    folder = new_folder(config.state_dir, link.name)
    with GapRuns(config, link, whole) as runs:
        runs.run(folder)
    found = reconcile_adapters.named(folder)
    if not found.complete:
        why = found.not_compared[0] if found.not_compared else "a transaction is open"
        raise Unknown(
            f"not all records of {link.source} could be compared: {why}",
            f"see {folder}; then run the command again",
        )
    if found.unreplicated:
        # The same comparison without the header also finds copies that are not marked.
        settings = link.settings.model_copy(update={"origin_header": None})
        with GapRuns(config, replace(link, settings=settings), whole) as runs:
            _must_be_marked(link, found, runs.answer())
    # The end offsets of the target are read when start offsets are set: applications write there.
    return search_of(found, {}, found.ends)


def _must_be_marked(link: "Link", found: "GapEvidence", unmarked: "GapResult") -> None:
    """Check that all copies have the header: a copy without it would be copied a second time.

    Args:
        unmarked: the same comparison, in which copies need no header.

    Raises:
        Refused: records of the source are on the target without the header.
    """
    missing = missing_before(unmarked, found.ends)
    there = {
        each.place: more
        for each in found.partitions
        if (more := each.unreplicated - missing.get(each.place, 0)) > 0
    }
    if there:
        header, place = link.settings.origin_header, min(there)
        words = (f"record of {link.source} is", f"records of {link.source} are")
        raise Refused(
            f"{plural(sum(there.values()), *words)} on {link.target} without header"
            f" {header} ({place}: {there[place]:,}): copies from before the header was introduced,"
            " or records that applications wrote to both clusters. drctl cannot tell which"
            " records are not replicated",
            f"reconcile by hand: drctl gap --link {quote(link.name)}, then drctl reconcile with a"
            " policy per topic (docs/howto/two-active-sites.md)",
        )


def _findings(
    policies: "Policies | None", reader: ClusterLinkReader, mode: str
) -> Sequence[Finding]:
    if mode != FAILBACK_MODE:
        return run_prechecks(reader, mode)
    return tuple(_silent(reader)) or tuple(_against(policies, reader))


def _silent(reader: ClusterLinkReader) -> Iterator[Finding]:
    for name in (reader.link.target, reader.link.source):
        try:
            reader.cluster_reader(name).cluster_id()
        except Unreachable as error:
            remedy = (
                f"check that the brokers of {name} are running, and that this host can reach them"
            )
            yield Finding(SILENT, Status.FAIL, name, error.message, remedy=remedy)


def _against(policies: "Policies | None", reader: ClusterLinkReader) -> Iterator[Finding]:
    surviving, recovered = reader.link.source, reader.link.target
    yield from _clients(reader)
    topics = reader.topics()
    with adapters.reader(recovered, reader.link.target_config).health as health:
        yield from health_findings(recovered, health.health(topics))
    for direction in (reader.reversed(), reader):
        yield from _replication(direction)
    yield from _group_sync(reader)
    places = [log_ends(reader.cluster_reader(name), topics) for name in (surviving, recovered)]
    yield from failback.colliding_ids(reader, *places)
    yield from failback.other_links(reader)
    if policies is not None and policies.everywhere is Action.REFUSE:
        reason = (
            f"no policy: if records exist only on {recovered}, the run is rolled back at"
            " classify-records, and replication stays stopped in both directions"
        )
        remedy = "pass --policy copy|quarantine|export, and --conflicting"
        yield Finding(UNDECIDED, Status.WARN, "unreplicated records", reason, remedy=remedy)
    reason = (
        "each cluster keeps the order of the other's records, but records of both clusters have no"
        " common order: a reconciled or replicated record may follow a newer one of the same key"
        " from the other cluster. Only producers' timestamps show which is newer"
    )
    remedy = "pause producers of keys that both clusters write until verify-secondary is done"
    subject = f"clusters {recovered} and {surviving}"
    yield Finding(ORDER, Status.WARN, subject, reason, remedy=remedy)


def _clients(reader: ClusterLinkReader) -> Iterator[Finding]:
    """Whether all endpoints point to the recovered cluster: its applications would be fenced."""
    recovered, found = reader.link.target, []
    for number in range(len(reader.link.settings.endpoints)):
        try:
            found.append(reader.endpoint(number).observe().cluster)
        except DrctlError as error:
            yield Finding(
                CLIENTS_ON_SOURCE, Status.WARN, "endpoints", error.message, remedy=error.hint
            )
            found.append(None)
    if found and all(cluster == recovered for cluster in found):
        reason = f"every endpoint already points to {recovered}: no clients to fail back"
        yield Finding(CLIENTS_ON_SOURCE, Status.FAIL, "endpoints", reason)


def _replication(direction: ClusterLinkReader) -> Iterator[Finding]:
    """Check a direction: its connector exists and marks copies, and its source lost no records."""
    link = direction.link
    header = link.settings.origin_header
    if header is None or not link.settings.replicator.connect:
        return
    for name in connector_names(link)[:1]:
        try:
            config = direction.connectors().config(name)
            kept = kept_offsets(name, direction.connectors().offsets(name))
            ends = log_ends(direction.cluster_reader(link.source), direction.topics())
        except DrctlError as error:
            remedy = (
                error.hint or "check that the Connect workers are running and have this connector"
            )
            yield Finding(REVERSE, Status.FAIL, f"connector {name}", error.message, remedy=remedy)
            continue
        if simple_class(config) != SOURCE:
            continue
        if fault := origin_fault(config, header):
            remedy = (
                f"{put('', name, 'stop')}; then correct the configuration of the connector:"
                " docs/howto/two-active-sites.md"
            )
            yield Finding(CYCLES, Status.FAIL, f"connector {name}", fault, remedy=remedy)
        lost = sorted(place for place, end in ends.items() if kept.get(place, -1) >= end)
        if lost:
            shown = ", ".join(map(str, lost[:_SHOWN]))
            reason = (
                f"it has lost records: {plural(len(lost), 'partition ends', 'partitions end')}"
                f" before the last record that {name} has copied ({shown})"
            )
            remedy = (
                "drctl cannot rebuild a cluster that has records of its own: restore"
                f" {link.source} from {link.target} by hand (docs/howto/two-active-sites.md)"
            )
            yield Finding(LOST, Status.FAIL, link.source, reason, remedy=remedy)


def _group_sync(reader: ClusterLinkReader) -> Iterator[Finding]:
    """Whether a connector commits offsets on the recovered cluster, where groups resume."""
    if not reader.link.settings.replicator.connect:
        return
    for name in connector_names(reader.link)[1:]:
        try:
            config = reader.connectors().config(name)
        except UsageError:
            continue  # a connector that replicates no records may be missing
        except DrctlError as error:
            remedy = error.hint or "check that its workers are running"
            subject = f"connector {name}"
            yield Finding(OVERWRITTEN, Status.FAIL, subject, error.message, remedy=remedy)
            continue
        if config.get(COMMITS_OFFSETS, "").lower() == "true":
            reason = (
                f"{COMMITS_OFFSETS} is true: the connector commits group offsets on"
                f" {reader.link.target}, and groups that resume at these offsets can skip records"
                f" that exist only on {reader.link.target}"
            )
            remedy = (
                "set it to false; while the groups are inactive, reset each to a time before the"
                f" outage: {kafka_tool('kafka-consumer-groups.sh', reader.link.target)}"
                " --reset-offsets --group GROUP --all-topics --to-datetime TIME --execute"
            )
            yield Finding(OVERWRITTEN, Status.FAIL, f"connector {name}", reason, remedy=remedy)
