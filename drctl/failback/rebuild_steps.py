"""Judges the steps of a failback that copies everything: the source has lost its records."""

from collections.abc import Mapping

from drctl.checks.check import several
from drctl.engine.failback_state import drops_copies
from drctl.failback.facts import Cluster, Replication
from drctl.failback.record_steps import reconciled
from drctl.failback.situation import Situation
from drctl.failback.steps import Observed, StepState, compared, done, not_done, states, unknown
from drctl.model.topology import Unavailable

TITLES: Mapping[str, str] = {
    "c": "what only {source} still has is found",
    "f": "{source} is empty, and gets everything from {target}, from the beginning",
    "g": "what drctl has copied comes home, too",
}
"""What these steps are, where they differ from those of another failback."""


def rebuilt(seen: Situation) -> Mapping[str, StepState]:
    """What is seen of these steps; nothing where it has lost no records."""
    source, target = seen.facts.on_source, seen.facts.on_target
    if not seen.rebuilding or not isinstance(source, Cluster) or not isinstance(target, Cluster):
        return {}
    everything = _everything(seen, source.held)
    found = {"f": everything, "g": _copies(seen), "h": _caught_up(seen, source, target, everything)}
    if not source.held or seen.facts.filled:
        return {**_nothing_alone(seen, source.held), **found}
    # What it still has is about to go: it is found, judged and decided on as elsewhere.
    undecided = reconciled(seen).observed is not Observed.DONE
    return {**found, "g": not_done("it is not decided yet (step e)")} if undecided else found


def _nothing_alone(seen: Situation, held: int) -> Mapping[str, StepState]:
    facts = seen.facts
    told = (
        f"what {facts.source} holds is the beginning of what {facts.target} does, by the first and"
        " the last record of each partition"
        if held
        else f"{facts.source} holds no record of the link"
    )
    gone = "what it held before it was emptied, or lost it, is gone: whether that was decided on"
    return {
        "c": done(f"{told}: there is nothing to find"),
        "d": done(f"{told}: there is nothing to judge"),
        "e": done(f"{told}: there is nothing to decide on; {gone} cannot be seen"),
    }


def _everything(seen: Situation, held: int) -> StepState:
    """How far empty-SOURCE, set-start-offsets and start-reverse-replication have come."""
    facts = seen.facts
    why = f"{facts.source} has lost records that it had ({several(seen.lost)})" if seen.lost else ""
    if held and not facts.filled:
        told = f"{facts.source} still holds {held:,} offsets of before"
        return not_done("; ".join(filter(None, (why, f"{told}: empty-{facts.source} is next"))))
    if isinstance(facts.reverse, Unavailable):
        told = f"what copies from {facts.target} to {facts.source} cannot be seen"
        return unknown(f"{told}: {facts.reverse.reason}", started=bool(held))
    if not facts.reverse.copying:
        return not_done("the workers have no connector that copies back yet", started=bool(held))
    told = states(facts.reverse.copying)
    if held:
        came = f"{told}; {facts.source} holds {held:,} offsets, from the first one on"
        return (
            done(came) if facts.reverse.runs or seen.home is True else not_done(came, started=True)
        )
    told = "; ".join(filter(None, (why, f"{facts.source} is empty; {told}")))
    if facts.reverse.runs:
        return not_done(f"{told}; nothing has come yet", started=True)
    begins = _where_it_begins(facts.reverse)
    if isinstance(begins, Unavailable):
        return unknown(f"{told}; where it would begin is not known: {begins.reason}")
    return not_done(f"{told}, {begins}")


def _where_it_begins(reverse: Replication) -> str | Unavailable:
    for each in reverse.copying:
        if isinstance(each.positions, Unavailable):
            return each.positions
        if each.positions:
            return "and keeps how far it got with what was there before: set-start-offsets is next"
    return "and keeps no position: it begins at the beginning, start-reverse-replication is next"


def _copies(seen: Situation) -> StepState:
    reverse = seen.facts.reverse
    if isinstance(reverse, Unavailable):
        return unknown(f"whether anything is left out cannot be seen: {reverse.reason}")
    filtered = [each.name for each in reverse.copying if drops_copies(each.config)]
    if filtered:
        return not_done(
            f"connector {filtered[0]} leaves out what drctl has copied, and its originals are gone:"
            " include-reconciled-records is next"
        )
    return done("nothing leaves out what drctl has copied")


def _caught_up(
    seen: Situation, source: Cluster, target: Cluster, everything: StepState
) -> StepState:
    facts = seen.facts
    if everything.observed is Observed.UNKNOWN:
        return unknown(f"how far it has come: {everything.why}")
    if not facts.filled:
        return not_done("nothing has come yet (step f)")
    behind = max(0, target.held - source.held)
    told = f"{facts.source} is about {behind:,} records behind; policy.max_lag_records is"
    if behind > facts.max_lag:
        return not_done(f"{told} {facts.max_lag:,}")
    return compared(seen, target, f"{told} {facts.max_lag:,}")
