"""From the journal of a run to the positions that take it back."""

from drctl.offsets.journal import JournaledRun
from drctl.offsets.wanted import Wanted, Written


def taken_back(run: JournaledRun) -> tuple[Wanted, ...]:
    """Every position that the run may have moved, as it was; none where there was none.

    Whether a write that was announced was made is seen on the cluster, not in the journal: a
    position that stands where it stood before is left alone.
    """
    return tuple(
        Wanted(change.group, change.partition, change.before, undoes=Written(change.to))
        for change in run.changes
    )
