"""Carries a plan out, from its beginning or from where its journal says it came to."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from drctl.engine import entries
from drctl.engine.entries import Entry
from drctl.engine.kind import Kind, Seen, State, Trait
from drctl.engine.looking import Patience, WantsToStop, told
from drctl.engine.outcome import FINAL, Outcome, Status
from drctl.engine.ports import Clock, Hands, Look, Watcher
from drctl.engine.story import Effect, Story, read_story
from drctl.engine.turning_back import TurningBack
from drctl.model.errors import DrctlError, Fenced, Unknown
from drctl.model.journal import HeldJournal
from drctl.model.plan import Duty, Json, Plan, Step

STALE = "a step before it had to be done again"


@dataclass(slots=True)
class Execution:
    """Walks the steps of one run; every effect stands in the journal before it begins."""

    kinds: Mapping[str, Kind]
    look: Look
    hands: Hands
    journal: HeldJournal
    clock: Clock
    watcher: Watcher

    def start(self, plan: Plan, who: Mapping[str, str]) -> tuple[Story, Outcome]:
        """Begin a run of the plan.

        Raises:
            Fenced: another run took the link.
            Unknown: the journal cannot be written.
        """
        first = entries.began(self.journal.run, plan, who, self._now())
        self.journal.append([first])
        story = read_story([first])
        return story, self._to_the_end(story)

    def go_on(self, story: Story, who: Mapping[str, str]) -> Outcome:
        """Go on with a run that was stopped, interrupted or lost.

        Raises:
            Fenced: another run took the link.
            Unknown: the journal cannot be written.
        """
        self._write(story, entries.resumed(who, self._now()))
        return self._to_the_end(story, again=True)

    def _to_the_end(self, story: Story, *, again: bool = False) -> Outcome:
        try:
            outcome = self._walk(story, again)
        except WantsToStop:
            step = self._next(story)
            self._write(story, entries.interrupted(step, self._now()))
            return Outcome(Status.INTERRUPTED, step, "stopped between two effects")
        if outcome.status in FINAL or outcome.over:
            self._write(story, entries.ended(outcome.status.value, self._now()))
        return outcome

    def _walk(self, story: Story, again: bool) -> Outcome:
        if again and not story.turned_back:
            self._look_at_fenced_phase(story)
        if not story.turned_back:
            outcome = self._forward(story)
            if not story.turned_back:
                return outcome
        return self._back(story)

    def _forward(self, story: Story) -> Outcome:
        steps = story.plan.steps
        for number, step in enumerate(steps, 1):
            if story.is_done(step.id):
                continue
            if self.clock.stopping:
                raise WantsToStop
            self.watcher.step(step.id, number, len(steps))
            began = self.clock.monotonic()
            seen = self._do(story, step)
            figures = {"seconds": self.clock.monotonic() - began}
            self.watcher.ended(step.id, seen.words, figures)
            if seen.state is not State.DONE:
                outcome = self._not_done(story, step, seen)
                if outcome is not None:
                    return outcome
        return Outcome(Status.DONE, owes=bool(story.owed))

    def _do(self, story: Story, step: Step) -> Seen:
        kind = self.kinds[step.kind]
        effect = story.effect_of(step.id)
        if effect is None:
            announced = self._announced(story, step, kind)
            if isinstance(announced, Seen):
                return announced
            effect = announced
            self._apply(story, kind, effect)
        else:
            seen = told(lambda: kind.verify(effect.intent, self.look))
            self._write(story, entries.looked(step.id, effect.number, seen, self._now()))
            if seen.state is State.UNKNOWN:
                return seen
            if seen.state is not State.DONE:
                self._apply(story, kind, effect)
        return self._proven(story, step, kind, effect)

    def _announced(self, story: Story, step: Step, kind: Kind) -> Effect | Seen:
        intent: Json = {}

        def look() -> Seen:
            nonlocal intent
            intent = kind.check(step.settings, story.facts_by_kind(), self.look)
            return Seen(State.DONE, "")

        seen = told(look)
        if seen.state is not State.DONE:
            return seen
        number = len(story.effects) + 1
        self._write(story, entries.intend(step.id, number, intent, self._now()))
        return story.effects[-1]

    def _apply(self, story: Story, kind: Kind, effect: Effect) -> None:
        try:
            complaints = kind.apply(effect.intent, self.hands)
        except Fenced:
            raise
        except DrctlError as error:
            # Whatever was complained of: what is there now tells whether it was done.
            complaints = (error.message,)
        if complaints:
            entry = entries.applied(effect.step, effect.number, complaints, self._now())
            self._write(story, entry)

    def _proven(self, story: Story, step: Step, kind: Kind, effect: Effect) -> Seen:
        sight = lambda: kind.verify(effect.intent, self.look)  # noqa: E731
        seen = self._patience().wait_for(sight, step.id, step.patience_s)
        if seen.state is State.DONE:
            self._note_done(story, step, effect, seen)
        return seen

    def _note_done(self, story: Story, step: Step, effect: Effect, seen: Seen) -> None:
        self._write(story, entries.done(step.id, effect.number, seen, self._now()))
        if seen.owes:
            self._write(story, entries.owed(step.id, seen.owes, self._now()))

    def _not_done(self, story: Story, step: Step, seen: Seen) -> Outcome | None:
        """None where the run goes on all the same."""
        if step.duty is Duty.BEST_EFFORT:
            what = f"{self.kinds[step.kind].describe(step.settings).title}: {seen.words}"
            self._write(story, entries.owed(step.id, what, self._now()))
            return None
        if step.duty is Duty.OPTIONAL:
            self._write(story, entries.passed(step.id, seen, self._now()))
            return None
        self._write(story, entries.failed(step.id, seen, self._now()))
        if seen.state is State.UNKNOWN:
            return Outcome(Status.UNKNOWN, step.id, seen.words, seen.items)
        if self._opened(story):
            verifies = Trait.VERIFIES in self.kinds[step.kind].traits
            status = Status.UNKNOWN if verifies else Status.STOPPED
            return Outcome(status, step.id, seen.words, seen.items)
        self._write(story, entries.turned_back(step.id, seen.words, self._now()))
        return Outcome(Status.STOPPED, step.id, seen.words, seen.items)

    def _back(self, story: Story) -> Outcome:
        back = TurningBack(self.kinds, self.look, self.hands, self._patience(), self._now)
        return back.run(story, lambda entry: self._write(story, entry))

    def _look_at_fenced_phase(self, story: Story) -> None:
        """A run that was away cannot know that its fence held: the fence is looked at first."""
        if self._opened(story):
            return
        changed = fenced = False
        newest = self._newest_fence(story)
        for step in story.plan.steps:
            kind = self.kinds[step.kind]
            fences = Trait.FENCES_WRITES in kind.traits
            fenced = fenced or fences
            newest = "" if step.id == newest else newest
            effect = story.effect_of(step.id)
            if not fenced or effect is None or not effect.done:
                continue
            if newest and not (fences or changed):
                # What rests on an older fence has become something else behind the newer one.
                continue
            if changed:
                self._write(story, entries.stale(step.id, effect.number, STALE, self._now()))
                continue
            changed = not self._holds(story, step, kind, effect)

    def _newest_fence(self, story: Story) -> str:
        """The last step that fences and is done; empty where none is."""
        done = {effect.step for effect in story.effects if effect.done and effect.stands}
        fences = (
            step.id
            for step in reversed(story.plan.steps)
            if step.id in done and Trait.FENCES_WRITES in self.kinds[step.kind].traits
        )
        return next(fences, "")

    def _holds(self, story: Story, step: Step, kind: Kind, effect: Effect) -> bool:
        before = story.facts.get(step.id)
        sight = lambda: kind.verify(effect.intent, self.look)  # noqa: E731
        seen = self._patience().wait_for(sight, step.id, step.patience_s)
        self._write(story, entries.looked(step.id, effect.number, seen, self._now()))
        if seen.state is State.UNKNOWN:
            message = f"step {step.id} was done, and cannot be looked at now: {seen.words}"
            raise Unknown(message, "drctl resume looks again")
        if seen.state is not State.DONE:
            return False
        self._note_done(story, step, effect, seen)
        return bool(before == seen.facts)

    def _opened(self, story: Story) -> bool:
        return any(
            Trait.OPENS in self.kinds[story.plan.step(effect.step).kind].traits
            for effect in story.effects
            if not effect.undone
        )

    def _next(self, story: Story) -> str:
        return next((s.id for s in story.plan.steps if not story.is_done(s.id)), "")

    def _patience(self) -> Patience:
        """A wait may be long: whoever has lost the link meanwhile is told before it is over."""
        return Patience(self.clock, self.watcher, self.journal.check)

    def _write(self, story: Story, entry: Entry) -> None:
        self.journal.append([entry])
        story.take([entry])

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now(), UTC)
