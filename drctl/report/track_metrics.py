"""What `drctl offsets track` has done so far, in numbers for Prometheus."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from drctl.offsets.tracked import Tracked
from drctl.report.exposition import Metric, exposition

_PREFIX = "drctl_offsets_track_"


@dataclass(frozen=True, slots=True)
class TrackMetrics:
    """Sums since the start, and the last pass.

    Attributes:
        labels: of every number.
        complete_ms: when the last pass began in which all positions were seen.
        last: the last pass.
    """

    labels: Mapping[str, str]
    complete_ms: int | None = None
    passes: int = 0
    failures: int = 0
    moved: int = 0
    written: int = 0
    last: Tracked | None = None

    def after(self, result: Tracked) -> "TrackMetrics":
        """These numbers and one pass more."""
        look = result.look if result.failed is None else None
        return replace(
            self,
            complete_ms=result.began_ms if result.complete else self.complete_ms,
            passes=self.passes + 1,
            failures=self.failures + (result.failed is not None),
            moved=self.moved + (look.moved if look else 0),
            written=self.written + (look.noted + len(look.forgotten) if look else 0),
            last=result,
        )

    def text(self) -> str:
        """As Prometheus reads it."""
        last = self.last
        look = last.look if last else None
        return exposition(
            (
                _gauge(
                    "last_complete_pass_timestamp_seconds",
                    "Start of the last pass in which all positions were seen.",
                    _seconds(self.complete_ms),
                ),
                _gauge(
                    "known_timestamp_seconds",
                    "Start of the last pass that was noted: anchors are true as of then.",
                    _seconds(last.known_ms if last else None),
                ),
                _gauge(
                    "pass_duration_seconds",
                    "How long the last pass took.",
                    last.seconds if last else None,
                ),
                _gauge("groups", "Groups of the link, last seen.", look.groups if look else None),
                _gauge(
                    "positions", "Their positions, last seen.", look.positions if look else None
                ),
                _gauge(
                    "astray",
                    "Anchors of positions that could not be seen, last time.",
                    look.astray if look else None,
                ),
                _gauge(
                    "problems",
                    "What could not be looked at, last time.",
                    len(look.problems) if look else None,
                ),
                _total("passes", "Passes.", self.passes),
                _total("failures", "Passes that failed.", self.failures),
                _total("moved", "Positions that were not as they were noted.", self.moved),
                _total("written", "Anchors written and deleted.", self.written),
            ),
            self.labels,
        )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _gauge(name: str, told: str, value: float | None) -> Metric:
    return Metric(_PREFIX + name, "gauge", told, value)


def _total(name: str, told: str, value: int) -> Metric:
    return Metric(f"{_PREFIX}{name}_total", "counter", told, value)
