"""The journal of a run: its chain of sealed lines, the grammar of its entries, and its state.

Adapters keep lines. `seal` chains entries into lines, `verify` finds what was done to a chain, and
`read_run` replays entries into a `RunState`: how far the run came, and what it may have changed.
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

_OWN = frozenset({"seq", "prev", "sum"})
_LINE = re.compile(
    rb'(\{"seq":([1-9][0-9]{0,17}),"prev":"([0-9a-f]{64})"(,.*)?),"sum":"([0-9a-f]{64})"\}',
    re.DOTALL,
)


class Broken(ValueError):
    """A line is not as it was sealed."""


class Harm(StrEnum):
    """What was done to a chain."""

    CHANGED = "changed"
    REMOVED = "removed"
    INSERTED = "inserted"
    REORDERED = "reordered"


@dataclass(frozen=True, slots=True)
class Head:
    """The last line of a chain, which the next one continues.

    Attributes:
        seq: of the last line; 0 before the first.
        digest: of the last line.
    """

    seq: int
    digest: str


@dataclass(frozen=True, slots=True)
class Sealed:
    """A line taken apart.

    Attributes:
        prev: the digest of the line before.
        digest: of this line.
    """

    seq: int
    prev: str
    digest: str
    entry: Entry


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """What became of a journal since it was written.

    Attributes:
        lines: how many are as they were written, from the first one on.
        head: the last of them; its digest identifies them.
        ended: whether the last of them says that the run ended. A run that neither ended nor is
            under way was killed, or lines were cut off at the end.
        harm: what is wrong with the line after them; None where nothing is.
        words: the same for a person; empty where nothing is.
    """

    lines: int
    head: Head
    ended: bool
    harm: Harm | None = None
    words: str = ""

    @property
    def whole(self) -> bool:
        """Whether it is as it was written, from its beginning to its end."""
        return self.harm is None and self.ended


def beginning(run: str) -> Head:
    """Where the chain of a run starts: no other run's lines fit there."""
    return Head(0, sha256(f"drctl journal of run {run}".encode()).hexdigest())


def seal(entries: Iterable[Entry], head: Head) -> tuple[bytes, ...]:
    """The lines of these entries, after the head; without an end of line, and without secrets.

    Raises:
        ValueError: an entry is no JSON, or uses a name of the chain's own.
    """
    lines = []
    for entry in entries:
        lines.append(_sealed(entry, head))
        head = Head(head.seq + 1, _digest(lines[-1]))
    return tuple(lines)


def opened(line: bytes) -> Sealed:
    """Take a line apart.

    Raises:
        Broken: it is not as it was sealed.
    """
    found = _LINE.fullmatch(line)
    if not found:
        raise Broken("it is no line of a journal")
    before, seq, prev, _, own = found.groups()
    if own.decode() != _digest(before):
        raise Broken("it does not match its own sum")
    try:
        entry = read_json(line)
    except ValueError as wrong:
        raise Broken(f"it is no JSON: {wrong}") from wrong
    told = {name: value for name, value in entry.items() if name not in _OWN}
    return Sealed(int(seq), prev.decode(), _digest(line), told)


def head_of(line: bytes) -> Head:
    """The head after a line.

    Raises:
        Broken: it is not as it was sealed.
    """
    sealed = opened(line)
    return Head(sealed.seq, sealed.digest)


def behind(lines: Sequence[bytes], head: Head) -> Head:
    """The head after lines that were just sealed after this head."""
    return Head(head.seq + len(lines), _digest(lines[-1])) if lines else head


def newest_head(run: str, lines: Sequence[bytes]) -> Head:
    """That of the newest line that is sound in itself, wherever it stands."""
    for line in reversed(lines):
        with suppress(Broken):
            return head_of(line)
    return beginning(run)


