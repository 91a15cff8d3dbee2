"""Which clients arrived, which make progress, which stayed: the last step of a failover."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from drctl.engine.kind import Kind, Readback, State
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused, Unreachable
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState, Member
from drctl.model.health import Silent
from drctl.model.topology import Overview, PartitionOffsets, TopicPartition, Unavailable
from drctl.steps.verify_clients import VerifyClients

PLACE = TopicPartition("copy.orders", 0)
SETTINGS = {"source": "a", "target": "b"}
FACTS = {"snapshot-state": {"active_groups": {"a": ["billing", "audit"], "b": []}}}


@dataclass
class Around:
    """Both clusters as the step reads them.

    Attributes:
        members: members by cluster and group.
        positions: committed offsets on the target, in its one partition.
        log: records of that partition.
        readable_texts: texts of the probe records.
        endpoints: numbers of endpoints that lead somewhere.
        hung: whether a broker of the source does not respond, so no listing is complete.
        listed: groups that the source's brokers list.
    """

    members: dict[tuple[str, str], tuple[Member, ...] | Unavailable] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    log: PartitionOffsets = field(default_factory=lambda: PartitionOffsets(0, 100, 100))
    readable_texts: set[str] = field(default_factory=set)
    endpoints: set[int] = field(default_factory=set)
    dead: bool = False
    hung: bool = False
    listed: tuple[str, ...] = ("audit", "billing")
    cluster: str = ""

    def topics(self) -> tuple[str, ...]:
        return ("orders",)

    def target_topic(self, topic: str) -> str:
        return f"copy.{topic}"

    def groups(self, name: str) -> "Around":
        if name == "a" and self.dead:
            raise Unreachable("cluster a did not answer")
        self.cluster = name
        return self

    def cluster_reader(self, name: str) -> "Around":
        return self

    def link_groups(self, name: str, *, incomplete: bool = False) -> tuple[str, ...]:
        self.groups(name)
        if self.hung and name == "a":
            raise Unreachable("cluster a did not answer within 3 s")
        return self.listed

    def described(self, names: Collection[str]) -> dict[str, Group | Unavailable]:
        found: dict[str, Group | Unavailable] = {}
        for name in names:
            members = self.members.get((self.cluster, name), ())
            if isinstance(members, Unavailable):
                found[name] = members
                continue
            state = GroupState.STABLE if members else GroupState.EMPTY
            found[name] = Group(name, GroupProtocol.CLASSIC, state, members)
        return found

    def committed(self, names: Collection[str]) -> dict[str, dict[TopicPartition, Committed]]:
        return {n: {PLACE: Committed(self.positions[n])} for n in names if n in self.positions}

    def overview(self) -> Overview:
        return Overview("B", {"copy.orders": (0,), "another": (0,)})

    def offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, Any]:
        assert set(places) <= {PLACE}
        return dict.fromkeys(places, self.log)

    def probe_readable(self, name: str, topic: str, text: str) -> bool:
        return text in self.readable_texts

    def probe_record(self, name: str, endpoint: int) -> "FakeProbeWriter":
        return FakeProbeWriter(self, endpoint)


@dataclass
class FakeProbeWriter:
    around: Around
    endpoint: int

    def write_probe(self, topic: str, text: str) -> None:
        if self.endpoint not in self.around.endpoints:
            raise Refused("b took no record: nobody answers")
        self.around.readable_texts.add(text)


WHO = Member("app-1", "/10.0.0.7")


@pytest.fixture
def around() -> Around:
    """All clients have arrived, with the offsets that drctl committed."""
    here = {("b", "billing"): (WHO,), ("b", "audit"): (WHO,)}
    return Around(here, {"billing": 40, "audit": 40})


def check(around: Around, **settings: Any) -> dict[str, Any]:
    return dict(
        Kind(VerifyClients()).check({**SETTINGS, **settings}, FACTS, cast(LinkReader, around))
    )


def verify(around: Around, intent: dict[str, Any]) -> Readback:
    return Kind(VerifyClients()).verify(intent, cast(LinkReader, around))


def test_groups_that_join_and_progress_complete_the_wait(around: Around) -> None:
    intent = check(around)
    around.positions = {"billing": 55, "audit": 41}
    seen = verify(around, intent)
    assert seen.state is State.DONE
    assert seen.message == (
        "every group (2) is active on b, and 2 consumed; no group is active on a"
    )


def test_a_group_that_has_not_joined_is_named(around: Around) -> None:
    intent = check(around)
    around.positions = {"billing": 55, "audit": 41}
    del around.members["b", "audit"]
    seen = verify(around, intent)
    assert (seen.state, seen.items) == (State.WAITING, ("audit",))
    assert seen.message == "1 of 2 groups not active yet: audit"


def test_a_group_that_does_not_read_its_backlog_is_named(around: Around) -> None:
    intent = check(around)
    around.positions["billing"] = 55
    seen = verify(around, intent)
    assert seen.state is State.WAITING
    assert seen.items == ("audit does not consume: it is at offset 40 of 100 in copy.orders-0",)


def test_a_group_without_a_backlog_need_not_progress(around: Around) -> None:
    around.positions = {"billing": 100, "audit": 100}
    seen = verify(around, check(around))
    assert seen.state is State.DONE
    assert seen.facts["moved"] == 0


def test_a_group_blocked_by_a_transaction_need_not_progress(around: Around) -> None:
    around.positions = {"billing": 70, "audit": 70}
    around.log = PartitionOffsets(0, 70, 100)
    intent = check(around)
    around.log = PartitionOffsets(0, 100, 100)
    around.positions = {"billing": 100, "audit": 100}
    assert verify(around, intent).state is State.DONE


def test_a_transaction_that_stays_open_is_named(around: Around) -> None:
    around.positions = {"billing": 70, "audit": 70}
    around.log = PartitionOffsets(0, 70, 100)
    seen = verify(around, check(around))
    assert seen.state is State.WAITING
    assert seen.items == (
        "copy.orders-0 blocks read_committed consumers: a transaction has been open since offset"
        " 70",
    )
    assert seen.message.startswith("1 problem: copy.orders-0")


def test_a_group_that_remained_is_named_with_its_members(around: Around) -> None:
    around.positions = {"billing": 100, "audit": 100}
    around.members["a", "audit"] = tuple(Member(f"app-{n}", "/10.0.0.9") for n in range(5))
    seen = verify(around, check(around))
    assert seen.state is State.WAITING
    assert seen.items == (
        "audit is still active on a (app-0@/10.0.0.9, app-1@/10.0.0.9, app-2@/10.0.0.9 and 2"
        " more): restart its members, or cut their connections",
    )


def test_an_unreadable_group_does_not_count_as_gone(around: Around) -> None:
    around.positions = {"billing": 100, "audit": 100}
    around.members["a", "billing"] = Unavailable("not authorized")
    seen = verify(around, check(around))
    assert seen.items == ("it is unknown whether billing is active on a: not authorized",)


def test_a_dead_source_is_not_awaited_and_reported_as_unknown(around: Around) -> None:
    around.positions = {"billing": 100, "audit": 100}
    around.dead = True
    seen = verify(around, check(around))
    assert seen.state is State.DONE
    assert seen.message.endswith("; unknown: which groups stayed on a: cluster a did not answer")
    assert seen.facts["unknown"] == "which groups stayed on a: cluster a did not answer"


MUTE = Silent("its coordinator did not answer")
UNSEEN = "which groups stayed on a: group billing: its coordinator did not answer"


def test_a_group_with_an_unresponsive_coordinator_is_unknown(around: Around) -> None:
    around.positions = {"billing": 100, "audit": 100}
    around.members["a", "billing"] = MUTE
    seen = verify(around, check(around))
    assert seen.state is State.DONE
    assert seen.facts["unknown"] == UNSEEN
    assert seen.message.endswith(f"; unknown: {UNSEEN}")
    assert "no group is active" not in seen.message


def test_an_unlisted_group_is_described_by_name(around: Around) -> None:
    """The remaining brokers do not list the groups of a dead coordinator."""
    around.positions = {"billing": 100, "audit": 100}
    around.listed = ("audit",)
    around.members["a", "billing"] = MUTE
    assert verify(around, check(around)).facts["unknown"] == UNSEEN


def test_beside_an_unresponsive_coordinator_a_remaining_group_is_awaited(around: Around) -> None:
    around.positions = {"billing": 100, "audit": 100}
    around.members |= {("a", "billing"): MUTE, ("a", "audit"): (WHO,)}
    seen = verify(around, check(around))
    assert seen.state is State.WAITING
    (stayed,) = seen.items
    assert stayed.startswith("audit is still active on a (app-1@/10.0.0.7")
    assert seen.facts["unknown"] == UNSEEN


def test_a_frozen_broker_hides_no_group_observed_before(around: Around) -> None:
    around.positions = {"billing": 100, "audit": 100}
    around.hung = True
    intent = check(around)
    around.members["a", "audit"] = (WHO,)
    seen = verify(around, intent)
    assert seen.state is State.WAITING
    assert seen.items[0].startswith("audit is still active on a")
    del around.members["a", "audit"]
    seen = verify(around, intent)
    assert seen.state is State.DONE
    assert seen.facts["unknown"] == (
        "which groups stayed on a: whether there are groups besides audit, billing: cluster a did"
        " not answer within 3 s"
    )


def test_without_known_or_listed_groups_nothing_is_claimed(around: Around) -> None:
    around.hung = True
    intent = Kind(VerifyClients()).check(SETTINGS, {}, cast(LinkReader, around))
    seen = Kind(VerifyClients()).verify(intent, cast(LinkReader, around))
    assert seen.state is State.DONE
    assert seen.facts["unknown"] == "which groups stayed on a: cluster a did not answer within 3 s"


def test_many_unresponsive_groups_are_named_by_example(around: Around) -> None:
    around.listed = tuple(f"g{number}" for number in range(5))
    around.members |= {("a", name): MUTE for name in around.listed}
    intent = Kind(VerifyClients()).check(SETTINGS, {}, cast(LinkReader, around))
    seen = Kind(VerifyClients()).verify(intent, cast(LinkReader, around))
    assert seen.facts["unknown"].endswith("group g2: its coordinator did not answer; and 2 more")


def test_a_probe_record_must_arrive_through_each_endpoint(around: Around) -> None:
    around.positions, around.endpoints = {"billing": 100, "audit": 100}, {0}
    intent = check(around, probed_endpoints=[0, 2])
    errors = Kind(VerifyClients()).apply(intent, cast(LinkWriter, around))
    assert errors == ("endpoint 3: b took no record: nobody answers",)
    seen = verify(around, intent)
    assert seen.items == ("the probe record written through endpoint 3 is not on b",)
    around.endpoints.add(2)
    assert Kind(VerifyClients()).apply(intent, cast(LinkWriter, around)) == ()
    assert {f"{intent['text']}-{n + 1}" for n in (0, 2)} == around.readable_texts
    done = verify(around, intent)
    assert done.state is State.DONE
    assert "; probe records written through 2 endpoints have arrived; " in done.message


def test_a_journal_of_an_older_drctl_is_read(around: Around) -> None:
    seen = verify(around, {"target": "b", "groups": ["billing"]})
    assert (seen.state, seen.message) == (State.DONE, "every group (1) is active on b")


def test_nothing_to_wait_for_is_reported(around: Around) -> None:
    intent = Kind(VerifyClients()).check(SETTINGS, {}, cast(LinkReader, around))
    seen = Kind(VerifyClients()).verify(intent, cast(LinkReader, around))
    assert seen.state is State.DONE
    assert seen.message.startswith("no group was active before")
