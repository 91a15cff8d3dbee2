"""One scenario of requests, for the simulated parts and for the real ones: both must answer alike.

The requests go through drctl's own ports. Applications, and other people, act beside them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from drctl.engine.ports import LinkReader, LinkWriter
from drctl.kafka.journal_topic import HeldRun
from drctl.model.endpoints import EndpointMoved
from drctl.model.errors import DrctlError, UsageError
from drctl.model.fencing import LITERAL, Denied, Topics, denials
from drctl.model.groups import Committed, Group, GroupProtocol
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from drctl.steps.enable_writes import PROBE_TOPIC
from drctl.steps.stop_replication import PAUSED, RUNNING, STOPPED

NO_CONNECTOR = "no-such-connector"
BEGAN = {"entry": "began", "plan": "ä"}
ENDED = {"entry": "ended", "status": "done"}


class Seen(NamedTuple):
    """What came of a request, and what has to come of it on either side."""

    request: str
    found: object
    wanted: object


class Side(Protocol):
    """Both clusters of a link, simulated or real, and what runs beside drctl.

    Attributes:
        principal: the application that the fence denies.
        places: two partitions that the connector replicates.
        group: a group that nobody has used; `new_group`: another one.
    """

    source: str
    target: str
    principal: str
    places: tuple[TopicPartition, TopicPartition]
    group: str
    new_group: str
    connector: str

    @property
    def reader(self) -> LinkReader:
        """What steps read."""

    @property
    def writer(self) -> LinkWriter:
        """What steps change."""

    def soon(self, seen: Callable[[], bool]) -> bool:
        """Wait until it is so; False if it does not happen in time."""

    def write(self, cluster: str, place: TopicPartition, *keys: str) -> int:
        """Write records as the application; return how many were acknowledged."""

    def transaction(
        self, cluster: str, place: TopicPartition, keys: Sequence[str], *, commit: bool
    ) -> None:
        """Write records in a transaction, and end it."""

    def open_transaction(
        self, cluster: str, place: TopicPartition, key: str
    ) -> AbstractContextManager[object]:
        """A record in a transaction that is open during the block, and is aborted."""

    def member(self, cluster: str) -> AbstractContextManager[object]:
        """A member of the group."""

    def direct_to(self, cluster: str) -> None:
        """Somebody switches the endpoint."""

    def acquire(self, run: str, *, resume: bool = False, abandoning: str = "") -> HeldRun:
        """Another drctl acquires the link."""

    def hang(self, held: HeldRun) -> None:
        """Its process sends no more heartbeats."""

    def runs(self) -> Sequence[str]:
        """The runs of the journal, the newest first."""


def observed(side: Side) -> Iterator[Seen]:
    """Send the requests one after the other."""
    for scene in SCENES:
        for seen in scene(side):
            yield seen._replace(request=f"{scene.__name__.strip('_')}: {seen.request}")


def differences(side: Side) -> list[Seen]:
    """Return the answers that are not as they have to be; at the end, that all were asked."""
    seen = [*observed(side)]
    assert len(seen) > 60
    return [each for each in seen if each.found != each.wanted]


def _outcome(do: Callable[[], object]) -> str:
    """Return the error as which a request ends; empty if it succeeds."""
    try:
        do()
    except DrctlError as error:
        return type(error).__name__
    return ""


def _failed(answers: Mapping[Any, object]) -> list[bool]:
    """Return for each answer whether it is a failure."""
    return [isinstance(each, Unavailable) for each in answers.values()]


def _journal(side: Side) -> Iterator[Seen]:
    first = side.acquire("r1")
    first.append([BEGAN])
    refused = "Refused"
    yield Seen("new run, holder alive", _outcome(lambda: side.acquire("r2")), refused)
    same = _outcome(lambda: side.acquire("r1", resume=True))
    yield Seen("same run, holder alive", same, refused)
    first.append([{"entry": "intend"}])
    side.hang(first)
    yield Seen("new run, one unfinished", _outcome(lambda: side.acquire("r2")), refused)
    absent = _outcome(lambda: side.acquire("r9", resume=True))
    yield Seen("resume an unknown run", absent, "UsageError")
    second = side.acquire("r1", resume=True)
    yield Seen("lines of the resumed run", len(second.lines), 2)
    second.append([{"entry": "resumed"}])
    lost = _outcome(lambda: first.append([ENDED]))
    yield Seen("append as the fenced holder", lost, "Fenced")
    yield Seen("check as the fenced holder", _outcome(first.check), "Fenced")
    second.append([ENDED])
    second.close()
    over = _outcome(lambda: side.acquire("r1", resume=True))
    yield Seen("resume a run that has ended", over, refused)
    third = side.acquire("r2")
    third.append([BEGAN])
    side.hang(third)
    fourth = side.acquire("r2", abandoning="r2")
    fourth.append([ENDED])
    fourth.close()
    side.acquire("r3").close()
    yield Seen("runs", list(side.runs()), ["r2", "r1"])
    for held in (first, third):
        held.close()


def _endpoint(side: Side) -> Iterator[Seen]:
    reader, writer = side.reader.endpoint(0), side.writer.endpoint(0)
    side.direct_to(side.source)
    before = reader.observe()
    yield Seen("at first", before.cluster, side.source)
    for time in ("once", "twice"):
        writer.switch(side.target, before)
        yield Seen(f"switched {time}", reader.observe().cluster, side.target)
    for time in ("once", "twice"):
        writer.restore(before)
        yield Seen(f"restored {time}", reader.observe().cluster, side.source)
    side.direct_to(side.target)
    moved = _outcome(lambda: writer.switch(side.source, before))
    yield Seen("it was moved by somebody", moved, EndpointMoved.__name__)
    stale = reader.observe()
    side.direct_to(side.target)
    writer.switch(side.source, stale)
    yield Seen("switched back", reader.observe().cluster, side.source)
    other = before.__class__("another endpoint", side.source, "")
    wrong = _outcome(lambda: writer.switch(side.target, other))
    yield Seen("the state of another endpoint", wrong, EndpointMoved.__name__)


def _producer_ids(side: Side) -> Iterator[Seen]:
    reader = side.reader.producer_ids(side.target)
    writer = side.writer.producer_ids(side.target)

    def least() -> int:
        ids = [each for each in reader.next_ids().values() if isinstance(each, int)]
        return min(ids)

    first = least()
    yield Seen("ids ascend", least() > first, True)
    beyond = least() + 50

    def done() -> bool:
        answers = writer.advance(beyond).values()
        return all(not isinstance(each, Unavailable) and each.done for each in answers)

    yield Seen("advanced", side.soon(done), True)
    yield Seen("the next id is higher", least() > beyond, True)


def _probe(side: Side) -> Iterator[Seen]:
    side.writer.probe_record(side.target).write_probe(PROBE_TOPIC, f"probe of {side.group}")

    def readable(text: str) -> bool:
        return side.reader.probe_readable(side.target, PROBE_TOPIC, text)

    yield Seen("written", side.soon(lambda: readable(f"probe of {side.group}")), True)
    yield Seen("another one", readable(f"no probe of {side.group}"), False)


def _groups(side: Side) -> Iterator[Seen]:
    reader, writer, name = side.reader.groups(side.target), side.writer, side.group
    first, second = side.places

    def committed() -> list[int | None]:
        found = reader.committed([name])[name]
        assert not isinstance(found, Unavailable)
        return [found[each].offset if each in found else None for each in side.places]

    def commit(*offsets: int) -> list[bool]:
        wanted = dict(zip(side.places, map(Committed, offsets), strict=False))
        return _failed(writer.groups(side.target).commit({name: wanted})[name])

    def delete(*places: TopicPartition) -> list[bool]:
        return _failed(writer.groups(side.target).delete({name: places})[name])

    def is_active() -> bool:
        found = reader.described([name])[name]
        return isinstance(found, Group) and found.active

    yield Seen("nothing is committed", committed(), [None, None])
    yield Seen("commit", commit(3, 4), [False, False])
    yield Seen("committed", committed(), [3, 4])
    yield Seen("commit one", commit(2), [False])
    yield Seen("the other stays", committed(), [2, 4])
    with side.member(side.target):
        yield Seen("a member has joined", side.soon(is_active), True)
        yield Seen("commit to an active group", commit(7, 7), [True, True])
        yield Seen("delete from an active group", delete(first, second), [True, True])
        yield Seen("nothing was changed", committed(), [2, 4])
    yield Seen("the member has left", side.soon(lambda: not is_active()), True)
    yield Seen("delete", delete(second), [False])
    yield Seen("deleted", committed(), [2, None])
    created = writer.group_creator(side.target).create([side.new_group])
    yield Seen("create a group", _failed(created), [False])

    def protocol() -> GroupProtocol | None:
        found = reader.described([side.new_group])[side.new_group]
        return found.protocol if isinstance(found, Group) and not found.active else None

    created = side.soon(lambda: protocol() is GroupProtocol.CONSUMER)
    yield Seen("its protocol", created, True)


def _fence(side: Side) -> Iterator[Seen]:
    (place, _), name = side.places, side.source
    topics = sorted({each.topic for each in side.places})
    rules = denials([side.principal], [Topics(t, LITERAL) for t in topics], [Denied.WRITE])
    reader, writer = side.reader.acls(name), side.writer.acls(name)
    kept = [False] * len(rules)
    yield Seen("an application writes", side.write(name, place, "f1"), 1)
    yield Seen("nothing is denied", reader.enforcement(rules, topics).proven, False)
    yield Seen("all is lifted", reader.lifted(rules, topics).proven, True)
    for time in ("once", "twice"):
        yield Seen(f"deny {time}", _failed(writer.deny(rules)), kept)
    denied = side.soon(lambda: reader.enforcement(rules, topics).proven)
    yield Seen("every broker denies", denied, True)
    listed = reader.acls()
    assert not isinstance(listed, Unavailable)
    yield Seen("listed", set(rules) <= set(listed.rules), True)
    yield Seen("the application is refused", side.write(name, place, "refused"), 0)
    proof = side.reader.fence(name, 0.1).prove(rules, topics)
    yield Seen("nothing is written", (proof.proven, len(proof.no_writes.moved)), (True, 0))
    for time in ("once", "twice"):
        yield Seen(f"lift {time}", _failed(writer.restore(rules)), kept)
    lifted = side.soon(lambda: reader.lifted(rules, topics).proven)
    yield Seen("no broker denies", lifted, True)
    yield Seen("the application writes again", side.write(name, place, "f2"), 1)


def _replication(side: Side) -> Iterator[Seen]:
    reader, writer, name = side.reader.connectors(), side.writer.connectors(), side.connector
    first, second = side.places

    def copies() -> dict[TopicPartition, list[str]]:
        return {each: _keys(side, side.target, each) for each in side.places}

    def is_in(state: str) -> bool:
        return side.soon(lambda: reader.state(name).state == state)

    def offsets() -> dict[TopicPartition, int]:
        rows = ((row["partition"], row["offset"]["offset"]) for row in reader.offsets(name))
        return {TopicPartition(at["topic"], at["partition"]): offset for at, offset in rows}

    def at(place: TopicPartition, offset: int | None) -> Mapping[str, Any]:
        cluster = reader.offsets(name)[0]["partition"]["cluster"]
        partition = {"cluster": cluster, "topic": place.topic, "partition": place.partition}
        return {"partition": partition, "offset": None if offset is None else {"offset": offset}}

    yield Seen("it runs", is_in(RUNNING), True)
    written = [side.write(side.source, each, "a", "b") for each in side.places]
    yield Seen("written", written, [2, 2])
    copied = {first: ["f1", "f2", "a", "b"], second: ["a", "b"]}
    there = side.soon(
        lambda: {each: _keys(side, side.target, each) for each in side.places} == copied
    )
    yield Seen("it copies in order", there, True)
    yield Seen("all is there", _missing(side), 0)
    refused = _outcome(lambda: writer.alter_offsets(name, [at(first, 0)]))
    yield Seen("set offsets of a running connector", bool(refused), True)
    writer.pause(name)
    yield Seen("paused", is_in(PAUSED), True)
    yield Seen("a paused connector has tasks", reader.tasks(name).any, True)
    for time in ("once", "twice"):
        writer.stop(name)
        yield Seen(f"stopped {time}", is_in(STOPPED), True)
    yield Seen("it has no tasks", reader.tasks_left([name], 0), [])
    kept = {first: 3, second: 1}
    yield Seen("offsets of the last copies", side.soon(lambda: offsets() == kept), True)
    yield Seen("written while stopped", side.write(side.source, first, "c", "d"), 2)
    yield Seen("not copied", (_offsets(side, side.target, first).end, _missing(side)), (4, 2))
    writer.configure(name, {"tasks.max": "2", "transforms": None})
    config = reader.config(name)
    yield Seen("configured", (config["tasks.max"], "transforms" in config), ("2", False))
    writer.alter_offsets(name, [at(first, 4), at(second, None)])
    yield Seen("offsets that were set", offsets(), {first: 4})
    writer.resume(name)
    yield Seen("resumed", is_in(RUNNING), True)
    copied = {first: ["f1", "f2", "a", "b", "d"], second: ["a", "b", "a", "b"]}
    there = side.soon(
        lambda: {each: _keys(side, side.target, each) for each in side.places} == copied
    )
    yield Seen("it skips, and copies again from the start", there, True)
    yield Seen("the skipped record is missing", _missing(side), 1)
    for what in ("state", "tasks", "config", "offsets"):
        outcome = _outcome(lambda what=what: getattr(reader, what)(NO_CONNECTOR))  # type: ignore[misc]
        yield Seen(
            f"{what} of no connector", outcome in ("NoSuchConnector", UsageError.__name__), True
        )


def _transactions(side: Side) -> Iterator[Seen]:
    _, place = side.places
    source, before = side.source, _keys(side, side.target, place)
    at = _offsets(side, source, place).end
    side.transaction(source, place, ["t:1", "t:2"], commit=False)
    # The coordinator writes control records after it has answered.
    ended = side.soon(lambda: _offsets(side, source, place).end == at + 3)
    yield Seen("an aborted one has a control record", ended, True)
    side.transaction(source, place, ["t:3"], commit=True)
    ended = side.soon(lambda: _offsets(side, source, place).end == at + 5)
    yield Seen("a committed one, too", ended, True)
    yield Seen("aborted records are not read", _keys(side, source, place)[-2:], ["b", "t:3"])
    copied = [*before, "t:1", "t:2", "t:3"]
    there = side.soon(lambda: _keys(side, side.target, place) == copied)
    yield Seen("copies of aborted records are ordinary records", there, True)
    yield Seen("they are not missing", _missing(side), 1)
    with side.open_transaction(source, place, "t:4"):
        found = _offsets(side, source, place)
        yield Seen("an open one", (found.last_stable, found.end), (at + 5, at + 6))
        opened = side.reader.health(source).open_transactions([place])[place]
        assert not isinstance(opened, Unavailable)
        yield Seen("where it began", [each.since for each in opened], [at + 5])
        yield Seen("it may be hanging", [bool(each.hanging) for each in opened], [False])
        yield Seen("its record is not read", _keys(side, source, place)[-1], "t:3")
        there = side.soon(lambda: _keys(side, side.target, place) == [*copied, "t:4"])
        yield Seen("its record is copied", there, True)
    closed = side.soon(lambda: _offsets(side, source, place).last_stable == at + 7)
    yield Seen("a control record ends it", closed, True)
    yield Seen("nothing is open", dict(side.reader.health(source).open_transactions([place])), {})


SCENES = (
    *(_journal, _endpoint, _producer_ids, _probe, _groups),
    *(_fence, _replication, _transactions),
)


def _offsets(side: Side, cluster: str, place: TopicPartition) -> PartitionOffsets:
    found = side.reader.cluster_reader(cluster).offsets([place])[place]
    assert isinstance(found, PartitionOffsets)
    return found


def _keys(side: Side, cluster: str, place: TopicPartition) -> list[str]:
    """The keys of the committed records of a partition."""
    found = side.reader.cluster_reader(cluster).following({place: 0}, 1000)[place]
    assert not isinstance(found, Unavailable)
    return [(each.key or b"").decode() for each in found]


def _missing(side: Side) -> int:
    return side.reader.compared("full").records


def text(wrong: Iterable[Seen]) -> str:
    """Return the differences as text."""
    return "\n".join(f"{each.request}: {each.found}, not {each.wanted}" for each in wrong)
