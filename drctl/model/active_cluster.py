"""Where the clients of a link are, and whether a run over it stands half-way: by its journal."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moved:
    """The run by which clients are on the target.

    Attributes:
        plan: its name.
        since_ms: when the target was open for them, milliseconds UTC.
    """

    run: str
    plan: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A run that has not ended: no other may begin before it has.

    Attributes:
        plan: its name.
        who: carried it out last, in words.
        writes: where applications can write meanwhile, in words; empty where it changed nothing of
            that.
        alive: somebody is carrying it out.
    """

    run: str
    plan: str
    who: str
    writes: str = ""
    alive: bool = False


@dataclass(frozen=True, slots=True)
class ActiveCluster:
    """What the journal tells.

    Attributes:
        moved: None where no run moved clients, or they have been brought home since.
        unfinished: None where the newest run has ended, or is this process's own.
    """

    moved: Moved | None = None
    unfinished: Unfinished | None = None
