"""The journal topic on a real cluster: created, written, read, refused if it loses records."""

from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka.admin import (
    AclOperation,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from drctl.engine import entries, run_state
from drctl.formats.journal_records import Beat, Part, Taken, decode, encode, split
from drctl.kafka.connection import Connection
from drctl.kafka.journal_reader import CONFIG
from drctl.kafka.reader import KafkaClusterReader
from drctl.model.errors import (
    ConfigError,
    DamagedJournal,
    Refused,
    Unknown,
    Unreachable,
    UsageError,
)
from drctl.model.journal import Entry, JournalReader, RunJournal
from tests.kafka.conftest import Bench
from tests.kafka.journal_place import BEGAN, ENDED, LONG_S, SINCE, JournalPlace, holder, named
from tests.kafka.rights import Rights
from tests.kafka.tls_broker import TlsCluster, wait_until
from tests.report import runs

pytestmark = pytest.mark.jvm


@pytest.fixture
def place(cluster: TlsCluster, bench: Bench) -> Iterator[JournalPlace]:
    made = JournalPlace(cluster.properties(), bench)
    yield made
    made.delete()


def test_reading_creates_no_topic(place: JournalPlace) -> None:
    before = set(place.topics())
    for reader in (place.reader(), place.journal()):
        assert not reader.runs()
        assert reader.alive() is None
        reader.check()
        with pytest.raises(UsageError, match="no run 'A'") as none:
            reader.entries("A")
        assert place.topic in none.value.hint
    assert set(place.topics()) == before


def test_a_run_from_its_beginning_to_its_end(place: JournalPlace) -> None:
    with place.journal().acquire(holder("A")) as held:
        journal: RunJournal = held
        assert (journal.run, held.lines) == ("A", ())
        assert journal.where == f"topic {place.topic} of secondary"
        journal.append([BEGAN])
        journal.append([])
        journal.append([*named("intend", "done"), ENDED])
    reader: JournalReader = place.reader()
    assert reader.runs() == ("A",)
    assert reader.entries("A") == (BEGAN, *named("intend", "done"), ENDED)
    assert run_state.verify("A", reader.lines("A")).complete
    assert place.reader().holder_of("A") is None, "a reader that has read nothing names a holder"
    for other in (place.reader("other"), place.journal("mai")):
        assert not other.runs()
    with pytest.raises(UsageError, match="no run 'B'") as none:
        reader.entries("B")
    assert none.value.hint == "the newest: A"


def test_the_topic_is_created_with_the_required_settings(place: JournalPlace) -> None:
    place.run("A", "began", "ended")
    (partition,) = place.topics()[place.topic].partitions.values()
    assert len(partition.replicas) == 2
    with KafkaClusterReader(Connection("bench", place.bench.properties)) as reader:
        config = reader.configurations([place.topic])[place.topic]
    assert isinstance(config, Mapping)
    assert {**CONFIG, "min.insync.replicas": "1"}.items() <= dict(config).items()
    place.reader().check()


def test_runs_one_after_the_other(place: JournalPlace) -> None:
    """A run that has ended and released the link is no reason to wait."""
    for run in ("A", "B"):
        with place.journal(beat_s=LONG_S).acquire(holder(run)) as held:
            held.append([BEGAN, ENDED])
    reader = place.reader()
    assert reader.runs() == ("B", "A")
    assert reader.holder_of("A") == holder("A")
    with pytest.raises(Refused, match="run A has ended"):
        place.journal(beat_s=LONG_S).acquire(holder("A"))


def test_only_the_run_that_stopped_can_be_resumed(place: JournalPlace) -> None:
    place.run("A", "began", "intend")
    end = place.settled_end()
    with pytest.raises(Refused, match=r"unfinished run A \(anna on laptop-of-anna") as refused:
        place.journal(beat_s=LONG_S).acquire(holder("B", "bert"))
    assert "drctl resume A" in refused.value.hint
    assert place.settled_end() == end, "a refusal without waiting wrote something"
    with pytest.raises(UsageError, match="no run 'B'"):
        place.journal(beat_s=LONG_S).resume(holder("B", "bert"))
    assert place.settled_end() == end
    with place.journal(beat_s=LONG_S).resume(holder("A", "bert")) as held:
        assert held.lines == place.reader().lines("A")
        held.append([*named("resumed"), ENDED])
    assert place.words("A") == ["began", "intend", "resumed", "ended"]
    assert run_state.verify("A", place.reader().lines("A")).complete


def test_an_abandoned_run(place: JournalPlace) -> None:
    place.run("A", "began", "intend")
    with place.journal().acquire(holder("B"), abandoning="A") as held:
        held.append([BEGAN, ENDED])
    with pytest.raises(Refused, match="run A was abandoned: run B is newer"):
        place.journal().acquire(holder("A"))
    place.run("C", "began", "ended")


def test_a_run_that_wrote_nothing_blocks_no_other(place: JournalPlace) -> None:
    place.run("A")
    place.run("B", "began", "ended")
    assert place.reader().runs() == ("B",)


def test_an_entry_that_is_larger_than_a_record(place: JournalPlace) -> None:
    large: Entry = {"entry": "began", "plan": [f"partition {number}" for number in range(150_000)]}
    with place.journal().acquire(holder("A")) as held:
        held.append([large, *named("intend")])
        held.append([ENDED])
    assert place.reader().entries("A") == (large, *named("intend"), ENDED)
    parts = [record for record in place.records() if isinstance(record, Part)]
    assert len(parts) > 4
    assert max(len(part.data) for part in parts) == 700_000
    with pytest.raises(Refused, match="has ended"):
        place.journal().acquire(holder("A"))


def test_heartbeats_are_no_entries_and_end_with_the_run(place: JournalPlace) -> None:
    with place.journal(beat_s=0.005).acquire(holder("A")) as held:
        for number in range(100):
            held.append([{"entry": "intend", "number": number}])
        wait_until(lambda: any(isinstance(r, Beat) for r in place.records()), "a beat")
        held.append([{"entry": "intend", "number": 100}])
    entries = place.reader().entries("A")
    assert [entry["number"] for entry in entries] == list(range(101))
    records = place.records()
    beats = [record for record in records if isinstance(record, Beat)]
    assert any(not beat.last for beat in beats)
    assert records[-1] == Beat(beats[0].token, last=True)
    end = place.settled_end()
    held.close()
    assert place.settled_end() == end


def test_each_link_has_its_own_entries(place: JournalPlace) -> None:
    other = f"{place.link}-other"
    with (
        place.journal(beat_s=LONG_S).acquire(holder("A")) as one,
        place.journal(other, beat_s=LONG_S).acquire(holder("A", "bert")) as two,
    ):
        one.append(named("one"))
        two.append(named("two"))
        one.append(named("three"))
    assert place.words("A") == ["one", "three"]
    assert [entry["entry"] for entry in place.reader(other).entries("A")] == ["two"]


def test_reading_writes_nothing_and_joins_no_group(place: JournalPlace) -> None:
    with place.journal(beat_s=LONG_S).acquire(holder("A")) as held:
        held.append(named("began"))
        before = set(place.topics()), place.settled_end()
        place.reader().entries("A")
        place.reader().alive()
        assert (set(place.topics()), place.settled_end()) == before
    groups = place.bench.admin.list_consumer_groups(request_timeout=20).result()
    assert not [group for group in groups.valid if "drctl" in group.group_id]


def alter(place: JournalPlace, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, place.topic, incremental_configs=[entry])
    for future in place.bench.admin.incremental_alter_configs([resource]).values():
        future.result()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact"),
        ("retention.ms", "604800000"),
        ("retention.bytes", "1000000"),
        ("max.message.bytes", "65536"),
    ],
)
def test_a_topic_that_could_lose_records_is_not_written(
    place: JournalPlace, name: str, value: str
) -> None:
    place.run("A", "began")
    alter(place, name, value)
    end = place.settled_end()
    for call in (lambda: place.journal().acquire(holder("A")), place.reader().check):
        with pytest.raises(ConfigError, match=f"{name}={value}") as refused:
            call()
        assert "set" in refused.value.hint
    assert place.settled_end() == end
    assert place.words("A") == ["began"], "the journal cannot be read"


