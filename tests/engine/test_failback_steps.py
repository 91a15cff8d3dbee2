"""The steps of a failback, each on two logs and one connector in memory."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from drctl.engine.failback_state import Reconciliation, Search, drops_copies, rows
from drctl.engine.kind import Readback, State
from drctl.engine.ports import ConnectorState, LinkReader, LinkWriter, Missing
from drctl.model.errors import Refused
from drctl.model.finding import Finding, Status
from drctl.model.plan import Json
from drctl.model.topology import (
    Overview,
    PartitionOffsets,
    Record,
    TopicPartition,
    TopicState,
    Unavailable,
)
from drctl.model.typed_json import to_json
from drctl.steps.registry import KINDS

PLACE = TopicPartition("orders", 0)
ENDS = {"source": "secondary", "target": "primary"}
COPY = (("__drctl_provenance", b"{}"),)
SEEDS = {**ENDS, "connector": "mm2"}


def log(*keys: str) -> tuple[Record, ...]:
    """Create records with these keys; a trailing star marks a copy made by drctl."""
    return tuple(
        Record(0, n, 1, key.strip("*").encode(), b"", COPY if "*" in key else ())
        for n, key in enumerate(keys)
    )


@dataclass
class Site:
    """A cluster with one partition."""

    name: str
    records: tuple[Record, ...]

    def overview(self) -> Overview:
        return Overview(self.name, {"orders": (0,)})

    def cluster_id(self) -> str:
        return f"id-of-{self.name}"

    def offsets(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, Any]:
        end = len(self.records)
        return {place: PartitionOffsets(0, end, end) for place in places}

    def following(
        self, positions: Mapping[TopicPartition, int], number: int
    ) -> Mapping[TopicPartition, tuple[Record, ...] | Unavailable]:
        return {p: self.records[at : at + number] for p, at in positions.items()}

    def topics(self, names: Collection[str]) -> Mapping[str, TopicState]:
        return {}


@dataclass
class Around:
    """Reader and writer of the steps in one object."""

    sites: dict[str, Site] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=lambda: {"mm2": "STOPPED"})
    settings: dict[str, str] = field(default_factory=dict)
    kept: dict[TopicPartition, int] = field(default_factory=dict)
    reconcile_result: Reconciliation = field(default_factory=lambda: Reconciliation(0))
    found: Missing = field(default_factory=lambda: Missing(0))
    results: tuple[Finding, ...] = ()
    reconciled: int = 0
    workers_of: str = "id-of-secondary"
    trace: str = ""

    def kafka_cluster_id(self) -> str:
        return self.workers_of

    def cluster_reader(self, name: str) -> Site:
        return self.sites[name]

    def reversed(self) -> "Around":
        return self

    def topics(self) -> tuple[str, ...]:
        return ("orders",)

    def target_topic(self, topic: str) -> str:
        return topic

    def connectors(self) -> "Around":
        return self

    def state(self, name: str) -> ConnectorState:
        return ConnectorState(name, self.states[name], self.trace)

    def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
        return [
            {
                "partition": {"cluster": "sec", "topic": place.topic, "partition": 0},
                "offset": {"offset": at},
            }
            for place, at in self.kept.items()
        ]

    def config(self, name: str) -> Mapping[str, str]:
        return self.settings

    def configure(self, name: str, changes: Mapping[str, str | None]) -> None:
        changed = {**self.settings, **changes}
        self.settings = {key: value for key, value in changed.items() if value is not None}

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> None:
        assert self.states[name] == "STOPPED"
        for each in offsets:
            assert each["partition"]["cluster"] == "sec"
            self.kept.pop(PLACE, None)
            if each["offset"] is not None:
                self.kept[PLACE] = each["offset"]["offset"]

    def resume(self, name: str) -> None:
        self.states[name] = "RUNNING"

    def stop(self, name: str) -> None:
        self.states[name] = "STOPPED"

    def reconciliation(self, request: Json) -> Reconciliation:
        return self.reconcile_result

    def reconcile(self, request: Json) -> None:
        self.reconciled += 1

    def proof(self) -> Missing:
        return self.found

    def compared(self, scope: str) -> Missing:
        return self.found

    def findings(self, mode: str) -> Sequence[Finding]:
        return self.results


SEARCH = to_json(Search("gap/main-1", 2, 1, 1, 0, {PLACE: 3}, {PLACE: 1}))


def check(name: str, settings: Json, world: Around, **facts: Json) -> Json:
    known = {key.replace("_", "-"): value for key, value in facts.items()}
    return KINDS[name].check(settings, known, cast(LinkReader, world))


def apply(name: str, intent: Json, world: Around) -> tuple[str, ...]:
    return KINDS[name].apply(intent, cast(LinkWriter, world))


def verify(name: str, intent: Json, world: Around) -> Readback:
    return KINDS[name].verify(intent, cast(LinkReader, world))


def test_a_connector_starts_at_the_boundary_and_is_not_reset() -> None:
    world = Around(settings={"source.cluster.alias": "sec"}, kept={PLACE: 7})
    intent = check("set-start-offsets", SEEDS, world, find_missing=SEARCH)
    assert verify("set-start-offsets", intent, Around(kept={})).state is State.WAITING
    apply("set-start-offsets", intent, world)
    assert world.kept == {PLACE: 0}
    seen = verify("set-start-offsets", intent, world)
    assert (seen.state, seen.facts["from"]) == (State.DONE, [["orders", 0, 1]])
    world.kept[PLACE] = 5
    assert verify("set-start-offsets", intent, world).facts == seen.facts
    KINDS["set-start-offsets"].undo(intent, cast(LinkWriter, world))
    assert world.kept == {PLACE: 5}, "the offsets were reset although the connector had continued"


def test_offsets_of_a_recreated_topic_are_ignored() -> None:
    """The old offset is higher than the start offset: earlier records would be skipped."""
    world = Around(settings={"source.cluster.alias": "sec"}, kept={PLACE: 7})
    intent = check("set-start-offsets", SEEDS, world, find_missing=SEARCH)
    assert verify("set-start-offsets", intent, world).state is State.WAITING
    search = {**SEARCH, "boundaries": [["orders", 0, 0]]}
    intent = check("set-start-offsets", SEEDS, world, find_missing=search)
    assert verify("set-start-offsets", intent, world).state is State.WAITING
    apply("set-start-offsets", intent, world)
    assert verify("set-start-offsets", intent, world).state is State.DONE


def test_at_the_first_offset_there_is_nothing_to_keep() -> None:
    world = Around(settings={"source.cluster.alias": "sec"}, kept={PLACE: 7})
    search = {**SEARCH, "boundaries": [["orders", 0, 0]]}
    apply("set-start-offsets", check("set-start-offsets", SEEDS, world, find_missing=search), world)
    assert world.kept == {}


BEGUN = {**SEARCH, "boundaries": [["orders", 0, 2]], "started": True}


def started(kept: Mapping[TopicPartition, int], alias: str = "sec", *keys: str) -> Around:
    """Records `a` and `b` have been replicated back by a connector that keeps its offsets."""
    sites = {"secondary": Site("secondary", log(*(keys or ("a", "b", "n1", "n2"))))}
    config = {"source.cluster.alias": alias}
    return Around(sites, states={"mm2": "RUNNING"}, settings=config, kept=dict(kept))


@pytest.mark.parametrize(
    "world",
    [
        started({PLACE: 2}),
        started({PLACE: 1}),
        # Excluded records do not advance the stored offset.
        started({PLACE: 0}, "sec", "a", "t1*", "n1"),
        started({PLACE: 0}, "sec", "a", "t1*"),
    ],
)
def test_a_started_failback_continues_from_its_offsets(world: Around) -> None:
    kept = dict(world.kept)
    intent = check("set-start-offsets", SEEDS, world, find_missing=BEGUN)
    apply("set-start-offsets", intent, world)
    assert world.kept == kept
    assert verify("set-start-offsets", intent, world).state is State.DONE


@pytest.mark.parametrize(
    ("world", "first"),
    [(started({}), 0), (started({PLACE: 0}), 1), (started({PLACE: 3}, "other"), 0)],
    ids=["deleted", "set back", "another alias"],
)
def test_a_started_connector_without_offsets_does_not_start_again(
    world: Around, first: int
) -> None:
    resumes = rf"resume at orders-0 offset {first} \(first new record: 2\)"
    with pytest.raises(Refused, match=resumes):
        check("set-start-offsets", SEEDS, world, find_missing=BEGUN)


def test_start_offsets_of_a_running_connector_are_not_set() -> None:
    world = Around(states={"mm2": "RUNNING"})
    with pytest.raises(Refused, match="mm2 is RUNNING"):
        check("set-start-offsets", SEEDS, world, find_missing=SEARCH)


def test_forward_replication_starts_at_the_end_of_its_source_and_is_rolled_back() -> None:
    sites = {"primary": Site("primary", log("a", "b")), "secondary": Site("secondary", log("a"))}
    world = Around(sites, settings={"source.cluster.alias": "sec"}, kept={PLACE: 0})
    settings = {"source": "primary", "target": "secondary", "connector": "mm2"}
    intent = check("set-start-offsets-latest", settings, world)
    apply("set-start-offsets-latest", intent, world)
    assert world.kept == {PLACE: 1}
    facts = verify("set-start-offsets-latest", intent, world).facts
    assert (facts["from"], facts["ends"]) == ([["orders", 0, 2]], [["orders", 0, 1]])
    KINDS["set-start-offsets-latest"].undo(intent, cast(LinkWriter, world))
    assert world.kept == {PLACE: 0}


def test_the_exclude_filter_is_added_after_existing_transforms() -> None:
    before = {"transforms": "mask", "transforms.mask.type": "x", "password": "secret"}
    world = Around(settings=dict(before))
    intent = check("exclude-reconciled-records", {"connector": "mm2"}, world)
    assert "secret" not in str(intent)
    assert verify("exclude-reconciled-records", intent, world).state is State.WAITING
    apply("exclude-reconciled-records", intent, world)
    assert world.settings["transforms"] == "mask,drctlCopies"
    assert drops_copies(world.settings)
    assert verify("exclude-reconciled-records", intent, world).state is State.DONE
    world.states["mm2"] = "UNASSIGNED"
    assert verify("exclude-reconciled-records", intent, world).state is State.WAITING, (
        "the connector is being reassigned"
    )
    world.states["mm2"] = "STOPPED"
    assert check("exclude-reconciled-records", {"connector": "mm2"}, world)["changes"] == {}
    KINDS["exclude-reconciled-records"].undo(intent, cast(LinkWriter, world))
    assert drops_copies(world.settings), "the filter was removed although the copies remain"
    seen = KINDS["exclude-reconciled-records"].verify_undo(intent, cast(LinkReader, world))
    assert (seen.state, seen.leaves_changes) == (State.DONE, True)


STARTS = {**ENDS, "connectors": ["mm2"], "seeded_by": "set-start-offsets"}
SEEDED = {"from": rows({PLACE: 1}), "ends": rows({PLACE: 3})}
PRIMARY_KEYS = ("a", "t1", "t2")


@pytest.mark.parametrize(
    ("secondary", "primary", "state"),
    [
        (("a", "n1", "t1*", "n2"), (*PRIMARY_KEYS, "n1"), State.DONE),
        (("a", "t1*", "n1"), (*PRIMARY_KEYS, "n1"), State.DONE),
        (("a", "n1"), PRIMARY_KEYS, State.WAITING),
        (("a", "t1*"), PRIMARY_KEYS, State.DONE),
        (("a", "n1"), (*PRIMARY_KEYS, "a"), State.FAILED),
        (("a", "t1*", "n1"), (*PRIMARY_KEYS, "t1"), State.FAILED),
        (("a", "t1*"), (*PRIMARY_KEYS, "t1"), State.FAILED),
    ],
)
def test_the_first_copied_record_proves_the_start_offset(
    secondary: tuple[str, ...], primary: tuple[str, ...], state: State
) -> None:
    sites = {
        "secondary": Site("secondary", log(*secondary)),
        "primary": Site("primary", log(*primary)),
    }
    world = Around(sites)
    intent = check("start-replication", STARTS, world, set_start_offsets=SEEDED)
    assert verify("start-replication", intent, world).state is State.WAITING, (
        "the connector is stopped"
    )
    apply("start-replication", intent, world)
    assert verify("start-replication", intent, world).state is state
    KINDS["start-replication"].undo(intent, cast(LinkWriter, world))
    assert world.states == {"mm2": "STOPPED"}
    assert (
        KINDS["start-replication"].verify_undo(intent, cast(LinkReader, world)).state is State.DONE
    )


def test_the_error_of_a_connector_is_reported_while_connect_answers() -> None:
    """The rollback stops the connector; a stopped one has no tasks that report an error."""
    world = Around({"primary": Site("primary", ())}, trace="ConnectException: no; by TopicDenied")
    intent = check("start-replication", STARTS, world, set_start_offsets=SEEDED)
    world.states["mm2"] = "FAILED+RUNNING"
    seen = verify("start-replication", intent, world)
    message = "mm2 is FAILED+RUNNING: ConnectException: no; by TopicDenied"
    assert (seen.state, seen.message) == (State.WAITING, message)


SOURCE_CLASS = {"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}
NAMED = "producer.override.bootstrap.servers"


def start_connector(
    workers: str = "id-of-secondary", changed: Json | None = None, **config: str
) -> None:
    """Start a connector; its configuration is checked again."""
    world = Around({"primary": Site("primary", ())}, workers_of=workers)
    world.settings = {**SOURCE_CLASS, **config}
    check("start-replication", {**STARTS, **(changed or {})}, world, set_start_offsets=SEEDED)


def test_a_connector_that_would_write_to_its_own_source_is_never_started() -> None:
    """Also if its configuration was different at the prechecks."""
    with pytest.raises(Refused, match="would not write to primary") as raised:
        start_connector()
    assert NAMED in (raised.value.hint or "")
    start_connector("id-of-primary")
    start_connector(**{NAMED: "one:9092"})
    start_connector(changed={"writes_overridden": True})


DECIDED = {**ENDS, "policy": "copy", "topics": [], "conflicting": "refuse"}


def test_undecided_records_end_it_before_any_change() -> None:
    world = Around(
        reconcile_result=Reconciliation(1, ("1 conflicting ones: say what becomes of them",))
    )
    for name in ("classify-records", "reconcile"):
        with pytest.raises(Refused, match="conflicting"):
            check(name, DECIDED, world, find_missing=SEARCH)
    nothing = {**SEARCH, "unreplicated": 0}
    assert check("classify-records", DECIDED, world, find_missing=nothing)["due"] == 0


def test_discarded_records_may_be_missing_at_the_end() -> None:
    world = Around(reconcile_result=Reconciliation(2))
    intent = check("reconcile", DECIDED, world, find_missing=SEARCH)
    apply("reconcile", intent, world)
    assert world.reconciled == 1
    assert verify("reconcile", intent, world).state is State.WAITING
    world.reconcile_result = Reconciliation(0, done={"copy": 1, "quarantine": 1})
    facts = verify("reconcile", intent, world).facts
    assert facts["given_up"] == 1

    old = {"source": "primary", "target": "secondary", "forward": True}
    proof = check("verify-forward-copies", old, world, reconcile=facts, find_missing=SEARCH)
    for missing, state in ((1, State.DONE), (2, State.WAITING)):
        world.found = Missing(missing)
        assert verify("verify-forward-copies", proof, world).state is state
    proof = check("verify-copies", {**ENDS, "forward": False}, world, reconcile=facts)
    world.found = Missing(1)
    assert verify("verify-copies", proof, world).state is State.WAITING
    world.found = Missing(0, duplicated=3)
    seen = verify("verify-copies", proof, world)
    assert (seen.state, seen.outstanding) == (State.DONE, "primary holds 3 duplicate records")


def test_existing_duplicates_are_not_outstanding() -> None:
    old = {"source": "primary", "target": "secondary", "forward": True}
    world = Around(found=Missing(0, duplicated=3))
    intent = check("verify-forward-copies", old, world, find_missing={**SEARCH, "duplicated": 3})
    assert verify("verify-forward-copies", intent, world).outstanding == ""


def test_without_undecided_records_it_is_done() -> None:
    world = Around()
    intent = check("reconcile", DECIDED, world, find_missing={**SEARCH, "unreplicated": 0})
    apply("reconcile", intent, world)
    assert (world.reconciled, verify("reconcile", intent, world).state) == (0, State.DONE)


def test_a_small_backlog_does_not_block() -> None:
    intent = check("wait-for-catch-up", {**ENDS, "scope": "tail", "at_most": 5}, Around())
    for found, state in (
        (Missing(5), State.DONE),
        (Missing(6), State.WAITING),
        (Missing(0, ("orders-0: it was not read",)), State.WAITING),
    ):
        assert verify("wait-for-catch-up", intent, Around(found=found)).state is state


def test_a_connector_that_stops_copying_is_named_during_the_wait() -> None:
    settings = {**ENDS, "scope": "tail", "at_most": 5, "connectors": ["mm2"]}
    world = Around(found=Missing(6), trace="ConnectException: it ended")
    intent = check("wait-for-catch-up", settings, world)
    for state, suffix in (
        ("RUNNING", ""),
        ("FAILED", "; mm2 is FAILED: ConnectException: it ended"),
    ):
        world.states["mm2"] = state
        assert verify("wait-for-catch-up", intent, world).message.endswith(
            f"not replicated yet{suffix}"
        )


def test_order_violations_refuse_and_repaired_ones_do_not() -> None:
    settings: dict[str, Any] = {"target": "primary", "overrides": {}}
    warned = Finding("step-order", Status.WARN, "step b", "the old replication runs")
    assert len(check("failback-order", settings, Around(results=(warned,)))["warnings"]) == 1
    failed = Finding(
        "step-order", Status.FAIL, "step f", "it began at the beginning", remedy="look"
    )
    with pytest.raises(Refused, match="began at the beginning"):
        check("failback-order", settings, Around(results=(failed,)))
    passed = {**settings, "overrides": {"step-order": "it is known"}}
    check("failback-order", passed, Around(results=(failed,)))
    lost = Finding(
        "source-lost", Status.FAIL, "primary", "it has lost records", remedy="rebuild it"
    )
    with pytest.raises(Refused, match="has lost records"):
        check("failback-order", passed, Around(results=(lost,)))
