"""`drctl doctor` on connectors of a real worker: for each check a good and a faulty one."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from confluent_kafka import TopicPartition

from drctl.checks.check import Family
from drctl.checks.registry import CHECKS
from drctl.connect.client import ConnectRejected
from drctl.formats import provenance, replicator_headers
from drctl.formats.consumer_timestamps import TOPIC as TIMESTAMPS
from drctl.formats.provenance import Provenance
from drctl.formats.replicator_headers import Origin
from drctl.lab.lab import Lab
from drctl.model.topology import Record
from tests.cli.documents import check
from tests.cluster.command import Drctl
from tests.cluster.link_command import soon
from tests.cluster.logs import read_logs
from tests.cluster.topic_acls import allow, forget
from tests.conftest import NewTopic
from tests.connect.connect_command import ConnectCommand
from tests.connect.replicators import INTERCEPTOR, Replicators, replicator, replicators
from tests.kafka.members import commit
from tests.kafka.timestamps_topic import remove_topic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
NOON_MS = 1_700_000_000_000
APPLICATION = "orders-app"
READERS = (APPLICATION, "replicator")
"""Users who may read the lab's topics."""


@pytest.fixture(scope="module")
def worker(
    secondary: ClusterUnderTest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replicators]:
    with replicators(secondary, tmp_path_factory.mktemp("replicators"), "replicators") as opened:
        yield opened


@dataclass(frozen=True)
class Doctor:
    """Judges links that are added to the lab's drctl.yaml.

    Attributes:
        properties: properties with which the worker was started.
    """

    config: Path
    worker: Replicators
    properties: Path

    def link(self, name: str, kind: str, connectors: Mapping[str, str], **more: Any) -> None:
        """Add a link that the worker replicates."""
        text = yaml.safe_load(self.config.read_text(encoding="utf-8"))
        main = text["links"]["main"]
        section = {key: main[key] for key in ("from", "to", "topics", "groups", "fence")}
        workers = {"connect": self.worker.worker.url}
        if back := more.pop("reverse", None):
            workers["reverse"] = {"connect": self.worker.worker.url, "connectors": back}
        rename = {"rename": more.pop("rename")} if "rename" in more else {}
        ours = {"kind": kind, **workers, "connectors": dict(connectors), **rename}
        text["links"][name] = {**section, "replicator": ours, **more}
        self.config.write_text(yaml.safe_dump(text), encoding="utf-8")

    def says(self, link: str, family: Family, *words: str) -> dict[str, set[str]]:
        """Return the statuses of each check of a family."""
        return statuses(self.document(link, *words), family)

    def document(self, link: str, *words: str) -> dict[str, Any]:
        given = ("--worker", str(self.properties)) if "--worker" not in words else ()
        drctl = Drctl(self.config.parent, self.config)
        return check(drctl("-o", "json", "doctor", "--link", link, *given, *words).document())


def statuses(document: dict[str, Any], family: Family) -> dict[str, set[str]]:
    names = {each.name for each in CHECKS if each.family is family}
    found: dict[str, set[str]] = {name: set() for name in names}
    for row in document["checks"]:
        if row["check"] in names:
            found[row["check"]].add(row["status"])
    return found


@pytest.fixture
def topic(new_topic: NewTopic, primary: ClusterUnderTest) -> str:
    name = new_topic(2)
    primary.produce(name, [Record(n % 2, -1, 1_700_000_000_000 + n, b"k", b"v") for n in range(10)])
    return name


@pytest.fixture
def doctor(lab_yaml: Callable[..., Path], topic: str, worker: Replicators) -> Iterator[Doctor]:
    yield Doctor(lab_yaml(topic), worker, worker.worker.properties)
    worker.remove_all()


@pytest.fixture
def timestamps(primary: ClusterUnderTest) -> Iterator[None]:
    """A consumer timestamps topic that applications may write to."""
    remove_topic(primary)
    primary.create_topic(TIMESTAMPS, 1, {"cleanup.policy": "compact"})
    for user in READERS:
        allow(primary, user, TIMESTAMPS)
    try:
        yield
    finally:
        forget(primary, TIMESTAMPS)
        remove_topic(primary)


def copies(cluster: ClusterUnderTest, topic: str) -> list[Record]:
    """Return all committed records; a worker with exactly-once support adds transaction markers."""
    return [each for part in read_logs(cluster, [topic])[topic].records.values() for each in part]


def sink(topic: str, **more: str) -> dict[str, str]:
    """Return a connector that writes to a file, if it ever runs."""
    extra = {key.replace("__", "."): value for key, value in more.items()}
    return {"connector.class": SINK, "topics": topic, "file": "/dev/null", **extra}


