"""The topics that drctl itself keeps on a cluster, in the words of their errors."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a topic is for.

    Attributes:
        what: it holds.
        page: that says which rights it needs.
        silent: what to do while it cannot be read.
        anew: what to do where it was made anew.
    """

    what: str
    page: str
    silent: str
    anew: str


LEDGER = Purpose(
    what="the ledger",
    page="docs/gap.md",
    silent="see that its brokers run; without --ledger drctl does not need it",
    anew="run it again: what is not in the ledger is read, and kept anew",
)
ANCHORS = Purpose(
    what="the anchors",
    page="docs/tracking.md",
    silent="see that its brokers run",
    anew="the next pass begins anew: it notes all positions",
)
JOURNAL = Purpose(
    what="the journal",
    page="docs/journal.md",
    silent="see that its brokers run; the state_dir of whoever carried the run out has a copy",
    anew="what was journaled is gone: look at the copies in the state_dir of whoever ran drctl, and"
    " at the clusters",
)
CANARY = Purpose(
    what="the canary",
    page="docs/failover.md",
    silent="see that its brokers run",
    anew="run it again",
)
