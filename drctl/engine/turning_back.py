"""Takes the effects of a run back, the newest first."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from drctl.engine import entries
from drctl.engine.entries import Entry
from drctl.engine.kind import Kind, Seen, State, Trait
from drctl.engine.looking import AGAIN_S, Patience
from drctl.engine.outcome import Outcome, Status
from drctl.engine.ports import Hands, Look
from drctl.engine.story import Effect, Story
from drctl.model.errors import DrctlError, Fenced


@dataclass(frozen=True, slots=True)
class TurningBack:
    """Undoes what may have been done; one that cannot be undone does not keep the others."""

    kinds: Mapping[str, Kind]
    look: Look
    hands: Hands
    patience: Patience
    now: Callable[[], datetime]

    def run(self, story: Story, write: Callable[[Entry], None]) -> Outcome:
        """Take back every effect that still stands.

        Raises:
            Fenced: another run took the link.
            Unknown: the journal cannot be written.
            WantsToStop: somebody wants to stop.
        """
        remaining: list[tuple[Effect, Seen]] = []
        staying: list[tuple[Effect, Seen]] = []
        changed = False
        for effect in reversed(story.effects):
            if effect.undone:
                continue
            step = story.plan.step(effect.step)
            kind = self.kinds[step.kind]
            if Trait.CHANGES not in kind.traits:
                continue
            if Trait.STAYS in kind.traits:
                seen = self._what_stays(kind, effect, step.patience_s)
                fell = effect.done and seen.state is not State.DONE
                (remaining if fell else staying).append((effect, seen))
                continue
            changed = True
            seen = self._taken_back(kind, effect, step.patience_s, write)
            if seen.state is State.DONE:
                write(entries.undone(step.id, effect.number, seen.words, self.now()))
            else:
                write(entries.not_undone(step.id, effect.number, seen, self.now()))
                remaining.append((effect, seen))
        return _outcome(story, changed, remaining, [each for each in staying if each[1].facts])

    def _taken_back(
        self, kind: Kind, effect: Effect, seconds: float, write: Callable[[Entry], None]
    ) -> Seen:
        """How it stands once it was; what was announced before is looked at, not done again."""
        if effect.undoing:
            sight = lambda: kind.undone(effect.intent, self.look)  # noqa: E731
            seen = self.patience.wait_for_word(sight, effect.step, seconds)
            if seen.state in (State.DONE, State.UNKNOWN):
                return seen
        write(entries.undoing(effect.step, effect.number, self.now()))
        return self._undo(kind, effect, seconds)

    def _what_stays(self, kind: Kind, effect: Effect, seconds: float) -> Seen:
        """Without facts where it changed nothing; not done where it did not stay."""
        sight = lambda: kind.undone(effect.intent, self.look)  # noqa: E731
        return self.patience.wait_for_word(sight, effect.step, seconds)

    def _undo(self, kind: Kind, effect: Effect, seconds: float) -> Seen:
        """Sent again where it was complained of, and whoever is asked answers again."""
        clock, sight = self.patience.clock, lambda: kind.undone(effect.intent, self.look)
        until = clock.monotonic() + seconds
        while True:
            complaint = self._sent(kind, effect)
            left = max(0.0, until - clock.monotonic())
            pause = min(AGAIN_S, left) if complaint else left
            seen = self.patience.wait_for(sight, effect.step, pause)
            if seen.state is State.UNKNOWN:
                seen = self.patience.wait_for_word(sight, effect.step, left - pause)
            if seen.state is State.DONE or not complaint:
                return seen
            if seen.state is not State.WAITING or clock.monotonic() >= until:
                return Seen(seen.state, f"{seen.words} ({complaint})", seen.facts, seen.items)

    def _sent(self, kind: Kind, effect: Effect) -> str:
        """What was complained of; empty where nothing was."""
        try:
            return "; ".join(kind.undo(effect.intent, self.hands))
        except Fenced:
            raise
        except DrctlError as error:
            return error.message


def _outcome(
    story: Story,
    changed: bool,
    remaining: list[tuple[Effect, Seen]],
    staying: list[tuple[Effect, Seen]],
) -> Outcome:
    if not remaining and staying:
        items = tuple(f"{effect.step}: {seen.words}" for effect, seen in reversed(staying))
        words = f"some of it stays as it is, and should, after: {story.turned_back}"
        return Outcome(Status.STOPPED, _turning_step(story), words, items, over=True)
    if not remaining:
        put_back = any(effect.undone for effect in story.effects) or changed
        words = f"everything was put back: {story.turned_back}" if put_back else story.turned_back
        return Outcome(Status.REFUSED, _turning_step(story), words)
    unknown = any(seen.state is State.UNKNOWN for _, seen in remaining)
    items = tuple(f"{effect.step}: {seen.words}" for effect, seen in remaining)
    words = f"not everything could be put back after: {story.turned_back}"
    return Outcome(
        Status.UNKNOWN if unknown else Status.STOPPED, remaining[0][0].step, words, items
    )


def _turning_step(story: Story) -> str:
    turned = (e for e in reversed(story.entries) if e["entry"] == entries.What.TURNED_BACK)
    return str(next(turned)["step"])
