"""Runs a gap analysis as configured."""

import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from drctl.app import adapters
from drctl.app.adapters import direct_comparer
from drctl.app.notices import notices
from drctl.model.errors import ConfigError, Unreachable, UsageError
from drctl.model.gap import Engine, OrderScope
from drctl.model.topology import Unavailable

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.gap.analysis import Budget, Work
    from drctl.gap.comparison import RecordComparer
    from drctl.gap.engine_choice import Choice, EngineChoice, Volume
    from drctl.gap.freeze import Hanging
    from drctl.gap.tail import Tail
    from drctl.model.gap import GapResult
    from drctl.model.ports import ClusterReader
    from drctl.model.topology import TopicPartition

TYPICAL_OFFSETS = 4_000_000
"""The expected rate of a comparison of this size decides whether a full one fits the time limit."""


@dataclass(frozen=True, slots=True)
class GapOptions:
    """The options of a gap analysis.

    Attributes:
        scope: auto, full or tail.
        budget_s: how long the user can wait; decides what auto reads.
        execute: whether a ledger topic may be written.
        order: whether the order of replicated records is checked.
        truncation: whether the result includes what truncating the source would destroy.
        stabilize_s: how long records may be in flight after the source's offsets are frozen.
        only: reads only the tails of these partitions; one whose tail is unknown is read whole.
        timeout_s: how long to wait for open transactions, on each cluster.
        engine: compares the records.
    """

    topics: tuple[str, ...]
    scope: str
    ledger: bool
    submit: bool
    budget_s: float
    execute: bool = False
    only: "Collection[TopicPartition] | None" = None
    order: bool = False
    truncation: bool = False
    stabilize_s: float = 0.0
    timeout_s: float = 0
    engine: Engine = Engine.AUTO


@dataclass(slots=True)
class GapRuns:
    """The analyses of one command, which share a Spark session."""

    config: "Config"
    link: "Link"
    options: GapOptions
    _open: ExitStack = field(default_factory=ExitStack, init=False)
    _spark: "Callable[[Path], RecordComparer] | None" = field(default=None, init=False)
    _log: Path | None = field(default=None, init=False)
    _sparked: bool = field(default=False, init=False)
    _engines: "EngineChoice | None" = field(default=None, init=False)

    def __enter__(self) -> Self:
        if not notices().verbose:
            folder = self._open.enter_context(tempfile.TemporaryDirectory(prefix="drctl-"))
            self._log = Path(folder) / "spark.log"
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def run(self, out: Path) -> "GapResult":
        """Run an analysis and write its files to `out`.

        Raises:
            DrctlError: it could not be completed; `out` has no result then.
        """
        from drctl.views.gap_files import prepared, publish

        with prepared(out) as work:
            result = self._analyse(out, work)
            publish(result, work, out)
        return result

    def answer(self) -> "GapResult":
        """Run an analysis without writing files.

        Raises:
            DrctlError: it could not be completed.
        """
        with tempfile.TemporaryDirectory(prefix="drctl-") as folder:
            return self._analyse(Path(folder), Path(folder))

    def _analyse(self, out: Path, work: Path) -> "GapResult":
        from drctl.gap.analysis import GapAnalysis, Scope, Scoping
        from drctl.gap.answer import with_truncation
        from drctl.gap.freeze import TransactionWait

        self._sparked = False
        with (
            adapters.both_readers(self.link) as (source, target),
            notices().task("checking both clusters") as task,
        ):

            def progress(phase: str, done: int = 0, total: int = 0) -> None:
                task.update(done=done, total=total or None, description=phase)

            def find_tail(topics: Iterable[str]) -> "Tail | None":
                return self._tail(source, target, topics)

            @contextmanager
            def open_comparer(volume: "Volume") -> "Iterator[RecordComparer]":
                with self._comparer(work, progress, volume) as comparer:
                    began = time.monotonic()
                    yield comparer
                    if not volume.every:
                        self._note_rate(volume, time.monotonic() - began)

            per_partition = self.config.file.policy.order == "per-partition"
            budget = self._budget()
            analysis = GapAnalysis(
                link=self.link,
                source=source,
                target=target,
                scoping=Scoping(Scope(self.options.scope), find_tail, budget),
                open_comparer=open_comparer,
                progress=progress,
                announce=lambda found, volume: _announce(found, volume, self._choice(volume)),
                now=lambda: datetime.now(UTC),
                out=str(out),
                ledger=adapters.ledger(self.config, writes=self.options.execute)
                if self.options.ledger
                else None,
                choose=lambda volume: self._choice(volume).engine,
                within=OrderScope.PARTITION if per_partition else OrderScope.KEY,
                order=self.options.order,
                stabilize=lambda: _stabilize(self.options.stabilize_s, progress),
                transaction_wait=TransactionWait(
                    self.options.timeout_s, progress, find_hanging=self._hanging
                ),
            )
            found = analysis.run(self.options.topics)
            result = replace(found, engine=Engine.SPARK if self._sparked else Engine.DIRECT)
        return with_truncation(result) if self.options.truncation else result

    def _choice(self, volume: "Volume") -> "Choice":
        """The engine for this volume."""
        return self._choosing().choose(volume)

    def _choosing(self) -> "EngineChoice":
        if self._engines is None:
            from drctl.gap.engine_choice import EngineChoice

            paces = adapters.measured_rate(self.config).paces()
            fixed = Engine.SPARK if self.options.submit else self.options.engine
            spark_from = self.config.spark.from_offsets
            self._engines = EngineChoice(adapters.usable_cores(), paces, fixed, spark_from)
        return self._engines

    def _comparer(
        self, work: Path, progress: Callable[[str], None], volume: "Volume"
    ) -> "AbstractContextManager[RecordComparer]":
        offsets, direct = volume.offsets, self._choice(volume).engine is Engine.DIRECT
        self._sparked |= not direct
        if self.options.submit:
            from drctl.app.adapters import submitted_comparer

            return submitted_comparer(self.config, self.link, work, self._log, progress, offsets)
        if direct:
            _refuse_too_many(offsets)
            return direct_comparer(self.link, work)
        if self._spark is None:
            session = adapters.spark_session(self.config, self.link, self._log, progress, offsets)
            self._spark = self._open.enter_context(session)
        return nullcontext(self._spark(work))

    def _hanging(self, name: str, places: "Collection[TopicPartition]") -> "Hanging":
        """Commands that abort transactions that no coordinator knows; none if that is unknown."""
        from drctl.model.text import abort_hanging

        link = self.link
        config = link.source_config if name == link.source else link.target_config
        try:
            with adapters.reader(name, config).health as reader:
                found = reader.open_transactions(places)
        except (ConfigError, Unreachable):
            return {}
        return {
            place: abort_hanging(name, place, each.since)
            for place, there in found.items()
            if not isinstance(there, Unavailable)
            for each in there
            if each.hanging
        }

    def _tail(
        self, source: "ClusterReader", target: "ClusterReader", topics: Iterable[str]
    ) -> "Tail | None":
        from drctl.gap.tail import Tail

        finder, only = adapters.position_finder(self.link, source, target), self.options.only
        if self.link.settings.origin_header:
            # Records of the other cluster's applications are between those of the tail.
            finder = None
        if finder is not None:
            found = finder.positions(topics)
            return Tail(source, target, found, finder.same_offsets, only=only)
        return None if only is None else Tail(source, target, {}, same_offsets=False, only=only)

    def _note_rate(self, volume: "Volume", seconds: float) -> None:
        engines = self._choosing()
        engine = engines.choose(volume).engine
        expected_s = engines.expected_s(engine, volume)
        try:
            adapters.measured_rate(self.config).note(engine, volume.offsets, seconds, expected_s)
        except OSError as error:
            notices().detail(f"cannot store the measured rate: {error}")

    def _budget(self) -> "Budget":
        from drctl.gap.analysis import Budget
        from drctl.gap.engine_choice import Volume

        chosen = self._choice(Volume(TYPICAL_OFFSETS, None, partitions=4))
        rate = TYPICAL_OFFSETS / chosen.seconds[chosen.engine]
        return Budget(self.options.budget_s, rate)


