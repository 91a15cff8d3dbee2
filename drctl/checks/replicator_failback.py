"""Confluent Replicator: what the way back needs, so that only new records are copied."""

from collections.abc import Iterator

from drctl.checks.check import Family, NotObserved, Verdict, check, fail, ok, warn
from drctl.checks.connectors import REPLICATOR, required, reverse_replicator
from drctl.checks.observed import Observed
from drctl.checks.settings import Settings, worker_settings
from drctl.config.fields import UNCHANGED
from drctl.model.finding import Status

_FAMILY = Family.REPLICATOR
_COPIED_AGAIN = "on the way back, what was replicated before is copied again: duplicates"
_CONVERTER = "io.confluent.connect.replicator.util.ByteArrayConverter"


@check(
    "replicator-own-timestamps",
    _FAMILY,
    "`offset.timestamps.commit` is true: Replicator's own position is translated, too",
    Status.FAIL,
)
def own_timestamps(observed: Observed) -> Iterator[Verdict]:
    """Whether the reverse Replicator will know where to begin."""
    settings = required(observed, REPLICATOR)
    kept = settings.flag("offset.timestamps.commit", True)
    if kept.value:
        yield ok(settings.subject, "Replicator's own position is translated", kept.evidence)
        return
    reason, cure = "its own position is not translated", "set offset.timestamps.commit=true"
    yield fail(settings.subject, reason, kept.evidence, _COPIED_AGAIN, cure)


@check(
    "replicator-own-offsets",
    _FAMILY,
    "`offset.topic.commit` is true: how far Replicator got is in its group",
    Status.WARN,
)
def own_offsets(observed: Observed) -> Iterator[Verdict]:
    """Whether the source can tell how far it got."""
    settings = required(observed, REPLICATOR)
    kept = settings.flag("offset.topic.commit", True)
    if kept.value:
        yield ok(settings.subject, "how far it got is in its group", kept.evidence)
        return
    yield warn(
        settings.subject,
        "how far it got is not in its group",
        kept.evidence,
        "its lag cannot be seen, so nobody knows before the failover how much would be missing",
        "set offset.topic.commit=true",
    )


@check(
    "replicator-reverse-start",
    _FAMILY,
    "`offset.start` of the reverse Replicator is `consumer`: it begins at the translated position",
    Status.FAIL,
)
def reverse_start(observed: Observed) -> Iterator[Verdict]:
    """Where the way back would begin."""
    settings = reverse_replicator(observed)
    start = settings.text("offset.start", "connect")
    if start.value == "consumer":
        yield ok(settings.subject, "it begins at the translated position", start.evidence)
        return
    reason, cure = "it ignores the translated position", "set offset.start=consumer on it"
    yield fail(settings.subject, reason, start.evidence, _COPIED_AGAIN, cure)


@check(
    "replicator-group-id",
    _FAMILY,
    "`src.consumer.group.id`, else the connector's name, is the same in both directions",
    Status.FAIL,
)
def group_id(observed: Observed) -> Iterator[Verdict]:
    """Whether the reverse Replicator takes over the position of the first."""
    there, back = required(observed, REPLICATOR), reverse_replicator(observed)
    ours, theirs = _group(there), _group(back)
    subject, evidence = f"{there.subject}, {back.subject}", f"{ours!r} there, {theirs!r} back"
    if ours == theirs:
        yield ok(subject, "both directions have one group id", evidence)
        return
    reason, cure = "the directions have different group ids", f"set src.consumer.group.id={ours}"
    yield fail(subject, reason, evidence, _COPIED_AGAIN, f"{cure} on {back.subject}")


@check(
    "replicator-provenance",
    _FAMILY,
    "`provenance.header.enable` is true, so that records are not copied back to where they came"
    " from",
    Status.WARN,
    Status.FAIL,
)
def provenance(observed: Observed) -> Iterator[Verdict]:
    """Whether a copy says where it comes from."""
    settings = required(observed, REPLICATOR)
    enabled = settings.flag("provenance.header.enable", False)
    if enabled.value:
        yield ok(settings.subject, "copies say where they come from", enabled.evidence)
        return
    replicator = observed.link.settings.replicator
    reverse = replicator.reverse
    same = reverse is not None and replicator.rename == reverse.rename == UNCHANGED
    reason, cure = "copies do not say where they come from", "set provenance.header.enable=true"
    if same:
        cost = "both directions at once, with the same topic names, copy records round for ever"
        yield fail(settings.subject, reason, enabled.evidence, cost, cure)
    else:
        yield warn(settings.subject, reason, enabled.evidence, _COPIED_AGAIN, cure)


@check(
    "replicator-header-converter",
    _FAMILY,
    f"`header.converter` is `{_CONVERTER}` where provenance headers are written",
    Status.FAIL,
)
def header_converter(observed: Observed) -> Iterator[Verdict]:
    """Whether Replicator can read the headers that it wrote."""
    settings = required(observed, REPLICATOR)
    enabled = settings.flag("provenance.header.enable", False)
    if not enabled.value:
        yield ok(settings.subject, "no provenance header is written", enabled.evidence)
        return
    if "header.converter" not in settings.values:
        settings = worker_settings(observed)
    converter = settings.text("header.converter", "SimpleHeaderConverter")
    if converter.value == _CONVERTER:
        yield ok(settings.subject, "provenance headers stay readable", converter.evidence)
        return
    reason, cure = "provenance headers are not kept as bytes", f"set header.converter={_CONVERTER}"
    cost = f"Replicator does not recognise its own copies; {_COPIED_AGAIN}"
    yield fail(settings.subject, reason, converter.evidence, cost, f"{cure} on the connector")


def _group(settings: Settings) -> str:
    name = settings.subject.removeprefix("connector ")
    known = settings.text("src.consumer.group.id", settings.values.get("name", name)).value
    if not known:
        cure = f"set src.consumer.group.id of {settings.subject}"
        raise NotObserved(settings.subject, "its group id is empty", cure)
    return known
