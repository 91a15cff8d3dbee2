"""The executor: runs the steps of a plan, resumes an interrupted run, and rolls back."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, repeat, takewhile

from drctl.engine import entries
from drctl.engine.entries import Entry, What
from drctl.engine.kind import FINAL, Kind, Outcome, Readback, State, Status, Trait
from drctl.engine.ports import Clock, LinkReader, LinkWriter, Watcher
from drctl.engine.run_state import Effect, RunState, read_run
from drctl.engine.source_fence import CHANGED_AFTER_FENCE, FenceFacts
from drctl.model.errors import DrctlError, Fenced, Unknown
from drctl.model.journal import HeldJournal
from drctl.model.plan import Duty, Json, Plan, Step
from drctl.model.text import plural
from drctl.model.typed_json import read_as

_PAUSES_S = (*(0.125,) * 6, 0.25, 0.5)
"""Pauses between polls; short at first, because clients may be waiting."""

_RESEND_S = 2.0
"""How long to poll after an error before the request is sent again."""

_RECHECK_S = 15.0
"""How long to wait until an earlier effect is verified again, or a fence is restored."""

_RETRY_S = 10.0
"""How long a required step retries unanswered reads once writes are fenced."""

_STALE = "an earlier step had to be repeated"
_NOT_VERIFIED = "it could not be verified, and is checked again"
_WRITES_AFTER_FENCE = (
    "after the fence, {source} may have accepted writes that {target} does not have: {why};"
    " run drctl gap"
)

Verify = Callable[[], Readback]
Errors = tuple[str, ...]


class WantsToStop(Exception):
    """The engineer pressed Ctrl-C; no further effect begins."""


@dataclass(frozen=True, slots=True)
class Poller:
    """Polls an effect until it is verified, or until the timeout.

    Each method raises Fenced if another run took over the link, and WantsToStop if the engineer
    asked to stop.

    Args:
        check_lock: called between polls; raises Fenced if this run no longer holds the link.
    """

    clock: Clock
    watcher: Watcher
    check_lock: Callable[[], None]

    def wait_for(self, verify: Verify, step: str, seconds: float) -> Readback:
        """Poll until DONE or FAILED; return the last state read."""
        return self._poll(verify, step, seconds, {State.DONE, State.FAILED})

    def wait_for_answer(self, verify: Verify, step: str, seconds: float) -> Readback:
        """Poll while the state is UNKNOWN; return the last state read."""
        return self._poll(verify, step, seconds, {State.DONE, State.FAILED, State.WAITING})

    def _poll(self, verify: Verify, step: str, seconds: float, enough: set[State]) -> Readback:
        until = self.clock.monotonic() + seconds
        pauses = chain(_PAUSES_S, repeat(_PAUSES_S[-1]))
        while True:
            seen = observed(verify)
            left = until - self.clock.monotonic()
            if seen.state in enough or left <= 0:
                return seen
            self.check_lock()
            if self.clock.stopping:
                raise WantsToStop
            self.watcher.waiting(step, seen.message, left)
            self.clock.wait(min(next(pauses), left))


def observed(verify: Verify) -> Readback:
    """Call `verify`; errors become UNKNOWN or FAILED.

    Raises:
        Fenced: another run took over the link; this one must not do anything more.
    """
    try:
        return verify()
    except Fenced:
        raise
    except Unknown as error:
        return Readback(State.UNKNOWN, error.message)
    except DrctlError as error:
        message = f"{error.message}: {error.hint}" if error.hint else error.message
        return Readback(State.FAILED, message)


@dataclass(slots=True)
class Effects:
    """Applies and verifies effects, and writes each result to the journal before continuing."""

    kinds: Mapping[str, Kind]
    reader: LinkReader
    writer: LinkWriter
    journal: HeldJournal
    clock: Clock
    watcher: Watcher

    def apply(self, run: RunState, kind: Kind, effect: Effect, before: Errors = ()) -> Errors:
        """Apply the effect; return the errors after which it may be applied again.

        Args:
            before: errors of the previous attempt, which are in the journal already.
        """
        unanswered = False
        try:
            errors = kind.apply(effect.intent, self.writer)
        except Fenced:
            raise
        except DrctlError as error:
            # Whatever the error, only reading back shows whether the effect was applied.
            errors, unanswered = (error.message,), isinstance(error, Unknown)
        if errors and errors != before:
            self.write(run, entries.applied(effect.step, effect.number, errors, self.now()))
        # After an unanswered request the effect may be applied: it is only read back.
        return () if unanswered else errors

    def proven(self, run: RunState, step: Step, effect: Effect, errors: Errors) -> Readback:
        """Wait until the effect is verified; after errors, apply it again while waiting."""
        kind = self.kinds[step.kind]
        until = self.clock.monotonic() + step.timeout_s
        while True:
            left = max(0.0, until - self.clock.monotonic())
            pause = min(_RESEND_S, left) if errors else left
            seen = self.poller().wait_for(self.verifier(kind, effect), step.id, pause)
            if not errors or seen.state is not State.WAITING or pause >= left:
                break
            errors = self.apply(run, kind, effect, errors)
        if seen.state is State.DONE:
            self.note_done(run, effect, seen)
        return seen

    def verifier(self, kind: Kind, effect: Effect) -> Verify:
        """Return a function that reads back whether the effect is applied."""
        return partial(kind.verify, effect.intent, self.reader)

    def undo_verifier(self, kind: Kind, effect: Effect) -> Verify:
        """Return a function that reads back whether the effect is rolled back."""
        return partial(kind.verify_undo, effect.intent, self.reader)

    def has(self, step: Step, trait: Trait) -> bool:
        """Whether the step's kind has a trait."""
        return trait in self.kinds[step.kind].traits

    def poller(self) -> Poller:
        """A poller that also checks whether this run still holds the link."""
        return Poller(self.clock, self.watcher, self.journal.check)

    def note_done(self, run: RunState, effect: Effect, seen: Readback) -> None:
        """Record that the effect is applied, and the action that remains outstanding, if any."""
        self.write(run, entries.done(effect.step, effect.number, seen, self.now()))
        if seen.outstanding:
            self.note_outstanding(run, effect.step, seen.outstanding)

    def note_observed(self, run: RunState, effect: Effect, seen: Readback) -> None:
        """Record the state of an effect of an earlier attempt."""
        self.write(run, entries.observed(effect.step, effect.number, seen, self.now()))

    def note_outstanding(self, run: RunState, step: str, what: str) -> None:
        """Record an outstanding action for a later run."""
        self.write(run, entries.outstanding(step, what, self.now()))

    def leave_outstanding(self, run: RunState, step: Step, why: str) -> None:
        """Record that a step which the plan can do without is left for a later run."""
        title = self.kinds[step.kind].describe(step.settings).title
        self.note_outstanding(run, step.id, f"{title}: {why}")

    def write(self, run: RunState, entry: Entry) -> None:
        """Make an entry durable in the journal, then update the run's state.

        Raises:
            Fenced: another run took over the link.
            Unknown: the journal cannot be written.
        """
        self.journal.append([entry])
        run.take([entry])

    def now(self) -> datetime:
        """The current time, UTC."""
        return datetime.fromtimestamp(self.clock.now(), UTC)


