"""Ordering rules over step kinds; every plan is checked against them.

The same rules apply to drctl's own plans and to user-written runbooks. A plan may concern
replication in both directions; most rules apply to each direction separately.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from drctl.engine.kind import Kind, Trait
from drctl.model.plan import Plan, Step


class Reach(Enum):
    """Which steps a rule compares."""

    SAME_DIRECTION = auto()
    """Steps of one direction with each other."""
    ALL = auto()
    """All steps of the plan."""
    OPPOSITE_DIRECTIONS = auto()
    """Steps of one direction with those of the other, if the plan has both."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Steps with one trait must come before steps with another.

    Attributes:
        needed: whether the later step requires an earlier one.
    """

    earlier: Trait
    later: Trait
    why: str
    needed: bool = False
    reach: Reach = Reach.SAME_DIRECTION


RULES = (
    Rule(
        Trait.RUNS_PRECHECKS,
        Trait.CHANGES,
        "the prechecks must pass before anything is changed",
        needed=True,
        reach=Reach.ALL,
    ),
    Rule(
        Trait.SNAPSHOTS_STATE,
        Trait.CHANGES,
        "state that was not recorded before a change cannot be restored",
        needed=True,
        reach=Reach.ALL,
    ),
    Rule(
        Trait.FENCES_WRITES,
        Trait.DRAINS,
        "replication never catches up while the source accepts writes",
        needed=True,
    ),
    Rule(
        Trait.FENCES_WRITES,
        Trait.ENDS_TRANSACTIONS,
        "producers that may still write begin new transactions",
        needed=True,
    ),
    Rule(
        Trait.ENDS_TRANSACTIONS,
        Trait.DRAINS,
        "read_committed replication cannot pass an open transaction",
    ),
    Rule(
        Trait.DRAINS,
        Trait.STOPS_REPLICATION,
        "records that are not replicated before replication stops never reach the target",
    ),
    Rule(
        Trait.DRAINS,
        Trait.REQUESTS_STOP,
        "records that are not replicated before replication stops never reach the target",
    ),
    Rule(
        Trait.DRAINS,
        Trait.QUIESCES,
        "consumers may still be reading records that arrive during the drain",
    ),
    Rule(
        Trait.QUIESCES,
        Trait.COMMITS_OFFSETS,
        "committed offsets cannot be translated while they change",
    ),
    Rule(
        Trait.STOPS_REPLICATION,
        Trait.COMMITS_OFFSETS,
        "MirrorMaker 2's checkpoints would overwrite the committed offsets",
    ),
    Rule(
        Trait.STOPS_REPLICATION,
        Trait.ENABLES_WRITES,
        "a running replicator would append old records after new ones",
        needed=True,
    ),
    Rule(
        Trait.FENCES_WRITES,
        Trait.ENABLES_WRITES,
        "clusters that both accept writes diverge",
        needed=True,
    ),
    Rule(
        Trait.PREPARES_GROUPS,
        Trait.COMMITS_OFFSETS,
        "committing offsets creates a classic group, in which KIP-848 members fail",
    ),
    Rule(
        Trait.PREPARES_GROUPS,
        Trait.ENABLES_WRITES,
        "KIP-848 members fail if their group does not exist",
    ),
    Rule(
        Trait.FENCES_WRITES,
        Trait.ADVANCES_PRODUCER_IDS,
        "a source that accepts writes assigns new producer ids",
    ),
    Rule(
        Trait.ADVANCES_PRODUCER_IDS,
        Trait.ENABLES_WRITES,
        "the target would assign producer ids that producers from the source already use",
    ),
    Rule(
        Trait.COMMITS_OFFSETS,
        Trait.ENABLES_WRITES,
        "consumers without committed offsets start at auto.offset.reset",
    ),
    Rule(
        Trait.ENABLES_WRITES,
        Trait.SWITCHES,
        "clients would be sent to a cluster that rejects their writes",
        needed=True,
        reach=Reach.ALL,
    ),
    Rule(
        Trait.COMMITS_OFFSETS,
        Trait.SWITCHES,
        "consumers without committed offsets start at auto.offset.reset",
    ),
    Rule(
        Trait.STOPS_SOURCES,
        Trait.DRAINS,
        "replication never catches up while source connectors write to the source",
    ),
    Rule(
        Trait.STOPS_SOURCES,
        Trait.MOVES_SOURCES,
        "the position of a running connector changes",
        needed=True,
    ),
    Rule(
        Trait.MOVES_SOURCES,
        Trait.RESUMES_SOURCES,
        "a connector without its position takes a new snapshot, or resumes at an old position",
        needed=True,
    ),
    Rule(
        Trait.ENABLES_WRITES,
        Trait.RESUMES_SOURCES,
        "records of source connectors would precede those that are still being replicated",
    ),
    Rule(Trait.SWITCHES, Trait.VERIFIES, "clients can be verified only after they were switched"),
    Rule(
        Trait.FINDS_GAP,
        Trait.RECONCILES,
        "records must be found before they can be reconciled",
        needed=True,
    ),
    Rule(
        Trait.RECONCILES,
        Trait.STARTS_REPLICATION,
        "reverse replication would append newer records before unreplicated ones are reconciled",
        reach=Reach.ALL,
    ),
    Rule(
        Trait.STOPS_REPLICATION,
        Trait.STARTS_REPLICATION,
        "running both directions at once duplicates every record",
        needed=True,
        reach=Reach.OPPOSITE_DIRECTIONS,
    ),
    Rule(
        Trait.FENCES_WRITES,
        Trait.EMPTIES,
        "records that applications write to a cluster are lost when it is emptied",
        needed=True,
    ),
    Rule(
        Trait.STOPS_REPLICATION,
        Trait.EMPTIES,
        "a replicator whose source is emptied starts over or fails",
        needed=True,
    ),
    Rule(Trait.RECONCILES, Trait.EMPTIES, "records without a decision would be lost", needed=True),
    Rule(
        Trait.EMPTIES,
        Trait.STARTS_REPLICATION,
        "leftover records would precede or duplicate the replicated ones",
        reach=Reach.OPPOSITE_DIRECTIONS,
    ),
)


def violations(plan: Plan, kinds: Mapping[str, Kind]) -> tuple[str, ...]:
    """Describe each rule that the plan violates."""
    return tuple(line for rule in RULES for line in _broken(rule, plan.steps, kinds))


def _broken(rule: Rule, steps: Sequence[Step], kinds: Mapping[str, Kind]) -> Iterator[str]:
    traits = [kinds[step.kind].traits for step in steps]
    earlier = [n for n, each in enumerate(traits) if rule.earlier in each]
    later = [n for n, each in enumerate(traits) if rule.later in each]
    opposite = {n for n, each in enumerate(traits) if Trait.OPPOSITE_DIRECTION in each}
    if rule.reach is Reach.ALL or not opposite:
        yield from _out_of_order(rule, steps, earlier, later)
        return
    for direction in (True, False):
        before = direction if rule.reach is Reach.SAME_DIRECTION else not direction
        yield from _out_of_order(
            rule,
            steps,
            [n for n in earlier if (n in opposite) is before],
            [n for n in later if (n in opposite) is direction],
        )


def _out_of_order(
    rule: Rule, steps: Sequence[Step], earlier: list[int], later: list[int]
) -> Iterator[str]:
    """Check only the first of the later steps: the others come after it anyway."""
    if not later:
        return
    if not earlier:
        if rule.needed:
            does = str(rule.earlier.name).lower().replace("_", " ")
            yield f"step {steps[later[0]].id} needs an earlier step that {does}: {rule.why}"
        return
    # One precheck or snapshot is enough; of anything else, all steps must come first.
    one_is_enough = rule.earlier in (Trait.RUNS_PRECHECKS, Trait.SNAPSHOTS_STATE)
    if later[0] < (earlier[0] if one_is_enough else earlier[-1]):
        yield f"step {steps[later[0]].id} must come after {steps[earlier[-1]].id}: {rule.why}"
