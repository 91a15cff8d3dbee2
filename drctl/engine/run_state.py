"""The journal of a run: its hash chain of lines, the format of entries, and the resulting state.

`seal` turns entries into chained lines, which adapters store. `verify` detects damage to a chain.
`read_run` replays entries into a `RunState`: the progress of the run, and what it may have changed.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any

from drctl.config.secret import is_secret_in, masked_document
from drctl.engine.entries import VERSION, Entry, What
from drctl.engine.kind import Facts, State, Status
from drctl.model.errors import DamagedJournal
from drctl.model.journal import ENDED, JournalReader, is_run
from drctl.model.plan import Json, Plan, Step
from drctl.model.strict_json import read_json
from drctl.model.text import quote

_RESERVED = frozenset({"seq", "prev", "sum"})
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_LINE = re.compile(
    rb'(\{"seq":([1-9][0-9]{0,17}),"prev":"([0-9a-f]{64})"(,.*)?),"sum":"([0-9a-f]{64})"\}',
    re.DOTALL,
)


AFTER_DAMAGE = "after the damage"
"""Stands for a step in what an abandoned run left: what its damaged journal does not say."""


class DamagedLine(ValueError):
    """A line does not match its checksum, or is not a journal line."""


class Damage(StrEnum):
    """How a chain was damaged."""

    CHANGED = "changed"
    REMOVED = "removed"
    INSERTED = "inserted"
    REORDERED = "reordered"


@dataclass(frozen=True, slots=True)
class Head:
    """The last line of a chain, which the next line refers to.

    Attributes:
        seq: sequence number of the last line; 0 before the first.
        digest: SHA-256 of the last line.
    """

    seq: int
    digest: str


@dataclass(frozen=True, slots=True)
class SealedLine:
    """A parsed line.

    Attributes:
        prev: digest of the previous line.
        digest: digest of this line.
    """

    seq: int
    prev: str
    digest: str
    entry: Entry


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """Whether a journal is intact.

    Attributes:
        lines: number of intact lines from the beginning.
        head: the last intact line; its digest identifies all of them.
        ended: whether the last intact line says that the run ended. If not, and the run is not in
            progress, it was killed, or lines are missing at the end.
        damage: what is wrong with the next line; None if nothing is.
        message: the damage as a sentence; empty if there is none.
    """

    lines: int
    head: Head
    ended: bool
    damage: Damage | None = None
    message: str = ""

    @property
    def complete(self) -> bool:
        """Whether the journal is intact and the run ended."""
        return self.damage is None and self.ended


def first_head(run: str) -> Head:
    """The head of an empty chain; it depends on the run, so that no other run's lines fit."""
    return Head(0, sha256(f"drctl journal of run {run}".encode()).hexdigest())


def seal(entries: Iterable[Entry], head: Head) -> tuple[bytes, ...]:
    """Turn entries into lines that continue a chain, without newlines and with secrets masked.

    Raises:
        ValueError: an entry is not JSON, or uses a key that is reserved for the chain.
    """
    lines = []
    for entry in entries:
        lines.append(_sealed(entry, head))
        head = Head(head.seq + 1, _digest(lines[-1]))
    return tuple(lines)


def parse_line(line: bytes) -> SealedLine:
    """Parse a line and verify its checksum.

    Raises:
        DamagedLine: the line is damaged.
    """
    found = _LINE.fullmatch(line)
    if not found:
        raise DamagedLine("it is not a journal line")
    before, seq, prev, _, own = found.groups()
    if own.decode() != _digest(before):
        raise DamagedLine("it does not match its checksum")
    try:
        entry = read_json(line)
    except ValueError as wrong:
        raise DamagedLine(f"it is not valid JSON: {wrong}") from wrong
    entry = {name: value for name, value in entry.items() if name not in _RESERVED}
    return SealedLine(int(seq), prev.decode(), _digest(line), entry)


def head_of(line: bytes) -> Head:
    """The head of a chain that ends with this line.

    Raises:
        DamagedLine: the line is damaged.
    """
    sealed = parse_line(line)
    return Head(sealed.seq, sealed.digest)


def head_after(lines: Sequence[bytes], head: Head) -> Head:
    """The head after lines that were sealed to continue this head."""
    return Head(head.seq + len(lines), _digest(lines[-1])) if lines else head


