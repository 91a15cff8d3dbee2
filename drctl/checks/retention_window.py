"""The recovery objective against retention: how long lost records can still be found."""

from collections.abc import Iterator

from drctl.checks.check import Family, Verdict, check, fail, ok, warn
from drctl.checks.observed import Observed
from drctl.checks.sides import Side, of_each
from drctl.checks.wording import duration, several
from drctl.model.finding import Status
from drctl.model.topology import TopicState

_NIGHT_MS = 24 * 3_600_000


@check(
    "retention-objective",
    Family.RETENTION,
    "topics and copies are kept for a day at least, and for longer than `policy.max_rpo_seconds`",
    Status.WARN,
    Status.FAIL,
)
def objective(observed: Observed) -> Iterator[Verdict]:
    """Whether a cluster that returns still has what was never copied."""
    floor_ms = round(observed.policy.max_rpo_seconds * 1000)
    yield from of_each(observed, lambda side: _kept(side, floor_ms))


def _kept(side: Side, floor_ms: int) -> Verdict:
    kept = {name: _retention(state) for name, state in side.configured().items()}
    known = {name: ms for name, ms in kept.items() if ms is not None}
    short = {name: ms for name, ms in known.items() if ms <= floor_ms}
    night = {name: ms for name, ms in known.items() if floor_ms < ms < _NIGHT_MS}
    cure = "raise retention.ms of these topics"
    if short:
        cost = "records are deleted within the time by which replication may be behind"
        reason = f"{len(short):,} topics are kept for less than policy.max_rpo_seconds"
        return fail(side.subject, reason, _told(short), cost, cure)
    if night:
        cost = "a cluster that returns after a night deletes what was not copied before it is read"
        reason = f"{len(night):,} topics are kept for less than a day"
        return warn(side.subject, reason, _told(night), cost, cure)
    told = f"{len(kept):,} topics, {len(kept) - len(known):,} without an end by time"
    return ok(side.subject, "all are kept for a day or longer", told)


def _told(rows: dict[str, int]) -> str:
    return several(f"{name}: retention.ms={ms} ({duration(ms)})" for name, ms in rows.items())


def _retention(state: TopicState) -> int | None:
    """Milliseconds; None where it deletes nothing for its age."""
    text = state.config.get("retention.ms", "")
    if "delete" not in state.config.get("cleanup.policy", "delete"):
        return None
    return int(text) if text.isdecimal() else None
