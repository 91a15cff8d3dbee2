"""Finds unreplicated records, and where new records of the surviving cluster begin."""

import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app import adapters
from drctl.engine.failback_state import Offsets, Search
from drctl.model.errors import Refused, Unknown
from drctl.model.moments import new_name
from drctl.model.topology import Unavailable

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
    """Where the result of a comparison of a link goes."""
    return state / "gap" / f"{link}-{new_name()}"


def of_before(result: "GapResult", before: "GapResult") -> int:
    """How many of the unreplicated records were there when another comparison froze the offsets."""
    ends = {
        (topic.topic, each.partition): each.source_range.end
        for topic in before.topics
        for each in topic.partitions
    }
    return sum(
        _older(each, ends.get((topic.topic, each.partition), 0))
        for topic in result.topics
        for each in topic.partitions
    )


def _older(gap: "PartitionGap", end: int) -> int:
    """At most so many: ranges may bridge offsets that hold no record."""
    missing = gap.counts.unreplicated
    if gap.ranges_total > len(gap.ranges):
        return missing
    offsets = sum(max(0, min(last + 1, end) - first) for first, last in gap.ranges)
    return min(missing, offsets)


def searched(config: "Config", link: "Link") -> Search:
    """What only the source of a link has that was lost and is back.

    A result that decisions, or the failback, rest on already is taken as it is: a newer one lists
    what was quarantined or discarded once more, and knows nothing of it.

    Raises:
        Refused: what was found cannot be rested on.
        Unknown: not everything could be compared.
    """
    seen = _resting_on_decisions(config, link, _seen(config, link))
    if not _rested_on(seen):
        if seen.reverse_started:
            raise Refused(
                f"reverse replication has started, and records that only {link.source} has are"
                f" unknown: {seen.gap.why}",
                _AGAIN,
            )
        _compare(config, link)
        seen = _seen(config, link)
    return _search(link, seen)


def found_here(config: "Config", link: "Link") -> Path:
    """The folder of a result on this machine that holds now; compared again where none does.

    Raises:
        Refused: what was found cannot be rested on.
        Unknown: not everything could be compared.
    """
    valid = _seen(config, link, most=None).gap.valid
    return Path(valid.where if valid is not None else searched(config, link).folder)


def _seen(
    config: "Config", link: "Link", folder: Path | None = None, most: int | None = sys.maxsize
) -> "Situation":
    """However many records have to be read for it: what is copied rests on this.

    Args:
        folder: of the only result to look at.
        most: as `look_at` has it.
    """
    from drctl.app.failback import look_at
    from drctl.failback.situation import situation

    return situation(look_at(config, link, folder, most))


def _resting_on_decisions(config: "Config", link: "Link", seen: "Situation") -> "Situation":
    """Resting on the newest valid result of which records were left missing on purpose.

    Results may be many: one that is not looked at otherwise is looked for by what the target keeps.
    """
    from drctl.app import reconcile_adapters
    from drctl.failback.situation import choose

    ids, known = _left_missing(seen.facts), {each.id for each in seen.facts.gaps}
    here = [each for each in seen.facts.gaps if each.id in ids]
    others = (
        reconcile_adapters.with_id(config.state_dir, link.name, ids - known) if ids - known else ()
    )
    for each in chain(here, others):
        chosen = choose(replace(seen.facts, gaps=(each,)))
        if chosen.valid is None:
            continue
        if each.id in known:
            return replace(seen, gap=chosen)
        older = _seen(config, link, Path(each.where))
        if older.gap.valid is not None:
            return older
    return seen


def _left_missing(facts: "Facts") -> frozenset[str]:
    """The ids of results of which records were decided on that stay missing: not only copied."""
    if isinstance(facts.decided, Unavailable):
        return frozenset()
    decided = facts.decided.items()
    return frozenset(id for id, kept in decided if any(each.action != "copy" for each in kept))


