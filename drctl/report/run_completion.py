"""Completes the report of a run by what `drctl gap` found once the source was back.

The first complete comparison after the run counts: later ones may find less because somebody has
reconciled, or more because the source took writes again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC

from drctl.model.loss import Figure, LossRange
from drctl.report.printable import plain, plural
from drctl.report.run_data import ReportData, Rpo, Writes
from drctl.report.run_gaps import GapFound
from drctl.report.run_words import length


def completed(data: ReportData, results: Iterable[GapFound]) -> ReportData:
    """The same with its exact RPO, where one of the results tells it."""
    if data.rpo.exact or data.writes is not Writes.TARGET:
        return data
    fitting = sorted((r for r in results if fits(data, r)), key=lambda each: each.started)
    return replace(data, rpo=_told(data.rpo, fitting[0])) if fitting else data


def fits(data: ReportData, found: GapFound) -> bool:
    """Whether it compared what the run moved, after the run."""
    plan = data.plan
    same = (found.link, found.source, found.target) == (plan.link, plan.source, plan.target)
    ids = all(found.ids.get(name, seen) == seen for name, seen in data.ids.items())
    covered = data.topics and {*data.topics} <= {place.topic for place in found.ends}
    return bool(same and ids and covered and found.complete and found.started > data.until)


def _told(before: Rpo, found: GapFound) -> Rpo:
    return Rpo(
        lost=_counted(found),
        seconds=found.seconds,
        exact=not found.doubtful,
        how="; ".join(_how(before, found)),
        compared=True,
    )


def _counted(found: GapFound) -> LossRange:
    """Of those that nobody can tell all, or none, may have been copied."""
    how = "a comparison by content"
    counted = Figure(found.unreplicated, how)
    return LossRange(counted, counted, Figure(found.unreplicated + found.doubtful, how))


def _how(before: Rpo, found: GapFound) -> Iterator[str]:
    when = f"{found.started.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    scope = "everything" if found.scope == "full" else f"the {plain(found.scope)}"
    yield f"drctl gap compared {scope} by content at {when}: {plain(str(found.file.parent))}"
    if found.seconds:
        yield f"by their own timestamps the missing records are of {length(found.seconds)}"
    if found.doubtful:
        told = plural(found.doubtful, "more record")
        yield f"of {told}, superseded or expired since, nobody can tell whether they were copied"
    if before.lost.known:
        yield f"the run had estimated {before.lost.words}"
