"""Who holds a link when real processes or brokers die, hang and return."""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Timer

import pytest

from drctl.engine import run_state
from drctl.formats.journal_records import Beat, Taken, Withdrawn
from drctl.host.processes import this_machine
from drctl.kafka.journal_topic import HeldRun, JournalWriter
from drctl.model.errors import DrctlError, ExitCode, Fenced, Refused, Unknown
from tests.kafka.conftest import Bench
from tests.kafka.journal_place import (
    BEAT_S,
    BEGAN,
    ENDED,
    LONG_S,
    HolderProcess,
    JournalPlace,
    holder,
    named,
)
from tests.kafka.tls_broker import TlsCluster, wait_until

pytestmark = pytest.mark.jvm

HELD_BY_BERT = (
    r"link main-\w+ is held by run A: bert on laptop-of-bert \(process 41\), since 2026-03-05"
    r" 14:20:11 UTC"
)


@pytest.fixture
def place(cluster: TlsCluster, bench: Bench) -> Iterator[JournalPlace]:
    made = JournalPlace(cluster.properties(), bench)
    yield made
    made.delete()


def fenced(run: HeldRun) -> bool:
    try:
        run.check()
    except Fenced:
        return True
    return False


@pytest.mark.parametrize("run", ["A", "B"])
def test_a_second_run_is_refused_while_the_first_is_alive(place: JournalPlace, run: str) -> None:
    with place.journal().acquire(holder("A", "bert")) as held:
        held.append([BEGAN])
        assert place.reader(beat_s=LONG_S).alive() == holder("A", "bert")
        with pytest.raises(Refused, match=HELD_BY_BERT) as refused:
            place.journal(beat_s=LONG_S).acquire(holder(run))
        assert "wait for it to finish" in refused.value.hint
        assert refused.value.exit_code == ExitCode.REFUSED
        held.append([ENDED])
    assert place.words("A") == ["began", "ended"], "the refused run changed the first one's entries"
    assert place.reader(beat_s=LONG_S).alive() is None
    if run == "A":
        assert isinstance(place.records()[-1], Beat | Withdrawn)


def test_a_holder_hidden_by_the_open_transaction_of_another_link(place: JournalPlace) -> None:
    """Readers of committed records do not see it until that transaction ends."""
    with place.journal().acquire(holder("A", "bert")) as held:
        held.append([BEGAN])
        other = place.bench.producer(**{"transactional.id": f"{place.link}-other"})
        other.init_transactions(30)
        other.begin_transaction()
        other.produce(place.topic, key=b"other", value=b"x", partition=0)
        assert other.flush(20) == 0
        reader = place.reader()
        held.append(named("intend"))
        assert [entry["entry"] for entry in reader.entries("A")] == ["began"]
        assert not reader.settled
        with pytest.raises(Refused, match=HELD_BY_BERT):
            place.journal(beat_s=LONG_S).acquire(holder("A"))
        other.abort_transaction(30)
    assert place.words("A") == ["began", "intend"]


def test_a_killed_run_is_resumed_and_no_other_starts(place: JournalPlace) -> None:
    with HolderProcess(place, "A") as bert:
        assert bert.answer() == {"held": []}
        assert bert.append("began") == {"appended": "began"}
        bert.signal(signal.SIGKILL)
        bert.ended()
    with pytest.raises(Refused, match=r"unfinished run A \(bert on laptop-of-bert"):
        place.journal().acquire(holder("B"))
    assert place.reader().alive() is None
    with place.journal().acquire(holder("A")) as held:
        assert len(held.lines) == 1
        held.append([*named("resumed"), ENDED])
    assert place.words("A") == ["began", "resumed", "ended"]
    assert run_state.verify("A", place.reader().lines("A")).complete


@pytest.mark.timeout(100)
def test_an_exited_process_on_the_same_host_is_not_awaited(place: JournalPlace) -> None:
    with HolderProcess(place, "A", machine=this_machine()) as bert:
        assert bert.answer() == {"held": []}
        assert bert.append("began") == {"appended": "began"}
        with pytest.raises(Refused, match="is held by run A: bert"):
            place.journal(beat_s=LONG_S).acquire(holder("A"))
        bert.signal(signal.SIGKILL)
        bert.ended()
    assert place.reader(beat_s=LONG_S).alive() is None
    with place.journal(beat_s=LONG_S).acquire(holder("A")) as held:
        assert len(held.lines) == 1


