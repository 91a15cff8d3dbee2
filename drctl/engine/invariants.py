"""The order of things, as rules over kinds of steps; every plan is held against them.

A plan may come from a sequence of drctl, or from a runbook that a person wrote: the rules are the
same. The reasons are those of the design's page on sequences. A plan may be about replication in
both directions: most rules hold for each of them by itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from drctl.engine.kind import Kind, Trait
from drctl.model.plan import Plan, Step


class Reach(Enum):
    """Which steps a rule compares."""

    ONE_WAY = auto()
    """Those of one direction with each other."""
    BOTH_WAYS = auto()
    """All steps of the plan."""
    ACROSS = auto()
    """Those of one direction with those of the other, where the plan is about both."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What has one trait comes before what has another.

    Attributes:
        needed: whether the later one may not be there without the earlier one.
    """

    earlier: Trait
    later: Trait
    needed: bool
    why: str
    reach: Reach = Reach.ONE_WAY


RULES = (
    Rule(
        Trait.JUDGES,
        Trait.CHANGES,
        True,
        "nothing is changed before the guards have been asked",
        Reach.BOTH_WAYS,
    ),
    Rule(
        Trait.TAKES_STOCK,
        Trait.CHANGES,
        True,
        "what is not written down before a change cannot be put back",
        Reach.BOTH_WAYS,
    ),
    Rule(
        Trait.FENCES_WRITES,
        Trait.DRAINS,
        True,
        "a source that still takes writes is never drained",
    ),
    Rule(
        Trait.DRAINS,
        Trait.STOPS_REPLICATION,
        False,
        "what was not copied when replication stops stays behind",
    ),
    Rule(
        Trait.DRAINS,
        Trait.REQUESTS_STOP,
        False,
        "what was not copied when replication stops stays behind",
    ),
    Rule(
        Trait.DRAINS,
        Trait.QUIESCES,
        False,
        "consumers may still read what is being copied",
    ),
    Rule(
        Trait.QUIESCES,
        Trait.COMMITS_OFFSETS,
        False,
        "positions that still move cannot be translated",
    ),
    Rule(
        Trait.STOPS_REPLICATION,
        Trait.COMMITS_OFFSETS,
        False,
        "MirrorMaker 2's own checkpoints would overwrite the positions",
    ),
    Rule(
        Trait.STOPS_REPLICATION,
        Trait.OPENS,
        True,
        "a replicator that runs on appends old records behind new ones",
    ),
    Rule(
        Trait.FENCES_WRITES,
        Trait.OPENS,
        True,
        "two clusters that take writes at once cannot be brought together again",
    ),
    Rule(
        Trait.PREPARES_GROUPS,
        Trait.COMMITS_OFFSETS,
        False,
        "positions alone make a group in which members of KIP-848's protocol end",
    ),
    Rule(
        Trait.PREPARES_GROUPS,
        Trait.OPENS,
        False,
        "members of KIP-848's protocol end where their group is not known",
    ),
    Rule(
        Trait.FENCES_WRITES,
        Trait.SKIPS_PRODUCER_IDS,
        False,
        "a source that takes writes brings new producer ids into use",
    ),
    Rule(
        Trait.SKIPS_PRODUCER_IDS,
        Trait.OPENS,
        False,
        "a target that takes writes gives producers the ids that others bring along",
    ),
    Rule(
        Trait.COMMITS_OFFSETS,
        Trait.OPENS,
        False,
        "consumers that come before their positions begin anywhere",
    ),
    Rule(
        Trait.OPENS,
        Trait.SWITCHES,
        True,
        "clients would be sent to a cluster that does not take their writes",
    ),
    Rule(
        Trait.COMMITS_OFFSETS,
        Trait.SWITCHES,
        False,
        "consumers that come before their positions begin anywhere",
    ),
    Rule(
        Trait.SWITCHES,
        Trait.VERIFIES,
        False,
        "clients are looked for where they were sent",
    ),
    Rule(
        Trait.FINDS_GAP,
        Trait.RECONCILES,
        True,
        "records that nobody found cannot be brought over",
    ),
    Rule(
        Trait.RECONCILES,
        Trait.STARTS_REPLICATION,
        False,
        "reverse replication would bury the records that were not brought over",
        Reach.BOTH_WAYS,
    ),
    Rule(
        Trait.STOPS_REPLICATION,
        Trait.STARTS_REPLICATION,
        True,
        "both directions at once copy everything twice",
        Reach.ACROSS,
    ),
    Rule(
        Trait.FENCES_WRITES,
        Trait.EMPTIES,
        True,
        "what applications write to a cluster that is emptied is gone with it",
    ),
    Rule(
        Trait.STOPS_REPLICATION,
        Trait.EMPTIES,
        True,
        "a replicator whose source is emptied under it begins again, or fails",
    ),
    Rule(
        Trait.RECONCILES,
        Trait.EMPTIES,
        True,
        "records on which nobody has decided would be gone",
    ),
    Rule(
        Trait.EMPTIES,
        Trait.STARTS_REPLICATION,
        False,
        "what is left there would stand before what comes, or be there twice",
        Reach.ACROSS,
    ),
)


def violations(plan: Plan, kinds: Mapping[str, Kind]) -> tuple[str, ...]:
    """Each rule that the plan breaks, naming the step and the reason."""
    return tuple(line for rule in RULES for line in _broken(rule, plan, kinds))


def _broken(rule: Rule, plan: Plan, kinds: Mapping[str, Kind]) -> Iterator[str]:
    steps = plan.steps
    earlier = [n for n, step in enumerate(steps) if rule.earlier in kinds[step.kind].traits]
    later = [n for n, step in enumerate(steps) if rule.later in kinds[step.kind].traits]
    other = frozenset(
        n for n, step in enumerate(steps) if Trait.OTHER_WAY in kinds[step.kind].traits
    )
    if rule.reach is Reach.BOTH_WAYS or not other:
        yield from _compared(rule, steps, earlier, later)
        return
    for way in (True, False):
        before = way if rule.reach is Reach.ONE_WAY else not way
        yield from _compared(
            rule,
            steps,
            [n for n in earlier if (n in other) is before],
            [n for n in later if (n in other) is way],
        )


def _compared(
    rule: Rule, steps: Sequence[Step], earlier: list[int], later: list[int]
) -> Iterator[str]:
    if not later:
        return
    if not earlier:
        if rule.needed:
            yield f"step {steps[later[0]].id} needs one that {_does(rule.earlier)}: {rule.why}"
        return
    # The first of the later ones counts: what follows another of its kind follows the earlier too.
    if later[0] < earlier[0] or (_is_effect(rule) and later[0] < earlier[-1]):
        yield _out_of_order(steps[later[0]], steps[earlier[-1]], rule)


def _is_effect(rule: Rule) -> bool:
    """Whether all of the earlier ones must come first, and not just one of them."""
    return rule.earlier not in (Trait.JUDGES, Trait.TAKES_STOCK)


def _out_of_order(late: Step, early: Step, rule: Rule) -> str:
    return f"step {late.id} stands before {early.id}: {rule.why}"


def _does(trait: Trait) -> str:
    return str(trait.name).lower().replace("_", " ")