@dataclass(slots=True)
class Execution(Effects):
    """Executes the steps of one run; each effect is in the journal before it begins."""

    def start(self, plan: Plan, who: Mapping[str, str]) -> tuple[RunState, Outcome]:
        """Start a run of the plan.

        Raises:
            Fenced: another run took over the link.
            Unknown: the journal cannot be written.
        """
        first = entries.began(self.journal.run, plan, who, self.now())
        self.journal.append([first])
        run = read_run([first])
        return run, self._execute(run, resumed=False)

    def resume(
        self, run: RunState, who: Mapping[str, str], overrides: Mapping[str, str] = entries.NOTHING
    ) -> Outcome:
        """Resume a run that stopped, was interrupted, or whose process ended.

        Args:
            overrides: prechecks to override from now on: name to reason.

        Raises:
            Fenced: another run took over the link.
            Unknown: the journal cannot be written.
        """
        self.write(run, entries.resumed(who, self.now(), overrides))
        return self._execute(run, resumed=True)

    def _execute(self, run: RunState, *, resumed: bool) -> Outcome:
        try:
            if resumed and not run.rollback_reason:
                FencedPhase(self).recheck(run)
            outcome = None if run.rollback_reason else self._forward(run)
            if outcome is None or run.rollback_reason:
                outcome = Rollback(self).of(run)
        except WantsToStop:
            step = next((each.id for each in run.plan.steps if not run.is_done(each.id)), "")
            self.write(run, entries.interrupted(step, self.now()))
            return Outcome(Status.INTERRUPTED, step, "stopped between two effects")
        if outcome.status in FINAL or outcome.over:
            self.write(run, entries.ended(outcome.status.value, self.now()))
        return outcome

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
            self.watcher.ended(step.id, seen.message, {"seconds": self.clock.monotonic() - began})
            if seen.state is not State.DONE and (outcome := self._not_done(run, step, seen)):
                return outcome
        return Outcome(Status.DONE, outstanding=bool(run.outstanding))

    def _do(self, run: RunState, step: Step) -> Readback:
        kind = self.kinds[step.kind]
        effect = run.effect_of(step.id)
        errors: Errors = ()
        if run.overrides and Trait.CHANGES not in kind.traits:
            # Run the check again with the current overrides.
            effect = None
        if Trait.ENABLES_WRITES in kind.traits:
            FencedPhase(self).note_overridden_changes(run)
        if effect is not None:
            seen = observed(self.verifier(kind, effect))
            self.note_observed(run, effect, seen)
            if seen.state is State.UNKNOWN:
                return seen
            if seen.state is not State.DONE and Trait.RECHECKED in kind.traits:
                self.write(run, entries.stale(step.id, effect.number, _NOT_VERIFIED, self.now()))
                effect = None
            elif seen.state is not State.DONE:
                if Trait.ENABLES_WRITES in kind.traits:
                    # Time has passed since the check: a blocker may have appeared.
                    _, checked = self._checked(run, step)
                    if checked.state is not State.DONE:
                        return checked
                errors = self.apply(run, kind, effect)
        if effect is None:
            intent, checked = self._checked(run, step, retry=self._is_fenced_before(run, step))
            if checked.state is not State.DONE:
                return checked
            self.write(run, entries.intend(step.id, len(run.effects) + 1, intent, self.now()))
            effect = run.effects[-1]
            errors = self.apply(run, kind, effect)
        return self.proven(run, step, effect, errors)

    def _checked(self, run: RunState, step: Step, *, retry: bool = False) -> tuple[Json, Readback]:
        """Run the step's check; return its intent, and DONE or why it must not be applied.

        Args:
            retry: whether to retry for a while if something does not answer.
        """
        intent: Json = {}

        def check() -> Readback:
            nonlocal intent
            settings, facts = run.settings_of(step), run.facts_by_kind()
            intent = self.kinds[step.kind].check(settings, facts, self.reader)
            return Readback(State.DONE, "")

        seen = observed(check)
        if seen.state is State.UNKNOWN and retry:
            most_s = min(_RETRY_S, step.timeout_s)
            seen = self.poller().wait_for_answer(check, step.id, most_s)
        return intent, seen

    def _is_fenced_before(self, run: RunState, step: Step) -> bool:
        """Whether the step is required, and a fence before it stops all writes."""
        steps = run.plan.steps
        before = steps[: steps.index(step)]
        fenced = any(self.has(each, Trait.FENCES_WRITES) for each in before)
        return fenced and step.duty is Duty.REQUIRED

    def _not_done(self, run: RunState, step: Step, seen: Readback) -> Outcome | None:
        """Record the failed step; None if the run continues without it."""
        if step.duty is Duty.BEST_EFFORT:
            self.leave_outstanding(run, step, seen.message)
            return None
        if step.duty is Duty.OPTIONAL:
            self.write(run, entries.skipped(step.id, seen, self.now()))
            return None
        self.write(run, entries.failed(step.id, seen, self.now()))
        status = Status.STOPPED
        if seen.state is State.UNKNOWN:
            status = Status.UNKNOWN
        elif not FencedPhase(self).may_have_new_writes(run):
            self.write(run, entries.rolling_back(step.id, seen.message, self.now()))
        elif self.has(step, Trait.VERIFIES):
            status = Status.UNKNOWN
        return Outcome(status, step.id, seen.message, seen.items)