def newest_head(run: str, lines: Sequence[bytes]) -> Head:
    """The head of the newest intact line; the chain before it may be damaged."""
    for line in reversed(lines):
        with suppress(DamagedLine):
            return head_of(line)
    return first_head(run)


def verify(run: str, lines: Sequence[bytes]) -> ChainVerdict:
    """Follow the chain of a run up to the first line that does not fit."""
    return _followed(run, lines)[0]


def _followed(run: str, lines: Sequence[bytes]) -> tuple[ChainVerdict, tuple[Entry, ...]]:
    """Follow the chain of a run; also return the entries of its intact lines."""
    digest, ended = first_head(run).digest, False
    entries: list[Entry] = []
    for at, line in enumerate(lines):
        try:
            sealed = parse_line(line)
        except DamagedLine as wrong:
            head = Head(at, digest)
            return _unreadable(head, ended, lines[at + 1 :], wrong), tuple(entries)
        if sealed.seq != at + 1 or sealed.prev != digest:
            head = Head(at, digest)
            return _misplaced(head, ended, sealed, lines[at + 1 :]), tuple(entries)
        if not at and sealed.entry.get("run", run) != run:
            message = "line 1 was changed: it names another run"
            return ChainVerdict(0, first_head(run), False, Damage.CHANGED, message), ()
        entries.append(sealed.entry)
        digest, ended = sealed.digest, sealed.entry.get("entry") == ENDED
    return ChainVerdict(len(lines), Head(len(lines), digest), ended), tuple(entries)


def entries_in(run: str, lines: Sequence[bytes], where: str) -> tuple[Entry, ...]:
    """Return the entries of these lines.

    Args:
        where: the place of the journal, for the error message.

    Raises:
        DamagedJournal: the chain is damaged.
    """
    verdict, entries = _followed(run, lines)
    if verdict.damage is not None:
        raise DamagedJournal(
            f"the journal of run {run} is damaged ({where}): {verdict.message}",
            "compare it with its other copy (topic __drctl_journal, or the state_dir of the host"
            " that executed the run) and check the clusters; then"
            f" `drctl resume {quote(run)} --abandon REASON` shows what would remain; with --execute"
            " it releases the link",
        )
    return entries


def _sealed(entry: Entry, head: Head) -> bytes:
    if own := _RESERVED & entry.keys():
        raise ValueError(f"an entry may not have {', '.join(sorted(own))}: {dict(entry)}")
    line = _serialized(entry, head)
    # Searching the line once is faster than masking each value: an entry can hold 100,000 offsets.
    if is_secret_in(line):
        line = _serialized(masked_document(entry), head)
    before = line.encode()[:-1]
    return before + f',"sum":"{_digest(before)}"}}'.encode()


def _serialized(entry: Entry, head: Head) -> str:
    return _ENCODER.encode({"seq": head.seq + 1, "prev": head.digest, **entry})


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _unreadable(head: Head, ended: bool, rest: Sequence[bytes], wrong: DamagedLine) -> ChainVerdict:
    number = head.seq + 1
    if _continues(rest, head):
        message = f"line {number} was inserted: {wrong}, and line {number} of the chain follows"
        return ChainVerdict(head.seq, head, ended, Damage.INSERTED, message)
    message = f"line {number} was changed: {wrong}"
    return ChainVerdict(head.seq, head, ended, Damage.CHANGED, message)


def _misplaced(head: Head, ended: bool, found: SealedLine, rest: Sequence[bytes]) -> ChainVerdict:
    """The verdict for a line that is intact, but not the next one of the chain."""
    number, continues = head.seq + 1, _continues(rest, head)
    if found.seq > number and continues:
        damage, message = Damage.REORDERED, f"line {found.seq} of the chain comes before it"
    elif found.seq > number:
        damage, message = Damage.REMOVED, f"line {found.seq} of the chain is in its place"
    elif found.seq < number or continues:
        damage, message = Damage.INSERTED, f"a line numbered {found.seq} is there"
    else:
        damage, message = Damage.CHANGED, "it, or a line before it, is not the original"
    return ChainVerdict(head.seq, head, ended, damage, f"line {number} was {damage}: {message}")


