"""Confluent Replicator in both directions: what has to agree, or records are copied twice."""

from collections.abc import Iterator, Mapping

from drctl.checks.connectors import REPLICATOR, simple_class
from drctl.engine.steps.way_back_order import BOTH_WAYS
from drctl.failback.facts import Replication, Replicator
from drctl.model.finding import Finding, Status

GUARD = BOTH_WAYS

_CONNECT = "; or offset.start=connect on what copies back: step bring-home says its offsets"
_TWICE = "what was replicated before is copied again"


def replicator_findings(forward: Replication, reverse: Replication) -> Iterator[Finding]:
    """Group id and provenance headers, of each pair of Replicators.

    A person sets the position of one that copies back; where it takes the translated one instead,
    it has to be of the same group as the other, and tells what it must leave out by headers alone:
    a translated position is before the first new record, never behind it.
    """
    backs = tuple(filter(_is_replicator, reverse.copying))
    translated = any(map(_from_group, backs))
    for there in filter(_is_replicator, forward.copying):
        for back in backs:
            yield from _groups(there, back)
        yield from _provenance(there, Status.FAIL if translated else Status.WARN)
    for back in backs:
        yield from _own_copies(back, Status.FAIL if _from_group(back) else Status.WARN)


def _groups(there: Replicator, back: Replicator) -> Iterator[Finding]:
    ours, theirs = _group(there), _group(back)
    if ours == theirs:
        return
    reason = f"the directions have different group ids, {ours!r} there and {theirs!r} back"
    cure = f"set src.consumer.group.id={ours} on {back.name}, while it is stopped"
    if _from_group(back):
        told = f"{reason}: it does not find the translated position, and {_TWICE}"
        yield Finding(GUARD, Status.FAIL, f"connector {back.name}", told, cure=cure)
        return
    told = f"{reason}; it takes its position from Connect: {_TWICE} unless that is set first"
    yield Finding(GUARD, Status.WARN, f"connector {back.name}", told, cure=cure)


def _provenance(there: Replicator, status: Status) -> Iterator[Finding]:
    """A copy that does not say where it comes from is one more record to the other direction."""
    if not _marks(there):
        reason = (
            "copies do not say where they come from: nothing but its position keeps the other"
            " direction from copying them back"
        )
        cure = f"set provenance.header.enable=true on {there.name}; older copies stay without it"
        cure += _CONNECT
        yield Finding(GUARD, status, f"connector {there.name}", reason, cure=cure)


def _own_copies(back: Replicator, status: Status) -> Iterator[Finding]:
    """Whether it will know by their headers what came from where it copies to."""
    if not _marks(back):
        reason = "it does not look where copies come from: nothing but its position leaves them out"
        cure = f"set provenance.header.enable=true on {back.name}{_CONNECT}"
        yield Finding(GUARD, status, f"connector {back.name}", reason, cure=cure)
        return
    converter = _config(back).get("header.converter", "")
    if not converter.endswith("ByteArrayConverter"):
        reason = f"it reads headers with {converter or 'the converter of the workers'}"
        cure = "set header.converter=io.confluent.connect.replicator.util.ByteArrayConverter"
        told = f"{reason}: it may not know its own copies again"
        yield Finding(GUARD, status, f"connector {back.name}", told, cure=cure)


def _from_group(back: Replicator) -> bool:
    """Whether it begins where its consumer group stands, and not where Connect says."""
    return _config(back).get("offset.start") == "consumer"


def _marks(each: Replicator) -> bool:
    return _config(each).get("provenance.header.enable", "false").lower() == "true"


def _group(each: Replicator) -> str:
    return _config(each).get("src.consumer.group.id") or _config(each).get("name") or each.name


def _config(each: Replicator) -> Mapping[str, str]:
    return each.connector.config


def _is_replicator(each: Replicator) -> bool:
    return simple_class(each.connector.config) == REPLICATOR
