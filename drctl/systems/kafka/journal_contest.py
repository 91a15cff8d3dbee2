"""Who else wants or has the link, judged by what is appended while one watches. Pure.

Only the order of records counts, and whether one came at all; no two clocks are compared. Of all
who claim a link the first goes on: everybody else finds its claim before his own. Whose process is
known to be gone is not waited for.
"""

from collections.abc import Callable

from drctl.model.errors import Refused
from drctl.model.journal import Holder
from drctl.systems.kafka.journal_log import LinkLog
from drctl.wire.journal_records import Beat, Claim, JournalRecord, Part, Taken, Withdrawn


class Contest:
    """Sees every record behind those of the log, committed or not.

    Args:
        token: of one's own claim; empty for somebody who only looks on.
        gone: whether it is certain that somebody's process has ended.

    Attributes:
        entered: whether one's own claim was seen, or the end of the log as it was at first: what
            comes from there on shows who is alive.
        hold: who has the link, as far as is known; he may be dead.
        alive: who showed that he is.
        holds: whether that one has the link, or only claims it.
    """

    def __init__(
        self, log: LinkLog, token: str = "", gone: Callable[[Holder], bool] = lambda _: False
    ) -> None:
        self._token = token
        self._gone = gone
        # Nothing comes of a run that has ended but its farewell.
        over = log.hold is not None and log.ended(log.hold.holder.run)
        self.hold = None if over else log.hold
        self._claims = dict(log.claims)
        self._settled: set[str] = set()
        self.entered = False
        self.alive: Holder | None = None
        self.holds = False

    @property
    def claims(self) -> bool:
        """Whether one wants the link oneself."""
        return bool(self._token)

    @property
    def disputed(self) -> bool:
        """Whether somebody may be there who comes first."""
        others = [*self._claims.values(), *([self.hold.holder] if self.hold else [])]
        return not all(map(self._gone, others))

    def see(self, record: JournalRecord) -> None:
        """Take notice of the next record."""
        match record:
            case Claim(token, holder):
                self._claimed(token, holder)
            case Withdrawn(token):
                self._settled.add(token)
                self._claims.pop(token, None)
            case Taken(token, holder):
                self.hold = record
                self._settled.add(token)
                self._claims.pop(token, None)
                self._lives(holder, holds=True)
            case Beat(token, last) if self.hold and self.hold.token == token:
                if last:
                    self.hold = None
                else:
                    self._lives(self.hold.holder, holds=True)
            case Part(run) if self.hold and self.hold.holder.run == run:
                self._lives(self.hold.holder, holds=True)

    def refusal(self, link: str) -> Refused | None:
        """Why one must not go on, if somebody is alive."""
        if self.alive is None:
            return None
        if self.holds:
            return held_by(link, self.alive)
        return Refused(
            f"run {self.alive.run} is just taking link {link}: {self.alive}", "let that one go on"
        )

    def _claimed(self, token: str, holder: Holder) -> None:
        if token == self._token:
            self.entered = True
        elif token in self._claims:
            self._lives(holder, holds=False)
        elif not self.entered and token not in self._settled:
            self._claims[token] = holder

    def _lives(self, holder: Holder, *, holds: bool) -> None:
        if self.entered:
            self.alive, self.holds = holder, holds


def held_by(link: str, holder: Holder) -> Refused:
    """Somebody else has the link."""
    return Refused(
        f"link {link} is held by run {holder.run}: {holder}",
        "wait until it ends, or stop it there: a run whose process is gone can be resumed",
    )
