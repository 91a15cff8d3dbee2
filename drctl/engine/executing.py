"""Carries a plan out, from its beginning or from where its journal says that it stopped."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, repeat

from drctl.engine import entries
from drctl.engine.entries import Entry, What
from drctl.engine.kind import FINAL, Kind, Outcome, Seen, State, Status, Trait
from drctl.engine.ports import Clock, LinkReader, LinkWriter, Watcher
from drctl.engine.run_state import Effect, RunState, read_run
from drctl.engine.source_fence import CHANGED_AFTER_FENCE, FenceFacts
from drctl.model.errors import DrctlError, Fenced, Unknown
from drctl.model.journal import HeldJournal
from drctl.model.plan import Duty, Json, Plan, Step
from drctl.model.typed_json import read_as

_PAUSES_S = (*(0.125,) * 6, 0.25, 0.5)
"""Between two polls; short at first, for clients may wait for what comes soon."""

_RESEND_S = 2.0
"""After a complaint an effect is polled for so long before it is sent again."""

_BRIEFLY_S = 15.0
"""How long clients wait for a fence to be set again, and a run for what was done before."""

_ASK_AGAIN_S = 10.0
"""How long a step asks again for what did not answer, once writes are fenced."""

_STALE = "a step before it had to be done again"
_NOT_SEEN = "it was not seen to be done, and is decided on again"
_WRITTEN_THROUGH = (
    "{source} may have taken records after {target} was opened: {why}; drctl gap tells"
)

Sight = Callable[[], Seen]
Complaints = tuple[str, ...]


class WantsToStop(Exception):
    """The engineer pressed Ctrl-C; no further effect is begun."""


def nobody_asks() -> None:
    """Nothing has to hold while one waits."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Polls until there is proof, or time is up.

    Every method raises Fenced where another run took the link, and WantsToStop where somebody
    wants to stop.

    Args:
        held: is called between two polls; raises Fenced where this run may not continue.
    """

    clock: Clock
    watcher: Watcher
    held: Callable[[], None] = nobody_asks

    def wait_for(self, reader: Sight, step: str, seconds: float) -> Seen:
        """The last observation: done, failed, or what there was when time was up."""
        return self._poll(reader, step, seconds, {State.DONE, State.FAILED})

    def wait_for_answer(self, reader: Sight, step: str, seconds: float) -> Seen:
        """The first observation that is an answer; only UNKNOWN is polled again."""
        return self._poll(reader, step, seconds, {State.DONE, State.FAILED, State.WAITING})

    def _poll(self, reader: Sight, step: str, seconds: float, enough: set[State]) -> Seen:
        until = self.clock.monotonic() + seconds
        pauses = chain(_PAUSES_S, repeat(_PAUSES_S[-1]))
        while True:
            seen = observed(reader)
            left = until - self.clock.monotonic()
            if seen.state in enough or left <= 0:
                return seen
            self.held()
            if self.clock.stopping:
                raise WantsToStop
            self.watcher.waiting(step, seen.words, left)
            self.clock.wait(min(next(pauses), left))


def observed(reader: Sight) -> Seen:
    """What is observed; that nothing answered is an observation, too.

    Raises:
        Fenced: another run took the link, and nothing may be done any more.
    """
    try:
        return reader()
    except Fenced:
        raise
    except Unknown as error:
        return Seen(State.UNKNOWN, error.message)
    except DrctlError as error:
        words = f"{error.message}: {error.hint}" if error.hint else error.message
        return Seen(State.FAILED, words)


@dataclass(slots=True)
class Effects:
    """Applies effects and reads them back; writes the journal before a run continues."""

    kinds: Mapping[str, Kind]
    reader: LinkReader
    writer: LinkWriter
    journal: HeldJournal
    clock: Clock
    watcher: Watcher

    def apply(
        self, run: RunState, kind: Kind, effect: Effect, before: Complaints = ()
    ) -> Complaints:
        """Send the effect; returns complaints after which it may be sent again once it is polled.

        Args:
            before: the complaints of last time, which are in the journal already.
        """
        unanswered = False
        try:
            complaints = kind.apply(effect.intent, self.writer)
        except Fenced:
            raise
        except DrctlError as error:
            # Whatever was complained of: what is there now tells whether it was done.
            complaints, unanswered = (error.message,), isinstance(error, Unknown)
        if complaints and complaints != before:
            entry = entries.applied(effect.step, effect.number, complaints, self.now())
            self.write(run, entry)
        # What may have been done is only read back.
        return () if unanswered else complaints

    def proven(self, run: RunState, step: Step, effect: Effect, complained: Complaints) -> Seen:
        """The proof; after a complaint the effect is sent again until there is one."""
        kind = self.kinds[step.kind]
        until = self.clock.monotonic() + step.timeout_s
        while True:
            left = max(0.0, until - self.clock.monotonic())
            pause = min(_RESEND_S, left) if complained else left
            seen = self.patience().wait_for(self.readback(kind, effect), step.id, pause)
            if not complained or seen.state is not State.WAITING or pause >= left:
                break
            complained = self.apply(run, kind, effect, complained)
        if seen.state is State.DONE:
            self.note_done(run, effect, seen)
        return seen

    def readback(self, kind: Kind, effect: Effect) -> Sight:
        """Looks whether the effect is done."""
        return partial(kind.verify, effect.intent, self.reader)

    def has(self, step: Step, trait: Trait) -> bool:
        """Whether the step's kind has a trait."""
        return trait in self.kinds[step.kind].traits

    def patience(self) -> Patience:
        """Polling may take long: a run that lost its link meanwhile learns it before the end."""
        return Patience(self.clock, self.watcher, self.journal.check)

    def note_done(self, run: RunState, effect: Effect, seen: Seen) -> None:
        """Write down that it is done, and which part of it a later run must do."""
        self.write(run, entries.done(effect.step, effect.number, seen, self.now()))
        if seen.outstanding:
            self.note_outstanding(run, effect.step, seen.outstanding)

    def note_looked(self, run: RunState, effect: Effect, seen: Seen) -> None:
        """Write down what a later look at an effect showed."""
        self.write(run, entries.observed(effect.step, effect.number, seen, self.now()))

    def note_outstanding(self, run: RunState, step: str, what: str) -> None:
        """Write down what a later run must do."""
        self.write(run, entries.outstanding(step, what, self.now()))

    def write(self, run: RunState, entry: Entry) -> None:
        """Make an entry durable, then let the run take it.

        Raises:
            Fenced: another run took the link.
            Unknown: the journal cannot be written.
        """
        self.journal.append([entry])
        run.take([entry])

    def now(self) -> datetime:
        """The clock's, UTC."""
        return datetime.fromtimestamp(self.clock.now(), UTC)


