"""A step reports state that it could not read, and never treats it as good."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from drctl.engine.kind import Kind, State
from drctl.engine.ports import LinkReader
from drctl.model.errors import Unreachable
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState
from drctl.model.repairs import Acl, Acls
from drctl.model.topology import TopicPartition, Unavailable
from drctl.steps.enable_writes import EnableWrites
from drctl.steps.groups import Quiesce

PLACE = TopicPartition("orders", 0)
DENIAL = Acl("orders", "LITERAL", "User:app", "*", "WRITE", "DENY")


def look(**parts: Any) -> LinkReader:
    return cast(LinkReader, SimpleNamespace(**parts))


def target(found: Acls | Unavailable) -> LinkReader:
    return look(
        topics=lambda: ("orders",),
        target_topic=lambda topic: topic,
        acls=lambda _name: SimpleNamespace(
            acls=lambda: found, lifted=lambda *_: SimpleNamespace(proven=True, unproven=())
        ),
        probe_readable=lambda *_: True,
    )


def opened(found: Acls | Unavailable) -> Any:
    seen = target(found)
    intent = Kind(EnableWrites()).check({"cluster": "b", "principals": ["User:app"]}, {}, seen)
    return Kind(EnableWrites()).verify(intent, seen)


def test_enabled_writes_without_a_read_of_the_acls_are_outstanding() -> None:
    readback = opened(Unavailable("this user may not see ACLs"))
    assert readback.state is State.DONE
    assert (
        readback.outstanding
        == "check whether ACLs on b deny applications: this user may not see ACLs"
    )


@pytest.mark.parametrize("rules", [(), (DENIAL,)])
def test_enabled_writes_with_read_acls_are_not_outstanding(rules: tuple[Acl, ...]) -> None:
    readback = opened(Acls(True, rules))
    assert (readback.state, readback.outstanding, readback.facts) == (
        State.DONE,
        "",
        {"lifted": len(rules)},
    )


def consumers(committed: Any) -> LinkReader:
    group = Group("app", GroupProtocol.CLASSIC, GroupState.STABLE)
    groups = SimpleNamespace(
        described=lambda names: dict.fromkeys(names, group),
        committed=lambda names: dict.fromkeys(names, committed),
    )
    return look(link_groups=lambda _name: ("app",), groups=lambda _name: groups)


def test_unreadable_offsets_are_not_stable() -> None:
    intent = {"cluster": "a", "fenced": True, "digest": ""}
    with pytest.raises(Unreachable, match="offsets of group app cannot be read: no coordinator"):
        Kind(Quiesce()).verify(intent, consumers(Unavailable("no coordinator")))


def test_unmoved_offsets_of_a_fenced_group_are_stable() -> None:
    standing = consumers({PLACE: Committed(5)})
    intent = Kind(Quiesce()).check({"cluster": "a"}, {"fence-consumers": {}}, standing)
    assert Kind(Quiesce()).verify(intent, standing).state is State.DONE
    moved = consumers({PLACE: Committed(6)})
    assert Kind(Quiesce()).verify(intent, moved).state is State.WAITING
