"""The lab itself: real brokers, a real Connect worker, real MirrorMaker 2."""

import json
import os
import re
import signal
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from uuid import uuid4

import psutil
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from drctl.config.loading import load
from drctl.lab import starting
from drctl.lab.environment import write_environment
from drctl.lab.lab import Lab
from drctl.lab.processes import lab_mark, marked_processes
from drctl.lab.settings import BROKER, CLUSTERS, FIRST, USERS, LabSettings
from drctl.lab.starting import free_port_base
from drctl.lab.status import in_words, look
from drctl.lab.waiting import Patience
from drctl.model.errors import Refused, Stopped, UsageError
from drctl.model.topology import Record
from tests.cluster.writer import known_to
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import DEADLINE_S, QUIET, ClusterUnderTest

pytestmark = pytest.mark.jvm


def pids(lab: Lab) -> dict[str, int | None]:
    return {part["name"]: part["pid"] for part in look(lab).to_json()["components"]}


def states(lab: Lab) -> dict[str, str]:
    return {part["name"]: part["state"] for part in look(lab).to_json()["components"]}


def soon(condition: Callable[[], bool]) -> bool:
    return Patience.of(60).wait_until(condition)


def test_every_component_responds(lab: Lab) -> None:
    document = look(lab).to_json()
    assert document["answering"] is True
    assert states(lab) == dict.fromkeys(("primary-1", "secondary-1", "connect"), "answering")
    assert {c["name"]: c["state"] for c in document["connectors"]} == {
        "mm2-checkpoint": "RUNNING",
        "mm2-heartbeat": "RUNNING",
        "mm2-source": "RUNNING",
    }
    assert "primary-1" in in_words(look(lab))


def test_its_clients_create_no_topic_by_a_request(lab: Lab, secondary: ClusterUnderTest) -> None:
    ours, made = f"ours-{uuid4().hex[:8]}", f"made-{uuid4().hex[:8]}"
    others = AdminClient(secondary.properties(), logger=QUIET)
    lab.cluster("secondary").admin().list_topics(ours, timeout=DEADLINE_S)
    # Brokers create topics asynchronously: once the second topic exists, a topic that was auto-
    # created by the request before it would exist, too.
    others.list_topics(made, timeout=DEADLINE_S)
    known = lambda: others.list_topics(timeout=DEADLINE_S).topics  # noqa: E731
    try:
        assert soon(lambda: made in known())
        assert ours not in known()
    finally:
        secondary.delete_topics((ours, made))


def test_starting_again_changes_nothing(lab: Lab) -> None:
    before = pids(lab)
    lab.up()
    assert pids(lab) == before


def test_only_loopback_addresses_are_used(lab: Lab) -> None:
    ports = set()
    for process in marked_processes(lab_mark(lab.root)):
        for connection in process.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                assert connection.laddr[0] in ("127.0.0.1", "::ffff:127.0.0.1"), connection
                ports.add(connection.laddr[1])
    base = lab.parts.settings.port_base
    assert ports == {base + 11, base + 21, base + 51, base + 61, base + 83}


def passwords(lab: Lab) -> tuple[str, ...]:
    files = (
        lab.cluster(name).password_file(user) for name in CLUSTERS for user in (*USERS, BROKER)
    )
    return tuple(file.read_text(encoding="ascii") for file in files)


def test_passwords_are_random_and_distinct(lab: Lab) -> None:
    words = passwords(lab)
    assert len(set(words)) == 8
    assert all(len(word) == 32 for word in words)


def test_no_password_is_in_the_process_list(lab: Lab) -> None:
    processes = marked_processes(lab_mark(lab.root))
    assert len(processes) == 3
    for process in processes:
        visible = " ".join(process.cmdline()) + " ".join(process.environ().values())
        assert not [word for word in passwords(lab) if word in visible]


NUMBERS = {".index", ".timeindex"}
"""Index files of brokers, which contain only offsets; ten empty megabytes each."""