def verify(run: str, lines: Sequence[bytes]) -> ChainVerdict:
    """Follow the chain of a run from its beginning, up to the first line that does not fit."""
    head, ended = beginning(run), False
    for at, line in enumerate(lines):
        try:
            sealed = opened(line)
        except Broken as wrong:
            return _unreadable(head, ended, lines[at + 1 :], wrong)
        if (sealed.seq, sealed.prev) != (head.seq + 1, head.digest):
            return _misplaced(head, ended, sealed, lines[at + 1 :])
        if not at and sealed.entry.get("run", run) != run:
            words = "line 1 was changed: it names another run"
            return ChainVerdict(0, head, False, Harm.CHANGED, words)
        head, ended = Head(sealed.seq, sealed.digest), sealed.entry.get("entry") == ENDED
    return ChainVerdict(head.seq, head, ended)


def entries_in(run: str, lines: Sequence[bytes], where: str) -> tuple[Entry, ...]:
    """What was sealed in these lines.

    Raises:
        DamagedJournal: they are not as they were written.
    """
    verdict = verify(run, lines)
    if verdict.harm is not None:
        raise DamagedJournal(
            f"the journal of run {run} is damaged ({where}): {verdict.words}",
            "compare it with its copies: the topic __drctl_journal and the state_dir of whoever"
            " carried it out; look at the clusters;"
            f" `drctl resume {quote(run)} --abandon REASON` then frees its link",
        )
    return tuple(opened(line).entry for line in lines)


def _sealed(entry: Entry, head: Head) -> bytes:
    if own := _OWN & entry.keys():
        raise ValueError(f"an entry may not have {', '.join(sorted(own))}: {dict(entry)}")
    told = _told(entry, head)
    # Positions of thousands of groups are one long text: it is searched once, not each word of it.
    before = (_told(masked_document(entry), head) if is_secret_in(told) else told).encode()[:-1]
    return before + f',"sum":"{_digest(before)}"}}'.encode()


def _told(entry: Entry, head: Head) -> str:
    placed = {"seq": head.seq + 1, "prev": head.digest, **entry}
    return json.dumps(placed, separators=(",", ":"), allow_nan=False)


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _unreadable(head: Head, ended: bool, rest: Sequence[bytes], wrong: Broken) -> ChainVerdict:
    number = head.seq + 1
    if _goes_on(rest, head):
        words = f"line {number} was inserted: {wrong}, and line {number} of the chain follows"
        return ChainVerdict(head.seq, head, ended, Harm.INSERTED, words)
    words = f"line {number} was changed: {wrong}"
    return ChainVerdict(head.seq, head, ended, Harm.CHANGED, words)


def _misplaced(head: Head, ended: bool, found: Sealed, rest: Sequence[bytes]) -> ChainVerdict:
    """A line that is sound, but not the one that belongs here."""
    number, goes_on = head.seq + 1, _goes_on(rest, head)
    if found.seq > number and goes_on:
        harm, words = Harm.REORDERED, f"line {found.seq} of the chain stands before it"
    elif found.seq > number:
        harm, words = Harm.REMOVED, f"line {found.seq} of the chain stands in its place"
    elif found.seq < number or goes_on:
        harm, words = Harm.INSERTED, f"a line that says it is line {found.seq} stands there"
    else:
        harm, words = Harm.CHANGED, "it, or a line before it, is not the one that was written"
    return ChainVerdict(head.seq, head, ended, harm, f"line {number} was {harm}: {words}")


def _goes_on(lines: Sequence[bytes], head: Head) -> bool:
    """Whether one of the lines is the next of the chain."""
    for line in lines:
        with suppress(Broken):
            sealed = opened(line)
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


def _state(value: Any) -> bool:
    return _text(value) and value in set(State)


def _moment(value: Any) -> bool:
    return _text(value) and datetime.fromisoformat(value).tzinfo is not None


_STEP: Mapping[str, Check] = {"step": _text}
_EFFECT: Mapping[str, Check] = {**_STEP, "effect": _number}
_SEEN: Mapping[str, Check] = {"state": _state, "words": _text, "items": _texts}