@dataclass(slots=True)
class Execution(Effects):
    """Walks the steps of one run; every effect is in the journal before it begins."""

    def start(self, plan: Plan, who: Mapping[str, str]) -> tuple[RunState, Outcome]:
        """Begin a run of the plan.

        Raises:
            Fenced: another run took the link.
            Unknown: the journal cannot be written.
        """
        first = entries.began(self.journal.run, plan, who, self.now())
        self.journal.append([first])
        run = read_run([first])
        return run, self._to_the_end(run, resumed=False)

    def go_on(
        self, run: RunState, who: Mapping[str, str], overrides: Mapping[str, str] = entries.NOTHING
    ) -> Outcome:
        """Resume a run that was stopped, interrupted or lost.

        Args:
            overrides: prechecks that are overridden from here on, each with the reason.

        Raises:
            Fenced: another run took the link.
            Unknown: the journal cannot be written.
        """
        self.write(run, entries.resumed(who, self.now(), overrides))
        return self._to_the_end(run, resumed=True)

    def _to_the_end(self, run: RunState, *, resumed: bool) -> Outcome:
        try:
            outcome = self._walk(run, resumed)
        except WantsToStop:
            step = next((each.id for each in run.plan.steps if not run.is_done(each.id)), "")
            self.write(run, entries.interrupted(step, self.now()))
            return Outcome(Status.INTERRUPTED, step, "stopped between two effects")
        if outcome.status in FINAL or outcome.over:
            self.write(run, entries.ended(outcome.status.value, self.now()))
        return outcome

    def _walk(self, run: RunState, resumed: bool) -> Outcome:
        if resumed and not run.rollback_reason:
            FencedPhase(self).look_again(run)
        if not run.rollback_reason:
            outcome = self._forward(run)
            if not run.rollback_reason:
                return outcome
        return Rollback(self).of(run)

    def _forward(self, run: RunState) -> Outcome:
        steps = run.plan.steps
        for number, step in enumerate(steps, 1):
            if run.is_done(step.id):
                continue
            if self.clock.stopping:
                raise WantsToStop
            self.watcher.step(step.id, number, len(steps))
            began = self.clock.monotonic()
            seen = self._do(run, step)
            self.watcher.ended(step.id, seen.words, {"seconds": self.clock.monotonic() - began})
            if seen.state is not State.DONE and (outcome := self._not_done(run, step, seen)):
                return outcome
        return Outcome(Status.DONE, outstanding=bool(run.outstanding))

    def _do(self, run: RunState, step: Step) -> Seen:
        kind = self.kinds[step.kind]
        effect = run.effect_of(step.id)
        complained: Complaints = ()
        if run.overrides and Trait.CHANGES not in kind.traits:
            # It is checked again, with what is overridden.
            effect = None
        if Trait.ENABLES_WRITES in kind.traits:
            FencedPhase(self).owe_what_moved(run)
        if effect is not None:
            seen = observed(self.readback(kind, effect))
            self.note_looked(run, effect, seen)
            if seen.state is State.UNKNOWN:
                return seen
            if seen.state is not State.DONE and Trait.RECHECKED in kind.traits:
                self.write(run, entries.stale(step.id, effect.number, _NOT_SEEN, self.now()))
                effect = None
            elif seen.state is not State.DONE:
                if blocked := self._blocked_opening(run, step, kind):
                    return blocked
                complained = self.apply(run, kind, effect)
        if effect is None:
            announced = self._announced(run, step, kind)
            if isinstance(announced, Seen):
                return announced
            effect = announced
            complained = self.apply(run, kind, effect)
        return self.proven(run, step, effect, complained)

    def _announced(self, run: RunState, step: Step, kind: Kind) -> Effect | Seen:
        """The effect, once the journal has it; what was observed where it must not be done."""
        intent: Json = {}

        def check() -> Seen:
            nonlocal intent
            intent = kind.check(run.settings_of(step), run.facts_by_kind(), self.reader)
            return Seen(State.DONE, "")

        seen = observed(check)
        if seen.state is State.UNKNOWN and self._is_behind_fence(run, step):
            # Nobody can write by now: what did not answer once is asked again.
            most_s = min(_ASK_AGAIN_S, step.timeout_s)
            seen = self.patience().wait_for_answer(check, step.id, most_s)
        if seen.state is not State.DONE:
            return seen
        number = len(run.effects) + 1
        self.write(run, entries.intend(step.id, number, intent, self.now()))
        return run.effects[-1]

    def _is_behind_fence(self, run: RunState, step: Step) -> bool:
        """Whether the run cannot do without the step, and writes are refused until it is over."""
        steps = run.plan.steps
        before = steps[: steps.index(step)]
        fenced = any(self.has(each, Trait.FENCES_WRITES) for each in before)
        return fenced and step.duty is Duty.REQUIRED

    def _blocked_opening(self, run: RunState, step: Step, kind: Kind) -> Seen | None:
        """What blocks it by now: a run that was away cannot know that nothing does."""
        if Trait.ENABLES_WRITES not in kind.traits:
            return None

        def check() -> Seen:
            kind.check(run.settings_of(step), run.facts_by_kind(), self.reader)
            return Seen(State.DONE, "")

        seen = observed(check)
        return None if seen.state is State.DONE else seen

    def _not_done(self, run: RunState, step: Step, seen: Seen) -> Outcome | None:
        """None where the run continues all the same."""
        if step.duty is Duty.BEST_EFFORT:
            title = self.kinds[step.kind].describe(step.settings).title
            self.note_outstanding(run, step.id, f"{title}: {seen.words}")
            return None
        if step.duty is Duty.OPTIONAL:
            self.write(run, entries.skipped(step.id, seen, self.now()))
            return None
        self.write(run, entries.failed(step.id, seen, self.now()))
        status = Status.STOPPED
        if seen.state is State.UNKNOWN:
            status = Status.UNKNOWN
        elif not FencedPhase(self).is_opened(run):
            self.write(run, entries.rolling_back(step.id, seen.words, self.now()))
        elif self.has(step, Trait.VERIFIES):
            status = Status.UNKNOWN
        return Outcome(status, step.id, seen.words, seen.items)


