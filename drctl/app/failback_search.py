"""Finds unreplicated records, and the first new records of the surviving cluster."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app import adapters
from drctl.engine.failback_state import Offsets, Search
from drctl.model.errors import Refused, Unknown
from drctl.model.moments import new_name
from drctl.model.text import plural
from drctl.model.topology import TopicPartition, Unavailable

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.failback.facts import Facts
    from drctl.failback.gap_results import GapEvidence
    from drctl.failback.situation import Situation
    from drctl.model.gap import GapResult, PartitionGap

TRANSACTIONS_S = 900.0
"""The brokers' default of transaction.max.timeout.ms."""

_AGAIN = "see drctl failback --check-order"


def new_folder(state: Path, link: str) -> Path:
    """A new folder for the result of a comparison."""
    return state / "gap" / f"{link}-{new_name()}"


def unreplicated_before(result: "GapResult", before: "GapResult") -> int:
    """The number of unreplicated records that existed when an earlier comparison froze offsets."""
    ends = {
        TopicPartition(topic.topic, each.partition): each.source_range.end
        for topic in before.topics
        for each in topic.partitions
    }
    return sum(missing_before(result, ends).values())


def missing_before(result: "GapResult", ends: Offsets) -> Mapping[TopicPartition, int]:
    """The number of unreplicated records before these offsets, by partition: an upper limit."""
    return {
        place: _missing_below(each, ends.get(place, 0))
        for topic in result.topics
        for each in topic.partitions
        if (place := TopicPartition(topic.topic, each.partition))
    }


def _missing_below(gap: "PartitionGap", end: int) -> int:
    """An upper limit of missing records below an offset; ranges may contain empty offsets."""
    missing = gap.counts.unreplicated
    if gap.ranges_total > len(gap.ranges):
        return missing
    offsets = sum(max(0, min(last + 1, end) - first) for first, last in gap.ranges)
    return min(missing, offsets)


def searched(config: "Config", link: "Link") -> Search:
    """Find the records that only the recovered source of a link has.

    A result that decisions or the failback are based on is reused: a newer one would list records
    again that were quarantined or discarded.

    Raises:
        Refused: the result cannot be used.
        Unknown: not everything could be compared.
    """
    found = _with_decided_result(config, link, _situation(config, link))
    if not _is_final(found):
        if found.reverse_started:
            raise Refused(
                f"reverse replication has started, and records that only {link.source} has are"
                f" unknown: {found.gap.why}",
                _AGAIN,
            )
        _compare(config, link)
        found = _situation(config, link)
    return _search(link, found)


def found_here(config: "Config", link: "Link") -> Path:
    """The folder of a valid result on this host; compares again if there is none.

    Raises:
        Refused: the result cannot be used.
        Unknown: not everything could be compared.
    """
    valid = _situation(config, link, most=None).gap.valid
    return Path(valid.where if valid is not None else searched(config, link).folder)


def _situation(
    config: "Config", link: "Link", folder: Path | None = None, most: int | None = sys.maxsize
) -> "Situation":
    """Read the state of the failback, without a limit on records: copying is based on it.

    Args:
        folder: the folder of the only result to use.
        most: as in `look_at`.
    """
    from drctl.app.failback import look_at
    from drctl.failback.situation import situation

    return situation(look_at(config, link, folder, most))


def _with_decided_result(config: "Config", link: "Link", found: "Situation") -> "Situation":
    """Use the newest valid result with records that were left missing on purpose.

    A result that is not among the recent ones is found by the decisions recorded on the target.
    """
    from drctl.app import reconcile_adapters
    from drctl.failback.situation import choose

    ids, known = _left_missing(found.facts), {each.id for each in found.facts.gaps}
    recent = [each for each in found.facts.gaps if each.id in ids]
    older = (
        reconcile_adapters.with_id(config.state_dir, link.name, ids - known) if ids - known else ()
    )
    for each in chain(recent, older):
        chosen = choose(replace(found.facts, gaps=(each,)))
        if chosen.valid is None:
            continue
        if each.id in known:
            return replace(found, gap=chosen)
        other = _situation(config, link, Path(each.where))
        if other.gap.valid is not None:
            return other
    return found


def _left_missing(facts: "Facts") -> frozenset[str]:
    """The ids of results some of whose records were quarantined, exported or discarded."""
    if isinstance(facts.decided, Unavailable):
        return frozenset()
    decided = facts.decided.items()
    return frozenset(id for id, kept in decided if any(each.action != "copy" for each in kept))