def _continues(lines: Sequence[bytes], head: Head) -> bool:
    """Whether one of the lines is the next line of the chain."""
    for line in lines:
        with suppress(DamagedLine):
            sealed = parse_line(line)
            if (sealed.seq, sealed.prev) == (head.seq + 1, head.digest):
                return True
    return False


Check = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_text, value))


def _mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_text, value))


def _named_texts(value: Any) -> bool:
    return _mapping(value) and all(map(_text, value.values()))


def _number(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 31


_STATES = frozenset(State)


def _state(value: Any) -> bool:
    return _text(value) and value in _STATES


def _moment(value: Any) -> bool:
    return _text(value) and datetime.fromisoformat(value).tzinfo is not None


_STEP: Mapping[str, Check] = {"step": _text}
_EFFECT: Mapping[str, Check] = {**_STEP, "effect": _number}
_SEEN: Mapping[str, Check] = {"state": _state, "message": _text, "items": _texts}

_FIELDS: Mapping[What, Mapping[str, Check]] = {
    What.BEGAN: {"run": is_run, "fingerprint": _text, "who": _named_texts, "plan": _mapping},
    What.RESUMED: {"who": _named_texts},
    What.ABANDONED: {"why": _text, "left_changed": _named_texts},
    What.INTEND: {**_EFFECT, "intent": _mapping},
    What.APPLIED: {**_EFFECT, "errors": _texts},
    What.DONE: {**_EFFECT, "message": _text, "facts": _mapping, "items": _texts},
    What.FAILED: {**_STEP, **_SEEN},
    What.OBSERVED: {**_EFFECT, "state": _state, "message": _text},
    What.STALE: {**_EFFECT, "message": _text},
    What.OUTSTANDING: {**_STEP, "what": _text},
    What.SKIPPED: {**_STEP, **_SEEN},
    What.ROLLING_BACK: {**_STEP, "why": _text},
    What.UNDOING: _EFFECT,
    What.UNDONE: {**_EFFECT, "message": _text},
    What.NOT_UNDONE: {**_EFFECT, **_SEEN},
    What.INTERRUPTED: _STEP,
    What.ENDED: {"status": _text},
}
_SHAPES = {what: {"at": _moment, **fields} for what, fields in _FIELDS.items()}

_OPTIONAL: Mapping[str, Check] = {"overrides": _named_texts}
"""Optional fields: journals of older versions do not have them."""


def check_entry(entry: Entry) -> What:
    """Validate the fields of an entry; return its kind.

    Raises:
        ValueError: a field is missing or invalid.
    """
    what = What(str(entry.get("entry", "")))
    shape = _SHAPES[what].items()
    wrong = [name for name, fits in shape if name not in entry or not fits(entry[name])]
    wrong += [name for name, fits in _OPTIONAL.items() if name in entry and not fits(entry[name])]
    if wrong:
        raise ValueError(f"entry {what.value!r}: {wrong[0]!r} is missing or invalid")
    return what


@dataclass(slots=True)
class Effect:
    """An effect that the journal announces, and its state.

    Attributes:
        number: position in the order of announcement, from 1.
        done: whether it is verified.
        undoing: whether its rollback was announced, and may be complete.
        undone: whether its rollback is verified.
        stale: whether it is outdated; the step is checked again and gets another effect.
    """

    number: int
    step: str
    intent: Json
    done: bool = False
    undoing: bool = False
    undone: bool = False
    stale: bool = False

    @property
    def current(self) -> bool:
        """Whether the effect is neither rolled back nor stale."""
        return not (self.undone or self.stale)


@dataclass(slots=True)
class RunState:
    """The state of a run, from the entries of its journal.

    Attributes:
        effects: all effects, in the order of announcement.
        facts: facts of completed steps, by step id.
        outstanding: outstanding actions for a later run, by step id.
        skipped: optional steps that failed.
        overrides: prechecks that were overridden when the run was resumed: name to reason.
        rollback_reason: why effects are rolled back; empty before a rollback.
        abandoned: why the run was abandoned; empty if it was not.
        left_changed: the changes that an abandoned run left, by step id.
        status: the final status of the run; empty until it ends.
        partial: whether the journal has damaged or unreadable lines after these entries.
    """

    run: str
    plan: Plan
    who: Mapping[str, str]
    began: datetime
    effects: list[Effect] = field(default_factory=list)
    facts: dict[str, Json] = field(default_factory=dict)
    outstanding: dict[str, str] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    overrides: dict[str, str] = field(default_factory=dict)
    rollback_reason: str = ""
    abandoned: str = ""
    left_changed: dict[str, str] = field(default_factory=dict)
    status: str = ""
    partial: bool = False
    entries: list[Entry] = field(default_factory=list)
    _steps: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._steps = frozenset(step.id for step in self.plan.steps)

    def take(self, entries: Iterable[Entry]) -> None:
        """Apply entries to the state.

        Raises:
            DamagedJournal: an entry is not one that this version of drctl writes.
        """
        for entry in entries:
            try:
                self._take(entry)
            except (AttributeError, KeyError, IndexError, TypeError, ValueError) as wrong:
                raise damaged(self.run, wrong) from wrong
            self.entries.append(entry)

    def effect_of(self, step: str) -> Effect | None:
        """A step's newest effect that is neither rolled back nor stale; None if it has none."""
        return next((e for e in reversed(self.effects) if e.step == step and e.current), None)

    def is_done(self, step: str) -> bool:
        """Whether the step is complete, outstanding or skipped."""
        return step in self.facts or step in self.outstanding or step in self.skipped

    def facts_by_kind(self) -> Facts:
        """The facts of completed steps: the newest for each kind."""
        done = (step for step in self.plan.steps if step.id in self.facts)
        return Facts({step.kind: self.facts[step.id] for step in done})

    def settings_of(self, step: Step) -> Json:
        """The settings from the plan, with overrides that were added when the run was resumed."""
        if not self.overrides:
            return step.settings
        overrides = {**step.settings.get("overrides", {}), **self.overrides}
        return {**step.settings, "overrides": overrides}

    def forget(self, step: str) -> None:
        """Drop the result of a step."""
        self.facts.pop(step, None)
        self.outstanding.pop(step, None)
        self.skipped.discard(step)

    def _take(self, entry: Entry) -> None:
        what = check_entry(entry)
        if "step" in entry and entry["step"] not in self._steps:
            raise ValueError(f"its plan has no step {entry['step']!r}")
        match what:
            case What.RESUMED:
                self.overrides.update(entry.get("overrides", {}))
            case What.ABANDONED:
                self.abandoned, self.left_changed = str(entry["why"]), dict(entry["left_changed"])
                self.partial = self.partial or AFTER_DAMAGE in self.left_changed
            case What.INTEND:
                number = int(entry["effect"])
                if number != len(self.effects) + 1:
                    raise ValueError(f"effect {number} follows effect {len(self.effects)}")
                self.plan.step(entry["step"])
                self.effects.append(Effect(number, entry["step"], _json(entry["intent"])))
                self.forget(entry["step"])
            case What.DONE:
                self._effect(entry).done = True
                self.facts[entry["step"]] = _json(entry["facts"])
            case What.OBSERVED:
                # A state that could not be read changes nothing: it is verified again.
                if entry["state"] not in (State.DONE, State.UNKNOWN):
                    self._effect(entry).done = False
                    self.forget(entry["step"])
            case What.STALE:
                self._effect(entry).stale = True
                self.forget(entry["step"])
            case What.UNDOING:
                self._effect(entry).undoing = True
            case What.UNDONE:
                self._effect(entry).undone = True
                self.forget(entry["step"])
            case What.OUTSTANDING:
                self.outstanding[self.plan.step(entry["step"]).id] = str(entry["what"])
            case What.SKIPPED:
                self.skipped.add(self.plan.step(entry["step"]).id)
            case What.ROLLING_BACK:
                self.rollback_reason = str(entry["why"])
            case What.ENDED:
                self.status = str(entry["status"])
            case _:
                pass

    def _effect(self, entry: Entry) -> Effect:
        """The effect that an entry refers to.

        Raises:
            ValueError: there is none, or it belongs to another step.
        """
        number = int(entry["effect"])
        if not 0 < number <= len(self.effects):
            raise ValueError(f"there is no effect {number}")
        effect = self.effects[number - 1]
        if effect.step != entry["step"]:
            raise ValueError(f"effect {number} is of step {effect.step}, not {entry['step']}")
        return effect


def read_run(entries: Iterable[Entry]) -> RunState:
    """Replay the entries of a run.

    Raises:
        DamagedJournal: the entries are not those that this version of drctl writes.
    """
    first, *more = tuple(entries) or ({},)
    if not first:
        raise DamagedJournal(
            "the journal of this run is empty: its process ended before it wrote anything, or the"
            " file was truncated",
            "if this is the local copy, drctl journal without --local shows the copy in the topic;"
            " without another copy, `drctl resume RUN --abandon REASON` ends the run",
        )
    run = str(first.get("run", "?"))
    try:
        if check_entry(first) is not What.BEGAN or first["version"] != VERSION:
            raise ValueError("its first entry is not that of a journal of this version of drctl")
        began = datetime.fromisoformat(first["at"])
        plan, who = Plan.from_json(first["plan"]), _json(first["who"])
        state = RunState(run, plan, who, began, entries=[first])
    except (AttributeError, KeyError, TypeError, ValueError) as wrong:
        raise damaged(run, wrong) from wrong
    state.take(more)
    return state


def read_prefix(lines: Sequence[bytes], intact: int) -> tuple[RunState | None, int]:
    """Replay intact lines up to the first entry that this version of drctl does not write.

    Args:
        lines: all lines of the run.
        intact: number of leading lines that are intact.

    Returns:
        The state, None if the plan cannot be read; and the number of lines that it includes.
    """
    state, read = None, 0
    with suppress(DamagedJournal):
        for line in lines[:intact]:
            entry = parse_line(line).entry
            if state is None:
                state = read_run([entry])
            else:
                state.take([entry])
            read += 1
    if state is not None:
        state.partial = state.partial or read < len(lines)
    return state, read


def _json(value: object) -> Json:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is not a JSON object")
    return value


def run_states(reader: JournalReader) -> Iterator[RunState]:
    """Yield all runs of a journal, newest first.

    A run that is damaged or not signed, and was abandoned, is replayed from its readable entries;
    it is omitted if they do not include the plan.

    Raises:
        DamagedJournal: a run is damaged and was not abandoned.
        Unknown: the journal cannot be read.
    """
    for run in reader.runs():
        yield from run_states_of(reader, run)


def run_states_of(reader: JournalReader, run: str) -> Iterator[RunState]:
    """Yield one run as `run_states` does; nothing if it was abandoned and its plan is damaged.

    Raises:
        DamagedJournal: the run is damaged and was not abandoned.
        Unknown: the journal cannot be read.
    """
    try:
        yield read_run(reader.entries(run))
    except DamagedJournal:
        if not reader.is_abandoned(run):
            raise
        state, _ = read_prefix(reader.lines(run), reader.intact_lines(run))
        if state is not None:
            take_abandonment(state, reader.lines(run))
            yield state


def take_abandonment(state: RunState, lines: Sequence[bytes]) -> None:
    """Apply the last entries of a run that was abandoned because its journal is damaged."""
    with suppress(DamagedLine, DamagedJournal):
        last = [parse_line(line).entry for line in lines[-3:]]
        if [each.get("entry") for each in last] == [What.RESUMED, What.ABANDONED, What.ENDED]:
            state.take(last)
    state.abandoned = state.abandoned or "its journal is damaged"
    state.status = Status.STOPPED.value


@contextmanager
def decoding(run: str) -> Iterator[None]:
    """Turn errors of code that decodes settings, intents and facts into DamagedJournal.

    `check_entry` does not validate these: their content depends on the kind of step.

    Raises:
        DamagedJournal: the data is not what the kind of step writes.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as wrong:
        raise damaged(run, wrong) from wrong


def damaged(run: str, wrong: Exception) -> DamagedJournal:
    """Return the error for a journal with content that this version of drctl does not write."""
    return DamagedJournal(
        f"the journal of run {run} cannot be read: {wrong}",
        "another version of drctl wrote it, or it was changed: drctl report --verify checks it;"
        f" `drctl resume {quote(run)} --abandon REASON` shows what would remain; with --execute it"
        " releases the link",
    )