@dataclass(frozen=True, slots=True)
class FencedPhase:
    """Looks whether fences hold, and what rests on them; sets them again."""

    effects: Effects

    def look_again(self, run: RunState) -> None:
        """A run that was away cannot know that its fence held: the fence is looked at first."""
        if self._may_be_open(run):
            self._keep_fenced(run)
            return
        changed = fenced = False
        newest = self._newest_fence(run)
        for step in run.plan.steps:
            kind = self.effects.kinds[step.kind]
            fences = Trait.FENCES_WRITES in kind.traits
            fenced = fenced or fences
            newest = "" if step.id == newest else newest
            effect = run.effect_of(step.id)
            if not fenced or effect is None or not effect.done:
                continue
            if newest and not (fences or changed):
                # What rests on an older fence has changed since the newer one was set.
                continue
            if changed:
                stale = entries.stale(step.id, effect.number, _STALE, self.effects.now())
                self.effects.write(run, stale)
                continue
            if not kind.traits or Trait.RECONCILES in kind.traits:
                # Nothing rests on an estimate or a person's word; what became of records stays so.
                continue
            changed = not self._holds(run, step, kind, effect)

    def owe_what_moved(self, run: RunState) -> None:
        """What came through a fence is not on the target because somebody overrode the check."""
        why = run.overrides.get(CHANGED_AFTER_FENCE)
        for step in self._source_fences(run) if why else ():
            if step.id in run.facts and step.id not in run.outstanding:
                self._owe_writes(run, step, f"{CHANGED_AFTER_FENCE} is overridden: {why}")

    def is_opened(self, run: RunState) -> bool:
        """Whether the target may take writes that it did not: then nothing is rolled back."""

        def is_as_before(kind: Kind, effect: Effect) -> bool:
            seen = observed(partial(kind.undone, effect.intent, self.effects.reader))
            return seen.state is State.DONE

        return any(each.done or not is_as_before(kind, each) for kind, each in self._openings(run))

    def _may_be_open(self, run: RunState) -> bool:
        def may_be_done(kind: Kind, effect: Effect) -> bool:
            seen = observed(self.effects.readback(kind, effect))
            return seen.state in (State.DONE, State.UNKNOWN)

        return any(each.done or may_be_done(kind, each) for kind, each in self._openings(run))

    def _openings(self, run: RunState) -> Iterator[tuple[Kind, Effect]]:
        for effect in run.effects:
            if effect.undone:
                continue
            kind = self.effects.kinds[run.plan.step(effect.step).kind]
            if Trait.ENABLES_WRITES in kind.traits:
                yield kind, effect

    def _keep_fenced(self, run: RunState) -> None:
        """Set a fence again that fell after the opening; what came through it is owed."""
        # Where replication writes to the source by now, nothing tells what else does.
        reverse = Trait.OPPOSITE_DIRECTION | Trait.STARTS_REPLICATION
        if any(self.effects.has(run.plan.step(each.step), reverse) for each in run.effects):
            return
        for step in self._source_fences(run):
            effect = run.effect_of(step.id)
            if effect is not None and effect.done:
                self._set_again(run, step, effect)

    def _source_fences(self, run: RunState) -> Iterator[Step]:
        """The steps that keep producers from the source."""
        for step in run.plan.steps:
            traits = self.effects.kinds[step.kind].traits
            if Trait.FENCES_WRITES in traits and Trait.OPPOSITE_DIRECTION not in traits:
                yield step

    def _set_again(self, run: RunState, step: Step, effect: Effect) -> None:
        """Clients do not wait for the source: what does not hold soon is owed."""
        kind, before = self.effects.kinds[step.kind], _ends(run.facts[step.id])
        reader = self.effects.readback(kind, effect)
        seen = observed(reader)
        if seen.state is State.WAITING:
            self.effects.note_looked(run, effect, seen)
            self.effects.apply(run, kind, effect)
            seen = self.effects.patience().wait_for(reader, step.id, _BRIEFLY_S)
            if seen.state is State.DONE:
                self.effects.note_done(run, effect, seen)
        if seen.state is not State.DONE:
            self._owe_writes(run, step, seen.words)
        elif _ends(seen.facts) != before and (why := self._came_through()):
            self._owe_writes(run, step, why)

    def _came_through(self) -> str:
        """What the target is missing by content: the end of a transaction moves an end, too."""
        try:
            missing = self.effects.reader.missing()
        except DrctlError as error:
            return error.message
        if missing.not_compared:
            return missing.not_compared[0]
        return f"{missing.records:,} records are missing there" if missing.records else ""

    def _owe_writes(self, run: RunState, step: Step, why: str) -> None:
        plan = run.plan
        what = _WRITTEN_THROUGH.format(source=plan.source, target=plan.target, why=why)
        self.effects.note_outstanding(run, step.id, what)

    def _newest_fence(self, run: RunState) -> str:
        """The last step that fences and is done; empty where none is."""
        done = {effect.step for effect in run.effects if effect.done and effect.current}
        fences = (
            step.id
            for step in reversed(run.plan.steps)
            if step.id in done and self.effects.has(step, Trait.FENCES_WRITES)
        )
        return next(fences, "")

    def _holds(self, run: RunState, step: Step, kind: Kind, effect: Effect) -> bool:
        before = run.facts.get(step.id)
        reader, patience = self.effects.readback(kind, effect), self.effects.patience()
        # What a fence kept away comes for as long as one waits: where it fell it is set again.
        soon_s = 0.0 if Trait.FENCES_WRITES in kind.traits else _BRIEFLY_S
        seen = patience.wait_for(reader, step.id, min(soon_s, step.timeout_s))
        if seen.state is State.UNKNOWN:
            seen = patience.wait_for_answer(reader, step.id, step.timeout_s)
        self.effects.note_looked(run, effect, seen)
        if seen.state is State.UNKNOWN:
            message = f"step {step.id} was done, and cannot be looked at now: {seen.words}"
            raise Unknown(message, "drctl resume looks again")
        if seen.state is not State.DONE:
            return False
        self.effects.note_done(run, effect, seen)
        return bool(before == (seen.facts or {}))


