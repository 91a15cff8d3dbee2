"""Passes of `drctl offsets track`: read the anchors topic, read the source, write what is new."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from drctl.model.errors import DrctlError, ExitCode
from drctl.offsets.anchor_log import AnchorLog, Change
from drctl.offsets.tracking import Look, Progress, Tracker


@dataclass(frozen=True, slots=True)
class Tracked:
    """A pass.

    Attributes:
        executed: whether what is to be noted was written.
        topic_existed: whether there was a topic before.
        look: the outcome; None where the pass failed.
        failed: why it did.
        known_ms: when the last complete pass began, this one or one before; None where there was
            none. What is noted is true as of then.
    """

    began_ms: int
    seconds: float
    executed: bool
    topic_existed: bool
    look: Look | None
    failed: DrctlError | None
    known_ms: int | None

    @property
    def complete(self) -> bool:
        """Whether all positions were seen."""
        return self.look is not None and self.failed is None and not self.look.problems

    @property
    def exit_code(self) -> ExitCode:
        """What a single pass ends with."""
        return ExitCode.DONE if self.complete else ExitCode.UNKNOWN

    @property
    def age_seconds(self) -> float | None:
        """How old what is noted was when the pass ended."""
        if self.known_ms is None:
            return None
        return max(0.0, (self.began_ms - self.known_ms) / 1000 + self.seconds)


class AnchorReader(Protocol):
    """Follows what is noted."""

    @property
    def exists(self) -> bool:
        """Whether there was a topic to read, the last time."""

    def cluster_id(self) -> str:
        """Of the cluster that keeps it.

        Raises:
            Unreachable: it did not answer.
        """

    def catch_up(self) -> AnchorLog:
        """All that was noted until now.

        Raises:
            Unreachable: the cluster that keeps it did not answer.
        """

    def check(self) -> None:
        """See whether it could be written.

        Raises:
            ConfigError: it could not.
        """


class AnchorWriter(Protocol):
    """Notes something."""

    def write(self, changes: Sequence[Change]) -> None:
        """Write all of it, upon which it is read back.

        Raises:
            Unreachable: no answer came.
        """


@dataclass(slots=True)
class Passes:
    """Passes over one link, one after the other.

    Attributes:
        writes: None where nothing may be written.
    """

    tracker: Tracker
    reads: AnchorReader
    writes: AnchorWriter | None
    _known_ms: int | None = None

    def run(self, progress: Progress) -> Tracked:
        """One pass; one that fails says so, and the next may go on."""
        began, began_ms = time.monotonic(), self.tracker.now_ms()
        look: Look | None = None
        failed: DrctlError | None = None
        existed = False
        try:
            # Read before the source: everything that is seen there is newer.
            log = self.reads.catch_up()
            existed = self.reads.exists
            self._known_ms = log.last_look_ms(self.tracker.scope.digest)
            look = self.tracker.look(log, self.reads.cluster_id(), progress)
            if self.writes is None:
                self.reads.check()
            else:
                progress("writing anchors")
                self.writes.write(look.changes)
                self._known_ms = look.began_ms
        except DrctlError as error:
            failed = error
        return Tracked(
            began_ms=began_ms,
            seconds=time.monotonic() - began,
            executed=self.writes is not None,
            topic_existed=existed,
            look=look,
            failed=failed,
            known_ms=self._known_ms,
        )