_SHAPES: Mapping[What, Mapping[str, Check]] = {
    What.BEGAN: {"run": is_run, "fingerprint": _text, "who": _named_texts, "plan": _mapping},
    What.RESUMED: {"who": _named_texts},
    What.ABANDONED: {"why": _text, "left_changed": _named_texts},
    What.INTEND: {**_EFFECT, "intent": _mapping},
    What.APPLIED: {**_EFFECT, "complaints": _texts},
    What.DONE: {**_EFFECT, "words": _text, "facts": _mapping, "items": _texts},
    What.FAILED: {**_STEP, **_SEEN},
    What.OBSERVED: {**_EFFECT, "state": _state, "words": _text},
    What.STALE: {**_EFFECT, "words": _text},
    What.OUTSTANDING: {**_STEP, "what": _text},
    What.SKIPPED: {**_STEP, **_SEEN},
    What.ROLLING_BACK: {**_STEP, "why": _text},
    What.UNDOING: _EFFECT,
    What.UNDONE: {**_EFFECT, "words": _text},
    What.NOT_UNDONE: {**_EFFECT, **_SEEN},
    What.INTERRUPTED: _STEP,
    What.ENDED: {"status": _text},
}

_OPTIONAL: Mapping[str, Check] = {"overrides": _named_texts}
"""Older journals do not have these."""


def check_entry(entry: Entry) -> What:
    """See that an entry holds what its kind does; returns the kind.

    Raises:
        ValueError: it does not; what, in words.
    """
    what = What(str(entry.get("entry", "")))
    checks = {"at": _moment, **_SHAPES[what]}
    checks |= {name: check for name, check in _OPTIONAL.items() if name in entry}
    for name, is_sound in checks.items():
        if name not in entry or not is_sound(entry[name]):
            raise ValueError(f"an entry {what.value!r} without a sound {name!r}")
    return what


@dataclass(slots=True)
class Effect:
    """One effect that was announced, and what became of it.

    Attributes:
        number: in the order of announcement, from 1.
        done: it read back as done.
        undoing: its rollback was announced, and may have been done.
        undone: it read back as rolled back.
        stale: what it was built from does not hold any more; another effect follows.
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
        """Whether it is the current effect of its step."""
        return not (self.undone or self.stale)


@dataclass(slots=True)
class RunState:
    """A run as its journal records it; grows with each entry.

    Attributes:
        effects: in the order of announcement.
        facts: of each step that is done, by its id.
        owed: what a later run must do, by step.
        passed: steps that were not done, and need not be.
        overrides: prechecks that were overridden at a resume: name to reason.
        turned_back: why effects are rolled back; empty while the run goes forward.
        abandoned: why nobody may resume it; empty where somebody may.
        left_changed: where it was abandoned, what it left changed, by step.
        status: what it ended with; empty while it has not.
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
    entries: list[Entry] = field(default_factory=list)
    _steps: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._steps = frozenset(step.id for step in self.plan.steps)

    def take(self, entries: Iterable[Entry]) -> None:
        """Add entries.

        Raises:
            DamagedJournal: one of them is not what this drctl writes.
        """
        for entry in entries:
            try:
                self._take(entry)
            except (AttributeError, KeyError, IndexError, TypeError, ValueError) as wrong:
                raise damaged(self.run, wrong) from wrong
            self.entries.append(entry)

    def effect_of(self, step: str) -> Effect | None:
        """The newest effect of a step that is neither rolled back nor stale."""
        return next((e for e in reversed(self.effects) if e.step == step and e.current), None)

    def is_done(self, step: str) -> bool:
        """Whether the run is through with the step: it was done, is owed or was passed."""
        return step in self.facts or step in self.outstanding or step in self.skipped

    def facts_by_kind(self) -> Facts:
        """The facts of the steps: by kind, the newest of each."""
        done = (step for step in self.plan.steps if step.id in self.facts)
        return Facts({step.kind: self.facts[step.id] for step in done})

    def settings_of(self, step: Step) -> Json:
        """Those of the plan, and what was overridden since."""
        if not self.overrides:
            return step.settings
        since = {**step.settings.get("overrides", {}), **self.overrides}
        return {**step.settings, "overrides": since}

    def forget(self, step: str) -> None:
        """Drop what the step showed: it does not hold any more."""
        self.facts.pop(step, None)
        self.outstanding.pop(step, None)
        self.skipped.discard(step)

    def _take(self, entry: Entry) -> None:
        what = check_entry(entry)
        if "step" in entry and entry["step"] not in self._steps:
            raise ValueError(f"its plan has no step {entry['step']!r}")
        match what:
            case What.RESUMED:
                # Older journals do not have them.
                self.overrides.update(entry.get("overrides", {}))
            case What.ABANDONED:
                self.abandoned, self.left_changed = str(entry["why"]), dict(entry["left_changed"])
            case What.INTEND:
                number = int(entry["effect"])
                if number != len(self.effects) + 1:
                    raise ValueError(f"effect {number} follows {len(self.effects)}")
                self.plan.step(entry["step"])
                self.effects.append(Effect(number, entry["step"], _json(entry["intent"])))
                self.forget(entry["step"])
            case What.DONE:
                self._effect(entry).done = True
                self.facts[entry["step"]] = _json(entry["facts"])
            case What.OBSERVED:
                if entry["state"] != "done":
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
        """The effect that an entry is about.

        Raises:
            ValueError: there is none, or it is of another step.
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
        DamagedJournal: they are not what this drctl writes.
    """
    first, *more = tuple(entries) or ({},)
    if not first:
        raise DamagedJournal(
            "the journal of this run is empty: its process ended before it wrote anything, or"
            " somebody emptied it",
            "where it is the copy of this machine: drctl journal without --local says what is so",
        )
    run = str(first.get("run", "?"))
    try:
        if check_entry(first) is not What.BEGAN or first["version"] != VERSION:
            raise ValueError("it does not begin as a journal of this drctl does")
        began = datetime.fromisoformat(first["at"])
        plan, who = Plan.from_json(first["plan"]), _json(first["who"])
        state = RunState(run, plan, who, began, entries=[first])
    except (AttributeError, KeyError, TypeError, ValueError) as wrong:
        raise damaged(run, wrong) from wrong
    state.take(more)
    return state