@dataclass(frozen=True, slots=True)
class FencedPhase:
    """Verifies that fences and the effects that depend on them still hold; restores fences."""

    effects: Effects

    def recheck(self, run: RunState) -> None:
        """Verify the effects of a resumed run since its first fence; mark outdated ones as stale.

        Nothing checked the fence between the two attempts. If the target may accept writes
        already, only the source's fences are verified and restored.
        """
        if self._may_be_enabled(run):
            self._restore_fences(run)
            return
        changed = fenced = False
        newest = self._newest_fence(run)
        # In a plan without a fence of the source, enabling writes removes the only fence.
        lifting = any(Trait.OPPOSITE_DIRECTION in kind.traits for kind, _ in self._enabling(run))
        for step in run.plan.steps:
            kind = self.effects.kinds[step.kind]
            fences = Trait.FENCES_WRITES in kind.traits
            fenced = fenced or fences
            newest = "" if step.id == newest else newest
            effect = run.effect_of(step.id)
            if not fenced or (fences and lifting):
                continue
            if effect is None or not effect.done:
                # It will be repeated, and so will all that came after it. A recheck that was killed
                # may not have marked those effects as stale yet.
                changed = changed or not run.is_done(step.id)
                continue
            if newest and not (fences or changed):
                # It depends only on an older fence, and may differ since the newer one was set.
                continue
            if changed:
                stale = entries.stale(step.id, effect.number, _STALE, self.effects.now())
                self.effects.write(run, stale)
                continue
            if not kind.traits or Trait.RECONCILES in kind.traits:
                # No later step depends on an estimate or a confirmation; copied records remain.
                continue
            changed = not self._still_holds(run, step, kind, effect)

    def note_overridden_changes(self, run: RunState) -> None:
        """Record an outstanding action if the check for writes after the fence is overridden."""
        why = run.overrides.get(CHANGED_AFTER_FENCE)
        for step in self._source_fences(run) if why else ():
            if step.id in run.facts and step.id not in run.outstanding:
                self._note_writes(run, step, f"{CHANGED_AFTER_FENCE} is overridden: {why}")

    def may_have_new_writes(self, run: RunState) -> bool:
        """Whether the target may have accepted client writes; if so, nothing is rolled back."""

        def is_as_before(kind: Kind, effect: Effect) -> bool:
            return observed(self.effects.undo_verifier(kind, effect)).state is State.DONE

        return any(each.done or not is_as_before(kind, each) for kind, each in self._enabling(run))

    def _may_be_enabled(self, run: RunState) -> bool:
        def may_be_done(kind: Kind, effect: Effect) -> bool:
            seen = observed(self.effects.verifier(kind, effect))
            return seen.state in (State.DONE, State.UNKNOWN)

        return any(each.done or may_be_done(kind, each) for kind, each in self._enabling(run))

    def _enabling(self, run: RunState) -> Iterator[tuple[Kind, Effect]]:
        """Yield effects that enable writes and are not rolled back."""
        for effect in run.effects:
            kind = self.effects.kinds[run.plan.step(effect.step).kind]
            if not effect.undone and Trait.ENABLES_WRITES in kind.traits:
                yield kind, effect

    def _restore_fences(self, run: RunState) -> None:
        """Restore lost fences of the source; writes in between become outstanding actions."""
        # Once reverse replication may write to the source, its writes and others look the same.
        reverse = Trait.OPPOSITE_DIRECTION | Trait.STARTS_REPLICATION
        if any(self.effects.has(run.plan.step(each.step), reverse) for each in run.effects):
            return
        for step in self._source_fences(run):
            effect = run.effect_of(step.id)
            # An attempt that restored it may have ended in between: then it is not done now.
            facts = None if effect is None else _facts_when_done(run, effect)
            if effect is not None and facts is not None:
                self._restore(run, step, effect, _ends(facts))

    def _source_fences(self, run: RunState) -> Iterator[Step]:
        """Yield the steps that fence producers on the source."""
        for step in run.plan.steps:
            traits = self.effects.kinds[step.kind].traits
            if Trait.FENCES_WRITES in traits and Trait.OPPOSITE_DIRECTION not in traits:
                yield step

    def _restore(
        self, run: RunState, step: Step, effect: Effect, before: Mapping[str, int]
    ) -> None:
        """Restore one fence; clients do not wait, so a failure only becomes an outstanding action.

        Args:
            before: the end offsets at which the fence was verified.
        """
        kind = self.effects.kinds[step.kind]
        verify = self.effects.verifier(kind, effect)
        seen = observed(verify)
        restored = seen.state is State.WAITING
        if restored:
            self.effects.note_observed(run, effect, seen)
            self.effects.apply(run, kind, effect)
            seen = self.effects.poller().wait_for(verify, step.id, _RECHECK_S)
        # Before the new end offsets are recorded: they hide what was written meanwhile.
        if seen.state is not State.DONE:
            self._note_writes(run, step, seen.message)
        elif (_ends(seen.facts) != before or self._forgot_writes(run, effect)) and (
            why := self._unreplicated()
        ):
            self._note_writes(run, step, why)
        if restored and seen.state is State.DONE:
            self.effects.note_done(run, effect, seen)

    def _forgot_writes(self, run: RunState, effect: Effect) -> bool:
        """Whether an earlier loss of the fence was reported, and no longer is."""
        if effect.step in run.outstanding:
            return False
        of_fence = (e for e in reversed(run.entries) if e.get("step") == effect.step)
        since = takewhile(lambda e: e["entry"] != What.INTEND, of_fence)
        return any(e["entry"] == What.OUTSTANDING for e in since)

    def _unreplicated(self) -> str:
        """Describe what the target is missing, by content; empty if nothing.

        End offsets do not show it, because transaction markers advance them, too.
        """
        try:
            missing = self.effects.reader.missing()
        except DrctlError as error:
            return error.message
        if missing.not_compared:
            return missing.not_compared[0]
        return (
            f"{plural(missing.records, 'record is', 'records are')} not replicated"
            if missing.records
            else ""
        )

    def _note_writes(self, run: RunState, step: Step, why: str) -> None:
        plan = run.plan
        what = _WRITES_AFTER_FENCE.format(source=plan.source, target=plan.target, why=why)
        self.effects.note_outstanding(run, step.id, what)

    def _newest_fence(self, run: RunState) -> str:
        """The id of the last applied fence step; empty if there is none."""
        done = {effect.step for effect in run.effects if effect.done and effect.current}
        fences = (
            step.id
            for step in reversed(run.plan.steps)
            if step.id in done and self.effects.has(step, Trait.FENCES_WRITES)
        )
        return next(fences, "")

    def _still_holds(self, run: RunState, step: Step, kind: Kind, effect: Effect) -> bool:
        before = run.facts.get(step.id)
        verify, poller = self.effects.verifier(kind, effect), self.effects.poller()
        # Never wait for a fence to hold by itself: clients write meanwhile.
        wait_s = 0.0 if Trait.FENCES_WRITES in kind.traits else _RECHECK_S
        seen = poller.wait_for(verify, step.id, min(wait_s, step.timeout_s))
        if seen.state is State.UNKNOWN:
            seen = poller.wait_for_answer(verify, step.id, step.timeout_s)
        self.effects.note_observed(run, effect, seen)
        if seen.state is State.UNKNOWN:
            message = f"step {step.id} was done, but cannot be verified now: {seen.message}"
            if step.duty is Duty.BEST_EFFORT:
                # An abandoned source may have answered for a while, and never again.
                if step.id not in run.outstanding:
                    self.effects.leave_outstanding(run, step, message)
                return True
            raise Unknown(message, "drctl resume checks it again")
        if seen.state is not State.DONE:
            return False
        self.effects.note_done(run, effect, seen)
        return bool(before == (seen.facts or {}))


