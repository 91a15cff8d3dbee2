"""Carries a plan out, from its beginning or from where its journal says it came to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from drctl.engine import entries
from drctl.engine.entries import Entry
from drctl.engine.kind import Kind, Seen, State, Trait
from drctl.engine.looking import AGAIN_S, Patience, WantsToStop, told
from drctl.engine.outcome import FINAL, Outcome, Status
from drctl.engine.ports import Clock, Hands, Look, Watcher
from drctl.engine.steps.last_look import MOVED
from drctl.engine.story import Effect, Story, read_story
from drctl.engine.turning_back import TurningBack
from drctl.model.errors import DrctlError, Fenced, Unknown
from drctl.model.journal import HeldJournal
from drctl.model.plan import Duty, Json, Plan, Step

Complaints = tuple[str, ...]
_NOTHING: Complaints = ()

STALE = "a step before it had to be done again"

_BRIEFLY_S = 15.0
"""For so long clients wait for a fence behind the opening, and a run for what was done before."""

THROUGH = "{source} may have taken records after {target} was opened: {why}; drctl gap tells"


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
        self._write(story, entries.resumed(who, self._now(), overrides))
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
        effect, complained = story.effect_of(step.id), _NOTHING
        if story.overrides and Trait.CHANGES not in kind.traits:
            # It looks anew, with what is passed over.
            effect = None
        if Trait.OPENS in kind.traits:
            self._owe_what_moved(story)
        if effect is None:
            announced = self._announced(story, step, kind)
            if isinstance(announced, Seen):
                return announced
            effect = announced
            complained = self._apply(story, kind, effect)
        else:
            seen = told(lambda: kind.verify(effect.intent, self.look))
            self._write(story, entries.looked(step.id, effect.number, seen, self._now()))
            if seen.state is State.UNKNOWN:
                return seen
            if seen.state is not State.DONE:
                against = self._against_opening(story, step, kind)
                if against is not None:
                    return against
                complained = self._apply(story, kind, effect)
        return self._proven(story, step, effect, complained)

    def _announced(self, story: Story, step: Step, kind: Kind) -> Effect | Seen:
        intent: Json = {}

        def look() -> Seen:
            nonlocal intent
            intent = kind.check(story.settings_of(step), story.facts_by_kind(), self.look)
            return Seen(State.DONE, "")

        seen = told(look)
        if seen.state is not State.DONE:
            return seen
        number = len(story.effects) + 1
        self._write(story, entries.intend(step.id, number, intent, self._now()))
        return story.effects[-1]

    def _against_opening(self, story: Story, step: Step, kind: Kind) -> Seen | None:
        """What stands against it by now: a run that was away cannot know that nothing does."""
        if Trait.OPENS not in kind.traits:
            return None

        def look() -> Seen:
            kind.check(story.settings_of(step), story.facts_by_kind(), self.look)
            return Seen(State.DONE, "")

        seen = told(look)
        return None if seen.state is State.DONE else seen

    def _owe_what_moved(self, story: Story) -> None:
        """What came through a fence is not said to be there because somebody passed it over."""
        why = story.overrides.get(MOVED)
        for step in self._fences(story) if why else ():
            if step.id in story.facts and step.id not in story.owed:
                self._write_through(story, step, f"{MOVED} was passed over: {why}")

    def _apply(
        self, story: Story, kind: Kind, effect: Effect, before: Complaints = _NOTHING
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
            entry = entries.applied(effect.step, effect.number, complaints, self._now())
            self._write(story, entry)
        # What may have been done is only looked at.
        return _NOTHING if unanswered else complaints

    def _proven(self, story: Story, step: Step, effect: Effect, complained: Complaints) -> Seen:
        """The proof; what was complained of is sent again for as long as it is not there."""
        kind = self.kinds[step.kind]
        sight = lambda: kind.verify(effect.intent, self.look)  # noqa: E731
        until = self.clock.monotonic() + step.patience_s
        while True:
            left = max(0.0, until - self.clock.monotonic())
            pause = min(AGAIN_S, left) if complained else left
            seen = self._patience().wait_for(sight, step.id, pause)
            if not complained or seen.state is not State.WAITING or pause >= left:
                break
            complained = self._apply(story, kind, effect, complained)
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
        if self._is_opened(story):
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
        if self._is_open(story):
            self._keep_fenced(story)
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
            if not kind.traits or Trait.RECONCILES in kind.traits:
                # Nothing rests on an estimate or a person's word; what became of records stays so.
                continue
            changed = not self._holds(story, step, kind, effect)

    def _keep_fenced(self, story: Story) -> None:
        """Set a fence again that fell behind the opening; what came through it is owed."""
        # Where replication writes to the source by now, nothing tells what else does.
        follows = Trait.OTHER_WAY | Trait.STARTS_REPLICATION
        kinds = {step.id: self.kinds[step.kind] for step in story.plan.steps}
        if any(follows in kinds[effect.step].traits for effect in story.effects):
            return
        for step in self._fences(story):
            effect = story.effect_of(step.id)
            if effect is not None and effect.done:
                self._set_again(story, step, effect)

    def _fences(self, story: Story) -> Iterator[Step]:
        """The steps that keep producers from the source."""
        for step in story.plan.steps:
            traits = self.kinds[step.kind].traits
            if Trait.FENCES_WRITES in traits and Trait.OTHER_WAY not in traits:
                yield step

    def _set_again(self, story: Story, step: Step, effect: Effect) -> None:
        """Clients do not wait for the source: what does not hold soon is owed."""
        kind, before = self.kinds[step.kind], story.facts[step.id].get("ends")
        sight = lambda: kind.verify(effect.intent, self.look)  # noqa: E731
        seen = told(sight)
        if seen.state is State.WAITING:
            self._write(story, entries.looked(step.id, effect.number, seen, self._now()))
            self._apply(story, kind, effect)
            seen = self._patience().wait_for(sight, step.id, _BRIEFLY_S)
            if seen.state is State.DONE:
                self._note_done(story, step, effect, seen)
        if seen.state is not State.DONE:
            self._write_through(story, step, seen.words)
        elif seen.facts.get("ends") != before and (why := self._came_through()):
            self._write_through(story, step, why)

    def _came_through(self) -> str:
        """What the target lacks by content: the end of a transaction moves an end, too."""
        try:
            missing = self.look.missing()
        except DrctlError as error:
            return error.message
        if missing.not_compared:
            return missing.not_compared[0]
        return f"{missing.records:,} records are missing there" if missing.records else ""

    def _write_through(self, story: Story, step: Step, why: str) -> None:
        what = THROUGH.format(source=story.plan.source, target=story.plan.target, why=why)
        self._write(story, entries.owed(step.id, what, self._now()))

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
        # What a fence kept away comes for as long as one waits: where it fell it is set anew.
        soon_s = 0.0 if Trait.FENCES_WRITES in kind.traits else _BRIEFLY_S
        seen = self._patience().wait_shortly(sight, step.id, soon_s, step.patience_s)
        self._write(story, entries.looked(step.id, effect.number, seen, self._now()))
        if seen.state is State.UNKNOWN:
            message = f"step {step.id} was done, and cannot be looked at now: {seen.words}"
            raise Unknown(message, "drctl resume looks again")
        if seen.state is not State.DONE:
            return False
        self._note_done(story, step, effect, seen)
        return bool(before == seen.facts)

    def _is_opened(self, story: Story) -> bool:
        """Whether the target may take writes that it did not: then there is no way back."""
        return any(
            effect.done or not self._is_as_before(story, effect) for effect in self._openings(story)
        )

    def _is_as_before(self, story: Story, effect: Effect) -> bool:
        kind = self.kinds[story.plan.step(effect.step).kind]
        seen = told(lambda: kind.undone(effect.intent, self.look))
        return seen.state is State.DONE

    def _is_open(self, story: Story) -> bool:
        """Whether it is, as far as anybody can say."""
        return any(
            effect.done or self._may_be_done(story, effect) for effect in self._openings(story)
        )

    def _may_be_done(self, story: Story, effect: Effect) -> bool:
        kind = self.kinds[story.plan.step(effect.step).kind]
        seen = told(lambda: kind.verify(effect.intent, self.look))
        return seen.state in (State.DONE, State.UNKNOWN)

    def _openings(self, story: Story) -> list[Effect]:
        return [
            effect
            for effect in story.effects
            if not effect.undone
            and Trait.OPENS in self.kinds[story.plan.step(effect.step).kind].traits
        ]

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