def _is_final(found: "Situation") -> bool:
    valid = found.gap.valid
    return valid is not None and (found.reverse_started or _decided(found.facts, valid))


def _decided(facts: "Facts", result: "GapEvidence") -> bool:
    if result.id in facts.exported:
        return True
    return not isinstance(facts.decided, Unavailable) and result.id in facts.decided


def compared(config: "Config", link: "Link") -> "GapEvidence":
    """A full comparison of the link's current source; reuses one that decisions are based on."""
    from drctl.app.reconcile_adapters import named

    found = _with_decided_result(config, link, _situation(config, link))
    valid = found.gap.valid
    if valid is not None and _decided(found.facts, valid):
        return valid
    return named(_compare(config, link))


def _compare(config: "Config", link: "Link") -> Path:
    from drctl.app.gap import GapOptions, GapRuns

    options = GapOptions(
        (), "full", ledger=False, submit=False, budget_s=0, timeout_s=TRANSACTIONS_S
    )
    folder = new_folder(config.state_dir, link.name)
    with GapRuns(config, link, options) as runs:
        runs.run(folder)
    return folder


def _search(link: "Link", found: "Situation") -> Search:
    from drctl.failback.situation import ResultStatus

    result, first, boundaries = found.gap.valid, found.first, found.facts.boundaries
    if result is None:
        uncertain = (ResultStatus.INCOMPLETE, ResultStatus.UNKNOWN)
        raise (Unknown if found.gap.status in uncertain else Refused)(found.gap.why, _AGAIN)
    if isinstance(boundaries, Unavailable) or first is None:
        why = boundaries.reason if isinstance(boundaries, Unavailable) else found.gap.why
        raise Unknown(f"boundary on {link.target} unknown: {why}", _AGAIN)
    _require_order(link, found)
    _require_no_forwarded_headers(link, first, found)
    search = search_of(result, first.ends, boundaries)
    return replace(search, started=found.reverse_started, duplicated=result.duplicated)


def search_of(result: "GapEvidence", ends: Offsets, boundaries: Offsets) -> Search:
    """The counts of a result, as a search with these log ends and boundaries."""
    return Search(
        result.where,
        result.unreplicated,
        sum(each.safe for each in result.partitions),
        sum(each.conflicting for each in result.partitions),
        sum(each.unkeyed for each in result.partitions),
        ends,
        boundaries,
        id=result.id,
    )


def _require_order(link: "Link", found: "Situation") -> None:
    """Check that no old record of the source follows a new one of the target.

    Such a record would be replicated back as a new one.

    Raises:
        Refused: some old records do.
        Unknown: the target could not be read.
    """
    from drctl.failback.situation import out_of_order, rebuild_command

    known = found.facts.out_of_order
    if isinstance(known, Unavailable):
        raise Unknown(
            f"cannot tell whether old records follow new ones on {link.target}: {known.reason}",
            f"{_AGAIN}; or rebuild {link.source}: {rebuild_command(link.name)}",
        )
    if found.out_of_order_in:
        raise Refused(out_of_order(found), f"rebuild {link.source}: {rebuild_command(link.name)}")


def _require_no_forwarded_headers(link: "Link", first: "GapEvidence", found: "Situation") -> None:
    """Check that no new record has drctl's header.

    Reverse replication would exclude such a record as a copy, and the source would miss it.
    Replicators that preserve offsets exclude no record.

    Raises:
        Refused: some new records have the header.
        Unreachable: the target could not be read.
    """
    from drctl.failback.facts import Cluster
    from drctl.failback.observers.copies import forwarded_headers
    from drctl.failback.situation import rebuild_command
    from drctl.formats.provenance import HEADER
    from drctl.plans.failback import OFFSET_PRESERVING

    source, target = found.facts.on_source, found.facts.on_target
    if not isinstance(source, Cluster) or not isinstance(target, Cluster):
        return
    if link.settings.replicator.kind == OFFSET_PRESERVING:
        return
    source_partitions = {each.copy: each.place for each in first.partitions}
    with adapters.both_readers(link) as (_, reader):
        forwarded = forwarded_headers(
            found.boundaries, source_partitions, source.identity, target, reader
        )
    if forwarded:
        place, at = min(forwarded.items())
        raise Refused(
            f"new records of {link.target} have header {HEADER} but were not copied by drctl"
            f" ({place} offset {at}; {plural(len(forwarded), 'partition')}): a stream"
            " processor forwarded"
            f" the header. Reverse replication would exclude them from {link.source}",
            "let the processor drop the header (docs/howto/reconcile.md), then rebuild"
            f" {link.source}: {rebuild_command(link.name)}",
        )
