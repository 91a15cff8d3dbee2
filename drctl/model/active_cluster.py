"""The active cluster of a link and its unfinished run, according to the journal."""

from dataclasses import dataclass

from drctl.model.repairs import Acl


@dataclass(frozen=True, slots=True)
class Moved:
    """The run that moved the clients to the target.

    Attributes:
        plan: name of the plan.
        since_ms: when writes to the target were enabled, milliseconds UTC.
        denied: the ACLs of the fences that the run has set on the source.
    """

    run: str
    plan: str
    since_ms: int
    denied: tuple[Acl, ...] = ()


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A run that has not ended; no other run may start until it has.

    Attributes:
        plan: name of the plan.
        who: the last holder, as text.
        writes: where applications can write now, as text; empty if the run did not change that.
        alive: whether a process is executing it.
    """

    run: str
    plan: str
    who: str
    writes: str = ""
    alive: bool = False


@dataclass(frozen=True, slots=True)
class FenceProbe:
    """The newest run of `drctl doctor --fence-probe`: whether ACLs stayed on the source.

    Attributes:
        at_ms: when the run began, milliseconds UTC.
        principals: the principals of the ACLs.
        acls: how many ACLs were added.
        deleted: how many of these ACLs somebody deleted.
        seconds: how long the ACLs were watched.
    """

    run: str
    at_ms: int
    principals: tuple[str, ...]
    acls: int
    deleted: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ActiveCluster:
    """The state of a link according to its journal.

    Attributes:
        probe: None if no run probed whether ACLs stay, or the link is not fenced by ACLs.
        moved: None if no run moved clients, or they were failed back.
        unfinished: None if the newest run has ended, or belongs to this process.
    """

    moved: Moved | None = None
    unfinished: Unfinished | None = None
    probe: FenceProbe | None = None
