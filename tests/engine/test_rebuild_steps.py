"""The steps that only a rebuild has, each on clusters in memory."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import cast

import pytest

from drctl.engine.failback_state import Search, filter_to_add, without_own_filter
from drctl.engine.kind import Readback, State
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.plan import Json
from drctl.model.topology import PartitionOffsets, Record, TopicPartition
from drctl.model.typed_json import to_json
from drctl.steps import first_records
from drctl.steps.first_records import is_prefix_copied_by
from drctl.steps.rebuild import wrong_partition_counts
from drctl.steps.registry import KINDS
from drctl.steps.stop_replication import RUNNING
from tests.engine.connect_workers import Connector
from tests.engine.emptied_cluster import QUESTION, RebuiltCluster, cut, wiped
from tests.engine.memory_clusters import COPY, Logs, record
from tests.engine.pair import AUDIT, BACK, ORDERS, PRIMARY, SECONDARY, PersonAction
from tests.engine.processes import MemoryReader, Process

Records = Mapping[TopicPartition, tuple[Record, ...]]
ENDS = {"source": SECONDARY, "target": PRIMARY}
SEEDS = {**ENDS, "connector": BACK}
QUIETLY = {"cluster": PRIMARY, "source": SECONDARY}
ASKING = {**QUIETLY, "question": QUESTION, "text": "empty it"}
STARTS = {**ENDS, "connectors": [BACK], "seeded_by": "set-start-offsets-earliest"}


def unfiltered(pair: RebuiltCluster) -> RebuiltCluster:
    """The connector of the rebuild also replicates records that drctl reconciled."""
    back = pair.workers.connectors[BACK]
    back.config = without_own_filter(back.config)
    return pair


def look(pair: RebuiltCluster) -> LinkReader:
    return cast(LinkReader, Process(pair).reader)


def check(name: str, settings: Json, pair: RebuiltCluster, **facts: Json) -> Json:
    known = {key.replace("_", "-"): value for key, value in facts.items()}
    return KINDS[name].check(settings, known, look(pair))


def verify(name: str, intent: Json, pair: RebuiltCluster) -> Readback:
    return KINDS[name].verify(intent, look(pair))


def apply(name: str, intent: Json, pair: RebuiltCluster) -> None:
    KINDS[name].apply(intent, cast(LinkWriter, Process(pair).writer))


def test_an_empty_cluster_needs_no_confirmation() -> None:
    pair = wiped()
    pair.manual_actions.clear()
    intent = check("empty-recovered", QUIETLY, pair)
    assert verify("empty-recovered", intent, pair).state is State.DONE
    pair.home.append(ORDERS, record("o1"))
    assert verify("empty-recovered", intent, pair).state is State.DONE, (
        "a later record counts as a remaining one"
    )


def test_records_written_after_the_plan_refuse_it() -> None:
    with pytest.raises(Refused, match="orders-0 holds records from offset 0 on"):
        check("empty-recovered", QUIETLY, cut())


def test_old_records_count_as_deleted_whatever_was_copied_since() -> None:
    pair = cut()
    intent = check("empty-recovered", ASKING, pair)
    pair.manual_actions[QUESTION] = PersonAction(lambda: None, lambda: True)
    seen = verify("empty-recovered", intent, pair)
    assert (seen.state, seen.items) == (State.WAITING, ("orders-0 holds records from offset 0 on",))
    pair.empty()
    assert verify("empty-recovered", intent, pair).state is State.DONE
    for key in ("o1", "o2", "o3", "o4"):
        pair.home.append(ORDERS, record(key))
    assert verify("empty-recovered", intent, pair).state is State.DONE


def test_deleted_records_count_as_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = cut()
    intent = check("empty-recovered", ASKING, pair)
    logs = {ORDERS: PartitionOffsets(3, 5, 5), AUDIT: PartitionOffsets(0, 0, 0)}
    monkeypatch.setattr(pair.home, "offsets", lambda places: {p: logs[p] for p in places})
    assert verify("empty-recovered", intent, pair).state is State.DONE
    logs[ORDERS] = PartitionOffsets(2, 5, 5)
    pair.manual_actions[QUESTION] = PersonAction(lambda: None, lambda: True)
    assert verify("empty-recovered", intent, pair).state is State.WAITING


def test_an_extra_partition_must_be_deleted() -> None:
    """Keys would map to other partitions than on the surviving cluster."""
    pair = wiped()
    pair.home.logs[TopicPartition("orders", 1)] = []
    pair.home.logs[ORDERS] = []
    with pytest.raises(Refused, match="orders has 2 partitions, and replication needs 1"):
        check("empty-recovered", QUIETLY, pair)


def test_renamed_topics_must_exist_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """MirrorMaker 2 creates the topic that its policy names, and records go to another topic."""
    pair = wiped()
    monkeypatch.setattr(MemoryReader, "target_topic", lambda self, topic: f"{topic}-at-home")
    expected = (
        "audit-at-home has 0 partitions; replication does not recreate this topic: create it with 1"
        " partition"
    )
    assert next(iter(wrong_partition_counts(SECONDARY, PRIMARY, look(pair)))) == expected
    for place in (AUDIT, ORDERS):
        pair.home.logs[TopicPartition(f"{place.topic}-at-home", 0)] = []
    assert not list(wrong_partition_counts(SECONDARY, PRIMARY, look(pair)))


def test_a_connector_starts_at_the_beginning_and_is_read_back() -> None:
    pair = unfiltered(wiped())
    back = pair.workers.connectors[BACK]
    intent = check("set-start-offsets-earliest", SEEDS, pair)
    seen = verify("set-start-offsets-earliest", intent, pair)
    assert (seen.state, len(seen.items)) == (State.WAITING, 2)
    apply("set-start-offsets-earliest", intent, pair)
    assert back.kept == {}
    assert verify("set-start-offsets-earliest", intent, pair).facts["whole"] is True
    # The stored offset is as high as before the reset: the replicated records prove the reset.
    for place, log in pair.away.logs.items():
        for each in log:
            pair.home.append(place, each)
    back.kept = {AUDIT: 0, ORDERS: 6}
    assert verify("set-start-offsets-earliest", intent, pair).state is State.DONE


def test_only_drctls_own_filter_is_removed() -> None:
    pair = wiped()
    back = pair.workers.connectors[BACK]
    settings = {"connector": BACK}
    intent = check("include-reconciled-records", settings, pair)
    assert verify("include-reconciled-records", intent, pair).state is State.WAITING
    apply("include-reconciled-records", intent, pair)
    assert verify("include-reconciled-records", intent, pair).state is State.DONE
    assert back.config == {"source.cluster.alias": "sec", "transforms": "mask"}
    KINDS["include-reconciled-records"].undo(intent, cast(LinkWriter, Process(pair).writer))
    assert back.config["transforms"] == "mask", (
        "the filter was restored although the emptied cluster needs the copies"
    )
    back.config = {**filter_to_add({}), "transforms": "ours", "predicates": "ours"}
    for key in [key for key in back.config if ".drctlCopies." in key]:
        back.config[key.replace("drctlCopies", "ours")] = back.config.pop(key)
    back.config["transforms.ours.predicate"] = "ours"
    intent = check("include-reconciled-records", settings, pair)
    assert intent["changes"] == {}
    assert verify("include-reconciled-records", intent, pair).state is State.WAITING


def test_a_running_or_filtering_connector_does_not_start() -> None:
    pair = wiped()
    back = pair.workers.connectors[BACK]
    pair.workers.connectors[BACK] = replace(back, state=RUNNING, wanted=RUNNING)
    with pytest.raises(Refused, match="is RUNNING"):
        check("set-start-offsets-earliest", SEEDS, pair)
    pair.workers.connectors[BACK] = back
    with pytest.raises(Refused, match="excludes records that drctl copied"):
        check("set-start-offsets-earliest", SEEDS, pair)


def started(pair: RebuiltCluster) -> Json:
    """Return the intent of starting the connector that replicates everything."""
    seeded = {**check("set-start-offsets-earliest", SEEDS, unfiltered(pair)), "whole": True}
    intent = check("start-replication", STARTS, pair, set_start_offsets_earliest=seeded)
    for name in (BACK, "mm2"):
        old = pair.workers.connectors[name]
        pair.workers.connectors[name] = Connector(old.source, old.target, RUNNING, RUNNING)
    return intent


def test_the_first_record_may_be_a_reconciled_copy() -> None:
    pair = wiped()
    pair.away.logs[AUDIT] = [replace(record("a1"), offset=0, headers=COPY)]
    intent = started(pair)
    assert verify("start-replication", intent, pair).state is State.WAITING
    pair.home.append(AUDIT, record("a1", COPY))
    pair.home.append(ORDERS, record("o1"))
    assert verify("start-replication", intent, pair).state is State.DONE


def test_a_different_first_record_is_not_the_beginning() -> None:
    pair = wiped()
    intent = started(pair)
    pair.home.append(ORDERS, record("o3"))
    assert verify("start-replication", intent, pair).state is State.FAILED


def test_deleted_oldest_records_leave_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = wiped()
    intent = started(pair)
    pair.home.append(ORDERS, record("o1"))
    pair.home.append(AUDIT, record("a1"))
    first, known = pair.away.following, pair.away.offsets
    monkeypatch.setattr(
        pair.away, "following", lambda at, n: first({p: max(o, 1) for p, o in at.items()}, n)
    )
    assert verify("start-replication", intent, pair).state is State.FAILED
    monkeypatch.setattr(
        pair.away,
        "offsets",
        lambda places: {p: replace(o, log_start=1) for p, o in known(places).items()},  # type: ignore[type-var]
    )
    assert verify("start-replication", intent, pair).state is State.DONE


def interrupted(after_failback: int = 3) -> RebuiltCluster:
    """The connector was stopped after this many records, and keeps its offsets."""
    pair = unfiltered(wiped())
    for place in (AUDIT, ORDERS):
        for each in pair.away.logs[place][:after_failback]:
            pair.home.append(place, each)
    back = pair.workers.connectors[BACK]
    back.kept = {p: len(log) - 1 for p, log in pair.home.logs.items()}
    return pair


BEGUN = {**ASKING, "connector": BACK}
NOTHING_ALONE = to_json(Search("", 0, 0, 0, 0, {}, {}))


def test_records_copied_by_an_interrupted_run_are_kept() -> None:
    pair = interrupted()
    pair.manual_actions.clear()
    intent = check("empty-recovered", BEGUN, pair, find_missing=NOTHING_ALONE)
    seen = verify("empty-recovered", intent, pair)
    assert (seen.state, seen.facts) == (State.DONE, {"started": True})
    kept = dict(pair.workers.connectors[BACK].kept)
    seeds = check("set-start-offsets-earliest", SEEDS, pair, empty_recovered=seen.facts)
    apply("set-start-offsets-earliest", seeds, pair)
    assert pair.workers.connectors[BACK].kept == kept
    facts = verify("set-start-offsets-earliest", seeds, pair).facts
    starts = check("start-replication", STARTS, pair, set_start_offsets_earliest=facts)
    apply("start-replication", starts, pair)
    pair.tick()
    assert verify("start-replication", starts, pair).state is State.DONE
    assert pair.home.all_keys() == pair.away.all_keys()


def forgets(pair: RebuiltCluster) -> None:
    """The connector has no offset for a partition that has records."""
    del pair.workers.connectors[BACK].kept[ORDERS]


def keeps_more(pair: RebuiltCluster) -> None:
    """The connector would continue after records that are not there."""
    pair.workers.connectors[BACK].kept[ORDERS] += 1


def keeps_less(pair: RebuiltCluster) -> None:
    """The connector would replicate the last record twice."""
    pair.workers.connectors[BACK].kept[ORDERS] -= 1


def another_beginning(pair: RebuiltCluster) -> None:
    """The first record is not on the surviving cluster."""
    pair.home.logs[ORDERS][0] = replace(record("x"), offset=0)


def another_end(pair: RebuiltCluster) -> None:
    """Someone wrote the last record."""
    pair.home.logs[ORDERS][-1] = replace(record("x"), offset=2)


def another_partition(pair: RebuiltCluster) -> None:
    """The surviving cluster has no such partition."""
    pair.home.append(TopicPartition("orders", 1), record("o1"))


def one_came_twice(pair: RebuiltCluster) -> None:
    """Connect was killed and replicated the newest record again."""
    pair.home.append(ORDERS, pair.home.logs[ORDERS][-1])


@pytest.mark.parametrize(
    "wrong",
    [
        forgets,
        keeps_more,
        keeps_less,
        another_beginning,
        another_end,
        another_partition,
        one_came_twice,
    ],
)
def test_foreign_records_are_deleted(wrong: Callable[[RebuiltCluster], None]) -> None:
    pair = interrupted()
    wrong(pair)
    assert not is_prefix_copied_by(BACK, SECONDARY, PRIMARY, look(pair))
    assert check("empty-recovered", BEGUN, pair, find_missing=NOTHING_ALONE)["held"]


def test_a_running_connector_reports_its_offsets_late() -> None:
    pair = interrupted()
    back = pair.workers.connectors[BACK]
    back.kept[ORDERS] = 1
    assert not is_prefix_copied_by(BACK, SECONDARY, PRIMARY, look(pair))
    back.state = back.wanted = RUNNING
    assert is_prefix_copied_by(BACK, SECONDARY, PRIMARY, look(pair))
    back.kept[ORDERS] = 4
    assert not is_prefix_copied_by(BACK, SECONDARY, PRIMARY, look(pair))


def with_markers(site: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record is followed by a transaction marker: every second offset is a gap."""
    plain, known = site.following, site.offsets

    def following(at: Mapping[TopicPartition, int], number: int) -> Records:
        found = plain({place: (offset + 1) // 2 for place, offset in at.items()}, number)
        return {
            place: tuple(replace(each, offset=2 * each.offset) for each in records)
            for place, records in found.items()
        }

    def offsets(places: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionOffsets]:
        found = known(list(places))
        return {
            place: PartitionOffsets(0, 2 * log.end, 2 * log.end) for place, log in found.items()
        }

    monkeypatch.setattr(site, "following", following)
    monkeypatch.setattr(site, "offsets", offsets)


@pytest.fixture
def holed(monkeypatch: pytest.MonkeyPatch) -> RebuiltCluster:
    """The surviving cluster has transaction markers, which are not replicated."""
    pair = interrupted()
    back = pair.workers.connectors[BACK]
    back.kept = {place: 2 * at for place, at in back.kept.items()}
    with_markers(pair.away, monkeypatch)
    return pair


def test_logs_with_offset_gaps_are_compared_record_by_record(
    holed: RebuiltCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_records, "_AT_ONCE", 2)
    assert is_prefix_copied_by(BACK, SECONDARY, PRIMARY, look(holed))
    intent = check("empty-recovered", BEGUN, holed, find_missing=NOTHING_ALONE)
    assert intent["started"] is True


def another_in_the_middle(pair: RebuiltCluster) -> None:
    """One of the records is not on the surviving cluster."""
    pair.home.logs[ORDERS][1] = replace(record("x"), offset=1)


def one_is_left_out(pair: RebuiltCluster) -> None:
    """One record is missing, the next ones are there."""
    del pair.home.logs[ORDERS][1]


@pytest.mark.parametrize(
    "wrong",
    [
        *(forgets, keeps_more, keeps_less, another_beginning, another_in_the_middle),
        *(another_end, another_partition, one_came_twice, one_is_left_out),
    ],
)
def test_foreign_records_in_logs_with_offset_gaps_are_deleted(
    wrong: Callable[[RebuiltCluster], None], holed: RebuiltCluster
) -> None:
    wrong(holed)
    assert not is_prefix_copied_by(BACK, SECONDARY, PRIMARY, look(holed))


def test_too_many_records_to_compare_are_deleted(
    holed: RebuiltCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_records, "MOST", 2)
    assert not is_prefix_copied_by(BACK, SECONDARY, PRIMARY, look(holed))


def test_records_only_on_the_cluster_prevent_keeping_the_rest() -> None:
    pair = interrupted()
    found = to_json(Search("", 1, 1, 0, 0, {}, {}))
    assert check("empty-recovered", BEGUN, pair, find_missing=found)["started"] is False
    assert check("empty-recovered", ASKING, pair, find_missing=NOTHING_ALONE)["started"] is False
