"""Looks once, or until every partition has a leader, and tells who is back."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.console import console
from drctl.cli.elect import wiring as elect_wiring
from drctl.cli.settings import configuration
from drctl.cli.stopping import stoppable
from drctl.model.errors import ExitCode, Interrupted, Unreachable

if TYPE_CHECKING:
    from drctl.cli.notices import Task
    from drctl.elections.sight import Sight


_LEAST_LOOK_S = 1.0


def watch(cluster: str | None, topics: tuple[str, ...], within_s: float) -> int:
    """Wait for leaders, 0 s to look once.

    Raises:
        Interrupted: somebody stopped it.
        Unreachable: no broker answered at the end.
    """
    from drctl.cli.elect.table import show_table
    from drctl.elections.documents import show_document
    from drctl.elections.waiting import Wait

    config = configuration()
    name = elect_wiring.chosen(config, cluster)
    with (
        elect_wiring.reader(name, config.cluster(name), _each_look_s(within_s)) as reader,
        stoppable() as clock,
        console().task(f"looking at {name}") as task,
    ):

        def told(sight: "Sight | None", words: tuple[str, ...]) -> None:
            _tell(task, sight, words, within_s)

        try:
            sight = Wait(reader, clock, topics or None, told).run(within_s)
        except Unreachable:
            if not clock.stopping:
                raise
        if clock.stopping:
            raise Interrupted("interrupted; nothing was changed")
    dark = sight.dark
    console().result(lambda: show_table(name, sight), show_document(name, sight, dark))
    return int(ExitCode.FOUND if dark or sight.absent else ExitCode.DONE)


def _each_look_s(within_s: float) -> float:
    """No look at a silent cluster takes longer than the whole wait may."""
    longest = wiring.PATIENCE_S
    return min(longest, max(_LEAST_LOOK_S, within_s)) if within_s else longest


def _tell(task: "Task", sight: "Sight | None", words: tuple[str, ...], within_s: float) -> None:
    at = datetime.now(UTC)
    for line in words:
        console().progress(f"{at:%H:%M:%S} {line}")
    if sight is not None and within_s:
        alive = ", ".join(map(str, sorted(sight.alive))) or "none"
        task.update(description=f"{len(sight.dark)} without a leader; brokers there: {alive}")