def test_a_paused_process_that_resumes_writes_nothing_more(place: JournalPlace) -> None:
    with HolderProcess(place, "A") as bert:
        assert bert.answer() == {"held": []}
        assert bert.append("began") == {"appended": "began"}
        bert.signal(signal.SIGSTOP)
        with place.journal().acquire(holder("A", "anna")) as held:
            held.append(named("resumed"))
            bert.say("done")
            bert.signal(signal.SIGCONT)
            answer = bert.answer()
            assert (answer["kind"], answer["code"]) == ("Fenced", ExitCode.STOPPED)
            assert "run A was resumed by anna on laptop-of-anna (process 41)" in answer["message"]
            assert bert.ended() == 0
            held.append([ENDED])
    assert place.words("A") == ["began", "resumed", "ended"]
    assert run_state.verify("A", place.reader().lines("A")).complete
    records = place.records()
    last = max(at for at, record in enumerate(records) if isinstance(record, Taken))
    tokens = {record.token for record in records[last:] if isinstance(record, Beat | Taken)}
    assert len(tokens) == 1, "bert's paused process wrote after the takeover"


def hanging(place: JournalPlace, run: str) -> HeldRun:
    """A run of this process without heartbeats, as if the host slept."""
    held = place.journal(beat_s=LONG_S).acquire(holder(run))
    held.append([BEGAN])
    return held


def test_a_fenced_run_names_the_new_holder(place: JournalPlace) -> None:
    zombie = hanging(place, "A")
    with place.journal().acquire(holder("B", "bert"), abandoning="A") as held:
        held._beats.stop()
        held.append([BEGAN])
        end = place.settled_end()
        for _ in range(2):
            with pytest.raises(Fenced, match=r"was acquired by run B: bert on laptop") as stopped:
                zombie.append(named("done"))
        assert stopped.value.exit_code == ExitCode.STOPPED
        assert "this process has stopped" in stopped.value.hint
        zombie.close()
        assert place.settled_end() == end
        assert place.words("A") == ["began"]
        held.append([ENDED])


def test_a_heartbeat_notices_that_the_link_is_lost(place: JournalPlace) -> None:
    with place.journal(beat_s=BEAT_S).acquire(holder("A")) as zombie:
        zombie.append([BEGAN])
        zombie.check()
        writer = JournalWriter(zombie._writer._connection, place.link, place.topic)
        with writer:
            wait_until(lambda: fenced(zombie), "the next beat notices")
            with pytest.raises(Fenced, match="has lost link") as stopped:
                zombie.append(named("done"))
            assert "drctl resume A" in stopped.value.hint


def test_a_run_suspended_between_its_claim_and_the_link_does_no_harm(place: JournalPlace) -> None:
    """It fences the run that came meanwhile, notices that, and leaves: no one writes."""
    place.run("0", "began", "ended")
    slow = place.journal()
    slow.runs()
    with place.journal(beat_s=LONG_S).acquire(holder("A", "bert")) as held:
        held.append([BEGAN])
        with pytest.raises(Refused, match=HELD_BY_BERT):
            slow._fence(Taken("slow", holder("B")), (None, None))
        with pytest.raises(Fenced, match="has lost link"):
            held.append(named("intend"))
    place.run("A", "resumed", "ended")
    assert place.words("A") == ["began", "resumed", "ended"]


def race(place: JournalPlace, runs: list[str]) -> list[HeldRun | DrctlError]:
    """The outcome of several runs that start at the same moment."""
    together = Barrier(len(runs))

    def begin(run: str) -> HeldRun | DrctlError:
        journal = place.journal(beat_s=1)
        together.wait(20)
        try:
            return journal.acquire(holder(run, f"user-{run}"))
        except DrctlError as error:
            return error

    with ThreadPoolExecutor(len(runs)) as pool:
        return list(pool.map(begin, runs))


@pytest.mark.parametrize("attempt", range(2))
def test_of_three_simultaneous_starts_one_wins(place: JournalPlace, attempt: int) -> None:
    place.run("0", "began", "ended")
    came = race(place, ["A", "B", "C"])
    (held,) = [each for each in came if isinstance(each, HeldRun)]
    with held:
        held.append([BEGAN])
        refused = [each for each in came if not isinstance(each, HeldRun)]
        assert [type(each) for each in refused] == [Refused, Refused], refused
        assert all(f"run {held.run}" in each.message for each in refused)
        held.append([ENDED])
    assert place.reader().runs() == (held.run, "0")


def test_of_three_simultaneous_resumes_one_wins(place: JournalPlace) -> None:
    zombie = hanging(place, "A")
    came = race(place, ["A", "A", "A"])
    (held,) = [each for each in came if isinstance(each, HeldRun)]
    with held:
        held.append(named("resumed"))
        refused = [each for each in came if not isinstance(each, HeldRun)]
        assert [type(each) for each in refused] == [Refused, Refused], refused
    zombie.close()
    assert place.words("A") == ["began", "resumed"]


