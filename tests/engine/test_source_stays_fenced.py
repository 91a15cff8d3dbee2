"""A recovered cluster stays fenced while replication writes to it."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from drctl.engine.kind import Readback, State
from drctl.engine.ports import ConnectorState, LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.fencing import Enforcement, FenceProof, Moved, NoWrites
from drctl.model.repairs import Acl, Acls
from drctl.model.topology import TopicPartition, Unavailable
from drctl.steps.registry import KINDS

PLACE = TopicPartition("orders", 0)
SETTINGS = {
    "cluster": "primary",
    "principals": ["User:app"],
    "stabilize_seconds": 2,
    "reverse": ["mm2-back"],
}


@dataclass
class Back:
    """The recovered cluster, and what replicates to it."""

    rules: tuple[Acl, ...] = ()
    grows: bool = False
    obeys: bool = True
    connector: str = "STOPPED"
    asked: list[Collection[str]] = field(default_factory=list)

    def reversed(self) -> "Back":
        return self

    def topics(self) -> tuple[str, ...]:
        return ("orders",)

    def acls(self, _name: str = "") -> Any:
        return _Rules(self)

    def fence(self, name: str, stabilize_s: float) -> "Back":
        return self

    def prove(self, rules: Collection[Acl], topics: Collection[str]) -> FenceProof:
        self.asked.append(topics)
        moved = {PLACE: Moved(1, 2)} if self.grows and topics else {}
        broker = None if self.obeys else Unavailable("it lets in")
        ends = {PLACE: 2} if topics else {}
        return FenceProof(Enforcement({1: broker}, len(rules), 1), NoWrites(2, ends, moved))

    def connectors(self) -> "Back":
        return self

    def state(self, name: str) -> ConnectorState:
        return ConnectorState(name, self.connector)


@dataclass
class _Rules:
    back: Back

    def acls(self) -> Acls:
        return Acls(True, self.back.rules)

    def deny(self, rules: Collection[Acl]) -> dict[Acl, None]:
        self.back.rules = (*self.back.rules, *rules)
        return dict.fromkeys(rules)


def closed(back: Back) -> tuple[Any, Readback]:
    """Return the intent of the fence and its state."""
    kind = KINDS["fence-recovered"]
    intent = kind.check(SETTINGS, {}, cast(LinkReader, back))
    kind.apply(intent, cast(LinkWriter, back))
    return intent, kind.verify(intent, cast(LinkReader, back))


def test_its_logs_must_not_grow_until_replication_writes_to_it() -> None:
    assert closed(Back())[1].state is State.DONE
    assert closed(Back(grows=True))[1].state is State.WAITING
    readback = closed(Back(grows=True, connector="RUNNING"))[1]
    assert readback.state is State.DONE
    assert "reverse replication adds" in readback.message


@pytest.mark.parametrize("connector", ["STOPPED", "RUNNING"])
def test_its_acls_must_hold_throughout(connector: str) -> None:
    assert closed(Back(obeys=False, connector=connector))[1].state is State.WAITING


def test_its_facts_are_the_same_before_and_after() -> None:
    back = Back()
    intent, before = closed(back)
    back.grows, back.connector = True, "RUNNING"
    assert KINDS["fence-recovered"].verify(intent, cast(LinkReader, back)).facts == before.facts


def test_a_fence_of_no_topic_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Back, "topics", lambda _: ())
    with pytest.raises(Refused, match="no topic of the link is visible"):
        closed(Back())


def test_its_acls_stay_if_the_run_rolls_back() -> None:
    back, kind = Back(), KINDS["fence-recovered"]
    intent, _ = closed(back)
    assert kind.undo(intent, cast(LinkWriter, back)) == ()
    assert len(back.rules) == 1
    assert kind.verify_undo(intent, cast(LinkReader, back)).leaves_changes
    again, _ = closed(back)
    assert not kind.verify_undo(again, cast(LinkReader, back)).leaves_changes, (
        "a run that changed nothing reports remaining changes"
    )
