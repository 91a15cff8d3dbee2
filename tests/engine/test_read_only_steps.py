"""Steps that only read: prechecks by name, wait conditions, gaps."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from drctl.engine.kind import Readback, State
from drctl.engine.ports import ConnectorState, LinkReader, LinkWriter, Missing
from drctl.model.errors import Refused, Unreachable
from drctl.model.finding import Finding, Status
from drctl.model.groups import Group, GroupProtocol, GroupState, Member
from drctl.model.topology import TopicState, Unavailable
from drctl.steps.registry import KINDS
from drctl.steps.waiting import CONDITIONS
from tests.engine.toggles import Blind

SETTINGS = {"source": "primary", "target": "secondary", "connectors": ["mm2"]}


@dataclass
class Two:
    """Two clusters, with all their readers in one object."""

    silent: frozenset[str] = frozenset()
    leaders: Mapping[int, int | None] = field(default_factory=lambda: {0: 1})
    members: tuple[Member, ...] = ()
    missing_records: Missing = field(default_factory=lambda: Missing(0))
    connector: str = "RUNNING"
    results: tuple[Finding, ...] = ()
    name: str = ""
    asked: list[str] = field(default_factory=list)

    def cluster_reader(self, name: str) -> "Two":
        self.name = name
        return self

    def live_cluster_id(self, name: str) -> str:
        return self.cluster_reader(name).cluster_id()

    def groups(self, name: str) -> "Two":
        return self

    def cluster_id(self) -> str:
        if self.name in self.silent:
            raise Unreachable(f"cluster {self.name} did not answer")
        return self.name.upper()

    def topics(self, names: Collection[str] = ()) -> Any:
        if not names:
            return ("orders", "gone")
        self.asked += sorted(names)
        first = min(names, key=lambda name: "gone" in name)
        return {first: TopicState(first, self.leaders), "gone": None}

    def target_topic(self, topic: str) -> str:
        return f"primary.{topic}"

    def link_groups(self, name: str, *, incomplete: bool = False) -> tuple[str, ...]:
        return ("app", "other")

    def described(self, names: Collection[str]) -> Mapping[str, Group | Unavailable]:
        state = GroupState.STABLE if self.members else GroupState.EMPTY
        app = Group("app", GroupProtocol.CLASSIC, state, self.members)
        return {"app": app, "other": Group("other", GroupProtocol.CLASSIC, GroupState.DEAD)}

    def missing(self) -> Missing:
        return self.missing_records

    def compared(self, scope: str) -> Missing:
        self.asked.append(scope)
        return self.missing_records

    def connectors(self) -> "Two":
        return self

    def state(self, name: str) -> ConnectorState:
        return ConnectorState(name, self.connector)

    def findings(self, mode: str) -> Sequence[Finding]:
        return self.results


def looked(kind: str, settings: dict[str, Any], two: Two) -> Readback:
    step, look = KINDS[kind], cast(LinkReader, two)
    intent = step.check(settings, {}, look)
    assert step.apply(intent, cast(LinkWriter, Blind())) == ()
    return step.verify(intent, look)


def waits(condition: str, two: Two) -> Readback:
    return looked("wait", {**SETTINGS, "for": condition}, two)


SO: dict[str, tuple[Two, Two]] = {
    "source reachable": (Two(), Two(frozenset({"primary"}))),
    "source silent": (Two(frozenset({"primary"})), Two(frozenset({"secondary"}))),
    "source leaders elected": (Two(), Two(leaders={0: 1, 1: None})),
    "target reachable": (Two(frozenset({"primary"})), Two(frozenset({"secondary"}))),
    "target leaders elected": (Two(), Two(leaders={0: None})),
    "groups empty": (Two(), Two(members=(Member("c", "h"),))),
    "target groups empty": (Two(), Two(members=(Member("c", "h"),))),
    "replication caught up": (Two(), Two(missing_records=Missing(3))),
    "connectors running": (Two(), Two(connector="RUNNING+FAILED")),
    "connectors stopped": (Two(connector="STOPPED"), Two()),
}


def test_every_condition_is_tested() -> None:
    assert set(SO) == set(CONDITIONS)


@pytest.mark.parametrize("name", SO)
def test_a_condition_is_met_or_awaited(name: str) -> None:
    yes, no = SO[name]
    assert waits(name, yes).state is State.DONE
    assert waits(name, no).state is State.WAITING
    description = KINDS["wait"].describe({**SETTINGS, "for": name})
    assert description.title.startswith("wait until ")
    assert "{" not in description.title


def test_copies_have_their_target_names() -> None:
    waits("target leaders elected", two := Two())
    assert two.asked == ["primary.gone", "primary.orders"]


def test_incomparable_offsets_do_not_count_as_caught_up() -> None:
    seen = waits("replication caught up", Two(missing_records=Missing(0, ("orders: no leader",))))
    assert (seen.state, seen.items) == (State.WAITING, ("orders: no leader",))


def test_unnamed_connectors_cannot_be_awaited() -> None:
    seen = looked("wait", {**SETTINGS, "connectors": [], "for": "connectors running"}, Two())
    assert seen.state is State.FAILED


def prechecks(*names: str, results: tuple[Finding, ...], **overrides: str) -> Readback:
    settings = {"prechecks": list(names), "mode": "planned", "overrides": overrides}
    return looked("check", settings, Two(results=results))


FAILS = Finding("names", Status.FAIL, "orders", "is called otherwise", remedy="rename it")
FINE = Finding("syncs", Status.OK, "mm2", "is as it should be")
WARNS = Finding("pace", Status.WARN, "mm2", "is slow")
UNSEEN = Finding("acls", Status.NOT_CHECKED, "orders", "nobody may look")


def test_prechecks_that_pass() -> None:
    seen = prechecks("syncs", "pace", results=(FINE, WARNS, FAILS))
    assert seen.state is State.DONE
    assert seen.facts["results"] == ["syncs: mm2: ok", "pace: mm2: warn"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("names", "names: orders: is called otherwise"),
        ("acls", "acls: orders: nobody may look"),
        ("other", "other: not run: it does not apply to this link"),
    ],
)
def test_a_failed_or_unknown_precheck_refuses(name: str, message: str) -> None:
    with pytest.raises(Refused) as caught:
        prechecks(name, results=(FINE, FAILS, UNSEEN))
    assert caught.value.message == message
    assert caught.value.hint == ("rename it" if name == "names" else "")
    passed = prechecks(name, results=(FINE, FAILS, UNSEEN), **{name: "we know"})
    assert passed.state is State.DONE


@pytest.mark.parametrize(
    ("missing", "at_most", "state"),
    [
        (Missing(0), 0, State.DONE),
        (Missing(7), None, State.DONE),
        (Missing(7), 7, State.DONE),
        (Missing(7), 6, State.FAILED),
        (Missing(0, ("orders: no leader",)), None, State.UNKNOWN),
    ],
)
def test_a_gap_is_compared_with_its_limit(
    missing: Missing, at_most: int | None, state: State
) -> None:
    two = Two(missing_records=missing)
    settings = {"source": "a", "target": "b", "scope": "tail", "at_most": at_most}
    seen = looked("gap", settings, two)
    assert seen.state is state
    assert two.asked == ["tail"]
    assert state is State.UNKNOWN or seen.facts == {"unreplicated": missing.records}


def test_a_gap_also_states_what_else_differs() -> None:
    settings = {"source": "a", "target": "b", "scope": "full", "at_most": None}
    found = Missing(0, duplicated=2, only_on_target=1)
    assert looked("gap", settings, Two(missing_records=found)).message == (
        "0 records are not replicated to the target; 2 duplicates on the target;"
        " 1 record is only on the target"
    )
