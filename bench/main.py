"""Runs the requested parts and reports the results."""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import FrameType
from typing import NoReturn

from bench import (
    beside,
    cold,
    cost,
    dump,
    estimate,
    help_page,
    loss,
    memory,
    offsets,
    order,
    output,
    plan,
    reconcile,
    rereads,
    rto,
    scopes,
    status,
    submitted,
    tracking,
    warm,
    wide,
)
from bench.machine import machine
from bench.options import Options, parse
from bench.rows import Row
from bench.stage import Stage, opened_stage
from drctl.model.errors import DrctlError

Measure = Callable[[], Iterator[Row]]
FAILED, INTERRUPTED = 1, 130


def main(words: Sequence[str] | None = None) -> int:
    """Run the parts; a failed part is reported, and the others still run."""
    options = parse(words)
    signal.signal(signal.SIGTERM, _interrupt)
    began, rows, failed, code = datetime.now(UTC), list[Row](), list[str](), FAILED
    try:
        facts = machine()
        for row in _measured(options, failed):
            rows.append(row)
        code = FAILED if failed else 0
    except DrctlError as error:
        _tell_failure(error)
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        code = INTERRUPTED
    finally:
        if rows:
            found = output.document(rows, began, facts, asdict(options), complete=code == 0)
            output.show(rows, facts)
            output.save(found, began)
    return code


def _measured(options: Options, failed: list[str]) -> Iterator[Row]:
    """Yield all rows; add failed parts to the list."""
    tell = _teller()
    with ExitStack() as stack:
        stage = cache(lambda: stack.enter_context(opened_stage(tell)))
        measures = _measures(options, stage, tell)
        for part in options.parts:
            tell(f"--- {part}")
            try:
                yield from measures[part]()
            except DrctlError as error:
                _tell_failure(error)
                failed.append(part)


def _tell_failure(error: DrctlError) -> None:
    print(f"bench: {error.message}\n{error.hint}".rstrip(), file=sys.stderr)


def _measures(
    options: Options, stage: Callable[[], Stage], tell: Callable[[str], None]
) -> dict[str, Measure]:
    return {
        help_page.PART: lambda: help_page.measure(options.help_runs, tell),
        estimate.PART: lambda: estimate.measure(
            stage(), options.topics, options.topic_partitions, options.estimate_runs
        ),
        warm.PART: lambda: warm.measure(stage(), options.records, options.rounds),
        wide.PART: lambda: wide.measure(
            stage(),
            options.many_topics,
            options.topic_partitions,
            options.many_records,
            options.rounds,
        ),
        cold.PART: lambda: cold.measure(stage(), options.cold_records, options.cold_runs),
        scopes.PART: lambda: scopes.measure(stage(), options.scope_sizes, options.rounds),
        cost.PART: lambda: cost.measure(stage(), options.records // 4, options.rounds),
        memory.PART: lambda: memory.measure(
            stage(),
            options.memory_sizes,
            options.memory_variants,
            options.memory_most,
            options.heaps,
        ),
        offsets.PART: lambda: offsets.measure(stage(), options.offsets),
        tracking.PART: lambda: tracking.measure(
            stage(), options.offsets.groups, options.offsets.rounds
        ),
        order.PART: lambda: order.measure(stage(), options.records, options.rounds),
        submitted.PART: lambda: submitted.measure(stage(), options.records, options.rounds),
        dump.PART: lambda: dump.measure(stage(), options.dump_sizes),
        rereads.PART: lambda: rereads.measure(stage(), options.lagging, options.lagging_records),
        reconcile.PART: lambda: reconcile.measure(
            stage(), options.records // 4, options.rounds, options.copied_sizes
        ),
        loss.PART: lambda: loss.measure(
            stage(), options.seed, options.first_crash, options.crashes
        ),
        plan.PART: lambda: plan.measure(
            stage(), options.topics, options.topic_partitions, options.offsets.groups
        ),
        status.PART: lambda: status.measure(
            stage(),
            options.topics,
            options.topic_partitions,
            options.offsets.groups,
            options.estimate_runs,
        ),
        beside.PART: lambda: beside.measure(
            stage,
            Path(options.beside).absolute(),
            beside.Sizes(
                options.topics,
                options.topic_partitions,
                options.offsets.groups,
                options.records,
                options.cold_records,
                options.cold_runs,
            ),
        ),
        rto.PART: lambda: rto.measure(stage(), options.crowds, options.faults),
    }


def _teller() -> Callable[[str], None]:
    began = time.monotonic()

    def tell(message: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {message}", file=sys.stderr, flush=True)

    return tell


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # the lab is being removed
    raise KeyboardInterrupt
