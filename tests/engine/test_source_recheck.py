"""The last check of the source before writes are enabled on the target."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drctl.engine.failback_state import Search
from drctl.engine.kind import Facts
from drctl.engine.ports import LinkReader, Missing
from drctl.model.errors import DrctlError, Refused, Unreachable
from drctl.model.health import AuthenticationFailed
from drctl.model.loss import Mode
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from drctl.model.typed_json import to_json
from drctl.plans import failover as builders
from drctl.plans.inputs import PlanInputs
from drctl.steps.enable_writes import EnableSettings, recheck_source
from drctl.steps.records import FindMissing

FENCED = {"fence-producers": {"ends": {"orders-0": 10, "orders-1": 0}}}


@dataclass
class Source:
    """The cluster that was fenced, or that is reported dead."""

    ends: dict[str, dict[int, int]] = field(default_factory=lambda: {"orders": {0: 10, 1: 0}})
    error: DrctlError | None = None
    missing_records: Missing = field(default_factory=lambda: Missing(0))
    comparisons: list[str] = field(default_factory=list)

    def live_cluster_id(self, name: str) -> str:
        assert name == "primary"
        self._answer()
        return "P1"

    def topics(self) -> tuple[str, ...]:
        self._answer()
        return tuple(self.ends)

    def cluster_reader(self, name: str) -> "Source":
        assert name == "primary"
        return self

    def overview(self) -> SimpleNamespace:
        self._answer()
        return SimpleNamespace(partitions={t: tuple(found) for t, found in self.ends.items()})

    def offsets(
        self, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionOffsets | Unavailable]:
        found = {p: self.ends[p.topic][p.partition] for p in places}
        gone = Unavailable("nobody leads it")
        return {p: gone if e < 0 else PartitionOffsets(0, e, e) for p, e in found.items()}

    def missing(self) -> Missing:
        self.comparisons.append("tail")
        return self.missing_records

    def compared(self, scope: str) -> Missing:
        self.comparisons.append(scope)
        return self.missing_records

    def _answer(self) -> None:
        if self.error is not None:
            raise self.error


def looked(source: Source, facts: Mapping[str, Any] = FENCED, **settings: Any) -> None:
    given = EnableSettings(cluster="secondary", principals=(), source="primary", **settings)
    recheck_source(given, Facts(facts), cast(LinkReader, source))


def test_an_unchanged_source_passes() -> None:
    source = Source()
    looked(source)
    assert not source.comparisons, "records were compared although no offset moved"


def test_a_topic_outside_the_fence_prevents_enabling_writes() -> None:
    source = Source({"orders": {0: 10, 1: 0}, "orders-later": {0: 0}})
    with pytest.raises(Refused, match="changed-after-fence: 1 topic was created on primary") as no:
        looked(source)
    assert "orders-later" in no.value.message
    assert "run the command again" in no.value.hint


@pytest.mark.parametrize("kind", ["fence-producers", "command-fence", "manual-fence"])
def test_records_after_the_fence_prevent_enabling_writes(kind: str) -> None:
    source = Source({"orders": {0: 10, 1: 2}}, missing_records=Missing(2))
    with pytest.raises(
        Refused, match=r"1 partition of primary grew .* orders-1: 2 records are not replicated"
    ):
        looked(source, {kind: FENCED["fence-producers"]})


def test_incomparable_offsets_prevent_enabling_writes() -> None:
    source = Source(
        {"orders": {0: 11, 1: 0}}, missing_records=Missing(0, ("orders-0: nobody leads it",))
    )
    with pytest.raises(Refused, match="nobody leads it"):
        looked(source)


def test_a_transaction_marker_is_not_a_record() -> None:
    source = Source({"orders": {0: 11, 1: 0}})
    looked(source)
    assert source.comparisons == ["tail"]


def test_second_copies_on_a_surviving_cluster_are_not_missing() -> None:
    found = to_json(Search("f", 0, 0, 0, 0, {}, {}, duplicated=2))
    facts = {**FENCED, FindMissing.name: found}
    source = Source({"orders": {0: 11, 1: 0}}, missing_records=Missing(2, repeated=2))
    looked(source, facts)
    assert source.comparisons == ["full"]
    source.missing_records = Missing(3, repeated=2)
    with pytest.raises(Refused, match="1 record is not replicated"):
        looked(source, facts)


def test_a_leaderless_partition_and_a_dead_source_accept_no_records() -> None:
    looked(Source({"orders": {0: -1, 1: 0}}))
    looked(Source(error=Unreachable("cluster primary did not answer")))


def test_an_unplanned_failover_requires_a_source_that_is_silent_now() -> None:
    dead = Source(error=Unreachable("cluster primary did not answer"))
    looked(dead, {}, must_be_silent=True)
    with pytest.raises(Refused, match="source-alive: cluster primary: it responds again"):
        looked(Source(), {}, must_be_silent=True)
    locked = Source(error=AuthenticationFailed("no connection: authentication failed"))
    with pytest.raises(Refused, match="rejects drctl's credentials"):
        looked(locked, {}, must_be_silent=True)


def test_an_abandoned_source_is_not_checked() -> None:
    looked(Source({"orders": {0: 99, 1: 0}}, missing_records=Missing(89)), given_up=True)


def test_plans_name_what_is_checked() -> None:
    seen = PlanInputs("main", "primary", "secondary")
    given_up = PlanInputs("main", "a", "b", overrides={"source-alive": "it is burning"})
    planned = builders.enable_writes(seen).settings
    assert (planned["source"], "must_be_silent" in planned) == ("primary", False)
    assert builders.enable_writes(seen, mode=Mode.UNPLANNED).settings["must_be_silent"]
    settings = builders.enable_writes(given_up, mode=Mode.UNPLANNED).settings
    assert (settings["given_up"], "must_be_silent" in settings) == (True, False)
