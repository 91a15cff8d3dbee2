"""Compares records for the steps of a run, and skips what was compared before."""

import shutil
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app import adapters
from drctl.app.gap import GapOptions, GapRuns
from drctl.app.notices import notices
from drctl.engine.ports import Missing
from drctl.model.errors import ConfigError, Unknown

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.gap.arrival import ArrivalCheck
    from drctl.model.gap import GapResult
    from drctl.model.ports import ClusterReader
    from drctl.model.topology import TopicPartition
    from drctl.reconcile.progress import LeftMissingBefore

_LAZY_MODULES = (
    "drctl.gap.analysis",
    "drctl.gap.answer",
    "drctl.gap.arrival",
    "drctl.gap.direct",
    "drctl.gap.freeze",
)
"""Modules that a comparison imports lazily."""

Tail = tuple["GapResult", "Mapping[TopicPartition, int]"]
"""A comparison, and how many missing records of each partition were accepted earlier."""


def compared_tail(config: "Config", link: "Link", options: GapOptions) -> Tail:
    """Compare the tail, and count the missing records that were accepted earlier.

    Raises:
        Unreachable: one of the clusters did not answer.
    """
    with GapRuns(config, link, options) as runs:
        found = runs.answer()
        before = _before(link, found) if found.totals.unreplicated else {}
        return _named(runs, before) if before else (found, {})


def _before(link: "Link", found: "GapResult") -> "LeftMissingBefore":
    """Records that earlier reconciliations left missing; none if they cannot be read."""
    from drctl.app.reconcile_adapters import reconcile_topic
    from drctl.reconcile.progress import left_missing_before

    try:
        with reconcile_topic(link) as topic:
            return left_missing_before(topic.kept(), found)
    except (ConfigError, Unknown) as error:
        notices().detail(
            "cannot read earlier decisions, so records left missing on purpose count as missing:"
            f" {error}"
        )
        return {}


def _named(runs: GapRuns, before: "LeftMissingBefore") -> Tail:
    from drctl.app.reconcile_adapters import listed_records
    from drctl.model.topology import TopicPartition
    from drctl.reconcile.progress import At, counted

    with tempfile.TemporaryDirectory(prefix="drctl-") as folder:
        out = Path(folder) / "gap"
        found = runs.run(out)
        if not found.totals.unreplicated:
            return found, {}
        rows = listed_records(out / found.records_path)
        missing = (At(TopicPartition(row[0], row[1]), row[2], row[3]) for row in rows)
        return found, counted(missing, before)


_BUDGET_S = 120.0

_TRANSACTIONS_S = 60.0
"""The default of a producer's transaction.timeout.ms."""


@dataclass(slots=True)
class Comparisons:
    """Compares records, and skips what was compared before."""

    config: "Config"
    link: "Link"
    _arrival_check: "ArrivalCheck | None" = field(default=None, init=False)
    _previous: "GapResult | None" = field(default=None, init=False)
    _accepted: "dict[TopicPartition, int]" = field(default_factory=dict, init=False)

    def prepare(self) -> None:
        """Import the modules of a comparison early: after the fence, applications have to wait."""
        for name in _LAZY_MODULES:
            import_module(name)
        adapters.load_record_files()

    def missing(self, source: "ClusterReader", target: "ClusterReader") -> Missing:
        """The unreplicated records of the source's tail, except those accepted earlier.

        Raises:
            Unreachable: one of the clusters did not answer.
        """
        found = self._checked(source, target).look()
        pending = (f"{place}: not fully replicated, or not compared" for place in found.pending)
        accepted = {place: self._accepted.get(place, 0) for place in found.missing}
        missing = {place: number - accepted[place] for place, number in found.missing.items()}
        words = tuple(f"{place}: {number:,} missing" for place, number in missing.items() if number)
        unproven = (*found.left_out, *pending)
        before = sum(accepted.values())
        return Missing(sum(missing.values()), unproven, words, left_missing_before=before)

    def compare_ahead(self, source: "ClusterReader", target: "ClusterReader") -> None:
        """Compare the tails of partitions that receive no records; `missing` uses the result.

        Raises:
            Unreachable: one of the clusters did not answer.
        """
        self._checked(source, target).look_ahead()

    def compared(self, scope: str) -> Missing:
        """The unreplicated records, from a comparison of all records or of the tail.

        Raises:
            Unreachable: one of the clusters did not answer.
        """
        with GapRuns(self.config, self.link, _whole(scope)) as runs:
            return _missing(runs.answer())

    def proof(self) -> Missing:
        """The unreplicated records, from a full comparison; a clean result is kept as evidence.

        Records written since the previous call are in flight and do not count.

        Raises:
            Unreachable: one of the clusters did not answer.
        """
        from drctl.app.failback_search import new_folder, unreplicated_before

        folder = new_folder(self.config.state_dir, self.link.name)
        with GapRuns(self.config, self.link, _whole("full")) as runs:
            result = runs.run(folder)
        found, before = _missing(result), self._previous
        self._previous = result
        if found.records or found.unproven:
            shutil.rmtree(folder, ignore_errors=True)
        return found if before is None else _without_new(found, unreplicated_before(result, before))

    def _checked(self, source: "ClusterReader", target: "ClusterReader") -> "ArrivalCheck":
        if self._arrival_check is None:
            self._arrival_check = self._new_arrival_check(source, target)
        return self._arrival_check

    def _new_arrival_check(
        self, source: "ClusterReader", target: "ClusterReader"
    ) -> "ArrivalCheck":
        from drctl.gap.arrival import ArrivalCheck
        from drctl.model.topology import TopicPartition

        def compare(places: "Collection[TopicPartition]") -> "GapResult":
            topics = tuple(sorted({place.topic for place in places}))
            options = GapOptions(topics, "tail", False, False, _BUDGET_S, only=frozenset(places))
            result, accepted = compared_tail(self.config, self.link, options)
            for topic in result.topics:
                for each in topic.partitions:
                    place = TopicPartition(topic.topic, each.partition)
                    self._accepted[place] = accepted.get(place, 0)
            return result

        return ArrivalCheck(self.link, source, target, compare)


def _whole(scope: str) -> GapOptions:
    return GapOptions(
        (), scope, ledger=False, submit=False, budget_s=_BUDGET_S, timeout_s=_TRANSACTIONS_S
    )


def _without_new(found: Missing, records: int) -> Missing:
    """Subtract new records, which are in flight; repeated records are subtracted first."""
    repeated = max(0, found.repeated - (found.records - records))
    return replace(found, records=records, repeated=repeated)


def _missing(result: "GapResult") -> Missing:
    from drctl.gap.arrival import open_offsets

    missing = (
        f"{topic.topic}-{partition.partition}: {partition.counts.unreplicated:,} missing"
        for topic in result.topics
        for partition in topic.partitions
        if partition.counts.unreplicated
    )
    left_out = tuple(f"{each.topic}: {each.reason}" for each in result.not_compared)
    undecided = tuple(
        f"{topic.topic}-{partition.partition}: {open_offsets(partition.counts.undecided)}"
        for topic in result.topics
        for partition in topic.partitions
        if partition.counts.undecided
    )
    totals = result.totals
    repeated = sum(p.repeated for topic in result.topics for p in topic.partitions)
    return Missing(
        totals.unreplicated,
        left_out,
        tuple(missing),
        totals.duplicated_on_target,
        repeated,
        undecided,
        only_on_target=totals.only_on_target,
    )