def test_a_topic_with_several_partitions_is_refused(place: JournalPlace) -> None:
    new = NewTopic(place.topic, 3, replication_factor=1)
    for future in place.bench.admin.create_topics([new], operation_timeout=20).values():
        future.result()
    wait_until(lambda: place.topic in place.topics(), "the topic is there")
    for call in (lambda: place.journal().acquire(holder("A")), place.reader().runs):
        with pytest.raises(ConfigError, match="has 3 partitions: a journal must have one"):
            call()


@pytest.mark.nightly
def test_a_topic_that_is_deleted_under_a_run(place: JournalPlace) -> None:
    reader = place.reader()
    with place.journal(beat_s=LONG_S, timeout_s=3).acquire(holder("A")) as held:
        held.append(named("began"))
        assert reader.runs() == ("A",)
        place.delete()
        with pytest.raises(Unknown, match=r"was deleted|timed out"):
            held.append(named("intend"))
    assert place.topic not in place.topics(), "the topic was auto-created"
    with pytest.raises(Unknown, match="was deleted or recreated") as gone:
        reader.runs()
    assert "state_dir" in gone.value.hint
    assert reader.runs() == ()


def test_records_that_drctl_did_not_write(place: JournalPlace) -> None:
    place.run("A", "began")
    place.bench.produce(place.topic, {"key": b"of another link", "value": b"x"})
    assert place.words("A") == ["began"]
    place.bench.produce(place.topic, {"key": place.link.encode(), "value": b"x"})
    assert place.words("A") == ["began"], "a foreign record blocks the link"
    newer = b'{"v":2,"is":"beat","token":"t","last":true}'
    place.bench.produce(place.topic, {"key": place.link.encode(), "value": newer})
    for call in (lambda: place.journal().acquire(holder("A")), place.reader().runs):
        with pytest.raises(ConfigError, match="not written by this version of drctl") as refused:
            call()
        assert refused.value.hint


