"""The language of `when:`: comparisons of facts, `and`, `or`, `not` and parentheses.

source == reachable and (replicator == mirrormaker2 or not endpoints > 0)
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from drctl.config.problems import did_you_mean, one_of, quoted
from drctl.plans.inputs import FenceMethod, PlanInputs

Value = str | int
Facts = Mapping[str, Value]

REACHABLE, UNREACHABLE = "reachable", "unreachable"


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact about a link.

    Attributes:
        values: its possible values; empty if it is a number.
        about: a description for people.
    """

    values: tuple[str, ...]
    about: str


FACTS: Mapping[str, Fact] = {
    "source": Fact((REACHABLE, UNREACHABLE), "whether the source cluster responds"),
    "target": Fact((REACHABLE, UNREACHABLE), "whether the target cluster responds"),
    "replicator": Fact(
        ("mirrormaker2", "confluent-replicator", "offset-preserving", "none"), "the replicator"
    ),
    "fence": Fact(tuple(FenceMethod), "how producers are fenced from the source"),
    "connectors": Fact((), "how many connectors of the link drctl.yaml names"),
    "endpoints": Fact((), "how many endpoints the link has"),
}


def observed(inputs: PlanInputs) -> dict[str, Value]:
    """The facts of a link."""
    return {
        "source": REACHABLE if inputs.source_answers else UNREACHABLE,
        "target": REACHABLE if inputs.target_answers else UNREACHABLE,
        "replicator": inputs.replicator,
        "fence": inputs.fence_method.value,
        "connectors": len(inputs.connectors),
        "endpoints": len(inputs.endpoints),
    }


def all_cases(compared: Mapping[str, frozenset[Value]]) -> Iterator[PlanInputs]:
    """Every combination of values of facts that can result in different plans.

    The fence and the numbers of connectors and endpoints always vary, because steps depend on them.

    Args:
        compared: the values that conditions compare each fact with. Numbers also vary by one
            around these.
    """
    for source, target, replicator, fence, connectors, endpoints in product(
        _words("source", compared),
        _words("target", compared),
        _words("replicator", compared),
        FenceMethod,
        _numbers({0, 1}, compared.get("connectors", frozenset())),
        _numbers({0, 1, 2}, compared.get("endpoints", frozenset())),
    ):
        yield PlanInputs(
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
            source_connectors={"CONNECTOR": "CONNECTOR"},
            source_answers=source == REACHABLE,
            target_answers=target == REACHABLE,
        )


def _words(fact: str, compared: Mapping[str, frozenset[Value]]) -> tuple[str, ...]:
    return FACTS[fact].values if fact in compared else FACTS[fact].values[:1]


def _numbers(always: set[int], compared: frozenset[Value]) -> tuple[int, ...]:
    around = {int(n) + step for n in compared for step in (-1, 0, 1)}
    return tuple(sorted(n for n in always | around if n >= 0))


_TOKEN = re.compile(r"\s*(?:(?P<op>==|!=|>=|<=|>|<)|(?P<mark>[()])|(?P<word>[A-Za-z0-9_-]+))")
_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    **{"==": operator.eq, "!=": operator.ne, ">": operator.gt},
    **{">=": operator.ge, "<": operator.lt, "<=": operator.le},
}
_ORDER = _OPERATORS.keys() - {"==", "!="}
_RESERVED = frozenset({"and", "or", "not"})
_MAX_DEPTH = 20
LARGEST = 100
"""The largest number of connectors or endpoints that a condition may name."""


