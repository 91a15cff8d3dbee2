"""Carries a plan out, from its beginning or from where its journal says it came to."""

from collections.abc import Mapping
from dataclasses import dataclass

from drctl.engine import entries
from drctl.engine.effects import NOTHING, Effects
from drctl.engine.fenced_phase import FencedPhase
from drctl.engine.kind import Kind, Seen, State, Trait
from drctl.engine.looking import WantsToStop, told
from drctl.engine.outcome import FINAL, Outcome, Status
from drctl.engine.story import Effect, Story, read_story
from drctl.engine.turning_back import TurningBack
from drctl.model.plan import Duty, Json, Plan, Step

_ASKED_AGAIN_S = 10.0


@dataclass(slots=True)
class Execution(Effects):
    """Walks the steps of one run; every effect stands in the journal before it begins."""

    def start(self, plan: Plan, who: Mapping[str, str]) -> tuple[Story, Outcome]:
        """Begin a run of the plan.

        Raises:
            Fenced: another run took the link.
            Unknown: the journal cannot be written.
        """
        first = entries.began(self.journal.run, plan, who, self.now())
        self.journal.append([first])
        story = read_story([first])
        return story, self._to_the_end(story)

    def go_on(
        self, story: Story, who: Mapping[str, str], overrides: Mapping[str, str] = entries.NOTHING
    ) -> Outcome:
        """Go on with a run that was stopped, interrupted or lost.

        Args:
            overrides: guards that are passed over from here on, each with the reason.

        Raises:
            Fenced: another run took the link.
            Unknown: the journal cannot be written.
        """
        self.write(story, entries.resumed(who, self.now(), overrides))
        return self._to_the_end(story, again=True)

    def _to_the_end(self, story: Story, *, again: bool = False) -> Outcome:
        try:
            outcome = self._walk(story, again)
        except WantsToStop:
            step = self._next(story)
            self.write(story, entries.interrupted(step, self.now()))
            return Outcome(Status.INTERRUPTED, step, "stopped between two effects")
        if outcome.status in FINAL or outcome.over:
            self.write(story, entries.ended(outcome.status.value, self.now()))
        return outcome

    def _walk(self, story: Story, again: bool) -> Outcome:
        if again and not story.turned_back:
            FencedPhase(self).look_again(story)
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
        effect, complained = story.effect_of(step.id), NOTHING
        if story.overrides and Trait.CHANGES not in kind.traits:
            # It looks anew, with what is passed over.
            effect = None
        if Trait.OPENS in kind.traits:
            FencedPhase(self).owe_what_moved(story)
        if effect is None:
            announced = self._announced(story, step, kind)
            if isinstance(announced, Seen):
                return announced
            effect = announced
            complained = self.apply(story, kind, effect)
        else:
            seen = told(lambda: kind.verify(effect.intent, self.look))
            self.write(story, entries.looked(step.id, effect.number, seen, self.now()))
            if seen.state is State.UNKNOWN:
                return seen
            if seen.state is not State.DONE:
                against = self._against_opening(story, step, kind)
                if against is not None:
                    return against
                complained = self.apply(story, kind, effect)
        return self.proven(story, step, effect, complained)

    def _announced(self, story: Story, step: Step, kind: Kind) -> Effect | Seen:
        intent: Json = {}

        def look() -> Seen:
            nonlocal intent
            intent = kind.check(story.settings_of(step), story.facts_by_kind(), self.look)
            return Seen(State.DONE, "")

        seen = told(look)
        if seen.state is State.UNKNOWN and self._is_behind_fence(story, step):
            # Nobody can write by now: one answer that did not come is asked for again.
            most_s = min(_ASKED_AGAIN_S, step.patience_s)
            seen = self.patience().wait_for_word(look, step.id, most_s)
        if seen.state is not State.DONE:
            return seen
        number = len(story.effects) + 1
        self.write(story, entries.intend(step.id, number, intent, self.now()))
        return story.effects[-1]

    def _is_behind_fence(self, story: Story, step: Step) -> bool:
        """Whether the run cannot do without the step, and writes are refused until it is over."""
        steps = story.plan.steps
        before = steps[: steps.index(step)]
        fenced = any(Trait.FENCES_WRITES in self.kinds[each.kind].traits for each in before)
        return fenced and step.duty is Duty.REQUIRED

    def _against_opening(self, story: Story, step: Step, kind: Kind) -> Seen | None:
        """What stands against it by now: a run that was away cannot know that nothing does."""
        if Trait.OPENS not in kind.traits:
            return None

        def look() -> Seen:
            kind.check(story.settings_of(step), story.facts_by_kind(), self.look)
            return Seen(State.DONE, "")

        seen = told(look)
        return None if seen.state is State.DONE else seen

    def _not_done(self, story: Story, step: Step, seen: Seen) -> Outcome | None:
        """None where the run goes on all the same."""
        if step.duty is Duty.BEST_EFFORT:
            what = f"{self.kinds[step.kind].describe(step.settings).title}: {seen.words}"
            self.write(story, entries.owed(step.id, what, self.now()))
            return None
        if step.duty is Duty.OPTIONAL:
            self.write(story, entries.passed(step.id, seen, self.now()))
            return None
        self.write(story, entries.failed(step.id, seen, self.now()))
        if seen.state is State.UNKNOWN:
            return Outcome(Status.UNKNOWN, step.id, seen.words, seen.items)
        if FencedPhase(self).is_opened(story):
            verifies = Trait.VERIFIES in self.kinds[step.kind].traits
            status = Status.UNKNOWN if verifies else Status.STOPPED
            return Outcome(status, step.id, seen.words, seen.items)
        self.write(story, entries.turned_back(step.id, seen.words, self.now()))
        return Outcome(Status.STOPPED, step.id, seen.words, seen.items)

    def _back(self, story: Story) -> Outcome:
        back = TurningBack(self.kinds, self.look, self.hands, self.patience(), self.now)
        return back.run(story, lambda entry: self.write(story, entry))

    def _next(self, story: Story) -> str:
        return next((s.id for s in story.plan.steps if not story.is_done(s.id)), "")
