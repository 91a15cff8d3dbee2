"""The result of a drill: its measures, its verdict, and its line in the history of drills."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from drctl.config.secret import masked_document
from drctl.drill.cleaning import Scratch
from drctl.drill.clients import Logs
from drctl.drill.inventory import Compared
from drctl.drill.planning import LeftOut
from drctl.drill.takeovers import Takeover
from drctl.model.document import HIDDEN, Count, Name, Seconds
from drctl.model.errors import ExitCode
from drctl.model.strict_json import read_json
from drctl.model.text import plural
from drctl.steps.commit_offsets import CommitFacts


class Verdict(StrEnum):
    """The verdict of a drill."""

    PASSED = "passed"
    NOT_PASSED = "not-passed"
    """Completed, but a limit is exceeded, other resources changed, or cleanup is incomplete."""
    FAILED = "failed"
    """Did not complete; its resources were deleted."""
    UNKNOWN = "unknown"
    """Evidence is missing: about the drill or about other resources."""
    INTERRUPTED = "interrupted"
    """The process died; a later drill cleaned up."""


@dataclass(frozen=True, slots=True)
class Past:
    """A drill in the history.

    Attributes:
        began: start time, with a time zone.
        mode: `planned` or `unplanned`; empty if it ended before that was known.
        reasons: why it did not pass.
        seconds: durations of the steps, by id.
    """

    drill: str
    link: str
    began: datetime
    verdict: Verdict
    mode: str = ""
    inject: str = ""
    rto_s: float | None = None
    write_s: float | None = None
    read_s: float | None = None
    acknowledged: int | None = None
    missing: int | None = None
    rpo_s: float | None = None
    reread: int | None = None
    skipped: int | None = None
    reasons: tuple[str, ...] = ()
    seconds: tuple[tuple[str, float], ...] = ()

    def line(self) -> bytes:
        """Its line in the history file, without secrets."""
        data = {**asdict(self), "began": self.began.isoformat(), "seconds": dict(self.seconds)}
        return json.dumps(masked_document(data), separators=(",", ":")).encode()


def read(lines: Iterable[bytes]) -> tuple[tuple[Past, ...], int]:
    """Read the drills of a file, oldest first; also count damaged lines."""
    found: dict[str, Past] = {}
    damaged = 0
    for line in lines:
        past = _read(line)
        if past is None:
            damaged += 1
        else:
            found[past.drill] = past
    return tuple(sorted(found.values(), key=lambda past: past.began)), damaged


def _read(line: bytes) -> Past | None:
    try:
        data: dict[str, Any] = read_json(line)
        began = datetime.fromisoformat(data.pop("began"))
        seconds = tuple((str(k), float(v)) for k, v in data.pop("seconds").items())
        reasons = tuple(map(str, data.pop("reasons")))
        past = Past(
            began=began,
            verdict=Verdict(data.pop("verdict")),
            reasons=reasons,
            seconds=seconds,
            **data,
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return past if began.tzinfo is not None and _sound(past) else None


def _sound(past: Past) -> bool:
    """Whether every field has the right type."""
    texts = (past.drill, past.link, past.mode, past.inject)
    times = (past.rto_s, past.write_s, past.read_s, past.rpo_s)
    counts = (past.acknowledged, past.missing, past.reread, past.skipped)
    return (
        all(isinstance(each, str) for each in texts)
        and all(each is None or type(each) in (int, float) for each in times)
        and all(each is None or type(each) is int for each in counts)
    )


EXAMPLES = 10


@dataclass(frozen=True, slots=True)
class Outage:
    """From the last write on the source to the first on the target.

    Attributes:
        since: start of the outage: `refused` or `last-write`.
        write_s: time until the target acknowledged a record; None if it did not.
        read_s: time until the group read a record there; None if it did not.
    """

    since: str
    write_s: float | None
    read_s: float | None

    @property
    def seconds(self) -> float | None:
        """Time until both happened; None if one did not."""
        if self.write_s is None or self.read_s is None:
            return None
        return max(self.write_s, self.read_s)


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that the source acknowledged and the target does not hold.

    Attributes:
        seconds: from the acknowledgement of the first missing record to that of the last record.
        examples: ids of some missing records.
        duplicated: records that the target holds more than once.
    """

    acknowledged: Count
    missing: Count
    seconds: Seconds
    examples: tuple[Name, ...]
    duplicated: Count


@dataclass(frozen=True, slots=True)
class TranslationError:
    """The error of the translated offsets, by the ids that were read.

    Attributes:
        finished: records that the group had consumed and committed on the source.
        reread: how many of these it read again on the target.
        skipped: records of the target that it consumed on neither cluster.
        promised: upper bound of re-reads in the plan; null if no offset was committed.
        left_out: offsets that were not committed.
    """

    finished: Count
    reread: Count
    skipped: Count
    promised: Count | None
    left_out: Count
    examples: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of a drill."""

    outage: Outage
    loss: Loss
    translation: TranslationError


def measured(logs: Logs, committed: CommitFacts | None) -> Measures:
    """Compare the logs of the applications on both clusters.

    Args:
        committed: facts of the step that committed offsets; None if it did not run.
    """
    return Measures(_outage(logs), _loss(logs), _translation(logs, committed))


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


def _translation(logs: Logs, committed: CommitFacts | None) -> TranslationError:
    finished, after = logs.before.finished, logs.after.read
    skipped = sorted(name for name in logs.held if name not in finished and name not in after)
    promised = None
    if committed and (committed.positions or committed.same):
        promised = committed.rereads_at_most
    return TranslationError(
        len(finished),
        sum(name in finished for name in after),
        len(skipped),
        promised,
        len(committed.left_out) if committed else 0,
        tuple(skipped[:EXAMPLES]),
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a drill.

    Attributes:
        rpo_s: `policy.max_rpo_seconds`.
        rto_s: the drill's RTO limit; null if not set.
        planned: whether no record may be lost.
    """

    rpo_s: Annotated[Seconds, ("key", "rpo")]
    rto_s: Annotated[Seconds | None, ("key", "rto")]
    planned: Annotated[bool, HIDDEN]


