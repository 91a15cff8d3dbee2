"""The lines of a journal, each holding on to the one before: what was changed later is found.

A line is the JSON of an entry between two things of its own: its number and the SHA-256 of the
previous line in front, the SHA-256 of everything before it at the end. So a line vouches for
itself, and for the bytes of all lines above. Who can write a whole journal can also make up a
whole chain: compare the last line's digest with a copy that he could not reach.
"""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from drctl.config.secret import masked_document
from drctl.model.errors import DamagedJournal
from drctl.model.journal import ENDED, Entry
from drctl.model.pasting import quote
from drctl.model.strict_json import read_json

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
    """Where a chain goes on.

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
        head: where the chain goes on behind them; note its digest to recognise them by.
        ended: whether the last of them says that the run ended. Where it did not, and is not under
            way, it was killed, or lines were cut off at the end.
        harm: what is wrong with the line behind them; None where nothing is.
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
    """The lines of these entries, behind the head; without an end of line, and without secrets.

    Raises:
        ValueError: an entry is no JSON, or uses a name of the chain's own.
    """
    lines = []
    for entry in entries:
        lines.append(_sealed(masked_document(entry), head))
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
    """Where the chain goes on behind a line.

    Raises:
        Broken: it is not as it was sealed.
    """
    sealed = opened(line)
    return Head(sealed.seq, sealed.digest)


def behind(lines: Sequence[bytes], head: Head) -> Head:
    """Where the chain goes on behind lines that were just sealed behind this head."""
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
    placed = {"seq": head.seq + 1, "prev": head.digest, **entry}
    before = json.dumps(placed, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return before + f',"sum":"{_digest(before)}"}}'.encode()


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _unreadable(head: Head, ended: bool, rest: Sequence[bytes], wrong: Broken) -> ChainVerdict:
    number = head.seq + 1
    if any(_follows(line, head) for line in rest):
        words = f"line {number} was inserted: {wrong}, and line {number} of the chain follows"
        return ChainVerdict(head.seq, head, ended, Harm.INSERTED, words)
    words = f"line {number} was changed: {wrong}"
    return ChainVerdict(head.seq, head, ended, Harm.CHANGED, words)


def _misplaced(head: Head, ended: bool, found: Sealed, rest: Sequence[bytes]) -> ChainVerdict:
    """A line that is sound, but not the one that belongs here."""
    number = head.seq + 1
    if any(_follows(line, head) for line in rest):
        if found.seq > number:
            harm, words = Harm.REORDERED, f"line {found.seq} of the chain stands before it"
        else:
            harm, words = Harm.INSERTED, f"a line that says it is line {found.seq} stands there"
    elif found.seq > number:
        harm, words = Harm.REMOVED, f"line {found.seq} of the chain stands in its place"
    elif found.seq < number:
        harm, words = Harm.INSERTED, f"a line that says it is line {found.seq} stands there"
    else:
        harm, words = Harm.CHANGED, "it, or a line before it, is not the one that was written"
    return ChainVerdict(head.seq, head, ended, harm, f"line {number} was {harm}: {words}")


def _follows(line: bytes, head: Head) -> bool:
    try:
        sealed = opened(line)
    except Broken:
        return False
    return (sealed.seq, sealed.prev) == (head.seq + 1, head.digest)
