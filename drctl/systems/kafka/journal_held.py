"""A run that holds its link: what it appends is sealed, and one transaction."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from drctl.engine import chain
from drctl.model.errors import ConfigError, DrctlError, Fenced, Unknown
from drctl.model.journal import Entry, Holder
from drctl.model.pasting import quote
from drctl.systems.closing import Closing
from drctl.systems.kafka import transactions
from drctl.systems.kafka.beats import Beats
from drctl.systems.kafka.connection import LOGGER
from drctl.systems.kafka.journal_writer import LIFETIME_S, JournalWriter, Undecided
from drctl.systems.kafka.topic_writer import Change
from drctl.wire.journal_records import Beat, Taken, encode, split
from drctl.wire.journal_signature import signature

_FAREWELL_S = 3.0


class HeldRun(Closing):
    """Implements `drctl.model.journal.HeldJournal`; a context manager that lets go of the link.

    Args:
        lines: what the run wrote before.
        rival: tells who has the link now, if that is somebody with another token.
        key: what lines are signed with; empty where they are not.

    Attributes:
        lines: as given; the copy on this machine begins with them.
    """

    def __init__(
        self,
        link: str,
        where: str,
        taken: Taken,
        lines: Sequence[bytes],
        writer: JournalWriter,
        rival: Callable[[str], Holder | None],
        beat_s: float,
        key: bytes = b"",
    ) -> None:
        self._link = link
        self._where = where
        self._token = taken.token
        self._secret = key
        self._writer = writer
        self._rival = rival
        self._head = chain.newest_head(taken.holder.run, lines)
        self._beats = Beats(beat_s, self._beat)
        self._lost = False
        self._fence: Fenced | None = None
        self._doubt = False
        self._closed = False
        self.holder = taken.holder
        self.lines = tuple(lines)

    @property
    def run(self) -> str:
        """The name of the run."""
        return self.holder.run

    @property
    def where(self) -> str:
        """The topic and its cluster."""
        return self._where

    def append(self, entries: Sequence[Entry]) -> None:
        """Write them down, all or none; committed when this returns.

        Raises:
            Fenced: another run has taken the link; nothing more is written.
            Unknown: they could not be written, or nobody can say whether they were; in that case
                nothing more is taken.
        """
        self.check()
        if self._doubt:
            raise self._unknown(f"an append to {self.where} was not seen to its end")
        lines = chain.seal(entries, self._head)
        if lines:
            self._written(lines)
            self._head = chain.behind(lines, self._head)

    def check(self) -> None:
        """See that this run has its link still, as of the last beat.

        Raises:
            Fenced: another run has taken it.
        """
        if self._lost:
            self._fence = self._fence or self._fenced()
            raise self._fence

    def start(self) -> None:
        """Show from now on that this run lives."""
        self._beats.start()

    def close(self) -> None:
        """Let go of the link; may be called again."""
        if self._closed:
            return
        self._closed = True
        if not self._beats.stop(_FAREWELL_S):
            return  # the cluster does not answer; the thread ends with the process
        if not (self._lost or self._doubt):
            with suppress(DrctlError):
                self._writer.write([self._sign(last=True)], _FAREWELL_S)
        self._writer.__exit__(None, None, None)

    def _written(self, lines: Sequence[bytes]) -> None:
        parts = [part for line in lines for part in split(self.run, line, self._mac(line))]
        self._doubt = True
        try:
            self._writer.write([(self._key, encode(part)) for part in parts])
        except transactions.Fenced:
            self._lost = True
            self.check()
        except Undecided as undecided:
            raise self._unknown(undecided.message) from undecided
        except ConfigError as refused:
            self._doubt = False
            raise Unknown(refused.message, refused.hint) from refused
        except Unknown as failed:
            self._doubt = False
            raise self._unknown(failed.message) from failed
        self._doubt = False

    def _mac(self, line: bytes) -> str:
        return signature(self._secret, self._link, line) if self._secret else ""

    def _unknown(self, message: str) -> Unknown:
        goes_on = f"`drctl resume {quote(self.run)}` goes on behind what is there"
        hint = f"when the cluster answers, {goes_on}"
        return Unknown(message, hint)

    def _beat(self) -> None:
        """Runs beside everything else; an append that is under way is a sign of life, too."""
        if self._lost or self._doubt:
            return
        try:
            # One that is given up early may end the writer: it has as much time as an append.
            self._writer.try_write([self._sign(last=False)])
        except transactions.Fenced:
            self._lost = True
        except DrctlError as failed:
            LOGGER.debug("no beat: %s", failed.message)

    @property
    def _key(self) -> bytes:
        return self._link.encode()

    def _sign(self, *, last: bool) -> Change:
        return self._key, encode(Beat(self._token, last))

    def _fenced(self) -> Fenced:
        rival = self._rival(self._token)
        if rival is None:
            return Fenced(
                f"run {self.run} has lost link {self._link}: somebody else begins to use it, or"
                f" a write took longer than {LIFETIME_S} s",
                f"if nobody has it, `drctl resume {quote(self.run)}` goes on",
            )
        if rival.run == self.run:
            message = f"run {self.run} is carried on by {rival}"
        else:
            message = f"link {self._link} was taken by run {rival.run}: {rival}"
        return Fenced(message, "this process has stopped and writes nothing more; follow that one")
