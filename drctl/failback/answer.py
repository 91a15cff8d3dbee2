"""The answer of `drctl failback --check-order`, document `drctl/order/1`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drctl.failback.facts import Facts
from drctl.failback.gap_results import Sample
from drctl.failback.situation import Situation, situation
from drctl.failback.step import Observed
from drctl.failback.steps.record_order import Tally, tallied
from drctl.failback.table import TABLE
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
        return {
            "schema": SCHEMA,
            "records": {
                **{name: getattr(self.tally, name) if self.tally else None for name in counts},
                "examples": [_example(each) for each in self.samples],
            },
            "steps": [
                {
                    "id": row.id,
                    "needs": list(row.needs),
                    "observed": self.steps[row.id].observed.value,
                    "why": self.steps[row.id].why,
                }
                for row in TABLE
            ],
            "verdict": self.verdict.value,
            "next": self.next,
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
        next_step(found, steps, seen.home),
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
