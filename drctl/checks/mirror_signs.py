"""MirrorMaker 2: signs that it lives, and whether it leaves records as they are."""

from collections.abc import Iterator

from drctl.checks.check import Family, NotObserved, Verdict, check, fail, ok, seen, warn
from drctl.checks.connectors import SOURCE, required
from drctl.checks.observed import Observed
from drctl.checks.wording import duration, listed
from drctl.model.finding import Status
from drctl.model.survey import of_applications

_FAMILY = Family.MIRRORMAKER
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_HEARTBEAT_MS = 60_000
_CHECKPOINT_MS = 10 * 60_000


@check(
    "mm2-converters",
    _FAMILY,
    "no converter of the source connector changes records",
    Status.FAIL,
)
def converters(observed: Observed) -> Iterator[Verdict]:
    """Whether copies hold the same bytes."""
    settings = required(observed, SOURCE)
    known = {key: settings.text(key, "").value for key in _CONVERTERS if key in settings.values}
    changing = {key: name for key, name in known.items() if name != _BYTES}
    cure = f"set key.converter, value.converter and header.converter to {_BYTES}"
    if changing:
        told = ", ".join(f"{key}={name}" for key, name in changing.items())
        cost = "copies hold other bytes: consumers cannot read them, and nothing is found again"
        yield fail(settings.subject, "records are changed on their way", told, cost, cure)
        return
    missing = [key for key in ("key.converter", "value.converter") if key not in known]
    if missing:
        reason = f"{' and '.join(missing)} are the worker's, which it does not tell"
        cure = f"see that the worker's converters are {_BYTES}, or say so in the connector"
        raise NotObserved(settings.subject, reason, cure)
    yield ok(settings.subject, "records are copied as they are", f"converters {_BYTES}")


@check(
    "mm2-aborted",
    _FAMILY,
    "`consumer.isolation.level` of the source connector is `read_committed`, or nobody writes in"
    " transactions",
    Status.WARN,
)
def aborted(observed: Observed) -> Iterator[Verdict]:
    """Whether what an application has taken back is copied as a record."""
    settings = required(observed, SOURCE)
    keys = ("source.consumer.isolation.level", "consumer.isolation.level")
    key = next((key for key in keys if key in settings.values), keys[1])
    level = settings.text(key, "read_uncommitted")
    if level.value == "read_committed":
        yield ok(settings.subject, "only what is committed is copied", level.evidence)
        return
    cure = f"set {keys[0]}=read_committed on it"
    what = f"it copies what is aborted, too ({level.evidence}); whether anybody writes in"
    known = seen(
        observed.survey.transactional_ids, settings.subject, f"{what} transactions is", cure
    )
    ours = of_applications(known)
    if not ours:
        yield ok(settings.subject, "nobody writes in transactions", level.evidence)
        return
    yield warn(
        settings.subject,
        "it copies what is aborted, too, as records that everybody reads",
        f"{level.evidence}; {len(ours):,} transactional ids are known: {listed(ours)}",
        f"groups read it on {observed.link.target}; the way home takes it for new records, with"
        " old ones behind them, and is refused but for --rebuild",
        cure,
    )


@check(
    "mm2-heartbeat-age",
    _FAMILY,
    "the newest copied heartbeat is at most a minute old",
    Status.WARN,
)
def heartbeat(observed: Observed) -> Iterator[Verdict]:
    """Whether replication lives though nothing is written."""
    cost = "whether replication stands, or the source is idle, cannot be told apart"
    cure = "see that a MirrorHeartbeatConnector runs, and that `heartbeats` is copied"
    subject = "heartbeats of MirrorMaker 2"
    ages = seen(observed.survey.ages, subject, "how old they are is", cure)
    yield _aged(observed, subject, ages.heartbeat_ms, _HEARTBEAT_MS, (cost, cure))


@check(
    "mm2-checkpoint-age",
    _FAMILY,
    "the newest checkpoint is at most 10 minutes old",
    Status.WARN,
)
def checkpoint(observed: Observed) -> Iterator[Verdict]:
    """Whether positions of groups are still written down."""
    cost = "groups read again what they consumed since, if nothing better is known"
    cure = "see that the MirrorCheckpointConnector runs, and that a group of the link consumes"
    subject = "checkpoints of MirrorMaker 2"
    ages = seen(observed.survey.ages, subject, "how old they are is", cure)
    yield _aged(observed, subject, ages.checkpoint_ms, _CHECKPOINT_MS, (cost, cure))


def _aged(
    observed: Observed, subject: str, at_ms: int | None, limit_ms: int, words: tuple[str, str]
) -> Verdict:
    cost, cure = words
    if at_ms is None:
        raise NotObserved(subject, "the target holds none", cure)
    age_ms = max(0, observed.now_ms - at_ms)
    told = f"the newest is {duration(age_ms)} old"
    if age_ms > limit_ms:
        return warn(subject, "the newest is old", told, cost, cure)
    return ok(subject, "they arrive", told)
