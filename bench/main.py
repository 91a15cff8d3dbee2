"""Runs the parts that were asked for and reports what they measured."""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from types import FrameType
from typing import NoReturn

from bench import cold, help_page, memory, output, warm
from bench.machine import machine
from bench.options import Options, parse
from bench.rows import Row
from bench.stage import Stage, opened_stage
from drctl.model.errors import DrctlError

Measure = Callable[[], Iterator[Row]]
INTERRUPTED = 130


def main(words: Sequence[str] | None = None) -> int:
    """Measure; what was measured before something failed is reported all the same."""
    options = parse(words)
    signal.signal(signal.SIGTERM, _interrupt)
    began, facts, rows = datetime.now(UTC), machine(), list[Row]()
    code = _measured(options, rows)
    if rows:
        found = output.document(rows, began, facts, asdict(options), complete=code == 0)
        output.show(rows, facts)
        output.save(found, began)
    return code


def _measured(options: Options, rows: list[Row]) -> int:
    """Add the rows as they come; the exit code."""
    tell = _teller()
    try:
        with ExitStack() as stack:
            stage = cache(lambda: stack.enter_context(opened_stage(tell)))
            measures = _measures(options, stage, tell)
            for part in options.parts:
                tell(f"--- {part}")
                rows.extend(measures[part]())
    except DrctlError as error:
        print(f"bench: {error.message}\n{error.hint}".rstrip(), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


def _measures(
    options: Options, stage: Callable[[], Stage], tell: Callable[[str], None]
) -> dict[str, Measure]:
    return {
        help_page.PART: lambda: help_page.measure(options.help_runs, tell),
        warm.PART: lambda: warm.measure(stage(), options.records, options.rounds),
        cold.PART: lambda: cold.measure(stage(), options.cold_records, options.cold_runs),
        memory.PART: lambda: memory.measure(stage(), options.memory_sizes, options.memory_variants),
    }


def _teller() -> Callable[[str], None]:
    began = time.monotonic()

    def tell(message: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {message}", file=sys.stderr, flush=True)

    return tell


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
