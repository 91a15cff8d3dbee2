"""One cluster: readers and writers are separate types that share one connection."""

import typing
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from drctl.gap.ledger import Book
from drctl.kafka.cluster import KafkaCluster, KafkaReader, KafkaWriter, _Part
from drctl.kafka.connection import Connection
from drctl.model.errors import Unreachable

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
OPENING = {"prepare", "close"}
"""Methods that readers and writers share."""


def parts(kind: type[KafkaReader] | type[KafkaWriter]) -> Iterator[tuple[str, Any]]:
    """The parts of a reader or writer, by name."""
    given = {"stabilize_s": 1.0, "link": "main", "key": b"", "topic": "t", "marks": ()}
    site = kind(Connection("nowhere", NOWHERE, 0.1))
    for name, member in vars(kind).items():
        if isinstance(member, _Part):
            yield name, getattr(site, name)
        elif not name.startswith("_"):
            wanted = member.__code__.co_varnames[1 : member.__code__.co_argcount]
            yield name, getattr(site, name)(*(given[each] for each in wanted))


def methods(part: Any) -> set[str]:
    return {
        name for name in dir(part) if not name.startswith("_") and callable(getattr(part, name))
    }


def test_nothing_that_a_reader_gives_has_a_method_of_a_writer() -> None:
    looking = {name: methods(part) for name, part in parts(KafkaReader)}
    changing = {name: methods(part) for name, part in parts(KafkaWriter)}
    assert changing["groups"] >= {"commit", "delete", "create"}
    # A class that writes one of drctl's topics reads it, too: its reader is its base class.
    kept = {"journal", "tracked_offsets", "ledger"}
    for name, able in changing.items():
        more = able - (looking[name] if name in kept else set()) - OPENING
        # A read-only ledger has the same port, and stores changes nowhere.
        assert more or name == "ledger", f"the writer of {name} has no method of its own"
        for other in looking.keys() - {"ledger"}:
            assert not more & looking[other], f"{other} of a reader has {more & looking[other]}"


def test_a_ledger_that_is_only_read_writes_nothing() -> None:
    ledger = KafkaReader(Connection("nowhere", NOWHERE, 0.1)).ledger("t")
    assert ledger.begin("f", Book(1, 2, 3, 1, {})) == Book(1, 2, 3, 1, {})
    assert not ledger.keep("f", 1, {}, [], {})


def test_types_are_distinguished() -> None:
    assert not issubclass(KafkaWriter, KafkaReader)
    assert not issubclass(KafkaReader, KafkaWriter)
    assert typing.get_type_hints(KafkaCluster.reader)["return"] is KafkaReader


def test_all_share_one_client_until_the_last_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[AdminClient] = []
    original = Connection._open

    def counted(connection: Connection) -> AdminClient:
        opened.append(original(connection))
        return opened[-1]

    monkeypatch.setattr(Connection, "_open", counted)
    first = KafkaCluster("a", NOWHERE).reader(1).topics
    second = KafkaCluster("a", NOWHERE).writer(2).groups
    other = KafkaCluster("b", NOWHERE).reader(1).topics
    for each in (first, second, other):
        each.prepare()
    assert len(opened) == 2
    first.close()
    second.prepare()
    assert len(opened) == 2, "a client in use was closed"
    second.close()
    second.prepare()
    assert len(opened) == 3
    second.close()
    other.close()


def test_each_reader_has_its_own_timeout() -> None:
    cluster = KafkaCluster("a", NOWHERE)
    for seconds in (0.3, 0.6):
        with cluster.reader(seconds).topics as reader, pytest.raises(Unreachable) as silent:
            reader.cluster_id()
        assert f"within {seconds:g} s" in silent.value.message
