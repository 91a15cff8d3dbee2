"""Records of `__drctl_journal`: the lines of runs, and the claims and heartbeats of their holders.

The key of a record is the name of the link. The value is a head, one line of JSON with exactly one
encoding, followed by the bytes of a sealed line, or by a part of a line that is too long for one
record. Claims and heartbeats have only a head. A token identifies a holder; it is never reused.
"""

import hmac
from dataclasses import dataclass
from hashlib import sha256

from drctl.formats.primitives import Undecodable, compact_json, is_count, parse_json
from drctl.model.journal import Holder

TOPIC = "__drctl_journal"
MAX_PART_BYTES = 700_000
"""Maximum size of a part; brokers accept records of 1 MiB by default."""

_NAME = "journal record"
_VERSION = 1


class AnotherVersion(Undecodable):
    """A newer version of drctl wrote the record; it must not be ignored."""


@dataclass(frozen=True, slots=True)
class Part:
    """A line of a run, or a part of it.

    Attributes:
        number: the number of the part, from 0.
        parts: the number of parts of the line, which are consecutive records.
        mac: signature of the whole line; empty if its writer had no key.
    """

    run: str
    number: int
    parts: int
    data: bytes
    mac: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A run wants the link; repeated until it acquires the link or gives up."""

    token: str
    holder: Holder


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A claim was withdrawn."""

    token: str


@dataclass(frozen=True, slots=True)
class Taken:
    """A run has acquired the link; the previous holder is fenced.

    Attributes:
        abandons: the run that is abandoned; empty if there is none.
        mac: signature of all other fields of the record; empty if its writer had no key.
    """

    token: str
    holder: Holder
    abandons: str = ""
    mac: str = ""


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat of a holder.

    Attributes:
        last: whether the holder has released the link.
    """

    token: str
    last: bool


Sign = Claim | Withdrawn | Taken | Beat
JournalRecord = Part | Sign


def encode(record: JournalRecord) -> bytes:
    """Encode a value."""
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
            fields = {"token": token, "holder": holder.to_json(), "abandons": abandons}
            return _head("taken", **fields, **signed)
        case Beat(token, last):
            return _head("beat", token=token, last=last)


def decode(data: bytes | None) -> JournalRecord:
    """Decode a value.

    Raises:
        AnotherVersion: a newer version of drctl wrote it.
        Undecodable: it is invalid.
    """
    if data is None:
        raise Undecodable(_NAME, "null", None)
    head, _, body = data.partition(b"\n")
    try:
        fields = parse_json(_NAME, head)
        if isinstance(fields, dict) and isinstance(fields.get("is"), str):
            version = fields.get("v")
            if isinstance(version, int) and version > _VERSION:
                raise AnotherVersion(_NAME, "of another version", data)
        found = _record(fields, body)
    except AnotherVersion:
        raise
    except Undecodable as wrong:
        raise Undecodable(_NAME, wrong.reason.removeprefix(f"{_NAME}: "), data) from None
    if found is None:
        raise Undecodable(_NAME, "not a record of a journal", data)
    if encode(found) != data:
        raise Undecodable(_NAME, "not in drctl's encoding", data)
    return found


def split(run: str, line: bytes, mac: str = "") -> tuple[Part, ...]:
    """Split a line into parts."""
    starts = range(0, len(line), MAX_PART_BYTES)
    return tuple(
        Part(run, number, len(starts), line[start : start + MAX_PART_BYTES], mac)
        for number, start in enumerate(starts)
    )


def _record(head: object, body: bytes) -> JournalRecord | None:
    """The record; None if it is invalid."""
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
    """The signature in the head; empty if it has none."""
    match head:
        case {"mac": str() as mac}:
            return mac
    return ""


def _holder(data: dict[str, object]) -> Holder:
    try:
        return Holder.from_json(data)
    except ValueError as wrong:
        raise Undecodable(_NAME, f"no holder: {wrong}", None) from None


def _head(kind: str, **fields: object) -> bytes:
    return compact_json({"v": _VERSION, "is": kind, **fields}) + b"\n"


def signature(key: bytes, link: str, line: bytes) -> str:
    """The signature of a sealed line, as in the head of its record."""
    return hmac.new(key, _message(link, line), sha256).hexdigest()


def is_signed(key: bytes, link: str, line: bytes, mac: str) -> bool:
    """Whether the line was signed with this key; compares in constant time."""
    wanted = signature(key, link, line).encode()
    return hmac.compare_digest(wanted, mac.encode("utf-8", "surrogatepass"))


def _message(link: str, line: bytes) -> bytes:
    name = link.encode()
    return b"drctl journal\n%d\n%s\n%s" % (len(name), name, line)
