"""`drctl gap --scope estimate`: how many records may be missing, from offsets alone."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.console import console

if TYPE_CHECKING:
    from rich.console import RenderableType

    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.estimate import EstimateResult


def estimate(config: "Config", link: str | None, topics: Sequence[str]) -> int:
    """Show what may be missing on the target; always 5, for an estimate is no proof.

    Args:
        link: a link's name; else the only one.

    Raises:
        UsageError: the link carries none of the source's topics, or not a named one.
        Unreachable: a cluster did not answer.
    """
    with _no_garbage_sought():
        result = _look(config.link(link), topics)
        _show(result)
    return int(result.exit_code)


def _look(link: "Link", topics: Sequence[str]) -> "EstimateResult":
    from drctl.gap.estimate import GapEstimate

    wiring.meet(link)
    with (
        wiring.both_readers(link) as (source, target),
        console().task("looking at both clusters") as task,
    ):

        def progress(phase: str, done: int = 0, total: int = 0) -> None:
            task.update(done=done, total=total or None, description=phase)

        gap = GapEstimate(link, source, target, progress, lambda: datetime.now(UTC))
        return gap.run(topics)


@contextmanager
def _no_garbage_sought() -> Iterator[None]:
    """A fifth of the time would go into looking for cycles among answers that have none."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _show(result: "EstimateResult") -> None:
    def table() -> "RenderableType":
        from drctl.cli.gap.estimate_table import estimate_table

        return estimate_table(result)

    console().result(table, result.to_json())
