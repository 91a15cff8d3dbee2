"""`drctl status`: shows whether a failover can start now; also for cron and Prometheus."""

import gc
import time
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from drctl.app import run_adapters
from drctl.cli import live_screen
from drctl.cli.console import console
from drctl.cli.grammar import LinkName, seconds
from drctl.cli.options import Output, options
from drctl.cli.settings import configuration, without_secrets
from drctl.cli.stopping import repeat_every
from drctl.model.errors import ConfigError, DrctlError
from drctl.views.status_text import (
    StatusMetrics,
    status_document,
    status_line,
    status_table,
    waiting_table,
    watched_table,
)

if TYPE_CHECKING:
    from drctl.app.status import StatusReader
    from drctl.checks.go import StatusNow
    from drctl.views.view import View

EVERY = "10s"


def status(
    link: LinkName = None,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until interrupted.")] = False,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Refresh at this interval; implies --watch.", show_default=EVERY
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR", help="Serve Prometheus metrics, for example at 127.0.0.1:9096."
        ),
    ] = None,
) -> int:
    """Show whether a failover can start now, and the current RPO.

    Read-only. Lists blockers first, then the RPO of each topic in records and seconds,
    replication, and consumer groups that could not resume on the target.

    Examples:
        drctl status
        drctl status --watch
        drctl status --listen 0.0.0.0:9096 --every 30s   # metrics for Prometheus

    Exit codes:
        0: go, for a planned and an unplanned failover
        1: no-go, for at least one of them
        5: a cluster did not answer
    """
    from drctl.app.status import status_reader

    interval = seconds(every or EVERY, "--every")
    config = configuration()
    chosen = config.link(link)
    with status_reader(config, chosen) as opened:
        if watch or listen or every:
            Watching(opened, interval).run(listen)
        return _once(opened)


def _once(opened: "StatusReader") -> int:
    """Print the status once; returns the exit code."""
    # Garbage collection would take a fifth of the time, and finds no cycles here.
    gc.disable()
    try:
        with console().task("reading both clusters"):
            seen = opened.look()
    finally:
        gc.enable()
    return console().result(status_table(seen), status_document(seen), seen.exit_code)


class Watching:
    """Refreshes until interrupted; a failed refresh is reported and does not end it."""

    def __init__(self, opened: "StatusReader", interval_s: float) -> None:
        self._opened = opened
        self._interval_s = interval_s
        link = opened.link
        labels = {"link": link.name, "source": link.source, "target": link.target}
        self._metrics = StatusMetrics(labels)
        self._warned = ""

    def run(self, listen: str | None) -> NoReturn:
        """Refresh until interrupted.

        Args:
            listen: address at which to serve metrics.

        Raises:
            UsageError: that is not an address.
            ConfigError: the address is not available, or a secret is missing.
        """
        if listen is None:
            self._shown()
        with run_adapters.metrics_server(listen, lambda: self._metrics.text()):
            self._shown()

    def _shown(self) -> NoReturn:
        if not live_screen.wanted():
            repeat_every(self._look, self._interval_s)
        with live_screen.shown(self._picture, lambda _message: None):
            repeat_every(self._look, self._interval_s)

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
            self._warn(f"{without_secrets(error.message)}; retrying")
        else:
            self._warned = ""
            self._metrics = StatusMetrics(labels, seen)
            self._tell(seen)

    def _warn(self, message: str) -> None:
        """Print a failure that persists once."""
        if message != self._warned:
            self._warned = message
            console().warn(message)

    def _tell(self, seen: "StatusNow") -> None:
        if options().output is Output.JSON:
            console().stream(status_document(seen))
        elif live_screen.current() is None:
            console().result(status_line(seen), {})

    def _picture(self) -> "View":
        seen = self._metrics.seen
        if seen is None:
            return waiting_table(self._opened.link.name)
        return watched_table(seen, time.time(), self._metrics.failed)
