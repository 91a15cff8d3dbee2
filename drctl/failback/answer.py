"""The answer of `drctl failback --check-order`, document `drctl/order/1`."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from drctl.failback.facts import Facts
from drctl.failback.gap_results import Sample
from drctl.failback.situation import Situation, situation
from drctl.failback.step import Observed
from drctl.failback.steps.rebuilt import TITLES
from drctl.failback.steps.record_order import Tally, tallied
from drctl.failback.table import TABLE, Row
from drctl.failback.verdict import (
    Steps,
    Verdict,
    Violation,
    look,
    next_step,
    verdict,
    violations,
)

SCHEMA = "drctl/order/1"


class State(StrEnum):
    """What there is to say of a failback as a whole."""

    NOTHING = "nothing-to-fail-back"
    UNKNOWN = "unknown"
    UNDER_WAY = "under-way"
    COMPLETED = "completed"


ROWS = {row.id: row for row in TABLE}


def title_of(seen: Situation, row: Row) -> str:
    """What a step is; a source that has lost its records has others of its own."""
    return TITLES.get(row.id, row.title) if seen.rebuilding else row.title


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found out.

    Attributes:
        tally: None where no result of `drctl gap` may be rested on.
        next: the step that is to be done now; None where nothing is left.
    """

    seen: Situation
    steps: Steps
    violations: tuple[Violation, ...]
    verdict: Verdict
    next: str | None
    tally: Tally | None

    @property
    def state(self) -> "State":
        """Whether there is a failback to make, and whether it is over."""
        if self.seen.peace:
            return State.NOTHING
        if self.seen.unclear:
            return State.UNKNOWN
        over = bool(self.seen.failed_back) and self.next is None
        return State.COMPLETED if over else State.UNDER_WAY

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Missing records to look at; none where no result may be rested on."""
        return self.seen.gap.valid.samples if self.seen.gap.valid else ()

    @property
    def unknown(self) -> Mapping[str, str]:
        """Steps that nobody could see, and why."""
        return {
            name: each.why for name, each in self.steps.items() if each.observed is Observed.UNKNOWN
        }

    def to_json(self) -> dict[str, Any]:
        """The document."""
        counts = ("safe", "conflicting", "unkeyed")
        names = {"source": self.seen.facts.source, "target": self.seen.facts.target}
        return {
            "schema": SCHEMA,
            "state": self.state.value,
            "why": self.seen.peace or self.seen.unclear or None,
            "records": {
                **{name: getattr(self.tally, name) if self.tally else None for name in counts},
                "examples": [_example(each) for each in self.samples],
            },
            "steps": [
                {
                    "id": row.id,
                    "name": row.name,
                    "title": title_of(self.seen, row).format(**names),
                    "needs": list(row.needs),
                    "observed": self.steps[row.id].observed.value,
                    "why": self.steps[row.id].why,
                }
                for row in TABLE
            ],
            "verdict": self.verdict.value,
            "violations": [
                {"step": each.repair, "name": ROWS[each.repair].name, "why": each.words}
                for each in self.violations
            ],
            "next": self.next,
            "next_name": None if self.next is None else ROWS[self.next].name,
        }


def answer(facts: Facts) -> Answer:
    """Judge what was observed."""
    seen = situation(facts)
    steps = look(seen)
    found = violations(seen, steps)
    valid = seen.gap.valid
    return Answer(
        seen,
        steps,
        found,
        verdict(found, steps),
        next_step(found, steps, seen),
        tallied(valid, facts.order) if valid is not None else None,
    )


def _example(each: Sample) -> dict[str, Any]:
    return {
        "topic": each.place.topic,
        "partition": each.place.partition,
        "offset": each.offset,
        "timestamp": each.timestamp_ms,
        "key": None if each.key is None else each.key.decode(errors="backslashreplace"),
        "order": each.order,
    }
