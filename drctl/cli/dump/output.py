"""Rows of `drctl dump-consumer-timestamps` on their way to stdout."""

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from drctl.cli.console import console
from drctl.cli.notices import SilentTask
from drctl.cli.options import Output, options
from drctl.cli.terminal import is_terminal
from drctl.model.lines import lines as meant
from drctl.offsets.timestamp_rows import TimestampRow, row_json
from drctl.report.printable import plural
from drctl.report.timestamp_lines import Columns, undecodable
from drctl.wire.consumer_timestamps import TOPIC

if TYPE_CHECKING:
    from drctl.cli.notices import Task

_BATCH = 1000
_ERRORS_SHOWN = 20


class DumpOutput:
    """Prints rows as JSON lines or as a table, many at a time.

    Attributes:
        undecodable: how many records did not decode.
    """

    def __init__(self, cluster: str, everything: bool) -> None:
        self._cluster = cluster
        self._everything = everything
        self._json = options().output is Output.JSON
        self._columns = Columns()
        self._waiting: list[TimestampRow] = []
        self._errors: list[TimestampRow] = []
        self._shown = 0
        self._silent_errors = 0
        self.undecodable = 0

    def task(self, description: str, total: int) -> "AbstractContextManager[Task]":
        """Progress, unless the rows themselves run over the same terminal."""
        if self._everything and sys.stdout and is_terminal(sys.stdout):
            return nullcontext(SilentTask())
        return console().task(description, total)

    def rows(self, rows: Iterable[TimestampRow]) -> None:
        """Print them soon."""
        for row in rows:
            self.undecodable += bool(row.error)
            self._shown += not row.error
            if row.error and not self._json:
                self._keep(row)
            else:
                self._waiting.append(row)
                if len(self._waiting) >= _BATCH:
                    self._print()

    def flush(self) -> None:
        """Print what waits."""
        self._print()
        lines = [undecodable(row) for row in self._errors]
        if self._silent_errors:
            more = plural(self._silent_errors, "more undecodable record")
            lines.append(f"and {more}; --output json has all")
        if lines:
            console().result(meant(lines), {})
        self._errors, self._silent_errors = [], 0

    def end(self) -> None:
        """Say what that was."""
        what = plural(self._shown, "record" if self._everything else "position")
        console().note(f"{what} in topic {TOPIC} of {self._cluster}")
        if self.undecodable:
            console().warn(
                f"{plural(self.undecodable, 'record')} could not be decoded: see their bytes"
            )

    def _keep(self, row: TimestampRow) -> None:
        if len(self._errors) < _ERRORS_SHOWN:
            self._errors.append(row)
        else:
            self._silent_errors += 1

    def _print(self) -> None:
        if not self._waiting:
            return
        rows, self._waiting = self._waiting, []
        if self._json:
            console().stream(*map(row_json, rows))
            return
        self._columns.fit(rows)
        lines = [self._columns.heading()] if self._shown == len(rows) else []
        lines += map(self._columns.line, rows)
        console().result(meant(lines), {})
