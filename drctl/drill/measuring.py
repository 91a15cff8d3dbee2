"""From logs to measures: how long nothing was written, what was lost, and what was read twice."""

from collections.abc import Mapping
from dataclasses import dataclass

from drctl.drill.logs import Logs
from drctl.model.plan import Json

EXAMPLES = 10


@dataclass(frozen=True, slots=True)
class Outage:
    """From the last write on the source to the first on the target.

    Attributes:
        since: what the time is counted from: `refused` or `last-write`.
        write_s: until the target acknowledged a record; None where it did not.
        read_s: until the group read a record there; None where it did not.
    """

    since: str
    write_s: float | None
    read_s: float | None

    @property
    def seconds(self) -> float | None:
        """Until both had happened; None where one has not."""
        if self.write_s is None or self.read_s is None:
            return None
        return max(self.write_s, self.read_s)


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that the source acknowledged and the target does not hold.

    Attributes:
        seconds: from the acknowledgement of the first of them to that of the last record.
        examples: some of their ids.
        duplicated: records that the target holds more than once.
    """

    acknowledged: int
    missing: int
    seconds: float
    examples: tuple[str, ...]
    duplicated: int


@dataclass(frozen=True, slots=True)
class TranslationError:
    """How far the translated positions were off, by the ids that were read.

    Attributes:
        finished: records that the group had finished on the source.
        reread: of these, how many it read again on the target.
        skipped: records of the target that it neither finished on the source nor read there.
        promised: re-reads at most, as the engine said when it committed; None where it committed
            no position.
        left_out: positions that were not committed.
    """

    finished: int
    reread: int
    skipped: int
    promised: int | None
    left_out: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measures:
    """What a drill measured."""

    outage: Outage
    loss: Loss
    translation: TranslationError


def measured(logs: Logs, committed: Json | None) -> Measures:
    """Hold the logs against each other.

    Args:
        committed: the facts of the engine's step that committed positions; None where it did not.
    """
    return Measures(_outage(logs), _loss(logs), _translation(logs, committed or {}))


def _outage(logs: Logs) -> Outage:
    refused = logs.source.refused_at
    since = refused if refused is not None else logs.source.last_at
    kind = "last-write" if refused is None else "refused"
    return Outage(kind, _between(since, logs.target.first_at), _between(since, logs.after.first_at))


def _between(since: float | None, until: float | None) -> float | None:
    if since is None or until is None:
        return None
    return round(max(0.0, until - since), 3)


def _loss(logs: Logs) -> Loss:
    acknowledged = logs.source.acknowledged
    missing = [name for name in acknowledged if name not in logs.held]
    last = logs.source.last_at or 0.0
    oldest = min((acknowledged[name] for name in missing), default=last)
    duplicated = sum(times > 1 for times in logs.held.values())
    return Loss(
        len(acknowledged),
        len(missing),
        round(last - oldest, 3),
        tuple(missing[:EXAMPLES]),
        duplicated,
    )


def _translation(logs: Logs, committed: Mapping[str, object]) -> TranslationError:
    finished, after = logs.before.finished, logs.after.read
    skipped = sorted(name for name in logs.held if name not in finished and name not in after)
    standing = (committed.get("positions", 0), committed.get("same", 0))
    promised = committed.get("rereads_at_most") if any(standing) else None
    left_out = committed.get("left_out", ())
    return TranslationError(
        len(finished),
        sum(name in finished for name in after),
        len(skipped),
        promised if isinstance(promised, int) else None,
        len(left_out) if isinstance(left_out, list | tuple) else 0,
        tuple(skipped[:EXAMPLES]),
    )
