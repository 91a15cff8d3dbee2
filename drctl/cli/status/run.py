"""Looks of `drctl status`, one or many, as they are shown and served."""

import gc
import time
from threading import Event
from typing import TYPE_CHECKING, NoReturn

from drctl.cli.console import console
from drctl.cli.offsets import wiring as offsets_wiring
from drctl.cli.options import Output, options
from drctl.cli.runs import live_screen
from drctl.cli.settings import without_secrets
from drctl.model.errors import ConfigError, DrctlError
from drctl.report.status_document import status_document
from drctl.report.status_lines import status_line
from drctl.report.status_metrics import StatusMetrics

if TYPE_CHECKING:
    from rich.console import RenderableType

    from drctl.checks.go import StatusNow
    from drctl.cli.status.look import Looking


def once(opened: "Looking") -> int:
    """One look; the exit code."""
    # Of very many partitions a fifth of the time would go into looking for cycles that are not.
    gc.disable()
    try:
        with console().task("looking at both clusters"):
            seen = opened.look()
    finally:
        gc.enable()

    def drawn() -> "RenderableType":
        from drctl.cli.status.table import status_table

        return status_table(seen)

    console().result(drawn, status_document(seen))
    return int(seen.exit_code)


class Watching:
    """Look after look, until interrupted; one that fails is told and does not end it."""

    def __init__(self, opened: "Looking", interval_s: float) -> None:
        self._opened = opened
        self._interval_s = interval_s
        link = opened.link
        labels = {"link": link.name, "source": link.source, "target": link.target}
        self._metrics = StatusMetrics(labels)

    def go_on(self, listen: str | None) -> NoReturn:
        """Until interrupted.

        Args:
            listen: where to serve metrics meanwhile.

        Raises:
            UsageError: that is no address.
            ConfigError: nobody can listen there, or the first look shows that a secret is missing.
        """
        if listen is None:
            self._shown()
        with offsets_wiring.metrics_server(listen, lambda: self._metrics.text()):
            self._shown()

    def _shown(self) -> NoReturn:
        if not live_screen.wanted():
            self._repeat()
        with live_screen.shown(self._picture, lambda _message: None):
            self._repeat()

    def _repeat(self) -> NoReturn:
        while True:
            began = time.monotonic()
            self._look()
            Event().wait(max(0.0, self._interval_s - (time.monotonic() - began)))

    def _look(self) -> None:
        labels, before = self._metrics.labels, self._metrics.seen
        try:
            seen = self._opened.look()
        except ConfigError:
            if before is None:
                raise
            self._metrics = StatusMetrics(labels, before, failed=True)
        except DrctlError as error:
            self._metrics = StatusMetrics(labels, before, failed=True)
            console().warn(f"{without_secrets(error.message)}; going on")
        else:
            self._metrics = StatusMetrics(labels, seen)
            self._tell(seen)

    def _tell(self, seen: "StatusNow") -> None:
        if options().output is Output.JSON:
            console().stream(status_document(seen))
        elif live_screen.current() is None:
            console().result(status_line(seen), {})

    def _picture(self) -> "RenderableType":
        from drctl.cli.status.table import waiting_table, watched_table

        seen = self._metrics.seen
        if seen is None:
            return waiting_table(self._opened.link.name)
        return watched_table(seen, time.time(), self._metrics.failed)