def test_replicators(
    doctor: Doctor,
    topic: str,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    timestamps: None,
    lab: Lab,
    tmp_path: Path,
) -> None:
    worker, forward, back = doctor.worker, f"there-{topic}", f"back-{topic}"
    worker.put(forward, replicator(primary, secondary, topic))
    reverse = replicator(secondary, primary, topic, offset__start="consumer")
    worker.put(back, reverse, "STOPPED")
    override = {"consumer__override__interceptor__classes": INTERCEPTOR}
    worker.put(f"files-{topic}", sink(topic, **override), "STOPPED")
    soon(lambda: len(copies(secondary, topic)) == 10)
    doctor.link(
        "sound",
        "confluent-replicator",
        {"source": forward},
        reverse={"source": back},
        groups=[APPLICATION, f"connect-files-{topic}"],
    )
    client = tmp_path / "app.properties"
    client.write_text(f"group.id={APPLICATION}\ninterceptor.classes={INTERCEPTOR}\n")
    document = doctor.document("sound", "--client", f"{client}=java-4.3.1")
    sound = statuses(document, Family.REPLICATOR)
    assert {name for name, found in sound.items() if found != {"ok"}} == set(), sound
    rows = {row["check"]: row["status"] for row in document["checks"]}
    assert rows["client-interceptor"] == "ok"
    assert rows["replication-not-running"] == "ok"

    with_faults(doctor, topic, primary, secondary, lab)
    secondary.produce(topic, [Record(0, -1, NOON_MS, b"k", b"from an application")])
    primary.configure(TIMESTAMPS, cleanup_policy="compact,delete")
    forget(primary, TIMESTAMPS)
    client.write_text(f"group.id={APPLICATION}\nsession.timeout.ms=6000\nmax.poll.records=9\n")
    document = doctor.document("faulty", "--client", f"{client}=java-4.3.1")
    faulty = statuses(document, Family.REPLICATOR)
    rows = {row["check"]: row["status"] for row in document["checks"]}
    assert rows["client-interceptor"] == "warn"
    upgraded = doctor.says("upgraded", Family.REPLICATOR)
    absent = doctor.says("absent", Family.REPLICATOR)
    bad = {name: faulty[name] | upgraded[name] | absent[name] for name in faulty}
    assert [name for name, found in bad.items() if not found & {"warn", "fail"}] == []
    assert upgraded["replicator-destination"] == absent["replicator-connector"] == {"fail"}

    command = ConnectCommand(doctor.config)
    (cluster,) = command.json("status", "--connect", worker.worker.url, code=1)["clusters"]
    (failed,) = (each for each in cluster["connectors"] if each["name"] == f"upgraded-{topic}")
    (task,) = (part["explained"] for part in failed["parts"] if part["explained"])
    assert task["cause"] == "replicator-destination"
    assert "offset.timestamps.commit=false" in task["remedy"]
    assert not task["restart_may_help"]