KEY = b"a key of sixteen"


def test_a_run_without_valid_signatures_is_refused_and_abandoned(place: JournalPlace) -> None:
    place.run("A", "began", "ended")
    journal = place.journal(key=KEY, beat_s=0.2)
    with journal.acquire(holder("B")) as held:
        held.append(named("began"))
    reader = place.reader(key=KEY)
    assert reader.runs()[0] == "B"
    reader.must_be_signed("B")
    for line in run_state.seal(named("began"), run_state.first_head("Z")):
        (part,) = split("Z", line)
        place.bench.produce(place.topic, {"key": place.link.encode(), "value": encode(part)})
    reader = place.reader(key=KEY)
    assert list(reader.entries("Z")) == named("began"), "the run cannot be read"
    for call in (lambda: journal.resume(holder("Z")), lambda: reader.must_be_signed("Z")):
        with pytest.raises(DamagedJournal, match=r"run Z is not signed by journal\.key .* line 1"):
            call()
    assert reader.intact_lines("Z") == 0
    with journal.abandon(holder("Z")) as held:
        held.append(named("ended"))
    with pytest.raises(ConfigError, match=r"run B is signed, but drctl.yaml has no"):
        place.journal(beat_s=0.2).resume(holder("B"))
    with place.journal(key=KEY, beat_s=0.2).resume(holder("B")) as held:
        held.append(named("ended"))
    assert place.reader(key=KEY).intact_lines("B") == 2
    with place.journal(key=KEY, beat_s=0.2).acquire(holder("C")) as held:
        held.append(named("began"))


def test_an_edited_journal_is_not_resumed(place: JournalPlace) -> None:
    place.run("A", "began")
    (forged,) = run_state.seal(named("done"), run_state.Head(1, "0" * 64))
    (part,) = split("A", forged)
    place.bench.produce(place.topic, {"key": place.link.encode(), "value": encode(part)})
    for call in (lambda: place.journal().acquire(holder("A")), lambda: place.reader().entries("A")):
        with pytest.raises(Unknown, match=r"run A is damaged .* line 2 was changed"):
            call()
    assert len(place.reader().lines("A")) == 2, "the run cannot be read"
    assert not [r for r in place.records()[-2:] if isinstance(r, Taken)]


FORGED = run_state.seal(named("done"), run_state.Head(1, "0" * 64))[0]


@pytest.mark.parametrize("line", [b"not a line", FORGED], ids=["no line", "another line"])
def test_a_damaged_run_is_abandoned(place: JournalPlace, line: bytes) -> None:
    place.run("A", "began", "intend")
    (part,) = split("A", line)
    place.bench.produce(place.topic, {"key": place.link.encode(), "value": encode(part)})
    with pytest.raises(DamagedJournal) as damaged:
        place.journal().acquire(holder("A"))
    assert "`drctl resume A --abandon REASON`" in damaged.value.hint
    with pytest.raises(Refused, match="unfinished run A"):
        place.journal().acquire(holder("B"))
    with place.journal().abandon(holder("A", "bert")) as held:
        held.append([{"entry": "abandoned"}, ENDED])
    with place.journal().acquire(holder("B")) as held:
        held.append([BEGAN])
    found = place.reader().lines("A")
    assert found[2] == line, "the damaged line was changed"
    assert [run_state.parse_line(each).entry["entry"] for each in found[3:]] == [
        "abandoned",
        "ended",
    ]
    with pytest.raises(DamagedJournal):
        place.reader().entries("A")
    with pytest.raises(Refused, match="run A has ended"):
        place.journal().abandon(holder("A"))


