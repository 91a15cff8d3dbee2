"""The expected loss of an unclean election: which replica is elected, and what it is missing.

Each replica is asked for its log end offset. The end of the lost log is known only from evidence:
committed offsets, the progress of a replicator, recorded end offsets. Each proves that there were
records up to an offset; none proves that there were no more.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drctl.elections.cluster_state import Partition, PartitionStates, Replica
from drctl.model.text import plural
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable


class Evidence(NamedTuple):
    """Evidence that a partition had records up to an offset.

    Attributes:
        copied_to: end of the proven records, exclusive.
        exact: whether the log ended there.
        copied: whether records below it are on another cluster.
    """

    place: TopicPartition
    message: str
    copied_to: int
    exact: bool = False
    copied: bool = False


class Beyond(NamedTuple):
    """A group whose committed offset is beyond the end of the remaining log."""

    group: str
    offset: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """The replica that the controller would elect.

    Attributes:
        clean: whether it holds all committed records.
    """

    node: int
    clean: bool


@dataclass(frozen=True, slots=True)
class Loss:
    """The expected loss of one partition.

    Attributes:
        log_end: log end offset of the candidate, or why it is unknown.
        longer: other live replicas with more records, longest log first.
        evidence: highest offset first.
        beyond: groups whose committed offsets are beyond the candidate's log end.
    """

    candidate: Candidate
    log_end: int | Unavailable
    longer: tuple[tuple[int, int], ...] = ()
    evidence: tuple[Evidence, ...] = ()
    beyond: tuple[Beyond, ...] = ()

    @property
    def known_end(self) -> int | None:
        """The lost log reached at least this offset; None if unknown."""
        furthest = [each.copied_to for each in self.evidence] + [end for _, end in self.longer]
        return max(furthest, default=None)

    @property
    def exact(self) -> bool:
        """Whether the end of the lost log is known exactly."""
        known = [each.copied_to for each in self.evidence if each.exact]
        return bool(known) and max(known) == self.known_end

    @property
    def offsets(self) -> OffsetRange | None:
        """The known loss; empty if nothing is lost, None if unknown."""
        if self.candidate.clean and isinstance(self.log_end, int):
            return OffsetRange(self.log_end, self.log_end)
        return lost_after(self.log_end, self.known_end)

    @property
    def elsewhere(self) -> int:
        """The number of lost offsets that another cluster has."""
        lost = self.offsets
        copied = max((each.copied_to for each in self.evidence if each.copied), default=0)
        return 0 if lost is None else OffsetRange(lost.start, min(lost.end, copied)).span

    @property
    def message(self) -> str:
        """The loss in a sentence, with its evidence."""
        node = self.candidate.node
        if self.candidate.clean:
            return f"no loss: broker {node} has all committed records"
        if isinstance(self.log_end, Unavailable):
            return f"unknown: broker {node} does not report its log end offset: " + (
                self.log_end.reason
            )
        known, lost = self.known_end, self.offsets
        if known is None or lost is None:
            return (
                f"unknown: the log of broker {node} ends at {self.log_end}, and the end of the lost"
                " log is not known"
            )
        best = self._best()
        if not lost.span:
            text = "none" if self.exact else "none known"
            return f"{text}: the log of broker {node} ends at {self.log_end}; {best}"
        least = "" if self.exact else "at least "
        return f"{least}{plural(lost.span, 'offset')}, {lost.start} to {lost.end - 1}: {best}"

    def _best(self) -> str:
        known = self.known_end
        for each in self.evidence:
            if each.copied_to == known:
                return each.message
        return f"the log of broker {self.longer[0][0]} reaches that offset"


def lost_after(log_end: int | Unavailable, known_end: int | None) -> OffsetRange | None:
    """The offsets between the end of the kept log and the known end of the lost log."""
    if known_end is None or isinstance(log_end, Unavailable):
        return None
    return OffsetRange(log_end, max(log_end, known_end))


def candidate_of(partition: Partition, alive: Collection[int]) -> Candidate | None:
    """The replica that the controller elects: a complete one, else the first live one.

    Both in the order of replicas; the length of a log does not matter.
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
    """The loss of an unclean election; None if no replica could be elected.

    Args:
        groups: committed offsets of groups in this partition.
    """
    chosen = candidate_of(partition, states.alive)
    if chosen is None:
        return None
    unasked = Unavailable("it was not queried")
    end = states.log_ends.get(Replica(partition.place, chosen.node), unasked)
    known = end if isinstance(end, int) else -1
    ends = [(n, states.log_ends.get(Replica(partition.place, n))) for n in partition.replicas]
    longer = [(n, e) for n, e in ends if n in states.alive and isinstance(e, int) and e > known]
    ours = [each for each in evidence if each.place == partition.place]
    return Loss(
        chosen,
        end,
        tuple(sorted(longer, key=lambda pair: -pair[1])) if isinstance(end, int) else (),
        tuple(sorted(ours, key=lambda each: (-each.copied_to, not each.exact))),
        tuple(each for each in groups if isinstance(end, int) and each.offset > end),
    )
