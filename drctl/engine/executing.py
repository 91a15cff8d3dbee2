"""Carries a plan out, from its beginning or from where its journal says it came to."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, repeat

from drctl.engine import entries
from drctl.engine.entries import Entry
from drctl.engine.kind import FINAL, Kind, Outcome, Seen, State, Status, Trait
from drctl.engine.ports import Clock, LinkReader, LinkWriter, Watcher
from drctl.engine.recheck_source import MOVED
from drctl.engine.run_state import Effect, RunState, read_story
from drctl.model.errors import DrctlError, Fenced, Unknown
from drctl.model.journal import HeldJournal
from drctl.model.plan import Duty, Json, Plan, Step

_PAUSES_S = (0.125, 0.125, 0.25, 0.5)
"""Between looks; what comes soon is seen soon, for clients may wait for it."""

AGAIN_S = 2.0
"""For so long is looked whether something was done all the same that was complained of."""

Sight = Callable[[], Seen]

_SETTLED = frozenset({State.DONE, State.FAILED})
_TOLD = _SETTLED | {State.WAITING}


def nobody_asks() -> None:
    """Nothing has to hold while one waits."""


class WantsToStop(Exception):
    """The engineer pressed Ctrl-C; effects are not begun any more."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Waits for proofs.

    Args:
        held: is asked while one waits; raises Fenced where this run may not go on any more.
    """

    clock: Clock
    watcher: Watcher
    held: Callable[[], None] = nobody_asks

    def wait_for(self, sight: Sight, step: str, seconds: float) -> Seen:
        """The last thing seen; done, failed, or what there was when time was up.

        Raises:
            Fenced: another run took the link.
            WantsToStop: somebody wants to stop.
        """
        return self._wait(sight, step, seconds, _SETTLED)

    def wait_for_word(self, sight: Sight, step: str, seconds: float) -> Seen:
        """The first thing seen; only no answer is waited for to become one.

        Raises:
            Fenced: another run took the link.
            WantsToStop: somebody wants to stop.
        """
        return self._wait(sight, step, seconds, _TOLD)

    def wait_shortly(self, sight: Sight, step: str, soon_s: float, seconds: float) -> Seen:
        """As `wait_for` for so long; from then on only no answer is waited for to become one.

        Raises:
            Fenced: another run took the link.
            WantsToStop: somebody wants to stop.
        """
        seen = self.wait_for(sight, step, min(soon_s, seconds))
        if seen.state is State.UNKNOWN:
            return self.wait_for_word(sight, step, seconds)
        return seen

    def _wait(self, sight: Sight, step: str, seconds: float, enough: frozenset[State]) -> Seen:
        until = self.clock.monotonic() + seconds
        pauses = chain(_PAUSES_S, repeat(_PAUSES_S[-1]))
        while True:
            seen = told(sight)
            left = until - self.clock.monotonic()
            if seen.state in enough or left <= 0:
                return seen
            self.held()
            if self.clock.stopping:
                raise WantsToStop
            self.watcher.waiting(step, seen.words, left)
            self.clock.wait(min(next(pauses), left))


def told(sight: Sight) -> Seen:
    """What is seen; no answer is an answer, too."""
    try:
        return sight()
    except Fenced:
        # The link was taken by another run: nothing may be done any more.
        raise
    except Unknown as error:
        return Seen(State.UNKNOWN, error.message)
    except DrctlError as error:
        return Seen(State.FAILED, in_words(error))


def in_words(error: DrctlError) -> str:
    """What is true and what to do, in one line."""
    return f"{error.message}: {error.hint}" if error.hint else error.message


Complaints = tuple[str, ...]
NOTHING: Complaints = ()


@dataclass(slots=True)
class Effects:
    """What carries a run out."""

    kinds: Mapping[str, Kind]
    look: LinkReader
    hands: LinkWriter
    journal: HeldJournal
    clock: Clock
    watcher: Watcher

    def apply(
        self, story: RunState, kind: Kind, effect: Effect, before: Complaints = NOTHING
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

    def proven(self, story: RunState, step: Step, effect: Effect, complained: Complaints) -> Seen:
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

    def note_done(self, story: RunState, step: Step, effect: Effect, seen: Seen) -> None:
        """Write down that it is done, and what of it a later run must do."""
        self.write(story, entries.done(step.id, effect.number, seen, self.now()))
        if seen.owes:
            self.write(story, entries.owed(step.id, seen.owes, self.now()))

    def patience(self) -> Patience:
        """A wait may be long: whoever has lost the link meanwhile is told before it is over."""
        return Patience(self.clock, self.watcher, self.journal.check)

    def write(self, story: RunState, entry: Entry) -> None:
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


STALE = "a step before it had to be done again"

_BRIEFLY_S = 15.0
"""For so long clients wait for a fence behind the opening, and a run for what was done before."""

THROUGH = "{source} may have taken records after {target} was opened: {why}; drctl gap tells"


@dataclass(frozen=True, slots=True)
class FencedPhase:
    """Looks whether fences hold, and what rests on them; sets them again."""

    effects: Effects

    def look_again(self, story: RunState) -> None:
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

    def _keep_fenced(self, story: RunState) -> None:
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

    def owe_what_moved(self, story: RunState) -> None:
        """What came through a fence is not said to be there because somebody passed it over."""
        why = story.overrides.get(MOVED)
        for step in self._fences(story) if why else ():
            if step.id in story.facts and step.id not in story.owed:
                self._write_through(story, step, f"{MOVED} was passed over: {why}")

    def _fences(self, story: RunState) -> Iterator[Step]:
        """The steps that keep producers from the source."""
        for step in story.plan.steps:
            traits = self.effects.kinds[step.kind].traits
            if Trait.FENCES_WRITES in traits and Trait.OTHER_WAY not in traits:
                yield step

    def _set_again(self, story: RunState, step: Step, effect: Effect) -> None:
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

    def _write_through(self, story: RunState, step: Step, why: str) -> None:
        what = THROUGH.format(source=story.plan.source, target=story.plan.target, why=why)
        self.effects.write(story, entries.owed(step.id, what, self.effects.now()))

    def _newest_fence(self, story: RunState) -> str:
        """The last step that fences and is done; empty where none is."""
        done = {effect.step for effect in story.effects if effect.done and effect.stands}
        fences = (
            step.id
            for step in reversed(story.plan.steps)
            if step.id in done and Trait.FENCES_WRITES in self.effects.kinds[step.kind].traits
        )
        return next(fences, "")

    def _holds(self, story: RunState, step: Step, kind: Kind, effect: Effect) -> bool:
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

    def is_opened(self, story: RunState) -> bool:
        """Whether the target may take writes that it did not: then there is no way back."""
        return any(
            effect.done or not self._is_as_before(story, effect) for effect in self._openings(story)
        )

    def _is_as_before(self, story: RunState, effect: Effect) -> bool:
        kind = self.effects.kinds[story.plan.step(effect.step).kind]
        seen = told(lambda: kind.undone(effect.intent, self.effects.look))
        return seen.state is State.DONE

    def _is_open(self, story: RunState) -> bool:
        """Whether it is, as far as anybody can say."""
        return any(
            effect.done or self._may_be_done(story, effect) for effect in self._openings(story)
        )

    def _may_be_done(self, story: RunState, effect: Effect) -> bool:
        kind = self.effects.kinds[story.plan.step(effect.step).kind]
        seen = told(lambda: kind.verify(effect.intent, self.effects.look))
        return seen.state in (State.DONE, State.UNKNOWN)

    def _openings(self, story: RunState) -> list[Effect]:
        return [
            effect
            for effect in story.effects
            if not effect.undone
            and Trait.OPENS in self.effects.kinds[story.plan.step(effect.step).kind].traits
        ]


@dataclass(frozen=True, slots=True)
class TurningBack:
    """Undoes what may have been done; one that cannot be undone does not keep the others."""

    kinds: Mapping[str, Kind]
    look: LinkReader
    hands: LinkWriter
    patience: Patience
    now: Callable[[], datetime]

    def run(self, story: RunState, write: Callable[[Entry], None]) -> Outcome:
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
    story: RunState,
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


def _turning_step(story: RunState) -> str:
    turned = (e for e in reversed(story.entries) if e["entry"] == entries.What.TURNED_BACK)
    return str(next(turned)["step"])


_ASKED_AGAIN_S = 10.0


@dataclass(slots=True)
class Execution(Effects):
    """Walks the steps of one run; every effect stands in the journal before it begins."""

    def start(self, plan: Plan, who: Mapping[str, str]) -> tuple[RunState, Outcome]:
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
        self,
        story: RunState,
        who: Mapping[str, str],
        overrides: Mapping[str, str] = entries.NOTHING,
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

    def _to_the_end(self, story: RunState, *, again: bool = False) -> Outcome:
        try:
            outcome = self._walk(story, again)
        except WantsToStop:
            step = self._next(story)
            self.write(story, entries.interrupted(step, self.now()))
            return Outcome(Status.INTERRUPTED, step, "stopped between two effects")
        if outcome.status in FINAL or outcome.over:
            self.write(story, entries.ended(outcome.status.value, self.now()))
        return outcome

    def _walk(self, story: RunState, again: bool) -> Outcome:
        if again and not story.turned_back:
            FencedPhase(self).look_again(story)
        if not story.turned_back:
            outcome = self._forward(story)
            if not story.turned_back:
                return outcome
        return self._back(story)

    def _forward(self, story: RunState) -> Outcome:
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

    def _do(self, story: RunState, step: Step) -> Seen:
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

    def _announced(self, story: RunState, step: Step, kind: Kind) -> Effect | Seen:
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

    def _is_behind_fence(self, story: RunState, step: Step) -> bool:
        """Whether the run cannot do without the step, and writes are refused until it is over."""
        steps = story.plan.steps
        before = steps[: steps.index(step)]
        fenced = any(Trait.FENCES_WRITES in self.kinds[each.kind].traits for each in before)
        return fenced and step.duty is Duty.REQUIRED

    def _against_opening(self, story: RunState, step: Step, kind: Kind) -> Seen | None:
        """What stands against it by now: a run that was away cannot know that nothing does."""
        if Trait.OPENS not in kind.traits:
            return None

        def look() -> Seen:
            kind.check(story.settings_of(step), story.facts_by_kind(), self.look)
            return Seen(State.DONE, "")

        seen = told(look)
        return None if seen.state is State.DONE else seen

    def _not_done(self, story: RunState, step: Step, seen: Seen) -> Outcome | None:
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

    def _back(self, story: RunState) -> Outcome:
        back = TurningBack(self.kinds, self.look, self.hands, self.patience(), self.now)
        return back.run(story, lambda entry: self.write(story, entry))

    def _next(self, story: RunState) -> str:
        return next((s.id for s in story.plan.steps if not story.is_done(s.id)), "")
