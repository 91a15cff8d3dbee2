"""The phase behind the fence: whoever goes on with a run cannot know that its fence held."""

from collections.abc import Iterator
from dataclasses import dataclass

from drctl.engine import entries
from drctl.engine.effects import Effects
from drctl.engine.kind import Kind, State, Trait
from drctl.engine.looking import told
from drctl.engine.steps.last_look import MOVED
from drctl.engine.story import Effect, Story
from drctl.model.errors import DrctlError, Unknown
from drctl.model.plan import Step

STALE = "a step before it had to be done again"

_BRIEFLY_S = 15.0
"""For so long clients wait for a fence behind the opening, and a run for what was done before."""

THROUGH = "{source} may have taken records after {target} was opened: {why}; drctl gap tells"


@dataclass(frozen=True, slots=True)
class FencedPhase:
    """Looks whether fences hold, and what rests on them; sets them again."""

    effects: Effects

    def look_again(self, story: Story) -> None:
        """A run that was away cannot know that its fence held: the fence is looked at first."""
        if self._is_open(story):
            self._keep_fenced(story)
            return
        changed = fenced = False
        newest = self._newest_fence(story)
        for step in story.plan.steps:
            kind = self.effects.kinds[step.kind]
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
                self.effects.write(
                    story, entries.stale(step.id, effect.number, STALE, self.effects.now())
                )
                continue
            if not kind.traits or Trait.RECONCILES in kind.traits:
                # Nothing rests on an estimate or a person's word; what became of records stays so.
                continue
            changed = not self._holds(story, step, kind, effect)

    def _keep_fenced(self, story: Story) -> None:
        """Set a fence again that fell behind the opening; what came through it is owed."""
        # Where replication writes to the source by now, nothing tells what else does.
        follows = Trait.OTHER_WAY | Trait.STARTS_REPLICATION
        kinds = {step.id: self.effects.kinds[step.kind] for step in story.plan.steps}
        if any(follows in kinds[effect.step].traits for effect in story.effects):
            return
        for step in self._fences(story):
            effect = story.effect_of(step.id)
            if effect is not None and effect.done:
                self._set_again(story, step, effect)

    def owe_what_moved(self, story: Story) -> None:
        """What came through a fence is not said to be there because somebody passed it over."""
        why = story.overrides.get(MOVED)
        for step in self._fences(story) if why else ():
            if step.id in story.facts and step.id not in story.owed:
                self._write_through(story, step, f"{MOVED} was passed over: {why}")

    def _fences(self, story: Story) -> Iterator[Step]:
        """The steps that keep producers from the source."""
        for step in story.plan.steps:
            traits = self.effects.kinds[step.kind].traits
            if Trait.FENCES_WRITES in traits and Trait.OTHER_WAY not in traits:
                yield step

    def _set_again(self, story: Story, step: Step, effect: Effect) -> None:
        """Clients do not wait for the source: what does not hold soon is owed."""
        kind, before = self.effects.kinds[step.kind], story.facts[step.id].get("ends")
        sight = lambda: kind.verify(effect.intent, self.effects.look)  # noqa: E731
        seen = told(sight)
        if seen.state is State.WAITING:
            self.effects.write(
                story, entries.looked(step.id, effect.number, seen, self.effects.now())
            )
            self.effects.apply(story, kind, effect)
            seen = self.effects.patience().wait_for(sight, step.id, _BRIEFLY_S)
            if seen.state is State.DONE:
                self.effects.note_done(story, step, effect, seen)
        if seen.state is not State.DONE:
            self._write_through(story, step, seen.words)
        elif seen.facts.get("ends") != before and (why := self._came_through()):
            self._write_through(story, step, why)

    def _came_through(self) -> str:
        """What the target lacks by content: the end of a transaction moves an end, too."""
        try:
            missing = self.effects.look.missing()
        except DrctlError as error:
            return error.message
        if missing.not_compared:
            return missing.not_compared[0]
        return f"{missing.records:,} records are missing there" if missing.records else ""

    def _write_through(self, story: Story, step: Step, why: str) -> None:
        what = THROUGH.format(source=story.plan.source, target=story.plan.target, why=why)
        self.effects.write(story, entries.owed(step.id, what, self.effects.now()))

    def _newest_fence(self, story: Story) -> str:
        """The last step that fences and is done; empty where none is."""
        done = {effect.step for effect in story.effects if effect.done and effect.stands}
        fences = (
            step.id
            for step in reversed(story.plan.steps)
            if step.id in done and Trait.FENCES_WRITES in self.effects.kinds[step.kind].traits
        )
        return next(fences, "")

    def _holds(self, story: Story, step: Step, kind: Kind, effect: Effect) -> bool:
        before = story.facts.get(step.id)
        sight = lambda: kind.verify(effect.intent, self.effects.look)  # noqa: E731
        # What a fence kept away comes for as long as one waits: where it fell it is set anew.
        soon_s = 0.0 if Trait.FENCES_WRITES in kind.traits else _BRIEFLY_S
        seen = self.effects.patience().wait_shortly(sight, step.id, soon_s, step.patience_s)
        self.effects.write(story, entries.looked(step.id, effect.number, seen, self.effects.now()))
        if seen.state is State.UNKNOWN:
            message = f"step {step.id} was done, and cannot be looked at now: {seen.words}"
            raise Unknown(message, "drctl resume looks again")
        if seen.state is not State.DONE:
            return False
        self.effects.note_done(story, step, effect, seen)
        return bool(before == seen.facts)

    def is_opened(self, story: Story) -> bool:
        """Whether the target may take writes that it did not: then there is no way back."""
        return any(
            effect.done or not self._is_as_before(story, effect) for effect in self._openings(story)
        )

    def _is_as_before(self, story: Story, effect: Effect) -> bool:
        kind = self.effects.kinds[story.plan.step(effect.step).kind]
        seen = told(lambda: kind.undone(effect.intent, self.effects.look))
        return seen.state is State.DONE

    def _is_open(self, story: Story) -> bool:
        """Whether it is, as far as anybody can say."""
        return any(
            effect.done or self._may_be_done(story, effect) for effect in self._openings(story)
        )

    def _may_be_done(self, story: Story, effect: Effect) -> bool:
        kind = self.effects.kinds[story.plan.step(effect.step).kind]
        seen = told(lambda: kind.verify(effect.intent, self.effects.look))
        return seen.state in (State.DONE, State.UNKNOWN)

    def _openings(self, story: Story) -> list[Effect]:
        return [
            effect
            for effect in story.effects
            if not effect.undone
            and Trait.OPENS in self.effects.kinds[story.plan.step(effect.step).kind].traits
        ]
