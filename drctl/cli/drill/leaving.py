"""Whatever a drill came to: what it made is deleted, and all else is shown to be as it was."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.console import console
from drctl.cli.drill import left as drill_left
from drctl.cli.offsets.writing import command_line
from drctl.cli.runs.link_sight import Connectors
from drctl.cli.stopping import StoppableClock
from drctl.drill.inventory import Compared, Inventory, compared
from drctl.drill.looking import connect_holding, holding
from drctl.model.errors import DrctlError, ExitCode, Interrupted

if TYPE_CHECKING:
    from drctl.cli.drill.stage import Stage
    from drctl.drill.measuring import Measures

_TASKS_S = 20.0
_FAULT_S = 90.0
_LOOK_EVERY_S = 1.0


@dataclass(slots=True)
class Ending:
    """How a drill ended, as it becomes known.

    Attributes:
        broke_off: why it ended early; empty where it did not.
        unanswered: whether that was an answer that did not come.
        interrupted: whether somebody wanted that.
        deleted: what it had made and is gone.
        left: what is still there, or may be.
        compared: None where the second look was not possible, and `not_compared` says why.
    """

    broke_off: str = ""
    unanswered: bool = False
    interrupted: bool = False
    measures: "Measures | None" = None
    deleted: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    compared: Compared | None = None
    not_compared: str = ""


@contextmanager
def leaving_nothing(stage: "Stage", before: Inventory, ending: Ending) -> Iterator[None]:
    """What ends the block early is part of the result; afterwards everything is cleaned up."""
    try:
        yield
    except Interrupted as stopped:
        ending.broke_off, ending.interrupted = stopped.message, True
    except DrctlError as error:
        ending.broke_off = f"{error.message}: {error.hint}" if error.hint else error.message
        ending.unanswered = error.exit_code is ExitCode.UNKNOWN
    except BaseException:
        again = command_line(["drill", "--clean", "--link", stage.link.name, "--execute"])
        console().warn(f"what the drill made is still there: {again}")
        raise
    # Ctrl-C has stopped the drill, and does not stop this.
    clock = StoppableClock()
    _undo_fault(stage, ending)
    console().progress("deleting what the drill made")
    try:
        mine = frozenset({stage.scratch.drill})
        done = drill_left.clean_up(stage.source, stage.target, mine, clock.wait)
        ending.deleted += done.gone
        ending.left += done.left
    except DrctlError as error:
        ending.left.append(f"what was made cannot be looked for: {error.message}")
    try:
        ending.compared = _settled(stage, before, clock)
    except DrctlError as error:
        ending.not_compared = error.message


def stocktaking(stage: "Stage") -> Inventory:
    """How everything stands that is not of a drill.

    Raises:
        Unreachable: a cluster did not answer.
    """
    ends = (stage.source, stage.target)
    clusters = {e.name: holding(e.site, e.groups, e.acls, e.survey) for e in ends}
    connect = wiring.connect_of(stage.link)
    return Inventory(clusters, connect_holding(Connectors(connect) if connect else None))


def _undo_fault(stage: "Stage", ending: Ending) -> None:
    if stage.fault is None:
        return
    console().progress(f"taking {stage.fault.fault.value} back")
    try:
        stage.fault.undo()
    except DrctlError as error:
        ending.left.append(f"{stage.fault.fault.value}: {error.message}")


def _settled(stage: "Stage", before: Inventory, clock: StoppableClock) -> Compared:
    """The comparison; connectors get a while to run again, for their tasks begin anew with topics.

    Raises:
        Unreachable: a cluster did not answer.
    """
    until = clock.monotonic() + (_FAULT_S if stage.fault else _TASKS_S)
    known = set(compared(before, before).unseen)
    while True:
        found = compared(before, stocktaking(stage))
        if not (found.differences or set(found.unseen) - known) or clock.monotonic() >= until:
            return found
        clock.wait(_LOOK_EVERY_S)
