"""Readers and writers for rebuilding a cluster that has lost its records, and the cost."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app.failback import FailbackReader, failback_writer, known_overrides, prechecks_of
from drctl.app.link_reader import ClusterLinkReader
from drctl.app.operation import Operation
from drctl.app.prechecks import run_prechecks
from drctl.engine.failback_state import ReconcileRequest, Reconciliation, Search
from drctl.model.errors import DrctlError, Unknown, Unreachable, UsageError
from drctl.model.text import plural
from drctl.steps.failback import REBUILD_MODE
from drctl.steps.first_records import is_prefix_copied_by
from drctl.steps.rebuild import wrong_partition_counts
from drctl.steps.source_offsets import copies_of, logs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drctl.app.notices import Prompts
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.failback.blockers import Terms
    from drctl.model.finding import Finding
    from drctl.offsets.applying import Translated

_SAMPLED, _PARTITIONS = 200, 50
"""Sizes are estimated from a sample: this many newest records of this many largest partitions."""


@dataclass(slots=True)
class LostTopicsReader(ClusterLinkReader):
    """Reads over a link whose source may have lost its topics."""

    def topics(self) -> tuple[str, ...]:
        """The topics of the source, including those of which only copies are left.

        Raises:
            Unreachable: a cluster did not answer.
        """
        copies = self.cluster_reader(self.link.target).topic_names()
        had = {name for name in map(self.link.source_topic, copies) if name is not None}
        return self.link.topics_of({*self.cluster_reader(self.link.source).topic_names(), *had})


@dataclass(slots=True)
class RebuildReader(FailbackReader):
    """Reads for a failback that copies everything again."""

    def search_before_rebuild(self) -> Search:
        """The records that only the recovered cluster has; nothing is read if it is empty.

        Raises:
            Unknown: not everything could be compared.
        """
        if holds_nothing(self):
            return Search("", 0, 0, 0, 0, {}, {})
        from drctl.app.failback_search import compared, search_of

        found = compared(self.config, self.old)
        if not found.complete:
            raise Unknown(
                f"records that only {self.old.source} has are unknown: incomplete comparison:"
                f" {'; '.join(found.not_compared[:3]) or 'transactions were open'}",
                "remove the cause first: records cannot be restored once the cluster is emptied",
            )
        aside = sum(each.aside for each in found.partitions)
        return replace(search_of(found, {}, {}), aside=aside)

    def reconciliation(self, request: ReconcileRequest) -> Reconciliation:
        """The progress of reconciling the records of a search.

        Raises:
            Refused: they cannot be reconciled.
            Unknown: the result is on another host, and the new comparison is incomplete.
        """
        if not (Path(request.folder) / "gap.json").is_file():
            # On another host decisions come from the surviving cluster, or from a new comparison.
            request = replace(request, folder=self.search_before_rebuild().folder)
            if not request.folder:
                return Reconciliation(0)
        return FailbackReader.reconciliation(self, request)

    def translated(self) -> "Translated":
        """Target offsets of groups: the rebuilt cluster has the surviving one's offsets.

        Raises:
            Unreachable: a cluster did not answer.
        """
        return ClusterLinkReader.translated(self)


def rebuild_reader(config: "Config", link: "Link", prompts: "Prompts") -> RebuildReader:
    """The reader for the failback of a link whose source has lost its records.

    Raises:
        ConfigError: the reverse replication is not configured.
    """
    from drctl.config.reverse_link import reversed_link

    back = reversed_link(link, map(config.link, config.links))
    old = LostTopicsReader(config, link, run_prechecks, prompts)
    return RebuildReader(config, back, _prechecks, prompts, opposite=old)


def holds_nothing(reader: ClusterLinkReader) -> bool:
    """Whether the recovered cluster has no record of the link, and no surplus partition.

    Raises:
        Unreachable: a cluster did not answer.
    """
    recovered = reader.cluster_reader(reader.link.target)
    logs = logs_of(recovered, {*copies_of(reader), *reader.reversed().topics()})
    if any(log.log_start < log.end for log in logs.values()):
        return False
    return not any(wrong_partition_counts(reader.link.source, reader.link.target, reader))


def nothing_to_empty(reader: ClusterLinkReader, connector: str) -> bool:
    """Whether the recovered cluster holds nothing, or only what an earlier rebuild replicated.

    Args:
        connector: the reverse connector; empty if there is none.

    Raises:
        Unreachable: a cluster did not answer.
    """
    if holds_nothing(reader):
        return True
    source, target = reader.link.source, reader.link.target
    if not connector or any(wrong_partition_counts(source, target, reader)):
        return False
    try:
        return is_prefix_copied_by(connector, source, target, reader)
    except (UsageError, Unreachable):
        return False  # the operator is asked, and the prechecks name the reason


def cost_of(reader: ClusterLinkReader) -> str:
    """The estimated cost of copying all records, in words.

    Raises:
        Unreachable: the surviving cluster did not answer.
    """
    from drctl.app import adapters
    from drctl.model.topology import Unavailable
    from drctl.views.text import duration, size

    surviving = reader.cluster_reader(reader.link.source)
    logs = {p: log for p, log in logs_of(surviving, reader.topics()).items() if log.end}
    records = sum(log.end - log.log_start for log in logs.values())
    largest = sorted(logs, key=lambda p: logs[p].log_start - logs[p].end)[:_PARTITIONS]
    starts = {p: max(logs[p].log_start, logs[p].last_stable - _SAMPLED) for p in largest}
    sizes: list[int] = []
    for place, found in surviving.following(starts, _SAMPLED).items() if starts else ():
        if isinstance(found, Unavailable):
            raise Unreachable(f"{place} of {surviving.name} cannot be read: {found.reason}")
        sizes += [len(one.key or b"") + len(one.value or b"") for one in found]
    mean = sum(sizes) / max(1, len(sizes))
    amount = f"{size(round(mean * records))} by a sample"
    copied = (
        f"about {plural(records, 'record is', 'records are')} copied from {surviving.name},"
        f" {amount}"
    )
    rate = adapters.measured_rate(reader.config).offsets_a_second()
    if rate is None:
        return f"{copied}; the copying time is not known"
    took = duration(2 * records / rate)
    return f"{copied}; comparing them once takes {took}; the copying time is not known"


def _prechecks(reader: ClusterLinkReader, mode: str) -> "Sequence[Finding]":
    return prechecks_of(reader, mode, REBUILD_MODE, _terms)


def _terms(reader: ClusterLinkReader, terms: "Terms") -> "Terms":
    try:
        impact = cost_of(reader)
    except DrctlError as error:
        impact = f"cost unknown: {error.message}"
    return replace(terms, rebuilding=True, impact=impact)


REBUILD = Operation(
    lambda config, link, prompts, _lost: rebuild_reader(config, link, prompts),
    failback_writer,
    known_overrides,
    lambda _plan: REBUILD_MODE,
)
"""A failback to a source cluster that has lost its records."""