def test_a_transaction_that_a_killed_process_left_open(place: JournalPlace) -> None:
    """It would last half a minute; the next run does not wait for that."""
    with HolderProcess(place, "A") as bert:
        bert.answer()
        bert.append("began")
        end = place.settled_end()
        bert.say("die intend")
        assert bert.ended() == 9
    assert place.end() > end, "the process died before it wrote"
    with place.journal().acquire(holder("A")) as held:
        assert [run_state.parse_line(line).entry["entry"] for line in held.lines] == ["began"]
        held.append([ENDED])
    assert place.words("A") == ["began", "ended"]


def test_a_transaction_left_open_by_another_link_is_awaited(place: JournalPlace) -> None:
    place.run("A", "began", "ended")
    other = place.bench.producer(**{"transactional.id": f"{place.link}-other"})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(place.topic, key=b"other", value=b"x", partition=0)
    assert other.flush(20) == 0
    with ThreadPoolExecutor(1) as pool:
        taking = pool.submit(lambda: place.journal().acquire(holder("B")))
        with pytest.raises(TimeoutError):
            taking.result(5)
        other.abort_transaction(30)
        with taking.result(30) as held:
            held.append([BEGAN, ENDED])
    assert place.words("B") == ["began", "ended"]


class Frozen:
    """A cluster whose brokers hang; a context manager.

    Attributes:
        thawing: set before the first of them continues.
    """

    def __init__(self, cluster: TlsCluster) -> None:
        self._cluster = cluster
        self.thawing = Event()

    def freeze(self) -> None:
        for node in (1, 2):
            self._cluster.signal(node, signal.SIGSTOP)

    def thaw(self) -> None:
        self.thawing.set()
        for node in (1, 2):
            self._cluster.signal(node, signal.SIGCONT)

    def __enter__(self) -> "Frozen":
        return self

    def __exit__(self, *_: object) -> None:
        self.thaw()
        self._cluster.wait_for_brokers(2)


MOMENTS = pytest.mark.parametrize("moment", ["_begin", "_commit"])


def freezing(
    brokers: Frozen, patch: pytest.MonkeyPatch, moment: str, then: Callable[[], object]
) -> None:
    """Pause the brokers when an append reaches this point, and then do something."""
    original: Callable[..., None] = getattr(JournalWriter, moment)

    def late(writer: JournalWriter, *arguments: object) -> None:
        patch.undo()
        brokers.freeze()
        then()
        original(writer, *arguments)

    patch.setattr(JournalWriter, moment, late)


@MOMENTS
def test_brokers_that_hang_for_a_while_are_awaited(
    cluster: TlsCluster, place: JournalPlace, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    with Frozen(cluster) as brokers, place.journal(beat_s=LONG_S).acquire(holder("A")) as held:
        held.append([BEGAN])
        freezing(brokers, monkeypatch, moment, Timer(3, brokers.thaw).start)
        held.append(named("intend"))
        assert brokers.thawing.is_set()
        held.append([ENDED])
    assert place.words("A") == ["began", "intend", "ended"]


@pytest.mark.nightly
@MOMENTS
def test_brokers_that_hang_for_too_long_in_the_middle_of_an_append(
    cluster: TlsCluster, place: JournalPlace, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """After a commit was sent, the brokers decide whether it counts; before it, nothing counts."""
    sent = moment == "_commit"
    with (
        Frozen(cluster) as brokers,
        place.journal(beat_s=LONG_S, timeout_s=2).acquire(holder("A")) as held,
    ):
        held.append([BEGAN])
        freezing(brokers, monkeypatch, moment, lambda: None)
        with pytest.raises(Unknown) as unknown:
            held.append(named("intend"))
        assert unknown.value.exit_code == ExitCode.UNKNOWN
        assert ("cannot tell whether" in unknown.value.message) == sent
        assert "drctl resume A" in unknown.value.hint
        brokers.thaw()
        if sent:
            with pytest.raises(Unknown, match="could not confirm an append"):
                held.append(named("intend"))
    cluster.wait_for_brokers(2)
    with place.journal().acquire(holder("A")) as held:
        held.append([ENDED])
    words = place.words("A")
    assert words == ["began", "ended"] or (sent and words == ["began", "intend", "ended"])
    assert run_state.verify("A", place.reader().lines("A")).complete


def test_a_broker_that_dies_and_returns_is_awaited(
    cluster: TlsCluster, place: JournalPlace
) -> None:
    """The transaction coordinator and the partition leader are each on one of two brokers."""
    with place.journal(beat_s=LONG_S).acquire(holder("A")) as held:
        held.append([BEGAN])
        cluster.signal(2, signal.SIGKILL)
        cluster.start_node(2)
        held.append(named("intend"))
        held.append([ENDED])
    cluster.wait_for_brokers(2)
    assert place.words("A") == ["began", "intend", "ended"]
