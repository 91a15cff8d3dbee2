"""What stands in `__drctl_journal`: lines of runs, and the signs that their holders leave.

The key of a record is the name of the link. The value is a head of one line of JSON, written in
one way only, and after it the bytes of a sealed line, or of a part of one that is too long for a
record. Signs have a head only. A token is what a holder calls itself: another one each time.
"""

import hmac
from dataclasses import dataclass
from hashlib import sha256

from drctl.formats.primitives import Undecodable, is_count, parsed, written
from drctl.model.journal import Holder

TOPIC = "__drctl_journal"
MOST_BYTES = 700_000
"""Of one part; brokers take 1 MiB unless told otherwise."""

_NAME = "journal record"
_VERSION = 1


class AnotherVersion(Undecodable):
    """A drctl of another version wrote it: what it says may matter, and is not known."""


@dataclass(frozen=True, slots=True)
class Part:
    """A line of a run, or a part of it.

    Attributes:
        number: of the part, from 0.
        parts: how many make up the line; they follow each other.
        mac: of the whole line, where its writer had a key; see `drctl.formats.journal_records`.
    """

    run: str
    number: int
    parts: int
    data: bytes
    mac: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """Somebody wants the link; said again and again until it has it or gives up."""

    token: str
    holder: Holder


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """That one does not want it any more."""

    token: str


@dataclass(frozen=True, slots=True)
class Taken:
    """That one has it: whoever had it before is fenced.

    Attributes:
        abandons: the run that nobody continues with from here on; empty where there is none.
        mac: of the record without it, where its writer had a key.
    """

    token: str
    holder: Holder
    abandons: str = ""
    mac: str = ""


@dataclass(frozen=True, slots=True)
class Beat:
    """That one lives.

    Attributes:
        last: it has let go of the link.
    """

    token: str
    last: bool


Sign = Claim | Withdrawn | Taken | Beat
JournalRecord = Part | Sign


def encode(record: JournalRecord) -> bytes:
    """Write a value."""
    match record:
        case Part(run, number, parts, data, mac):
            signed = {"mac": mac} if mac else {}
            return _head("line", run=run, part=number, parts=parts, **signed) + data
        case Claim(token, holder):
            return _head("claim", token=token, holder=holder.to_json())
        case Withdrawn(token):
            return _head("withdrawn", token=token)
        case Taken(token, holder, abandons, mac):
            signed = {"mac": mac} if mac else {}
            told = {"token": token, "holder": holder.to_json(), "abandons": abandons}
            return _head("taken", **told, **signed)
        case Beat(token, last):
            return _head("beat", token=token, last=last)


def decode(data: bytes | None) -> JournalRecord:
    """Read a value.

    Raises:
        AnotherVersion: it is of a version that is not known.
        Undecodable: it is none.
    """
    if data is None:
        raise Undecodable(_NAME, "null", None)
    head, _, body = data.partition(b"\n")
    try:
        told = parsed(_NAME, head)
        if isinstance(told, dict) and isinstance(told.get("is"), str):
            version = told.get("v")
            if isinstance(version, int) and version > _VERSION:
                raise AnotherVersion(_NAME, "of another version", data)
        found = _record(told, body)
    except AnotherVersion:
        raise
    except Undecodable as wrong:
        raise Undecodable(_NAME, wrong.reason.removeprefix(f"{_NAME}: "), data) from None
    if found is None:
        raise Undecodable(_NAME, "not of a journal", data)
    if encode(found) != data:
        raise Undecodable(_NAME, "not as drctl writes it", data)
    return found


def split(run: str, line: bytes, mac: str = "") -> tuple[Part, ...]:
    """The parts of a line."""
    starts = range(0, len(line), MOST_BYTES)
    return tuple(
        Part(run, number, len(starts), line[start : start + MOST_BYTES], mac)
        for number, start in enumerate(starts)
    )


def _record(head: object, body: bytes) -> JournalRecord | None:
    """What it is; null where it is none."""
    match head:
        case {"v": int() as version} if version != _VERSION:
            return None
        case {"is": "line", "run": str() as run, "part": number, "parts": int() as parts} if (
            is_count(number)
        ):
            return Part(run, number, parts, body, _mac(head)) if number < parts else None
        case {"is": "claim", "token": str() as token, "holder": dict() as holder}:
            return Claim(token, _holder(holder))
        case {"is": "withdrawn", "token": str() as token}:
            return Withdrawn(token)
        case {
            "is": "taken",
            "token": str() as token,
            "holder": dict() as holder,
            "abandons": str() as abandons,
        }:
            return Taken(token, _holder(holder), abandons, _mac(head))
        case {"is": "beat", "token": str() as token, "last": bool() as last}:
            return Beat(token, last)
    return None


def _mac(head: object) -> str:
    """Empty where it is not signed."""
    match head:
        case {"mac": str() as mac}:
            return mac
    return ""


def _holder(data: dict[str, object]) -> Holder:
    try:
        return Holder.from_json(data)
    except ValueError as wrong:
        raise Undecodable(_NAME, f"no holder: {wrong}", None) from None


def _head(kind: str, **told: object) -> bytes:
    return written({"v": _VERSION, "is": kind, **told}) + b"\n"


def signature(key: bytes, link: str, line: bytes) -> str:
    """Of a sealed line, as it stands in the head of its record."""
    return hmac.new(key, _message(link, line), sha256).hexdigest()


def is_signed(key: bytes, link: str, line: bytes, mac: str) -> bool:
    """Whether somebody with this key has written the line; takes the same time for any answer."""
    wanted = signature(key, link, line).encode()
    return hmac.compare_digest(wanted, mac.encode("utf-8", "surrogatepass"))


def _message(link: str, line: bytes) -> bytes:
    name = link.encode()
    return b"drctl journal\n%d\n%s\n%s" % (len(name), name, line)
