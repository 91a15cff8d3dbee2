"""What answers are worth while the source is silent: bounds that hold, and the one condition.

A committed offset that was noted a while ago stands for what the group has consumed by now, unless
somebody reset it backwards meanwhile. What it consumed since then nobody knows: only the end of the
target's log bounds what it reads again.
"""

from collections.abc import Sequence
from dataclasses import replace

from drctl.model.moments import utc
from drctl.model.topology import PartitionOffsets, Unavailable
from drctl.model.translation import Answer, Method
from drctl.offsets.evidence import LastKnown
from drctl.offsets.question import NoAnswer

Said = Sequence[tuple[str, Answer | NoAnswer]]

_OF_NO_GROUP = Method.TIMESTAMP
"""A time that an engineer gives says nothing of any group."""

STANDS_AHEAD = (
    "the group was reset backwards after MirrorMaker 2 committed this offset on the target, or"
    " somebody else committed it there"
)

_SHIFTED = "the mirror does not preserve offsets"


def worth(
    said: Said, known: LastKnown, log: PartitionOffsets | Unavailable | None, now_ms: int
) -> Said:
    """What was said of one position, as it is worth while the source is silent.

    Args:
        known: the newest note of the position.
        log: of the target's partition.
    """
    found = [
        (name, _answer(a, known, log, now_ms) if isinstance(a, Answer) else a) for name, a in said
    ]
    return _not_older_and_further(found)


def _answer(
    answer: Answer, known: LastKnown, log: PartitionOffsets | Unavailable | None, now_ms: int
) -> Answer:
    end = log.end if isinstance(log, PartitionOffsets) else None
    firm = None if end is None else max(0, end - answer.target_offset)
    if answer.method is _OF_NO_GROUP:
        return replace(answer, rereads_at_most=firm)
    likely = answer.rereads_at_most
    if answer.method is Method.CHECKPOINT and likely == firm:
        likely = None  # MirrorMaker 2 does not say how far it stayed behind the exact offset
    if answer.method is Method.TARGET_OFFSET:
        return replace(answer, rereads_at_most=firm, skips_only_if=STANDS_AHEAD)
    if answer.method is Method.CONSUMER_TIMESTAMP:
        return replace(
            answer,
            rereads_at_most=firm,
            rereads_likely=likely,
            skips_only_if=_reset(answer.age_seconds, now_ms),
        )
    age = None if known.at_ms is None else max(0.0, (now_ms - known.at_ms) / 1000)
    proven = answer.skips_at_most is not None
    if answer.method is Method.MAPPING and not (proven or answer.skips_only_if):
        return replace(answer, rereads_at_most=firm, age_seconds=age)  # of a lone header
    shifted = answer.skips_only_if or ("" if proven else _SHIFTED)
    told = f"; {known.told_by}" if known.told_by else ""
    return replace(
        answer,
        rereads_at_most=firm,
        rereads_likely=likely if firm is None or likely is None else min(likely, firm),
        skips_at_most=answer.skips_at_most if known.followed else None,
        skips_only_if=", or ".join(filter(None, (shifted, _reset(age, now_ms)))),
        evidence=answer.evidence + told,
        age_seconds=age,
    )


def _reset(age_seconds: float | None, now_ms: int) -> str:
    if age_seconds is None:
        return "the group was reset backwards after this was noted, and nobody knows when that was"
    return f"the group was reset backwards after {utc(round(now_ms - age_seconds * 1000))}"


def _not_older_and_further(said: Said) -> Said:
    """Without answers that a newer one contradicts: the group was reset between the two.

    Only a time and an offset have to be compared so; notes of offsets are compared as such.
    """
    times = [a for _, a in said if isinstance(a, Answer) and a.method is Method.CONSUMER_TIMESTAMP]
    offsets = [a for _, a in said if isinstance(a, Answer) and a.method not in _BY_THEMSELVES]
    void = {
        id(old)
        for one, other in ((t, o) for t in times for o in offsets)
        for new, old in [sorted((one, other), key=_age)]
        if new.rereads_likely is not None
        and old.target_offset > new.target_offset + new.rereads_likely
    }
    return [(name, _OVERTAKEN if id(a) in void else a) for name, a in said]


_BY_THEMSELVES = (Method.CONSUMER_TIMESTAMP, Method.TARGET_OFFSET, Method.TIMESTAMP)
_OVERTAKEN = NoAnswer("newer evidence is of a lower offset: the group was reset between the two")


def _age(answer: Answer) -> float:
    return float("inf") if answer.age_seconds is None else answer.age_seconds