def test_a_damaged_run_that_has_ended_is_abandoned(place: JournalPlace) -> None:
    """Its last line is intact; what is before it was damaged after the run had ended."""
    written = runs.done().entries
    run = str(written[0]["run"])
    (part,) = split(run, b"mended by hand")
    with place.journal().acquire(holder(run)) as held:
        held.append(written[:4])
        place.bench.produce(place.topic, {"key": place.link.encode(), "value": encode(part)})
        held.append(written[4:])
    with pytest.raises(DamagedJournal):
        list(run_state.run_states(place.reader()))
    with place.journal().abandon(holder(run, "bert")) as held:
        held.append(closing())
    (state,) = run_state.run_states(place.reader())
    assert (state.abandoned, state.status, state.partial) == ("damaged", "stopped", True)
    assert state.left_changed == {run_state.AFTER_DAMAGE: "not known"}
    with place.journal().acquire(holder("B")) as held:
        held.append([BEGAN])


def closing() -> list[Entry]:
    left = {run_state.AFTER_DAMAGE: "not known"}
    who = {"user": "bert", "host": "h", "process": "1"}
    return [
        dict(entry)
        for entry in (
            entries.resumed(who, SINCE),
            entries.abandoned("damaged", left, SINCE),
            entries.ended("stopped", SINCE),
        )
    ]


def test_a_cluster_that_does_not_answer(place: JournalPlace) -> None:
    place.properties = {**place.properties, "bootstrap.servers": "127.0.0.1:1"}
    journal = place.journal(timeout_s=1)
    for call in (journal.runs, journal.check, journal.alive, lambda: journal.acquire(holder("A"))):
        with pytest.raises(Unreachable, match="cluster secondary"):
            call()


def test_required_permissions_and_the_errors_without_them(
    cluster: TlsCluster, place: JournalPlace, bob: Rights
) -> None:
    do, topic, kind = AclOperation, place.topic, ResourceType.TOPIC
    place.properties = cluster.properties("bob")
    secret = place.properties["sasl.password"]

    def refused(words: str, right: str) -> None:
        with pytest.raises(ConfigError, match=words) as caught:
            place.journal().acquire(holder("A"))
        assert f"grant {right}" in caught.value.hint
        assert "docs/howto/permissions.md" in caught.value.hint
        assert secret not in caught.value.message

    refused("may not read", "it READ")
    bob.grant(kind, topic, do.DESCRIBE)
    refused("cannot create", "CREATE")
    with pytest.raises(ConfigError, match="cannot create"):
        place.reader().check()
    bob.grant(kind, topic, do.READ, do.CREATE)
    refused("may not read the configuration of", "it DESCRIBE_CONFIGS")
    bob.grant(kind, topic, do.DESCRIBE_CONFIGS)
    refused("may not write to", "it READ, WRITE and DESCRIBE_CONFIGS")
    with pytest.raises(ConfigError, match="may not write to"):
        place.reader().check()
    bob.grant(kind, topic, do.WRITE)
    name = f"drctl.{place.link}"
    wait_until(lambda: name in _blocker(place), "both brokers know that bob may write")
    refused(f"transactional id {name}", f"WRITE on the transactional id {name}")
    assert not place.reader().runs()
    bob.grant(ResourceType.TRANSACTIONAL_ID, name, do.WRITE)

    def granted() -> bool:
        try:
            place.run("A", "began", "ended")
        except ConfigError:
            return False
        return True

    wait_until(granted, "both brokers know what bob may do")
    wait_until(lambda: not _blocker(place), "both brokers say that bob may write")
    assert place.words("A") == ["began", "ended"]
    assert isinstance(decode(encode(place.records()[-1])), Beat)


def _blocker(place: JournalPlace) -> str:
    """Why a new run could not start; empty if it could."""
    try:
        place.reader().check()
    except ConfigError as refused:
        return refused.message
    return ""