def _ends(facts: Json | None) -> Mapping[str, int]:
    """The end offsets that a fence was proven with."""
    return read_as(FenceFacts, facts or {}).ends


Observed = list[tuple[Effect, Seen]]


@dataclass(frozen=True, slots=True)
class Rollback:
    """Undoes what may have been done; one that cannot be undone does not keep the others."""

    effects: Effects

    def of(self, run: RunState) -> Outcome:
        """Roll back every effect that still stands, the newest first.

        Raises:
            Fenced: another run took the link.
            Unknown: the journal cannot be written.
            WantsToStop: somebody wants to stop.
        """
        remaining: Observed = []
        staying: Observed = []
        changed = False
        for effect in reversed(run.effects):
            if effect.undone:
                continue
            step = run.plan.step(effect.step)
            kind = self.effects.kinds[step.kind]
            if Trait.CHANGES not in kind.traits:
                continue
            if Trait.IRREVERSIBLE in kind.traits:
                # Nothing stays where it changed nothing; not done where it did not stay.
                seen = self._answer(kind, effect, step.timeout_s)
                fell = effect.done and seen.state is not State.DONE
                (remaining if fell else staying).append((effect, seen))
                continue
            changed = True
            seen = self._rolled_back(run, kind, effect, step.timeout_s)
            if seen.state is State.DONE:
                entry = entries.undone(step.id, effect.number, seen.words, self.effects.now())
            else:
                entry = entries.not_undone(step.id, effect.number, seen, self.effects.now())
                remaining.append((effect, seen))
            self.effects.write(run, entry)
        return _outcome(run, changed, remaining, [each for each in staying if each[1].stays])

    def _rolled_back(self, run: RunState, kind: Kind, effect: Effect, seconds: float) -> Seen:
        """How it stands; a rollback that was announced before is looked at, not done again."""
        if effect.undoing:
            seen = self._answer(kind, effect, seconds)
            if seen.state in (State.DONE, State.UNKNOWN):
                return seen
        self.effects.write(run, entries.undoing(effect.step, effect.number, self.effects.now()))
        return self._undo(kind, effect, seconds)

    def _undo(self, kind: Kind, effect: Effect, seconds: float) -> Seen:
        """Sent again after a complaint, and whatever did not answer is asked again."""
        clock, patience = self.effects.clock, self.effects.patience()
        until = clock.monotonic() + seconds
        while True:
            complaint = self._send(kind, effect)
            left = max(0.0, until - clock.monotonic())
            pause = min(_RESEND_S, left) if complaint else left
            seen = patience.wait_for(self._reader(kind, effect), effect.step, pause)
            if seen.state is State.UNKNOWN:
                seen = self._answer(kind, effect, left - pause)
            if seen.state is State.DONE or not complaint:
                return seen
            if seen.state is not State.WAITING or clock.monotonic() >= until:
                return replace(seen, words=f"{seen.words} ({complaint})")

    def _send(self, kind: Kind, effect: Effect) -> str:
        """What was complained of; empty where nothing was."""
        try:
            return "; ".join(kind.undo(effect.intent, self.effects.writer))
        except Fenced:
            raise
        except DrctlError as error:
            return error.message

    def _answer(self, kind: Kind, effect: Effect, seconds: float) -> Seen:
        reader = self._reader(kind, effect)
        return self.effects.patience().wait_for_answer(reader, effect.step, seconds)

    def _reader(self, kind: Kind, effect: Effect) -> Sight:
        return partial(kind.undone, effect.intent, self.effects.reader)


def _outcome(run: RunState, changed: bool, remaining: Observed, staying: Observed) -> Outcome:
    if remaining:
        unknown = any(seen.state is State.UNKNOWN for _, seen in remaining)
        items = tuple(f"{effect.step}: {seen.words}" for effect, seen in remaining)
        words = f"not everything could be put back after: {run.rollback_reason}"
        status = Status.UNKNOWN if unknown else Status.STOPPED
        return Outcome(status, remaining[0][0].step, words, items)
    turned = (each for each in reversed(run.entries) if each["entry"] == What.ROLLING_BACK)
    step = str(next(turned)["step"])
    if staying:
        items = tuple(f"{effect.step}: {seen.words}" for effect, seen in reversed(staying))
        words = f"some of it stays as it is, and should, after: {run.rollback_reason}"
        return Outcome(Status.STOPPED, step, words, items, over=True)
    put_back = changed or any(effect.undone for effect in run.effects)
    words = f"everything was put back: {run.rollback_reason}" if put_back else run.rollback_reason
    return Outcome(Status.REFUSED, step, words)
