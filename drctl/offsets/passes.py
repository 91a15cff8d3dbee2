"""Pass after pass: what is noted is read, the source is looked at, and what is new is noted."""

import time
from collections.abc import Sequence
from typing import Protocol

from drctl.model.errors import DrctlError
from drctl.offsets.anchor_log import AnchorLog, Change
from drctl.offsets.tracked import Tracked
from drctl.offsets.tracking import Look, Progress, Tracker


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


class Passes:
    """Passes over one link, one after the other.

    Args:
        writes: None where nothing may be written.
    """

    def __init__(self, tracker: Tracker, reads: AnchorReader, writes: AnchorWriter | None) -> None:
        self._tracker = tracker
        self._reads = reads
        self._writes = writes
        self._known_ms: int | None = None

    def run(self, progress: Progress) -> Tracked:
        """One pass; one that fails says so, and the next may go on."""
        began, began_ms = time.monotonic(), self._tracker.now_ms()
        look: Look | None = None
        failed: DrctlError | None = None
        existed = False
        try:
            # Before the source is looked at: everything that is seen then is newer.
            log = self._reads.catch_up()
            existed = self._reads.exists
            self._known_ms = log.last_look_ms(self._tracker.scope.digest)
            look = self._tracker.look(log, self._reads.cluster_id(), progress)
            if self._writes is None:
                self._reads.check()
            else:
                progress("writing anchors")
                self._writes.write(look.changes)
                self._known_ms = look.began_ms
        except DrctlError as error:
            failed = error
        return Tracked(
            began_ms=began_ms,
            seconds=time.monotonic() - began,
            executed=self._writes is not None,
            topic_existed=existed,
            look=look,
            failed=failed,
            known_ms=self._known_ms,
        )