def _facts_when_done(run: RunState, effect: Effect) -> Json | None:
    """The facts with which the effect was last verified; None if it never was verified."""
    done = (e for e in reversed(run.entries) if e["entry"] == What.DONE)
    return next((e["facts"] for e in done if e["effect"] == effect.number), None)


def _ends(facts: Json | None) -> Mapping[str, int]:
    """The end offsets at which a fence was verified."""
    return read_as(FenceFacts, facts or {}).ends


Observed = list[tuple[Effect, Readback]]


@dataclass(frozen=True, slots=True)
class Rollback:
    """Rolls back all effects that may have been applied, even if one of them fails."""

    effects: Effects

    def of(self, run: RunState) -> Outcome:
        """Roll back all remaining effects, newest first.

        Raises:
            Fenced: another run took over the link.
            Unknown: the journal cannot be written.
            WantsToStop: the engineer asked to stop.
        """
        remaining: Observed = []
        irreversible: Observed = []
        changed = False
        for effect in reversed(run.effects):
            if effect.undone:
                continue
            step = run.plan.step(effect.step)
            kind = self.effects.kinds[step.kind]
            if Trait.CHANGES not in kind.traits:
                continue
            if Trait.IRREVERSIBLE in kind.traits:
                seen = self._answer(kind, effect, step.timeout_s)
                if effect.done and seen.state is not State.DONE:
                    remaining.append((effect, seen))
                elif seen.leaves_changes:
                    irreversible.append((effect, seen))
                continue
            changed = True
            seen = self._rolled_back(run, kind, effect, step.timeout_s)
            if seen.state is State.DONE:
                entry = entries.undone(step.id, effect.number, seen.message, self.effects.now())
            else:
                entry = entries.not_undone(step.id, effect.number, seen, self.effects.now())
                remaining.append((effect, seen))
            self.effects.write(run, entry)
        return _outcome(run, changed, remaining, irreversible)

    def _rolled_back(self, run: RunState, kind: Kind, effect: Effect, seconds: float) -> Readback:
        """Roll back one effect, unless an interrupted rollback of it is already complete."""
        if effect.undoing:
            seen = self._answer(kind, effect, seconds)
            if seen.state in (State.DONE, State.UNKNOWN):
                return seen
        self.effects.write(run, entries.undoing(effect.step, effect.number, self.effects.now()))
        return self._undo(kind, effect, seconds)

    def _undo(self, kind: Kind, effect: Effect, seconds: float) -> Readback:
        """Undo and verify until the timeout; after errors the request is sent again."""
        clock, poller = self.effects.clock, self.effects.poller()
        until = clock.monotonic() + seconds
        while True:
            error = self._send(kind, effect)
            left = max(0.0, until - clock.monotonic())
            pause = min(_RESEND_S, left) if error else left
            seen = poller.wait_for(self.effects.undo_verifier(kind, effect), effect.step, pause)
            if seen.state is State.UNKNOWN:
                seen = self._answer(kind, effect, left - pause)
            if seen.state is State.DONE or not error:
                return seen
            if seen.state is not State.WAITING or clock.monotonic() >= until:
                return replace(seen, message=f"{seen.message} ({error})")

    def _send(self, kind: Kind, effect: Effect) -> str:
        """Call the kind's `undo`; return its errors, empty if there are none."""
        try:
            return "; ".join(kind.undo(effect.intent, self.effects.writer))
        except Fenced:
            raise
        except DrctlError as error:
            return error.message

    def _answer(self, kind: Kind, effect: Effect, seconds: float) -> Readback:
        verify = self.effects.undo_verifier(kind, effect)
        return self.effects.poller().wait_for_answer(verify, effect.step, seconds)


def _outcome(run: RunState, changed: bool, remaining: Observed, irreversible: Observed) -> Outcome:
    if remaining:
        unknown = any(seen.state is State.UNKNOWN for _, seen in remaining)
        items = tuple(f"{effect.step}: {seen.message}" for effect, seen in remaining)
        message = f"the rollback is incomplete; reason for the rollback: {run.rollback_reason}"
        status = Status.UNKNOWN if unknown else Status.STOPPED
        return Outcome(status, remaining[0][0].step, message, items)
    reasons = (each for each in reversed(run.entries) if each["entry"] == What.ROLLING_BACK)
    step = str(next(reasons)["step"])
    if irreversible:
        items = tuple(f"{effect.step}: {seen.message}" for effect, seen in reversed(irreversible))
        message = (
            "rolled back except for irreversible changes; reason for the rollback:"
            f" {run.rollback_reason}"
        )
        return Outcome(Status.STOPPED, step, message, items, over=True)
    changed = changed or any(effect.undone for effect in run.effects)
    message = (
        f"everything was rolled back; reason: {run.rollback_reason}"
        if changed
        else run.rollback_reason
    )
    return Outcome(Status.REFUSED, step, message)
