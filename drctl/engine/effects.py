"""One effect after the other: announced, sent, proven; each entry is durable before the next."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from drctl.engine import entries
from drctl.engine.entries import Entry
from drctl.engine.kind import Kind, Seen, State
from drctl.engine.looking import AGAIN_S, Patience
from drctl.engine.ports import Clock, Hands, Look, Watcher
from drctl.engine.story import Effect, Story
from drctl.model.errors import DrctlError, Fenced, Unknown
from drctl.model.journal import HeldJournal
from drctl.model.plan import Step

Complaints = tuple[str, ...]
NOTHING: Complaints = ()


@dataclass(slots=True)
class Effects:
    """What carries a run out."""

    kinds: Mapping[str, Kind]
    look: Look
    hands: Hands
    journal: HeldJournal
    clock: Clock
    watcher: Watcher

    def apply(
        self, story: Story, kind: Kind, effect: Effect, before: Complaints = NOTHING
    ) -> Complaints:
        """What was complained of: then it may be sent again, after a look.

        Args:
            before: what was complained of last time, and stands in the journal.
        """
        unanswered = False
        try:
            complaints = kind.apply(effect.intent, self.hands)
        except Fenced:
            raise
        except DrctlError as error:
            # Whatever was complained of: what is there now tells whether it was done.
            complaints, unanswered = (error.message,), isinstance(error, Unknown)
        if complaints and complaints != before:
            entry = entries.applied(effect.step, effect.number, complaints, self.now())
            self.write(story, entry)
        # What may have been done is only looked at.
        return NOTHING if unanswered else complaints

    def proven(self, story: Story, step: Step, effect: Effect, complained: Complaints) -> Seen:
        """The proof; what was complained of is sent again for as long as it is not there."""
        kind = self.kinds[step.kind]
        sight = lambda: kind.verify(effect.intent, self.look)  # noqa: E731
        until = self.clock.monotonic() + step.patience_s
        while True:
            left = max(0.0, until - self.clock.monotonic())
            pause = min(AGAIN_S, left) if complained else left
            seen = self.patience().wait_for(sight, step.id, pause)
            if not complained or seen.state is not State.WAITING or pause >= left:
                break
            complained = self.apply(story, kind, effect, complained)
        if seen.state is State.DONE:
            self.note_done(story, step, effect, seen)
        return seen

    def note_done(self, story: Story, step: Step, effect: Effect, seen: Seen) -> None:
        """Write down that it is done, and what of it a later run must do."""
        self.write(story, entries.done(step.id, effect.number, seen, self.now()))
        if seen.owes:
            self.write(story, entries.owed(step.id, seen.owes, self.now()))

    def patience(self) -> Patience:
        """A wait may be long: whoever has lost the link meanwhile is told before it is over."""
        return Patience(self.clock, self.watcher, self.journal.check)

    def write(self, story: Story, entry: Entry) -> None:
        """Have an entry durable, then let the story go on.

        Raises:
            Fenced: another run took the link.
            Unknown: the journal cannot be written.
        """
        self.journal.append([entry])
        story.take([entry])

    def now(self) -> datetime:
        """The clock's, UTC."""
        return datetime.fromtimestamp(self.clock.now(), UTC)
