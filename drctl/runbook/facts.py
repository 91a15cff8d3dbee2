"""What a `when:` may ask for: facts about the link, as they were observed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from drctl.engine.sequences.circumstances import Circumstances, FenceMethod

Value = str | int
Facts = Mapping[str, Value]

REACHABLE, UNREACHABLE = "reachable", "unreachable"


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that is observed of a link.

    Attributes:
        words: all that it can be; empty where it is a number.
        about: in words for a person.
    """

    words: tuple[str, ...]
    about: str


FACTS: Mapping[str, Fact] = {
    "source": Fact(
        (REACHABLE, UNREACHABLE), "whether the cluster that replication reads from answers"
    ),
    "target": Fact((REACHABLE, UNREACHABLE), "whether the cluster that it writes to answers"),
    "replicator": Fact(
        ("mirrormaker2", "confluent-replicator", "offset-preserving", "none"),
        "what copies the records",
    ),
    "fence": Fact(tuple(FenceMethod), "how producers are kept from the source"),
    "connectors": Fact((), "how many connectors of the link drctl.yaml names"),
    "endpoints": Fact((), "how many endpoints the link has"),
}


def observed(seen: Circumstances) -> dict[str, Value]:
    """The facts of these circumstances."""
    return {
        "source": REACHABLE if seen.source_answers else UNREACHABLE,
        "target": REACHABLE if seen.target_answers else UNREACHABLE,
        "replicator": seen.replicator,
        "fence": seen.fence_method.value,
        "connectors": len(seen.connectors),
        "endpoints": len(seen.endpoints),
    }


def worlds(asked: Mapping[str, frozenset[Value]]) -> Iterator[Circumstances]:
    """Circumstances in which every fact takes every value that could make a difference.

    What fences, and how many connectors and endpoints there are, always does: steps depend on it.

    Args:
        asked: the facts that conditions ask for, with what they are compared with; around numbers
            one less and one more is tried.
    """
    for source, target, replicator, fence, connectors, endpoints in product(
        _words("source", asked),
        _words("target", asked),
        _words("replicator", asked),
        FenceMethod,
        _numbers({0, 1}, asked.get("connectors", frozenset())),
        _numbers({0, 1, 2}, asked.get("endpoints", frozenset())),
    ):
        yield Circumstances(
            "LINK",
            "SOURCE",
            "TARGET",
            ("User:APPLICATION",),
            tuple(f"CONNECTOR-{n + 1}" for n in range(connectors)),
            ("file",) * endpoints,
            fence_method=fence,
            fence_command=("FENCE",),
            fence_undo=("UNFENCE",),
            replicator=replicator,
            source_answers=source == REACHABLE,
            target_answers=target == REACHABLE,
        )


def _words(fact: str, asked: Mapping[str, frozenset[Value]]) -> tuple[str, ...]:
    return FACTS[fact].words if fact in asked else FACTS[fact].words[:1]


def _numbers(always: set[int], asked: frozenset[Value]) -> tuple[int, ...]:
    around = {int(n) + step for n in asked for step in (-1, 0, 1)}
    return tuple(sorted(n for n in always | around if n >= 0))
