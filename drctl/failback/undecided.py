"""Whether each record is decided on that is known to be missing; else the run would turn back.

Known is what a result of `drctl gap` says that still holds. A run compares anew, and asks again at
`judge-records`, when the source is closed already.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from drctl.failback.answer import Answer
from drctl.failback.decided_before import decided_before
from drctl.failback.facts import Facts
from drctl.failback.gap_results import GapEvidence, PartitionSeen
from drctl.failback.step import Observed
from drctl.failback.steps.record_order import tallied
from drctl.model.finding import Finding, Status
from drctl.model.pasting import quote
from drctl.model.topology import Unavailable
from drctl.reconcile.policy import Action, Policies

GUARD = "records-undecided"

_NEWER = (
    "conflicting ones: the target holds something newer: say with --conflicting what becomes of"
    " them"
)


def undecided(answer: Answer, policies: Policies) -> Iterator[Finding]:
    """What nothing is said of, as far as that is known before anything is closed."""
    facts, result = answer.seen.facts, answer.seen.gap.valid
    if result is None or not (_is_left(answer) or _unseen(answer, result)):
        return
    told = [*_left(facts, result, policies)]
    if told:
        tally = tallied(result, facts.order)
        counts = (
            f"{tally.safe:,} safe, {tally.conflicting:,} conflicting, {tally.unkeyed:,} unkeyed"
        )
        reason = (
            f"of {result.unreplicated:,} records that only {facts.source} has ({counts}):"
            f" {'; '.join(told)}; the run would turn back at judge-records"
        )
        cure = (
            "decide: --policy copy|quarantine|export|discard, --conflicting likewise; look at"
            f" them: drctl reconcile {quote(result.where)} --policy copy"
        )
        yield Finding(GUARD, Status.FAIL, "missing records", reason, cure=cure)


def _is_left(answer: Answer) -> bool:
    return answer.steps["e"].observed is Observed.NOT_DONE


def _unseen(answer: Answer, result: GapEvidence) -> bool:
    """Whether nothing was decided by any result, where nobody has looked for copies of records."""
    unknown = answer.steps["e"].observed is Observed.UNKNOWN
    decided = answer.seen.facts.decided
    nothing = not isinstance(decided, Unavailable) and not any(decided.values())
    return unknown and nothing and result.unreplicated > 0


def _left(facts: Facts, result: GapEvidence, policies: Policies) -> Iterator[str]:
    done = _decided(facts, result)
    if policies.everywhere in (None, Action.REFUSE) and not policies.by_topic:
        yield f"nothing is said of {result.unreplicated - done:,} records"
        return
    left: Counter[str] = Counter()
    for each in result.partitions:
        for words, number in _of_partition(each, facts, result, policies):
            left[words] += number
    # Which of them are decided is kept by record; step judge-records says what is left.
    least = "at least " if done else ""
    yield from (
        f"{least}{number - done:,} {words}" for words, number in left.items() if number > done
    )


def _of_partition(
    each: PartitionSeen, facts: Facts, result: GapEvidence, policies: Policies
) -> Iterator[tuple[str, int]]:
    if not policies.chooses(each.place.topic):
        yield "of other topics: nothing is said of them", each.unreplicated
        return
    tally = tallied(replace(result, partitions=(each,)), facts.order)
    if policies.conflicting is Action.REFUSE:
        yield _NEWER, tally.conflicting


def _decided(facts: Facts, result: GapEvidence) -> int:
    if isinstance(facts.decided, Unavailable):
        return 0
    return sum(facts.decided.get(result.id, {}).values()) or decided_before(result, facts)