def with_faults(
    doctor: Doctor, topic: str, primary: ClusterUnderTest, secondary: ClusterUnderTest, lab: Lab
) -> None:
    """Links whose Replicators have every known fault."""
    worker, kind = doctor.worker, "confluent-replicator"
    faulty, back = f"faulty-{topic}", f"faulty-back-{topic}"
    settings = {
        "tasks__max": "1",
        "topic__blacklist": topic,
        "topic__rename__format": "copy.${topic}",
        "topic__timestamp__type": "LogAppendTime",
        "offset__timestamps__commit": "false",
        "offset__topic__commit": "false",
        "offset__translator__tasks__max": "0",
        "offset__translator__tasks__separate": "true",
        "offset__translator__batch__period__ms": "3600000",
        "fetch__offset__expiry__ms": "30000",
        "fetch__offset__retry__backoff__ms": "40000",
        "src__consumer__interceptor__classes": INTERCEPTOR,
        "header__converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    }
    worker.put(faulty, replicator(primary, secondary, topic, **settings), "STOPPED")
    other = {"src__consumer__group__id": "another"}
    worker.put(back, replicator(secondary, primary, topic, **other), "STOPPED")
    worker.put(f"bare-{topic}", sink(topic), "STOPPED")
    groups = [APPLICATION, f"connect-bare-{topic}"]
    doctor.link("faulty", kind, {"source": faulty}, reverse={"source": back}, groups=groups)

    # An old configuration without the target cluster, which offset translation needs.
    gone = {f"dest__kafka__{key}": None for key in ("bootstrap__servers", "security__protocol")}
    old = replicator(
        primary, secondary, topic, provenance__header__enable="false", tasks__max="1", **gone
    )
    worker.put(f"upgraded-{topic}", old, "FAILED")
    doctor.link("upgraded", kind, {"source": f"upgraded-{topic}"})
    doctor.link("absent", kind, {"source": "nowhere"})


@pytest.mark.parametrize("header", [replicator_headers.HEADER, provenance.HEADER])
def test_a_sink_that_decodes_every_header(
    doctor: Doctor, header: str, new_topic: NewTopic, secondary: ClusterUnderTest, tmp_path: Path
) -> None:
    origin = (secondary.admin.list_topics(timeout=20).cluster_id, "orders")
    value = {
        replicator_headers.HEADER: replicator_headers.encode(Origin(*origin, NOON_MS)),
        provenance.HEADER: provenance.encode(Provenance(*origin, 0, 7, NOON_MS)),
    }[header]
    topic = new_topic(on=("secondary",))
    secondary.produce(topic, [Record(0, -1, NOON_MS, b"k", b"v", ((header, value),))])
    text = "org.apache.kafka.connect.storage.StringConverter"
    for name, converter, state in (
        ("json", "org.apache.kafka.connect.json.JsonConverter", "FAILED"),
        ("simple", "org.apache.kafka.connect.storage.SimpleHeaderConverter", "RUNNING"),
    ):
        file = tmp_path / name
        config = sink(topic, file=str(file), key__converter=text, value__converter=text)
        config |= {"header.converter": converter, "tasks.max": "1"}
        doctor.worker.put(f"{name}-{topic}", config, state)
    soon(lambda: (tmp_path / "simple").read_text() == "v\n")

    command = ConnectCommand(doctor.config)
    url = doctor.worker.worker.url
    (cluster,) = command.json("status", "--connect", url, code=1)["clusters"]
    parts = {each["name"]: each["parts"] for each in cluster["connectors"]}
    (failed,) = (part["explained"] for part in parts[f"json-{topic}"] if part["explained"])
    assert failed["cause"] == "replication-header"
    assert "ByteArrayConverter" in failed["remedy"]
    doctor.link("sinks", "confluent-replicator", {"source": "nowhere"})
    (row,) = (
        each
        for each in doctor.document("sinks")["checks"]
        if each["check"] == "sink-header-converters"
    )
    assert (row["status"], f"json-{topic}" in row["evidence"]) == ("warn", True)


def test_loops_are_found_by_the_headers_of_records(
    doctor: Doctor, topic: str, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    def found() -> list[dict[str, str]]:
        rows = doctor.document("both")["checks"]
        return [row for row in rows if row["check"] == "replication-loops"]

    worker, forward, back = doctor.worker, f"there-{topic}", f"back-{topic}"
    worker.put(forward, replicator(primary, secondary, topic))
    worker.put(back, replicator(secondary, primary, topic))
    soon(lambda: len(copies(secondary, topic)) == 10)
    doctor.link("both", "confluent-replicator", {"source": forward}, reverse={"source": back})
    (sound,) = found()
    assert (sound["status"], sound["evidence"]) == ("ok", f"reverse direction: {back}")
    assert "provenance headers" in sound["reason"]

    # A third cluster replicates records back to the primary that it received from it.
    passed = (primary.admin.list_topics(timeout=20).cluster_id, "third-cluster")
    headers = tuple(
        (replicator_headers.HEADER, replicator_headers.encode(Origin(each, topic, NOON_MS)))
        for each in passed
    )
    primary.produce(topic, [Record(0, -1, NOON_MS, b"k", b"v", headers)])
    soon(lambda: len(copies(secondary, topic)) == 11)
    returned, sound = found()
    assert (returned["status"], sound["status"]) == ("warn", "ok")
    assert (
        f"{topic}-0 on primary offset 5: primary -> third-cluster -> primary"
        in (returned["evidence"])
    )

    # With this setting one of both Replicators treats every copy as a new record.
    again = replicator(secondary, primary, topic, provenance__header__filter__overrides=".*,.*,-")
    worker.put(f"again-{topic}", again)
    soon(lambda: found()[0]["status"] == "fail")
    repeated, running = found()
    assert "some repeatedly" in repeated["reason"]
    assert running["status"] == "fail"
    assert f"connector again-{topic} replicates back" in running["reason"]


MM2 = "org.apache.kafka.connect.mirror"
PLAIN_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def mirror(kind: str, topic: str, alias: str, **more: str) -> dict[str, str]:
    """Return a MirrorMaker 2 connector that is never started, so it needs no login."""
    extra = {key.replace("__", "."): value for key, value in more.items()}
    return {
        "connector.class": f"{MM2}.Mirror{kind}Connector",
        "source.cluster.alias": alias,
        "target.cluster.alias": "secondary",
        "source.cluster.bootstrap.servers": "127.0.0.1:1",
        "target.cluster.bootstrap.servers": "127.0.0.1:1",
        "replication.policy.class": f"{MM2}.IdentityReplicationPolicy",
        "topics": topic,
        **extra,
    }


@pytest.fixture
def ages(secondary: ClusterUnderTest) -> Iterator[tuple[str, str]]:
    """Two aliases: heartbeats and checkpoints arrive for the first, and not for the second."""
    fresh, stale = (f"{age}-{uuid4().hex[:6]}" for age in ("fresh", "stale"))
    names = []
    for alias, seconds in ((fresh, 0), (stale, 7_200)):
        for name in (f"{alias}.heartbeats", f"{alias}.checkpoints.internal"):
            secondary.create_topic(name)
            names.append(name)
            at = int((time.time() - seconds) * 1000)
            secondary.produce(name, [Record(0, -1, at, b"k", b"v")])
    yield fresh, stale
    secondary.delete_topics(names)


def test_mirror_maker(
    doctor: Doctor, topic: str, primary: ClusterUnderTest, lab: Lab, ages: tuple[str, str]
) -> None:
    fresh, stale = ages
    group = f"{APPLICATION}-{topic}"
    commit(primary.properties(), group, TopicPartition(topic, 0, 1))
    primary.produce(topic, [Record(0, -1, 1_700_000_000_000, b"k", b"v")], "commit")
    for alias, of_source, of_checkpoints in (
        (
            fresh,
            {
                **{f"{kind}__converter": PLAIN_BYTES for kind in ("key", "value", "header")},
                "source__consumer__isolation__level": "read_committed",
                "offset-syncs__topic__location": "target",
                "offset-syncs__topic__replication__factor": "3",
            },
            {
                "offset-syncs__topic__location": "target",
                "checkpoints__topic__replication__factor": "3",
            },
        ),
        (
            stale,
            {
                "topics": "none",
                "replication__policy__class": f"{MM2}.DefaultReplicationPolicy",
                "consumer__auto__offset__reset": "latest",
                "offset__lag__max": "100000",
                "offset-syncs__topic__replication__factor": "1",
            },
            {
                "target__cluster__alias": "elsewhere",
                "groups": "nobody",
                "emit__checkpoints__interval__seconds": "3600",
                "checkpoints__topic__replication__factor": "1",
                "sync__group__offsets__enabled": "true",
            },
        ),
    ):
        source, checkpoint = (f"{alias}-{role}" for role in ("source", "checkpoint"))
        doctor.worker.put(source, mirror("Source", topic, alias, **of_source), "STOPPED")
        points = mirror("Checkpoint", topic, alias, **of_checkpoints)
        doctor.worker.put(checkpoint, points, "STOPPED")
        named = {"source": source, "checkpoint": checkpoint}
        doctor.link(alias, "mirrormaker2", named, groups=[group])

    sound = doctor.says(fresh, Family.MIRRORMAKER)
    assert {name for name, found in sound.items() if found != {"ok"}} == set(), sound
    other = str(lab.root / "connect" / "worker.properties")
    faulty = doctor.says(stale, Family.MIRRORMAKER, "--worker", other)
    good = {name for name, found in faulty.items() if not found & {"warn", "fail"}}
    # The worker properties do not affect these checks.
    assert good == {"mm2-converters", "mm2-syncs-emitted", "mm2-checkpoints-emitted"}
    silent = mirror("Checkpoint", topic, stale, emit__checkpoints__enabled="false")
    with pytest.raises(ConnectRejected, match=r"can't run with emit\.checkpoints\.enabled"):
        doctor.worker.put(f"{stale}-silent", silent)

    # MirrorMaker 2 rejects this setting together with any other setting of offset syncs.
    off = mirror("Source", topic, stale, **{"emit__offset-syncs__enabled": "false"})
    doctor.worker.put(f"{stale}-off", off, "STOPPED")
    doctor.link("off", "mirrormaker2", {"source": f"{stale}-off"}, groups=[group])
    faulty = doctor.says("off", Family.MIRRORMAKER)
    assert (faulty["mm2-converters"], faulty["mm2-syncs-emitted"]) == ({"fail"}, {"fail"})
    assert faulty["mm2-exactly-once"] == {"ok"}
