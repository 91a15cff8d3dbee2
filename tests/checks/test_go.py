"""Go or no-go and the RPO, from observations."""

from dataclasses import replace
from typing import Any

from drctl.checks.go import (
    RPO,
    SKIPPED_CHECKS,
    GroupsNow,
    Rpo,
    judged,
    lagging,
    link_now,
    topics_now,
    unknown,
)
from drctl.model.errors import ExitCode
from drctl.model.loss import exactly
from drctl.model.replication import Lag
from drctl.model.topology import TopicPartition, TopicState, Unavailable
from tests.checks.observing import observed
from tests.checks.precheck_cases import NOW_MS

HEALTHY: dict[str, Any] = {
    "link": {"topics": ["orders"], "replicator": {"kind": "offset-preserving"}},
    "policy": {"max_lag_records": 100},
    "source": {"id": "AAA"},
    "target": {"id": "BBB"},
    "source_topics": {"orders": {}},
    "target_topics": {"orders": {}},
    "acls": False,
    "target_acls": False,
    "target_health": {},
    "target_groups": {},
    "lag": {"orders-0": [0, 0, "as seen"], "orders-1": [40, 60, "by time", NOW_MS - 2500]},
    "tails": {},
    "journal": {"topic": None},
}


def test_doctors_own_checks_block_nothing() -> None:
    seen = judged(observed(HEALTHY), GroupsNow(3, 9), None, 0.5)
    checks = {each.check for each in seen.planned.blockers}
    assert checks == {"fence-not-possible"}  # the link has no fence
    assert seen.unplanned.go
    assert not checks & set(SKIPPED_CHECKS)
    assert seen.exit_code is ExitCode.FOUND


def test_rpo_of_a_topic_is_its_oldest_unreplicated_record() -> None:
    rows = topics_now(observed(HEALTHY))
    assert [(r.topic, r.partitions, r.unknown) for r in rows] == [("orders", 2, 0)]
    assert rows[0].rpo == lagging(40, 60, 2.5, "by time")
    assert link_now(rows, "").seconds == 2.5


def test_old_event_timestamps_are_no_age() -> None:
    old_ms = NOW_MS - 13 * 365 * 86_400_000
    lag = {TopicPartition("orders", 0): Lag(45, 45, "as reported", old_ms)}
    case = replace(observed(HEALTHY), lag=lag)
    (row,) = topics_now(case)
    assert (row.rpo.records, row.rpo.seconds) == (45, None)
    assert "set by the producer" in row.rpo.how
    by_broker = {
        "orders": TopicState("orders", {0: 1}, {"message.timestamp.type": "LogAppendTime"})
    }
    (known,) = topics_now(replace(case, source_topics=by_broker))
    assert known.rpo.seconds == 13 * 365 * 86_400, "the broker's append time was not used"
    weeks = {TopicPartition("orders", 0): Lag(45, 45, "as reported", NOW_MS - 30 * 86_400_000)}
    (dead,) = topics_now(replace(case, lag=weeks))
    assert dead.rpo.seconds == 30 * 86_400, "replication may have been idle for 30 days"


def test_unknown_rpo_comes_first_and_is_not_zero() -> None:
    case = observed(HEALTHY)
    dark = {
        TopicPartition("dark", 0): Unavailable("no leader"),
        TopicPartition("even", 0): Lag(0, 0, "x"),
    }
    assert not isinstance(case.lag, Unavailable)
    rows = topics_now(replace(case, lag={**case.lag, **dark}))
    assert [row.topic for row in rows] == ["dark", "orders", "even"]
    assert rows[0].rpo == unknown("no leader")
    assert rows[2].rpo.seconds == 0
    how = "by time; the lag of 1 partition is not known"
    assert link_now(rows, "") == lagging(40, 60, 2.5, how)
    ageless = topics_now(replace(case, lag={TopicPartition("orders", 0): Lag(5, 5, "reported")}))
    assert ageless[0].rpo.seconds is None


def test_rpo_above_the_limit() -> None:
    case = observed({**HEALTHY, "lag": {"orders-0": [4, 4, "by time", NOW_MS - 31_000]}})
    seen = judged(case, GroupsNow(), None, 0.5)
    assert [each.check for each in seen.unplanned.blockers] == [RPO]
    assert "31 s" in seen.unplanned.blockers[0].reason


def test_lost_source() -> None:
    case = observed({**HEALTHY, "source": "no answer", "lag": "no answer"})
    seen = judged(case, GroupsNow(), Rpo(exactly(7, "counted"), 12.0, "by tracked offsets"), 0.5)
    assert seen.rpo.records == 7
    assert seen.silent == ("a",)
    assert seen.exit_code is ExitCode.UNKNOWN
    assert "source-unreachable" in {each.check for each in seen.planned.blockers}
    assert seen.unplanned.go