def test_the_labs_files_are_private(lab: Lab) -> None:
    assert stat.S_IMODE(lab.root.stat().st_mode) == 0o700
    holding = []
    for folder, _, names in os.walk(lab.root):
        for path in (Path(folder, name) for name in names):
            if path.suffix in NUMBERS:
                continue
            try:
                text = path.read_bytes()
            except FileNotFoundError:  # brokers delete segments
                continue
            if any(word.encode() in text for word in passwords(lab)):
                holding.append(path.relative_to(lab.root).as_posix())
                assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    secrets = [name for name in holding if name.startswith("secrets/")]
    assert len(secrets) == 8
    assert sorted(set(holding) - set(secrets)) == [
        "connect/worker.properties",
        "primary/1/server.properties",
        "secondary/1/server.properties",
    ], "and no log, no topic of Connect"


def test_connect_shows_no_password(lab: Lab) -> None:
    client = lab.parts.worker.client()
    try:
        shown = json.dumps([client.config(name) for name in client.connectors()])
    finally:
        client.close()
    assert "${directory:" in shown
    assert not [word for word in passwords(lab) if word in shown]


def test_replication_runs_stops_and_resumes(
    lab: Lab, new_topic: NewTopic, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    topic = new_topic(2, mirrored=True, on=("primary",))
    records = [Record(n % 2, 0, 1000 + n, b"k", b"%d" % n) for n in range(10)]
    primary.produce(topic, records)
    assert soon(lambda: sum(secondary.end_offsets(topic).values()) == 10)
    lab.replicate(False)
    try:
        primary.produce(topic, records)
        assert {c["state"] for c in look(lab).to_json()["connectors"]} == {"STOPPED"}
        assert sum(secondary.end_offsets(topic).values()) == 10
    finally:
        lab.replicate(True)
    assert soon(lambda: sum(secondary.end_offsets(topic).values()) == 20)
    assert sum(primary.end_offsets(topic).values()) == 20, (
        "records were replicated back to the primary"
    )


def test_connectors_do_not_wait_long_for_a_cluster_that_is_dead(lab: Lab) -> None:
    """A connector's setting does not always reach its clients."""
    waits = "default.api.timeout.ms"
    log = (lab.root / "connect" / "log").read_text(encoding="utf-8")
    blocks = [block.split("\n20", 1)[0] for block in log.split("AdminClientConfig values:")[1:]]
    every = [dict(re.findall(r"^\t(\S+) = (.*)$", block, re.MULTILINE)) for block in blocks]
    own = [each for each in every if re.search(r"\|mm2-[a-z]+(-\d+)?\|", each["client.id"])]
    roles = {each["client.id"].rpartition("|")[2] for each in own}
    assert roles >= {f"replication-{end}-admin" for end in ("source", "target")}
    assert {int(each[waits]) for each in own} == {5_000}, own


def error_of(cluster: ClusterUnderTest, user: str, topic: str) -> int | None:
    seen: list[KafkaError | None] = []
    producer = cluster.producer(user)
    producer.produce(topic, b"x", on_delivery=lambda error, _: seen.append(error))
    producer.flush(20)
    (error,) = seen
    return error.code() if error else None


def test_each_user_has_only_the_permissions_it_needs(
    new_topic: NewTopic, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    refused = KafkaError.TOPIC_AUTHORIZATION_FAILED
    ours, other = new_topic(mirrored=True), new_topic()
    assert error_of(primary, "orders-app", ours) is None
    assert error_of(secondary, "orders-app", ours) is None
    assert error_of(primary, "orders-app", other) == refused
    assert error_of(primary, "replicator", ours) == refused
    assert error_of(secondary, "replicator", ours) is None
    assert error_of(secondary, "replicator", other) == refused


def test_a_killed_cluster_returns_with_its_data_and_its_users(
    lab: Lab, new_topic: NewTopic, primary: ClusterUnderTest
) -> None:
    topic = new_topic(on=("primary",))
    primary.produce(topic, [Record(0, 0, 1000, b"k", b"v")])
    # Java's hash of this name is 0: a broker would process its deletion before all other users.
    with known_to((primary,), "lab-first-yiboyef", topic):
        pass
    before = pids(lab)
    lab.signal("primary", signal.SIGKILL)
    assert states(lab) == {"primary-1": "dead", "secondary-1": "answering", "connect": "answering"}
    with pytest.raises(Refused, match="primary is not running"):
        lab.signal("primary", signal.SIGSTOP)
    lab.start("primary")
    after = pids(lab)
    assert primary.end_offsets(topic) == {0: 1}
    assert {*USERS, FIRST} <= set(primary.admin.describe_user_scram_credentials().result())
    assert {name for name in before if before[name] != after[name]} == {"primary-1"}


@pytest.mark.nightly
def test_an_unresponsive_broker_is_restarted_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "START_S_PER_PART", 30)
    lab.signal("primary", signal.SIGKILL)
    broker = lab.parts.part("primary-1")

    def freeze() -> bool:
        # Not before the process has started Java: until then it does not have the lab's mark.
        process = broker.process()
        return process is not None and bool(process.cmdline()) and broker.signal(signal.SIGSTOP)

    messages: list[str] = []
    with ThreadPoolExecutor() as threads:
        frozen = threads.submit(Patience.of(20).wait_until, freeze)
        Lab(lab.root, messages.append).start("primary")
        assert frozen.result()
    assert [each for each in messages if each.endswith("Restarting primary")]
    assert states(lab)["primary-1"] == "answering"


def test_starting_again_resumes_and_restarts_components(lab: Lab) -> None:
    before = pids(lab)
    lab.signal("secondary", signal.SIGSTOP)
    lab.signal("connect", signal.SIGKILL)
    assert states(lab) == {"primary-1": "answering", "secondary-1": "frozen", "connect": "dead"}
    began = time.monotonic()
    messages: list[str] = []
    Lab(lab.root, messages.append).up()
    assert time.monotonic() - began < 60
    assert "secondary-1 was suspended and is resumed" in messages
    assert look(lab).to_json()["answering"] is True
    after = pids(lab)
    assert {name for name in before if before[name] != after[name]} == {"connect"}


def test_a_frozen_component_resumes(lab: Lab) -> None:
    lab.signal("primary-1", signal.SIGSTOP)
    assert states(lab)["primary-1"] == "frozen"
    lab.signal("primary-1", signal.SIGCONT)
    assert soon(lambda: states(lab)["primary-1"] == "answering")


def test_an_unknown_component(lab: Lab) -> None:
    with pytest.raises(UsageError, match="unknown lab component 'tertiary'") as caught:
        lab.start("tertiary")
    assert caught.value.hint.endswith("primary-1, secondary-1, connect")


def test_env_writes_a_working_configuration(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "drctl.yaml"
    document = write_environment(lab.parts, file)
    text = file.read_text(encoding="utf-8")
    assert not [
        word for word in passwords(lab) if word in text or word in json.dumps(document.to_json())
    ]
    config = load(file)
    link = config.link(None)
    assert (link.source, link.target, link.carries("flights")) == ("primary", "secondary", True)
    write_environment(lab.parts, file)
    file.write_text("clusters: {}\n", encoding="utf-8")
    with pytest.raises(Refused, match="exists"):
        write_environment(lab.parts, file)


@pytest.mark.nightly
def test_down_with_keep_and_up_again(
    lab: Lab, new_topic: NewTopic, secondary: ClusterUnderTest
) -> None:
    topic = new_topic(on=("secondary",))
    secondary.produce(topic, [Record(0, 0, 1000, b"k", b"v")])
    assert lab.down(keep=True) == 3
    assert marked_processes(lab_mark(lab.root)) == ()
    assert set(states(lab).values()) == {"dead"}
    lab.up()
    assert secondary.end_offsets(topic) == {0: 1}


def test_a_component_that_fails_to_start_reports_the_reason(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    try:
        with pytest.raises(Stopped, match="exited while starting") as caught:
            lab.up(LabSettings(port_base=free_port_base(Random()), heap_mb=1))
        assert "Too small maximum heap" in caught.value.message
        assert str(lab.root) in caught.value.message
    finally:
        lab.down()
    assert not marked_processes(lab_mark(lab.root))
