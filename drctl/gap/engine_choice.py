"""Which engine compares faster: drctl itself or Spark, by offsets, bytes and partitions."""

from collections.abc import Mapping
from dataclasses import dataclass

from drctl.model.gap import Engine

TYPICAL_BYTES = 200
"""Assumed size of a record if none was sampled."""


@dataclass(frozen=True, slots=True)
class Volume:
    """What is to be read on both clusters.

    Attributes:
        bytes: size of keys and values; None if not sampled.
        partitions: of the source.
        every: whether every record has to be digested or kept: with a ledger, to check the order,
            if records seem to be missing in many places, and if `pairing.skips_equal` is false.
    """

    offsets: int
    bytes: int | None
    partitions: int
    every: bool = False


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an engine, fitted to measurements (`python -m bench --only cost`).

    Attributes:
        start_s: seconds until it reads.
        million: core seconds per million offsets of both clusters.
        gigabyte: core seconds per gigabyte of both clusters.
        partition: core seconds per partition of the source.
    """

    start_s: float
    million: float
    gigabyte: float
    partition: float

    def seconds(self, volume: Volume, cores: int) -> float:
        """Return the expected duration."""
        size = volume.offsets * TYPICAL_BYTES if volume.bytes is None else volume.bytes
        work = (
            volume.offsets / 1e6 * self.million
            + size / 1e9 * self.gigabyte
            + volume.partitions * self.partition
        )
        return self.start_s + work / cores


HELD_OFFSETS = 1_000_000
"""Maximum number of offsets of which drctl keeps every record in memory."""

MAX_DIRECT_OFFSETS = 50_000_000
"""Maximum number of offsets that drctl reads without Spark."""

COSTS: Mapping[Engine, Cost] = {
    Engine.DIRECT: Cost(0.5, 3.0, 1.35, 0.0025),
    Engine.SPARK: Cost(12.0, 0.93, 2.15, 0.16),
}
"""Measured as docs/explanation/performance.md says; measured durations correct them per host."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The engine for a comparison.

    Attributes:
        engine: the chosen one.
        seconds: how long reading takes, by engine.
        reason: why it was chosen, for a message.
        measured: whether `seconds` of the chosen engine follows from earlier runs on this host.
    """

    engine: Engine
    seconds: Mapping[Engine, float]
    reason: str
    measured: bool


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Chooses an engine.

    Attributes:
        cores: number of cores that both engines may use.
        paces: by engine, the measured duration of an earlier run on this host, divided by the
            expected one.
        fixed: the engine that the user requested; AUTO for the faster one.
        spark_from: number of offsets from which Spark compares (`spark.from_offsets`); None to
            choose by cost.
    """

    cores: int
    paces: Mapping[Engine, float]
    fixed: Engine = Engine.AUTO
    spark_from: int | None = None

    def expected_s(self, engine: Engine, volume: Volume) -> float:
        """Return how long an engine takes according to the cost model alone."""
        return COSTS[engine].seconds(volume, self.cores)

    def choose(self, volume: Volume) -> Choice:
        """Choose the engine for this volume."""
        # Slow brokers and networks slow down both engines.
        usual = next(iter(self.paces.values()), 1.0)
        seconds = {
            engine: self.expected_s(engine, volume) * self.paces.get(engine, usual)
            for engine in COSTS
        }
        engine, reason = self._chosen(volume, seconds)
        return Choice(engine, seconds, reason, engine in self.paces)

    def _chosen(self, volume: Volume, seconds: Mapping[Engine, float]) -> tuple[Engine, str]:
        if self.fixed is not Engine.AUTO:
            return self.fixed, "as requested"
        if self.spark_from is not None:
            direct = volume.offsets < self.spark_from
            return Engine.DIRECT if direct else Engine.SPARK, "by spark.from_offsets"
        if volume.offsets < HELD_OFFSETS:
            return Engine.DIRECT, "few offsets"
        if volume.every:
            return Engine.SPARK, "every record has to be digested"
        if volume.offsets > MAX_DIRECT_OFFSETS:
            return Engine.SPARK, "too many offsets for drctl alone"
        return min(seconds, key=seconds.__getitem__), "the faster engine"
