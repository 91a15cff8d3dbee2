"""The failback table: its steps, what each needs, and who looks at it."""

from collections.abc import Callable
from typing import NamedTuple

from drctl.failback.situation import Situation
from drctl.failback.step import Seen
from drctl.failback.steps.caught_up import caught_up
from drctl.failback.steps.fenced import fenced
from drctl.failback.steps.forward_again import forward_again
from drctl.failback.steps.missing_records import missing_records
from drctl.failback.steps.old_replication import old_replication
from drctl.failback.steps.proven import proven
from drctl.failback.steps.reconciled import reconciled
from drctl.failback.steps.record_order import record_order
from drctl.failback.steps.returning_copies import returning_copies
from drctl.failback.steps.reverse_replication import reverse_replication
from drctl.failback.steps.switched_home import switched_home


class Row(NamedTuple):
    """A step of the way back.

    Attributes:
        name: for programs.
        needs: steps that have to be done before it.
        title: with the clusters' names to be filled in.
    """

    id: str
    name: str
    needs: tuple[str, ...]
    title: str
    look: Callable[[Situation], Seen]


TABLE = (
    Row("a", "source-fenced", (), "{source} is whole, and closed to applications", fenced),
    Row(
        "b",
        "old-replication-stopped",
        (),
        "the old replication {source} -> {target} is stopped",
        old_replication,
    ),
    Row(
        "c",
        "missing-records-found",
        ("a", "b"),
        "the records that {target} lacks are found",
        missing_records,
    ),
    Row("d", "record-order-judged", ("c",), "their order is judged", record_order),
    Row("e", "missing-records-reconciled", ("c", "d"), "each of them is decided on", reconciled),
    Row(
        "f",
        "reverse-replication",
        ("e",),
        "what is new goes {target} -> {source}, from the boundary",
        reverse_replication,
    ),
    Row(
        "g", "copies-excluded", ("e",), "what was brought over does not come back", returning_copies
    ),
    Row("h", "caught-up", ("f", "g"), "{source} has caught up", caught_up),
    Row("i", "clients-switched", ("h",), "clients are switched home to {source}", switched_home),
    Row(
        "j",
        "forward-replication",
        ("i",),
        "replication {source} -> {target} runs again",
        forward_again,
    ),
    Row("k", "verified", ("j",), "all of it is proven", proven),
)
