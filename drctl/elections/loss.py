"""What an unclean election would lose: whom the controller would elect, and what it is missing.

Each replica is asked for its own log end. Where the lost log ended, only evidence says: how far
groups had read, how far a replicator had copied, what somebody saw and wrote down. Each piece
proves that there were records up to there, none that there were no more.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drctl.elections.cluster_state import Partition, PartitionStates, Replica
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable


class Evidence(NamedTuple):
    """There were records of a partition up to this offset.

    Attributes:
        copied_to: the first offset of which it says nothing.
        exact: whether the log ended there.
        copied: whether records below it are on another cluster.
    """

    place: TopicPartition
    words: str
    copied_to: int
    exact: bool = False
    copied: bool = False


class Beyond(NamedTuple):
    """A group whose committed offset is beyond the end of the log that stays."""

    group: str
    offset: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """Whom the controller would elect.

    Attributes:
        clean: whether it holds everything that was committed.
    """

    node: int
    clean: bool


@dataclass(frozen=True, slots=True)
class Loss:
    """What would be lost of one partition.

    Attributes:
        log_end: of the candidate's own log, or why it is not known.
        longer: other living replicas whose logs go further, the longest first.
        evidence: the furthest first.
        beyond: groups whose committed offsets are beyond the candidate's log end.
    """

    candidate: Candidate
    log_end: int | Unavailable
    longer: tuple[tuple[int, int], ...] = ()
    evidence: tuple[Evidence, ...] = ()
    beyond: tuple[Beyond, ...] = ()

    @property
    def known_end(self) -> int | None:
        """The log that is lost went at least up to here; None where nothing tells."""
        furthest = [each.copied_to for each in self.evidence] + [end for _, end in self.longer]
        return max(furthest, default=None)

    @property
    def exact(self) -> bool:
        """Whether it is known where the log ended."""
        known = [each.copied_to for each in self.evidence if each.exact]
        return bool(known) and max(known) == self.known_end

    @property
    def offsets(self) -> OffsetRange | None:
        """What is known to be lost; empty where that is nothing, None where nothing can be told."""
        if self.candidate.clean and isinstance(self.log_end, int):
            return OffsetRange(self.log_end, self.log_end)
        return lost_behind(self.log_end, self.known_end)

    @property
    def elsewhere(self) -> int:
        """How many of the lost offsets another cluster holds."""
        lost = self.offsets
        copied = max((each.copied_to for each in self.evidence if each.copied), default=0)
        return 0 if lost is None else OffsetRange(lost.start, min(lost.end, copied)).span

    @property
    def words(self) -> str:
        """In a sentence, with how it is known."""
        node = self.candidate.node
        if self.candidate.clean:
            return f"nothing: broker {node} holds all that was committed"
        if isinstance(self.log_end, Unavailable):
            return f"cannot be told: broker {node} does not say where its log ends: " + (
                self.log_end.reason
            )
        known, lost = self.known_end, self.offsets
        if known is None or lost is None:
            return (
                f"cannot be told: the log of broker {node} ends at {self.log_end}, and nobody saw"
                " where the lost log ended"
            )
        best = self._best()
        if not lost.span:
            told = "none" if self.exact else "none that anybody saw"
            return f"{told}: the log of broker {node} ends at {self.log_end}; {best}"
        least = "" if self.exact else "at least "
        return f"{least}{lost.span:,} offsets, {lost.start} to {lost.end - 1}: {best}"

    def _best(self) -> str:
        known = self.known_end
        for each in self.evidence:
            if each.copied_to == known:
                return each.words
        return f"the log of broker {self.longer[0][0]} goes up to there"


def lost_behind(log_end: int | Unavailable, known_end: int | None) -> OffsetRange | None:
    """What lies between the end of the log that stays and the known end of the one that is lost."""
    if known_end is None or isinstance(log_end, Unavailable):
        return None
    return OffsetRange(log_end, max(log_end, known_end))


def candidate_of(partition: Partition, alive: Collection[int]) -> Candidate | None:
    """Whom the controller takes: one that holds everything, else the first that lives.

    Both in the order of the replicas; how far a log goes does not count.
    """
    living = [node for node in partition.replicas if node in alive]
    for node in living:
        if partition.holds_everything(node):
            return Candidate(node, clean=True)
    return Candidate(living[0], clean=False) if living else None


def loss_of(
    partition: Partition,
    states: PartitionStates,
    evidence: Sequence[Evidence],
    groups: Sequence[Beyond],
) -> Loss | None:
    """What an unclean election of this partition would lose; None where nobody could be elected.

    Args:
        groups: committed offsets of groups in this partition.
    """
    chosen = candidate_of(partition, states.alive)
    if chosen is None:
        return None
    unasked = Unavailable("it was not asked")
    end = states.log_ends.get(Replica(partition.place, chosen.node), unasked)
    known = end if isinstance(end, int) else -1
    ends = [(n, states.log_ends.get(Replica(partition.place, n))) for n in partition.replicas]
    longer = [(n, e) for n, e in ends if n in states.alive and isinstance(e, int) and e > known]
    told = [each for each in evidence if each.place == partition.place]
    return Loss(
        chosen,
        end,
        tuple(sorted(longer, key=lambda pair: -pair[1])) if isinstance(end, int) else (),
        tuple(sorted(told, key=lambda each: (-each.copied_to, not each.exact))),
        tuple(each for each in groups if isinstance(end, int) and each.offset > end),
    )