def _rested_on(seen: "Situation") -> bool:
    valid = seen.gap.valid
    if valid is None:
        return False
    return seen.reverse_started or _decided(seen.facts, valid)


def _decided(facts: "Facts", result: "GapEvidence") -> bool:
    if result.id in facts.exported:
        return True
    return not isinstance(facts.decided, Unavailable) and result.id in facts.decided


def compared(config: "Config", link: "Link") -> "GapEvidence":
    """A full comparison of what a link's source has now; one that decisions rest on is taken.

    Nothing is asked of it but that it is about the source as it is.
    """
    from drctl.app.reconcile_adapters import named

    seen = _resting_on_decisions(config, link, _seen(config, link))
    valid = seen.gap.valid
    if valid is not None and _decided(seen.facts, valid):
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


def _search(link: "Link", seen: "Situation") -> Search:
    from drctl.failback.situation import ResultStatus

    result, first, boundaries = seen.gap.valid, seen.first, seen.facts.boundaries
    if result is None:
        uncertain = (ResultStatus.INCOMPLETE, ResultStatus.UNKNOWN)
        raise (Unknown if seen.gap.standing in uncertain else Refused)(seen.gap.why, _AGAIN)
    if isinstance(boundaries, Unavailable) or first is None:
        why = boundaries.reason if isinstance(boundaries, Unavailable) else seen.gap.why
        raise Unknown(f"boundary on {link.target} unknown: {why}", _AGAIN)
    _see_none_behind(link, seen)
    _see_none_passed_on(link, first, seen)
    found = told_by(result, first.ends, boundaries)
    return replace(found, started=seen.reverse_started, duplicated=result.duplicated)


def told_by(result: "GapEvidence", ends: Offsets, boundaries: Offsets) -> Search:
    """What a result counts, between these offsets."""
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


def _see_none_behind(link: "Link", seen: "Situation") -> None:
    """Records of the source behind the first new one of the target would be replicated back as new.

    Raises:
        Refused: there are some.
        Unknown: nobody could look.
    """
    from drctl.failback.situation import out_of_order, rebuild_command

    behind = seen.facts.out_of_order
    if isinstance(behind, Unavailable):
        raise Unknown(
            f"cannot tell whether old records follow new ones on {link.target}: {behind.reason}",
            f"{_AGAIN}; or rebuild it: {rebuild_command(link.name)}",
        )
    if seen.out_of_order_in:
        raise Refused(out_of_order(seen), f"rebuild it: {rebuild_command(link.name)}")


def _see_none_passed_on(link: "Link", first: "GapEvidence", seen: "Situation") -> None:
    """New records with drctl's header would be left out as copies, and be missing on the source.

    A mirror leaves nothing out.

    Raises:
        Refused: there are some.
        Unreachable: the target could not be read.
    """
    from drctl.failback.facts import Cluster
    from drctl.failback.observers.copies import forwarded_headers
    from drctl.failback.situation import rebuild_command
    from drctl.formats.provenance import HEADER
    from drctl.plans.failback import OFFSET_PRESERVING

    source, target = seen.facts.on_source, seen.facts.on_target
    if not isinstance(source, Cluster) or not isinstance(target, Cluster):
        return
    if link.settings.replicator.kind == OFFSET_PRESERVING:
        return
    source_partitions = {each.copy: each.place for each in first.partitions}
    with adapters.both_readers(link) as (_, reader):
        found = forwarded_headers(
            seen.boundaries, source_partitions, source.identity, target, reader
        )
    if found:
        place, at = min(found.items())
        raise Refused(
            f"new records of {link.target} have header {HEADER} but were not copied by drctl"
            f" ({place} offset {at}; {len(found):,} partitions): a stream processor forwarded the"
            f" header. Reverse replication would exclude them from {link.source}",
            "let the processor drop the header (docs/howto/reconcile.md), then rebuild"
            f" {link.source}: {rebuild_command(link.name)}",
        )
