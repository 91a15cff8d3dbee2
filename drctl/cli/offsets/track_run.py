"""Passes of `drctl offsets track`, one or many, as they are shown and served."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any, NoReturn

from drctl.cli import wiring
from drctl.cli.console import console
from drctl.cli.error_document import error_document
from drctl.cli.offsets import wiring as offsets_wiring
from drctl.cli.options import Output, options
from drctl.cli.settings import without_secrets
from drctl.model.errors import ConfigError
from drctl.model.lines import lines as meant
from drctl.model.pasting import quote
from drctl.offsets.anchor_log import scope_of
from drctl.offsets.link_translation import Cluster
from drctl.offsets.passes import Passes
from drctl.offsets.tracked import Tracked, tracked_document
from drctl.offsets.tracking import Tracker
from drctl.report.track_lines import known, pass_line, pass_lines, problem_lines
from drctl.report.track_metrics import TrackMetrics

if TYPE_CHECKING:
    from drctl.config.link import Link


class Tracking:
    """Passes over one link, and their numbers."""

    def __init__(self, link: "Link", passes: Passes) -> None:
        self._link = link
        self._passes = passes
        labels = {"link": link.name, "source": link.source, "target": link.target}
        self._metrics = TrackMetrics(labels)

    def once(self) -> int:
        """One pass; the exit code.

        Raises:
            ConfigError: something may not be read or written.
            Unknown: it could not be seen through.
        """
        with console().task("looking at the groups") as task:
            result = self._passes.run(lambda phase: task.update(description=phase))
        if result.failed is not None or result.look is None:
            raise result.failed or AssertionError("a pass without a result")
        command = f"drctl offsets track --link {quote(self._link.name)} --execute"
        lines = pass_lines(result, result.look, self._link.target, command)
        console().result(meant(lines), self._document(result))
        return int(result.exit_code)

    def repeat(self, interval_s: float) -> NoReturn:
        """Pass after pass, until interrupted; one that fails is told and does not end it.

        Raises:
            ConfigError: the first one shows that something may not be read or written.
        """
        while True:
            began = time.monotonic()
            result = self._passes.run(lambda _phase: None)
            if isinstance(result.failed, ConfigError) and not self._metrics.passes:
                raise result.failed
            self._metrics = self._metrics.after(result)
            self._tell(result)
            Event().wait(max(0.0, interval_s - (time.monotonic() - began)))

    @contextmanager
    def served(self, address: str) -> Iterator[None]:
        """Serve the numbers meanwhile.

        Raises:
            UsageError: that is no address.
            ConfigError: nobody can listen there.
        """
        with offsets_wiring.metrics_server(address, lambda: self._metrics.text()):
            yield

    def _tell(self, result: Tracked) -> None:
        if result.failed is not None:
            message = without_secrets(result.failed.message)
            console().warn(f"{message}; {known(result)}; going on")
        elif result.look is not None:
            for line in problem_lines(result.look):
                console().warn(line)
        if options().output is Output.JSON:
            console().stream(self._document(result))
        else:
            console().result(pass_line(result), {})

    def _document(self, result: Tracked) -> Any:
        failed = error_document(result.failed)["error"] if result.failed else None
        link = self._link
        return tracked_document(link.name, link.source, link.target, result, failed)


@contextmanager
def tracking(link: "Link", *, execute: bool) -> Iterator[Tracking]:
    """Everything opened that passes over a link need.

    Args:
        execute: whether anchors may be written.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    scope = scope_of(link)
    source, config = link.source, link.source_config
    with (
        wiring.open_reader(source, config) as reader,
        wiring.open_group_reader(source, config) as groups,
    ):
        records = wiring.frugal_range_reader(source, config)
        tracker = Tracker(link, scope, Cluster(reader, groups, records), _now_ms)
        if execute:
            anchors = offsets_wiring.anchors_topic(link.target, link.target_config)
            yield Tracking(link, Passes(tracker, anchors, anchors))
        else:
            noted = offsets_wiring.anchors_reader(link.target, link.target_config)
            yield Tracking(link, Passes(tracker, noted, None))


def _now_ms() -> int:
    return int(time.time() * 1000)