def _json(value: object) -> Json:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} holds no names")
    return value


def run_states(reader: JournalReader) -> Iterator[RunState]:
    """All runs of a journal, the newest first.

    Of one that is damaged, or not signed, and was set aside, the sound entries are replayed; it is
    left out where they hold no plan.

    Raises:
        DamagedJournal: one is damaged, and nobody has set it aside.
        Unknown: they cannot be read.
    """
    for run in reader.runs():
        yield from run_states_of(reader, run)


def run_states_of(reader: JournalReader, run: str) -> Iterator[RunState]:
    """The run, as in `run_states`; nothing where it was set aside and not even its plan is sound.

    Raises:
        DamagedJournal: it is damaged, and nobody has set it aside.
        Unknown: it cannot be read.
    """
    try:
        yield read_run(reader.entries(run))
    except DamagedJournal:
        if not reader.set_aside(run):
            raise
        lines = reader.lines(run)[: reader.sound(run)]
        with suppress(DamagedJournal):
            state = read_run(opened(line).entry for line in lines)
            state.abandoned = state.abandoned or "its journal is damaged"
            state.status = state.status or Status.STOPPED.value
            yield state


@contextmanager
def understood(run: str) -> Iterator[None]:
    """Prechecks code that reads settings, intents and facts of a journal.

    The shape of entries was checked; what these hold depends on the kind of step, and somebody may
    have written them.

    Raises:
        DamagedJournal: one of them does not hold what its kind writes.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as wrong:
        raise damaged(run, wrong) from wrong


def damaged(run: str, wrong: Exception) -> DamagedJournal:
    """An error for a journal that holds what this drctl does not write."""
    return DamagedJournal(
        f"the journal of run {run} cannot be read: {wrong}",
        "another version of drctl wrote it, or somebody changed it: drctl report --verify tells;"
        f" `drctl resume {quote(run)} --abandon REASON` frees its link",
    )