class InvalidCondition(ValueError):
    """A text is not a valid condition.

    Attributes:
        at: the index of the error in the text, from 0.
    """

    def __init__(self, text: str, at: int) -> None:
        super().__init__(text)
        self.at = at


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of a fact with a value."""

    fact: str
    op: str
    value: Value

    def holds(self, facts: Facts) -> bool:
        """Whether the condition is true."""
        return bool(_OPERATORS[self.op](facts[self.fact], self.value))


@dataclass(frozen=True, slots=True)
class Not:
    """A negation."""

    inner: "Expression"

    def holds(self, facts: Facts) -> bool:
        """Whether the condition is true."""
        return not self.inner.holds(facts)


@dataclass(frozen=True, slots=True)
class AndOr:
    """`and` (`every`) or `or` of several conditions."""

    every: bool
    parts: tuple["Expression", ...]

    def holds(self, facts: Facts) -> bool:
        """Whether the condition is true."""
        found = (part.holds(facts) for part in self.parts)
        return all(found) if self.every else any(found)


Expression = Compare | Not | AndOr


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    at: int
    kind: str


def parse(text: str) -> Expression:
    """Parse a condition.

    Raises:
        InvalidCondition: the text is not a condition.
    """
    parser = _Parser(tuple(_tokens(text)), len(text.rstrip()))
    found = parser.any_of(0)
    if parser.next is not None:
        raise InvalidCondition(
            f"{quoted(parser.next.text)} is unexpected: expected 'and' or 'or'", parser.next.at
        )
    return found


def comparisons(expression: Expression) -> Iterator[Compare]:
    """All comparisons in an expression."""
    if isinstance(expression, Compare):
        yield expression
    elif isinstance(expression, Not):
        yield from comparisons(expression.inner)
    else:
        for part in expression.parts:
            yield from comparisons(part)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            here = at + len(text[at:]) - len(text[at:].lstrip())
            raise InvalidCondition(f"{quoted(text[here])} is not allowed here", here)
        kind = str(found.lastgroup)
        yield _Token(found[kind], found.start(kind), kind)
        at = found.end()


@dataclass(slots=True)
class _Parser:
    tokens: Sequence[_Token]
    end: int
    at: int = 0

    @property
    def next(self) -> _Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, *texts: str) -> bool:
        if self.next is None or self.next.text not in texts:
            return False
        self.at += 1
        return True

    def any_of(self, depth: int) -> Expression:
        parts = [self.all_of(depth)]
        while self.take("or"):
            parts.append(self.all_of(depth))
        return parts[0] if len(parts) == 1 else AndOr(False, tuple(parts))

    def all_of(self, depth: int) -> Expression:
        parts = [self.single(depth)]
        while self.take("and"):
            parts.append(self.single(depth))
        return parts[0] if len(parts) == 1 else AndOr(True, tuple(parts))

    def single(self, depth: int) -> Expression:
        if depth > _MAX_DEPTH:
            raise InvalidCondition("is nested too deeply", self.end)
        if self.take("not"):
            return Not(self.single(depth + 1))
        if self.take("("):
            inner = self.any_of(depth + 1)
            if not self.take(")"):
                raise InvalidCondition("a parenthesis is not closed", self._here())
            return inner
        return self.compare()

    def compare(self) -> Compare:
        fact = self._word(f"expected a fact: {one_of(tuple(FACTS))}")
        if fact.text not in FACTS:
            suggestion = (
                did_you_mean(fact.text, tuple(FACTS)) or f"available: {one_of(tuple(FACTS))}"
            )
            raise InvalidCondition(f"{quoted(fact.text)} is not a fact; {suggestion}", fact.at)
        values = FACTS[fact.text].values
        op = self.next
        if op is None or op.kind != "op":
            raise InvalidCondition(
                f"expected == or another comparison after {fact.text}", self._here()
            )
        if values and op.text in _ORDER:
            raise InvalidCondition(f"{fact.text} is a word: compare it with == or !=", op.at)
        self.at += 1
        allowed = one_of(values) if values else f"a number up to {LARGEST}"
        value = self._word(f"expected {allowed}")
        return Compare(fact.text, op.text, _value(fact.text, value, allowed))

    def _word(self, wanted: str) -> _Token:
        token = self.next
        if token is None or token.kind != "word" or token.text in _RESERVED:
            raise InvalidCondition(wanted, self._here())
        self.at += 1
        return token

    def _here(self) -> int:
        return self.next.at if self.next else self.end


def _value(fact: str, token: _Token, allowed: str) -> Value:
    values = FACTS[fact].values
    if values and token.text in values:
        return token.text
    if (
        not values
        and token.text.isascii()
        and token.text.isdecimal()
        and int(token.text) <= LARGEST
    ):
        return int(token.text)
    suggestion = did_you_mean(token.text, values)
    raise InvalidCondition(
        f"{fact} is never {quoted(token.text)}; {suggestion or f'it is {allowed}'}", token.at
    )