def _refuse_too_many(offsets: int) -> None:
    """Limit what one process reads.

    Raises:
        UsageError: there are too many offsets.
    """
    from drctl.gap.engine_choice import MAX_DIRECT_OFFSETS
    from drctl.views.text import number

    if offsets > MAX_DIRECT_OFFSETS:
        raise UsageError(
            f"{number(offsets)} offsets are too many to compare without"
            " Spark: at most"
            f" {number(MAX_DIRECT_OFFSETS)}",
            "leave out --engine direct, or read less: --scope tail, --topic, --ledger",
        )


def _stabilize(length_s: float, progress: "Callable[[str, int, int], None]") -> None:
    """Wait for records that were in flight when the source's offsets were frozen."""
    until = time.monotonic() + length_s
    while (left := until - time.monotonic()) > 0:
        done = round(length_s - left)
        progress("waiting for records in flight (s)", done, round(length_s))
        time.sleep(min(left, 1.0))


def _announce(work: "Work", volume: "Volume", choice: "Choice") -> None:
    """Report what will be read, by which engine, why, and how long it will take."""
    from drctl.model.text import plural
    from drctl.views.text import number, size

    known = work.known.offsets
    message = (
        f"scope {work.scope.value}: {plural(work.offsets, 'offset')} of"
        f" {plural(work.partitions, 'partition')} to read on both clusters"
    )
    message += "" if volume.bytes is None else f", about {size(volume.bytes)}"
    message += f", {number(known)} known from the ledger" if known else ""
    names = {Engine.DIRECT: "without Spark", Engine.SPARK: "with Spark"}
    rate = "at the rate of earlier runs here" if choice.measured else "not measured here yet"
    others = (
        f"{names[engine]} {seconds:.0f} s"
        for engine, seconds in choice.seconds.items()
        if engine is not choice.engine
    )
    notices().progress(
        f"{message}; {names[choice.engine]} ({choice.reason}):"
        f" about {choice.seconds[choice.engine]:.0f} s, {rate} ({', '.join(others)})"
    )