def worse(measures: Measures, limits: Limits) -> tuple[str, ...]:
    """The exceeded limits as text; empty if there are none."""
    return tuple(_worse(measures, limits))


def _worse(measures: Measures, limits: Limits) -> Iterator[str]:
    outage, loss, translation = measures.outage, measures.loss, measures.translation
    if outage.seconds is None:
        yield "the applications did not resume on the target: no RTO"
    elif limits.rto_s is not None and outage.seconds > limits.rto_s:
        yield f"RTO {outage.seconds:.1f} s exceeds the limit of {limits.rto_s:g} s"
    if limits.planned and loss.missing:
        yield (
            f"{plural(loss.missing, 'acknowledged record was', 'acknowledged records were')}"
            " lost; a planned failover must lose none"
        )
    elif loss.seconds > limits.rpo_s:
        yield f"RPO {loss.seconds:.1f} s exceeds the limit of {limits.rpo_s:g} s"
    if translation.skipped:
        yield f"the group skipped {plural(translation.skipped, 'record')}"
    if translation.promised is None and translation.finished:
        yield (
            f"no offset of the group was committed on the target: it re-read"
            f" {translation.reread:,} of {translation.finished:,} records"
        )
    elif translation.promised is not None and translation.reread > translation.promised:
        yield (
            f"the group re-read {plural(translation.reread, 'record')}; the plan allowed at most"
            f" {translation.promised:,}"
        )
    if translation.left_out:
        yield f"{plural(translation.left_out, 'offset')} could not be translated"


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step of the run; `seconds` is None if it was not started."""

    id: Name
    title: Name
    status: Name
    seconds: Seconds | None
    detail: str


@dataclass(frozen=True, slots=True)
class Result:
    """One drill.

    Attributes:
        inject: the injected fault, if any.
        seconds: total duration, including cleanup.
        broke_off: why it ended early; empty if all steps completed.
        unanswered: whether it ended early because something did not answer.
        measures: None if it ended before measuring.
        steps: steps of the run; empty if it did not start.
        takeovers: tasks of source connectors that the fault disrupted.
        deleted: deleted resources of the drill.
        left: resources that remain, or may remain.
        compared: all other resources before and after; None if that could not be checked.
        not_compared: why that could not be checked.
        journal: journal of the run; empty if it did not start.
    """

    scratch: Scratch
    link: str
    source: str
    target: str
    target_topic: str
    mode: str
    inject: str
    began: datetime
    seconds: float
    limits: Limits
    broke_off: str = ""
    unanswered: bool = False
    interrupted: bool = False
    measures: Measures | None = None
    steps: tuple[StepTime, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    takeovers: tuple[Takeover, ...] = ()
    deleted: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    compared: Compared | None = None
    not_compared: str = ""
    journal: str = ""

    @property
    def evidence_missing(self) -> bool:
        """Whether evidence is missing."""
        return self.unanswered or self.compared is None or bool(self.compared.unseen)

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        if self.evidence_missing:
            return Verdict.UNKNOWN
        if self.broke_off or self.measures is None:
            return Verdict.FAILED
        return Verdict.NOT_PASSED if self.reasons else Verdict.PASSED

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it did not pass, as text; empty if it passed."""
        return tuple(self._reasons())

    @property
    def exit_code(self) -> ExitCode:
        """The exit code, most urgent first.

        4: resources remain; 130: interrupted; 5: evidence is missing; 1: it did not pass.
        """
        if self.left:
            return ExitCode.STOPPED
        if self.interrupted:
            return ExitCode.INTERRUPTED
        if self.evidence_missing:
            return ExitCode.UNKNOWN
        return ExitCode.DONE if self.verdict is Verdict.PASSED else ExitCode.FOUND

    def past(self) -> Past:
        """Its line in the history."""
        past = Past(
            self.scratch.drill,
            self.link,
            self.began,
            self.verdict,
            self.mode,
            self.inject,
            reasons=self.reasons,
            seconds=tuple((s.id, s.seconds) for s in self.steps if s.seconds is not None),
        )
        if self.measures is None:
            return past
        outage, loss = self.measures.outage, self.measures.loss
        translation = self.measures.translation
        return replace(
            past,
            rto_s=outage.seconds,
            write_s=outage.write_s,
            read_s=outage.read_s,
            acknowledged=loss.acknowledged,
            missing=loss.missing,
            rpo_s=loss.seconds,
            reread=translation.reread,
            skipped=translation.skipped,
        )

    def _reasons(self) -> Iterator[str]:
        if self.broke_off:
            yield self.broke_off
        elif self.measures is not None:
            yield from worse(self.measures, self.limits)
        yield from (f"not deleted: {what}" for what in self.left)
        if self.compared is None:
            why = f": {self.not_compared}" if self.not_compared else ""
            yield f"cannot tell whether other resources are unchanged{why}"
            return
        yield from (f"changed: {what}" for what in self.compared.differences)
        yield from (f"not checked: {what}" for what in self.compared.unseen)
