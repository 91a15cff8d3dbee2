"""Faults planted by hand in drctl's engine and steps: the simulation must find each of them.

Those of the last group were found by the simulation itself, and are mended: their return is found.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from drctl.app import resume_check
from drctl.engine import executing, run_state
from drctl.engine.entries import What
from drctl.engine.executing import Effects, Execution, FencedPhase, Rollback
from drctl.engine.kind import Readback, State
from drctl.engine.run_state import RunState
from drctl.engine.source_fence import CHANGED_AFTER_FENCE
from drctl.kafka.journal_log import Contention
from drctl.kafka.journal_topic import HeldRun
from drctl.model.errors import Refused
from drctl.model.fencing import Enforcement
from drctl.model.plan import Duty
from drctl.steps import commit_offsets, enable_writes, fences, set_start_offsets
from drctl.steps.commit_offsets import CommitOffsets
from drctl.steps.enable_writes import EnableWrites
from drctl.steps.fences import Fence
from drctl.steps.records import Reconcile, VerifyCopies
from drctl.steps.set_start_offsets import FilterReconciled
from drctl.steps.stop_replication import StopReplication
from drctl.steps.switch_endpoint import SwitchEndpoint
from drctl.steps.waiting import Drain
from drctl.views import run_lines

Change = tuple[Any, str, Any]
"""What is patched: an object, the name of its attribute, and the value with the fault."""


def done(facts: Any = None) -> Callable[..., Readback[Any]]:
    """Return a read-back that always succeeds."""
    return lambda *_: Readback(State.DONE, "not read back", facts)


def _believed(kind: type) -> Change:
    """A step whose read-back does not wait for its effect."""
    verify: Callable[..., Readback[Any]] = kind.verify  # type: ignore[attr-defined]

    def at_once(*given: Any) -> Readback[Any]:
        seen = verify(*given)
        return replace(seen, state=State.DONE) if seen.state is State.WAITING else seen

    return kind, "verify", at_once


def _without(what: What) -> Change:
    """A journal without one kind of entry."""
    write = Effects.write

    def lossy(self: Effects, run: RunState, entry: Mapping[str, Any]) -> None:
        run.take([entry]) if entry["entry"] == what else write(self, run, entry)

    return Effects, "write", lossy


def _shifted_commits() -> Change:
    changes = commit_offsets.changes

    def beyond(lines: Any) -> Any:
        found = changes(lines)
        return tuple(
            each._replace(to=each.to._replace(offset=each.to.offset + 1))
            if each.to and each.to.offset
            else each
            for each in found
        )

    return commit_offsets, "changes", beyond


def _shifted_boundary(by: int) -> Change:
    check = set_start_offsets.SetStartOffsets.check

    def wrong(self: Any, *given: Any) -> Any:
        found = check(self, *given)
        wanted = {p: None if at is None else at + by for p, at in found.wanted.items()}
        return replace(found, wanted=wanted)

    return set_start_offsets.SetStartOffsets, "check", wrong


def _one_topic() -> Change:
    denials = fences.denials

    def fewer(who: Any, topics: Any, what: Any) -> Any:
        return denials(who, list(topics)[:1], what)

    return fences, "denials", fewer


def _first_lifted_only() -> Change:
    apply = EnableWrites.apply

    def fewer(self, intent, writer):
        return apply(self, replace(intent, lifted=intent.lifted[:1]), writer)

    return EnableWrites, "apply", fewer


def _forgets_to_undo_the_first() -> Change:
    undo = Rollback._undo

    def all_but_first(self: Rollback, kind: Any, effect: Any, seconds: float) -> Readback[Any]:
        if "fence-producers" in effect.step:
            return Readback(State.DONE, "rolled back")
        return undo(self, kind, effect, seconds)

    return Rollback, "_undo", all_but_first


def _resends_all_rules() -> Change:
    everything = lambda self, intent, writer: fences.failed_items(  # noqa: E731
        writer.acls(intent.cluster).restore(intent.rules), str
    )
    return Fence, "undo", everything


def _writes_on() -> Change:
    write = HeldRun._write

    def anyway(self: HeldRun, lines: Sequence[bytes]) -> None:
        writer: Any = self._writer
        writer.epoch = writer.topic.epoch
        write(self, lines)

    return HeldRun, "_write", anyway


def _journals_configuration() -> Change:
    check = FilterReconciled.check

    def everything(self: Any, settings: Any, facts: Any, reader: Any) -> Any:
        found = check(self, settings, facts, reader)
        config = reader.connectors().config(settings.connector)
        return replace(found, changes={**config, **found.changes})

    return FilterReconciled, "check", everything


def _optional() -> Change:
    not_done = Execution._not_done
    lenient = lambda self, run, step, seen: not_done(  # noqa: E731
        self, run, replace(step, duty=Duty.OPTIONAL), seen
    )
    return Execution, "_not_done", lenient


def _own_rules_only() -> Change:
    own = lambda self, intent, writer: fences.failed_items(  # noqa: E731
        writer.acls(intent.cluster).deny((*intent.added, *intent.kept)), str
    )
    return Fence, "apply", own


def _second_copies_are_missing() -> Change:
    check = VerifyCopies.check
    strict = lambda self, *given: replace(check(self, *given), refilled="")  # noqa: E731
    return VerifyCopies, "check", strict


def _broken_chain() -> Change:
    seal = run_state.seal
    from_start = lambda entries, head: seal(  # noqa: E731
        entries, replace(head, digest="0" * 64) if head.seq == 5 else head
    )
    return run_state, "seal", from_start


def _one_broker() -> Change:
    one = property(lambda self: any(why is None for why in self.brokers.values()))
    return Enforcement, "proven", one


def _second_copies_after_the_fence() -> Change:
    refuse = enable_writes._refuse_if_missing
    strict = lambda source, grown, reader, _: refuse(source, grown, reader, 0)  # noqa: E731
    return enable_writes, "_refuse_if_missing", strict


def _refuses(source: str, grown: Sequence[str], *_: object) -> None:
    raise Refused(f"{CHANGED_AFTER_FENCE}: {source} grew", "stop the writer")


_NOTHING: Callable[..., None] = lambda *_, **__: None  # noqa: E731

PLANTED: Mapping[str, Callable[[], Change]] = {
    "no effect is read back": lambda: (
        executing,
        "observed",
        lambda verify, seen=executing.observed: (
            replace(found, state=State.DONE)
            if (found := seen(verify)).state is State.WAITING
            else found
        ),
    ),
    "a fence counts as proven once one broker enforces it": _one_broker,
    "a fence covers only the first topic": _one_topic,
    "the drain does not wait": lambda: _believed(Drain),
    "the stop of replication is not awaited": lambda: _believed(StopReplication),
    "committed offsets are not read back": lambda: _believed(CommitOffsets),
    "committed offsets are one too high": _shifted_commits,
    "replication starts one record too late": lambda: _shifted_boundary(1),
    "replication starts one record too early": lambda: _shifted_boundary(-1),
    "writes are enabled for the first rule only": _first_lifted_only,
    "the source is not checked again before writes are enabled": lambda: (
        enable_writes,
        "recheck_source",
        _NOTHING,
    ),
    "the endpoint is not read back": lambda: _believed(SwitchEndpoint),
    "records to reconcile are not read back": lambda: _believed(Reconcile),
    "the journal does not announce effects": lambda: _without(What.INTEND),
    "the journal does not keep outstanding actions": lambda: _without(What.OUTSTANDING),
    "the journal does not keep the decision to roll back": lambda: _without(What.ROLLING_BACK),
    "a rollback leaves the fence": _forgets_to_undo_the_first,
    "a rollback removes rules that others had set": _resends_all_rules,
    "a rollback happens although the target accepts writes": lambda: (
        FencedPhase,
        "may_have_new_writes",
        lambda *_: False,
    ),
    "a resumed run does not verify its fences": lambda: (FencedPhase, "recheck", _NOTHING),
    "a failed step is skipped": _optional,
    "a live holder of the link is not noticed": lambda: (Contention, "refusal", _NOTHING),
    "a process that lost the link writes on": _writes_on,
    "a line of the journal does not continue the chain": _broken_chain,
    "the configuration of a connector is journaled": _journals_configuration,
    "control records after the fence count as records": lambda: (
        enable_writes,
        "_refuse_if_missing",
        _refuses,
    ),
    "a resumed run may not fence": lambda: (
        resume_check.Permitted,
        "knows_principal",
        lambda self, name: self.signed,
    ),
    "the report names another run to resume": lambda: (
        run_lines,
        "_resume",
        lambda data: f"drctl resume {data.run}0",
    ),
    # Found by the simulation.
    "a fence that was being restored when the process ended counts as new": lambda: (
        executing,
        "_facts_when_done",
        lambda run, effect: run.facts.get(effect.step),
    ),
    "a fence is not restored if a rule was there before it": _own_rules_only,
    "copies that forward replication makes twice count as missing": _second_copies_are_missing,
    "second copies count as records after the fence": _second_copies_after_the_fence,
}
"""By name: what to patch."""


RARE = frozenset(
    {
        "the journal does not keep outstanding actions",
        "a resumed run does not verify its fences",
        "the source is not checked again before writes are enabled",
        "second copies count as records after the fence",
        "a fence that was being restored when the process ended counts as new",
    }
)
"""Those that take hundreds of seeds or more to find."""


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Run with one fault."""
    with ExitStack() as patched:
        patched.enter_context(patch.object(*PLANTED[name]()))
        yield
