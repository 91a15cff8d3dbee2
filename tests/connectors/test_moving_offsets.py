"""Positions for connectors of other workers: translated, checked, written, read back."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

import pytest

from drctl.app.connect_adapters import written as written_by
from drctl.app.link_reader import ClusterLinkReader
from drctl.connectors.applying import (
    Action,
    Export,
    OffsetsPlan,
    Precheck,
    build_plan,
    kept,
    read_export,
)
from drctl.connectors.moving import plan_moving
from drctl.connectors.results import OffsetsResult, Outcome
from drctl.model.document import as_json
from drctl.model.errors import ConfigError, DrctlError, ExitCode, Refused, Unknown, UsageError
from drctl.model.replication import Connector, Position
from drctl.plans.connectors import set_positions
from tests.connectors.world import MIRROR, MONGO, World, carried_out, connector, stopped

AT = Position({"server": "shop"}, {"lsn": 17})
BROKERS = {"source_cluster_bootstrap_servers": "a:1,b:1"}


def export(one: Connector, *positions: Position) -> Export:
    found = Export("old:8083", "id", "2026-01-02T03:04:05+00:00", (kept(one, positions),))
    return read_export(json.loads(json.dumps(as_json(found))), "f")


def planned(
    world: World,
    exported: Export,
    renamed: Mapping[str, str] | None = None,
    overrides: Mapping[Precheck, str] | None = None,
) -> OffsetsPlan:
    return build_plan(exported, (), renamed or {}, world, "new:8083", overrides or {})


def written(world: World, plan: OffsetsPlan) -> OffsetsResult:
    ran = carried_out(world, set_positions(plan, "connect:new:8083", "main"))
    return written_by(plan, *ran, cast(ClusterLinkReader, world), "before.json")


def shop(**settings: str) -> Export:
    return export(connector(**{"topic_prefix": "shop", **settings}), AT)


def test_a_stopped_connector_resumes_from_its_position() -> None:
    world = World({"shop": stopped(topic_prefix="shop")})
    plan = planned(world, shop())
    assert [line.action for line in plan.lines] == [Action.WRITE]
    result = written(world, plan)
    assert (result.exit_code, result.results[0].outcome) == (ExitCode.DONE, Outcome.WRITTEN)
    assert world.kept["shop"] == [AT]
    assert world.events == ["keep", "put shop"]
    again = planned(world, shop())
    assert [line.action for line in again.lines] == [Action.KEEP]


def test_earlier_positions_can_be_restored() -> None:
    other = Position({"server": "shop"}, {"lsn": 3})
    for before in ([other], []):
        world = World({"shop": stopped(topic_prefix="shop")}, {"shop": list(before)})
        written(world, planned(world, shop()))
        assert world.kept["shop"] == [AT]
        back = planned(world, world.exports[-1])
        assert written(world, back).exit_code is ExitCode.DONE
        assert world.kept["shop"] == before


def test_another_topic_prefix_changes_the_keys() -> None:
    world = World({"store": stopped("store", topic_prefix="store")})
    (line,) = planned(world, shop(), {"shop": "store"}).lines
    assert (line.connector, line.came_from) == ("store", "shop")
    assert line.partition == {"server": "store"}
    mongo = export(connector("mg", plugin=MONGO), Position({"server_id": "mg"}, {"sec": 1}))
    world = World({"mg": stopped("mg", plugin=MONGO, topic_prefix="mongo")})
    assert planned(world, mongo).lines[0].partition == {"server_id": "mongo"}


def mirrored(**settings: str) -> Export:
    at = Position({"cluster": "primary", "topic": "orders", "partition": 3}, {"offset": 41})
    return export(connector("mm2", plugin=MIRROR, source_cluster_alias="primary", **settings), at)


def test_positions_of_mirrors_are_valid_for_the_same_brokers_only() -> None:
    there = stopped("mm2", plugin=MIRROR, source_cluster_alias="old", **BROKERS)
    world = World({"mm2": there})
    (line,) = planned(world, mirrored(source_cluster_bootstrap_servers="b:1")).lines
    assert line.action is Action.WRITE
    assert line.partition == {"cluster": "old", "topic": "orders", "partition": 3}
    (line,) = planned(world, mirrored(source_cluster_bootstrap_servers="c:1")).lines
    assert (line.action, line.precheck) == (Action.REFUSE, Precheck.MISMATCH)
    assert "another cluster" in line.reason
    passed = {Precheck.MISMATCH: "the same cluster by another name"}
    (line,) = planned(world, mirrored(), None, passed).lines
    assert (line.action, line.overridden) == (Action.WRITE, True)


@pytest.mark.parametrize(
    ("there", "exported", "precheck", "words"),
    [
        ({}, shop(), Precheck.NO_CONNECTOR, "connector shop does not exist"),
        ({"shop": connector()}, shop(), Precheck.NOT_STOPPED, "connector shop is RUNNING"),
        (
            {"shop": stopped(plugin=MONGO, topic_prefix="shop")},
            shop(),
            Precheck.MISMATCH,
            "it is a io.debezium.connector.mongodb.MongoDbConnector, not",
        ),
        (
            {"shop": stopped(topic_prefix="shop")},
            export(connector(), Position({"server_id": "shop"}, {"lsn": 1})),
            Precheck.MISMATCH,
            "it has no server",
        ),
        (
            {"shop": stopped(plugin="x.Source")},
            export(connector(plugin="x.Source"), AT),
            Precheck.UNKNOWN,
            "source partitions of x.Source are not supported",
        ),
        (
            {"shop": stopped(kind="sink")},
            export(connector(kind="sink"), AT),
            Precheck.SINK,
            "its offsets are those of group connect-shop",
        ),
    ],
)
def test_prechecks_of_a_move(
    there: dict[str, Connector], exported: Export, precheck: Precheck, words: str
) -> None:
    plan = planned(World(there), exported)
    (line,) = plan.refused
    assert line.precheck is precheck
    assert words in line.reason


@pytest.mark.parametrize("answer", [Refused("not stopped"), Unknown("no answer")])
def test_a_write_without_effect_is_rolled_back(answer: DrctlError) -> None:
    world = World({"shop": stopped(topic_prefix="shop")}, answer=answer)
    result = written(world, planned(world, shop()))
    (each,) = result.results
    assert (each.outcome, result.exit_code) == (Outcome.FAILED, ExitCode.REFUSED)
    assert "does not read back" in each.reason


def test_all_connectors_get_their_positions_or_none() -> None:
    class Half(World):
        def put_positions(self, name: str, positions: Sequence[Position]) -> None:
            if name == "store":
                raise Refused("they are none of its positions")
            super().put_positions(name, positions)

    there = {name: stopped(name, topic_prefix=name) for name in ("shop", "store")}
    world = Half(there, {"shop": [Position({"server": "shop"}, {"lsn": 3})]})
    both = Export(
        "o",
        "id",
        "2026-01-02T03:04:05+00:00",
        tuple(
            kept(connector(name, topic_prefix=name), [Position({"server": name}, {"lsn": 17})])
            for name in there
        ),
    )
    result = written(world, planned(world, both))
    assert [each.outcome for each in result.results] == [Outcome.FAILED] * 2
    assert world.kept["shop"] == [Position({"server": "shop"}, {"lsn": 3})], (
        "the earlier position was not restored"
    )


def test_a_connector_that_has_moved_since_the_plan_is_left_alone() -> None:
    world = World({"shop": stopped(topic_prefix="shop")})
    plan = planned(world, shop())
    world.kept["shop"] = [Position({"server": "shop"}, {"lsn": 99})]
    assert written(world, plan).exit_code is ExitCode.REFUSED
    assert world.events == ["keep"]


def test_workers_that_stop_responding_make_it_unknown() -> None:
    class Vanishing(World):
        def put_positions(self, name: str, positions: Sequence[Position]) -> None:
            super().put_positions(name, positions)
            self.away = "no worker answers"

    world = Vanishing({"shop": stopped(topic_prefix="shop")})
    result = written(world, planned(world, shop()))
    assert (result.exit_code, result.results[0].outcome) == (ExitCode.UNKNOWN, Outcome.UNKNOWN)


def test_an_unanswered_write_that_took_effect_is_done() -> None:
    class Mute(World):
        def put_positions(self, name: str, positions: Sequence[Position]) -> None:
            super().put_positions(name, positions)
            raise Unknown("no answer")

    world = Mute({"shop": stopped(topic_prefix="shop")})
    assert written(world, planned(world, shop())).exit_code is ExitCode.DONE


def test_a_worker_that_confirms_late() -> None:
    class Late(World):
        def positions(self, name: str) -> tuple[Position, ...]:
            return super().positions(name) if self.seconds > 1 else ()

    world = Late({"shop": stopped(topic_prefix="shop")})
    assert written(world, planned(world, shop())).exit_code is ExitCode.DONE
    assert 1 < world.seconds < 2


def test_an_invalid_file() -> None:
    wrongs: tuple[object, ...] = ({}, [], {"schema": "drctl/gap/1"}, {"schema": Export.SCHEMA})
    for wrong in wrongs:
        with pytest.raises(ConfigError, match="is not an export of source offsets"):
            read_export(wrong, "f")


def test_names_that_are_not_in_the_file() -> None:
    with pytest.raises(UsageError, match="the export has no connector"):
        planned(World(), shop(), {"x": "y"})


HOSTS = "h1:27017,h2:27017"


@pytest.mark.parametrize(
    ("given", "hosts"),
    [
        (f"mongodb://{HOSTS}/?replicaSet=rs0", HOSTS),
        (f"mongodb://app:secret@{HOSTS}/admin?tls=true", HOSTS),
        ("mongodb://${file:/run/mongo:user}:${file:/run/mongo:password}@h1/?tls=true", "h1"),
        ("mongodb+srv://app:secret@db.example", "db.example"),
        ("mongodb://app:secret/a@h1/", None),
        ("mongodb://app:secret@b@h1/", None),
        ("mongodb://h1/?authMechanismProperties=AWS_SESSION_TOKEN:secret", "h1"),
        ("${file:/run/mongo:address}", None),
    ],
)
def test_an_export_has_only_the_hosts_of_a_connection_string(given: str, hosts: str | None) -> None:
    (one,) = export(stopped(plugin=MONGO, mongodb_connection_string=given), AT).connectors
    assert one.about == ({"mongodb.connection.string": hosts} if hosts else {})


@pytest.mark.parametrize(
    ("there", "server"),
    [
        ({"mongodb_connection_string": "mongodb://app:other@h1/?replicaSet=rs0"}, ""),
        (
            {"mongodb_connection_string": "mongodb://app:other@h3"},
            "h1, but the connector reads from h3",
        ),
        ({"mongodb_hosts": "rs0/h3"}, ""),
    ],
    ids=["same", "other", "older-setting"],
)
def test_a_position_of_another_database_is_pointed_out(there: dict[str, str], server: str) -> None:
    ours = stopped(plugin=MONGO, mongodb_connection_string="mongodb://app:secret@h1")
    world = World({"shop": stopped(plugin=MONGO, topic_prefix="shop", **there)})
    at = Position({"server_id": "shop"}, {"sec": 17, "ord": 1, "resume_token": "ab"})
    exported = {"shop": export(ours, at)}
    moving = plan_moving(exported, {"shop": "shop"}, world, datetime.now(UTC), stopped=True)
    (moved,) = moving.connectors
    found = f"the position is from server {server}: verify that their logs have the same positions"
    assert (found in moved.reason) is bool(server)
    assert ("server" in moved.reason) is bool(server)
