"""Rules of order over kinds of steps; every plan is checked against them.

The rules are the same for drctl's own plans and for runbooks that a person wrote. A plan may be
about replication in both directions: most rules hold for each direction by itself.
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
    why: str
    needed: bool = False
    reach: Reach = Reach.ONE_WAY


RULES = (
    Rule(
        Trait.RUNS_PRECHECKS,
        Trait.CHANGES,
        "nothing is changed before the prechecks have been asked",
        needed=True,
        reach=Reach.BOTH_WAYS,
    ),
    Rule(
        Trait.SNAPSHOTS_STATE,
        Trait.CHANGES,
        "what is not written down before a change cannot be put back",
        needed=True,
        reach=Reach.BOTH_WAYS,
    ),
    Rule(
        Trait.FENCES_WRITES,
        Trait.DRAINS,
        "a source that still takes writes is never drained",
        needed=True,
    ),
    Rule(
        Trait.DRAINS,
        Trait.STOPS_REPLICATION,
        "what was not copied when replication stops stays behind",
    ),
    Rule(
        Trait.DRAINS, Trait.REQUESTS_STOP, "what was not copied when replication stops stays behind"
    ),
    Rule(Trait.DRAINS, Trait.QUIESCES, "consumers may still read what is being copied"),
    Rule(Trait.QUIESCES, Trait.COMMITS_OFFSETS, "positions that still move cannot be translated"),
    Rule(
        Trait.STOPS_REPLICATION,
        Trait.COMMITS_OFFSETS,
        "MirrorMaker 2's own checkpoints would overwrite the positions",
    ),
    Rule(
        Trait.STOPS_REPLICATION,
        Trait.ENABLES_WRITES,
        "a replicator that runs on appends old records behind new ones",
        needed=True,
    ),
    Rule(
        Trait.FENCES_WRITES,
        Trait.ENABLES_WRITES,
        "two clusters that take writes at once cannot be brought together again",
        needed=True,
    ),
    Rule(
        Trait.PREPARES_GROUPS,
        Trait.COMMITS_OFFSETS,
        "positions alone make a group in which members of KIP-848's protocol end",
    ),
    Rule(
        Trait.PREPARES_GROUPS,
        Trait.ENABLES_WRITES,
        "members of KIP-848's protocol end where their group is not known",
    ),
    Rule(
        Trait.FENCES_WRITES,
        Trait.ADVANCES_PRODUCER_IDS,
        "a source that takes writes brings new producer ids into use",
    ),
    Rule(
        Trait.ADVANCES_PRODUCER_IDS,
        Trait.ENABLES_WRITES,
        "a target that takes writes gives producers the ids that others bring along",
    ),
    Rule(
        Trait.COMMITS_OFFSETS,
        Trait.ENABLES_WRITES,
        "consumers that come before their positions begin anywhere",
    ),
    Rule(
        Trait.ENABLES_WRITES,
        Trait.SWITCHES,
        "clients would be sent to a cluster that does not take their writes",
        needed=True,
    ),
    Rule(
        Trait.COMMITS_OFFSETS,
        Trait.SWITCHES,
        "consumers that come before their positions begin anywhere",
    ),
    Rule(Trait.SWITCHES, Trait.VERIFIES, "clients are looked for where they were sent"),
    Rule(
        Trait.FINDS_GAP,
        Trait.RECONCILES,
        "records that nobody found cannot be brought over",
        needed=True,
    ),
    Rule(
        Trait.RECONCILES,
        Trait.STARTS_REPLICATION,
        "reverse replication would bury the records that were not brought over",
        reach=Reach.BOTH_WAYS,
    ),
    Rule(
        Trait.STOPS_REPLICATION,
        Trait.STARTS_REPLICATION,
        "both directions at once copy everything twice",
        needed=True,
        reach=Reach.ACROSS,
    ),
    Rule(
        Trait.FENCES_WRITES,
        Trait.EMPTIES,
        "what applications write to a cluster that is emptied is gone with it",
        needed=True,
    ),
    Rule(
        Trait.STOPS_REPLICATION,
        Trait.EMPTIES,
        "a replicator whose source is emptied under it begins again, or fails",
        needed=True,
    ),
    Rule(
        Trait.RECONCILES,
        Trait.EMPTIES,
        "records on which nobody has decided would be gone",
        needed=True,
    ),
    Rule(
        Trait.EMPTIES,
        Trait.STARTS_REPLICATION,
        "what is left there would stand before what comes, or be there twice",
        reach=Reach.ACROSS,
    ),
)


def violations(plan: Plan, kinds: Mapping[str, Kind]) -> tuple[str, ...]:
    """Each rule that the plan breaks, naming the step and the reason."""
    return tuple(line for rule in RULES for line in _broken(rule, plan.steps, kinds))


def _broken(rule: Rule, steps: Sequence[Step], kinds: Mapping[str, Kind]) -> Iterator[str]:
    traits = [kinds[step.kind].traits for step in steps]
    earlier = [n for n, each in enumerate(traits) if rule.earlier in each]
    later = [n for n, each in enumerate(traits) if rule.later in each]
    opposite = {n for n, each in enumerate(traits) if Trait.OPPOSITE_DIRECTION in each}
    if rule.reach is Reach.BOTH_WAYS or not opposite:
        yield from _out_of_order(rule, steps, earlier, later)
        return
    for way in (True, False):
        before = way if rule.reach is Reach.ONE_WAY else not way
        yield from _out_of_order(
            rule,
            steps,
            [n for n in earlier if (n in opposite) is before],
            [n for n in later if (n in opposite) is way],
        )


def _out_of_order(
    rule: Rule, steps: Sequence[Step], earlier: list[int], later: list[int]
) -> Iterator[str]:
    """The first of the later steps counts: those that follow it follow the earlier ones, too."""
    if not later:
        return
    if not earlier:
        if rule.needed:
            does = str(rule.earlier.name).lower().replace("_", " ")
            yield f"step {steps[later[0]].id} needs one that {does}: {rule.why}"
        return
    # One precheck or one snapshot is enough; of everything else all must come first.
    one_is_enough = rule.earlier in (Trait.RUNS_PRECHECKS, Trait.SNAPSHOTS_STATE)
    if later[0] < (earlier[0] if one_is_enough else earlier[-1]):
        yield f"step {steps[later[0]].id} stands before {steps[earlier[-1]].id}: {rule.why}"
