"""Steps of a failback that copies everything because the source has lost its records."""

from collections.abc import Mapping

from drctl.checks.check import several
from drctl.engine.failback_state import drops_copies
from drctl.failback.facts import Cluster, Replication
from drctl.failback.record_steps import reconciled
from drctl.failback.situation import Situation
from drctl.failback.steps import Observed, StepState, compared, done, not_done, states, unknown
from drctl.model.text import plural
from drctl.model.topology import Unavailable

TITLES: Mapping[str, str] = {
    "c": "Records that exist only on {source} are known",
    "f": "{source} was emptied and is refilled from {target}",
    "g": "Reconciled records are replicated back, too",
}
"""Titles of the steps that differ in a rebuild."""


def rebuilt(seen: Situation) -> Mapping[str, StepState]:
    """The state of the steps that differ in a rebuild; empty if the source has lost no records."""
    source, target = seen.facts.on_source, seen.facts.on_target
    if not seen.rebuilding or not isinstance(source, Cluster) or not isinstance(target, Cluster):
        return {}
    everything = _everything(seen, source.held)
    found = {"f": everything, "g": _copies(seen), "h": _caught_up(seen, source, target, everything)}
    if not source.held or seen.facts.filled:
        return {**_nothing_to_reconcile(seen, source.held), **found}
    # Records that it still has are about to be deleted: they are reconciled first.
    undecided = reconciled(seen).observed is not Observed.DONE
    return (
        {**found, "g": not_done("unreplicated records are not reconciled yet (step e)")}
        if undecided
        else found
    )


def _nothing_to_reconcile(seen: Situation, held: int) -> Mapping[str, StepState]:
    facts = seen.facts
    text = (
        f"the first and last record of each partition of {facts.source} match {facts.target}"
        if held
        else f"{facts.source} has no record of the link"
    )
    gone = f"whether records deleted from {facts.source} were reconciled is not visible"
    return {
        "c": done(f"{text}: no unreplicated records"),
        "d": done(f"{text}: no unreplicated records"),
        "e": done(f"{text}: nothing to reconcile; {gone}"),
    }


def _everything(seen: Situation, held: int) -> StepState:
    """How far empty-SOURCE, set-start-offsets and start-reverse-replication have come."""
    facts = seen.facts
    why = f"{facts.source} has lost records ({several(seen.lost)})" if seen.lost else ""
    if held and not facts.filled:
        text = f"{facts.source} still has {plural(held, 'old offset')}"
        return not_done("; ".join(filter(None, (why, f"{text}: next is empty-{facts.source}"))))
    if isinstance(facts.reverse, Unavailable):
        text = f"replication {facts.target} -> {facts.source}"
        return unknown(f"{text}: {facts.reverse.reason}", started=bool(held))
    if not facts.reverse.copying:
        return not_done("Connect has no reverse connector yet", started=bool(held))
    text = states(facts.reverse.copying)
    if held:
        came = f"{text}; {facts.source} holds {plural(held, 'offset')} so far"
        return (
            done(came)
            if facts.reverse.runs or seen.all_on_source is True
            else not_done(came, started=True)
        )
    text = "; ".join(filter(None, (why, f"{facts.source} is empty; {text}")))
    if facts.reverse.runs:
        return not_done(f"{text}; no record has arrived yet", started=True)
    begins = _where_it_begins(facts.reverse)
    if isinstance(begins, Unavailable):
        return unknown(f"{text}; start offsets: {begins.reason}")
    return not_done(f"{text}, {begins}")


def _where_it_begins(reverse: Replication) -> str | Unavailable:
    for each in reverse.copying:
        if isinstance(each.positions, Unavailable):
            return each.positions
        if each.positions:
            return "and still has its previous offsets: set-start-offsets is next"
    return "and has no offsets, so it starts at the beginning: start-reverse-replication is next"


def _copies(seen: Situation) -> StepState:
    reverse = seen.facts.reverse
    if isinstance(reverse, Unavailable):
        return unknown(f"reverse replication: {reverse.reason}")
    filtered = [each.name for each in reverse.copying if drops_copies(each.config)]
    if filtered:
        return not_done(
            f"connector {filtered[0]} excludes records that drctl copied, whose originals are gone:"
            " include-reconciled-records is next"
        )
    return done("reconciled records are not excluded")


def _caught_up(
    seen: Situation, source: Cluster, target: Cluster, everything: StepState
) -> StepState:
    facts = seen.facts
    if everything.observed is Observed.UNKNOWN:
        return unknown(everything.why)
    if not facts.filled:
        return not_done("no record has arrived yet (step f)")
    behind = max(0, target.held - source.held)
    text = f"{facts.source} lags by about {plural(behind, 'record')}; policy.max_lag_records is"
    if behind > facts.max_lag:
        return not_done(f"{text} {facts.max_lag:,}")
    return compared(seen, target, f"{text} {facts.max_lag:,}")
