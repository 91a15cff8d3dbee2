"""Every difference becomes a change of the target or is left with a reason; then none remains."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from drctl.checks import acls as parity_acls
from drctl.checks import parity
from drctl.checks.check import Check
from drctl.checks.observed import Observed
from drctl.checks.repair_plan import JUDGED, all_fixes, differing_topics
from drctl.checks.repairs import Fixes, ObservedTopics, clients_left_source, validated
from drctl.model.finding import Status
from drctl.model.repairs import Acl, Acls, Alteration, TopicSetting, TopicShape, WantedTopic
from drctl.model.survey import Limit
from drctl.model.topology import TopicState, Unavailable
from tests.checks.observing import merged, observed
from tests.docs.pages import page

USUAL = {
    "min.insync.replicas": "1",
    "max.message.bytes": "1048588",
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "delete.retention.ms": "86400000",
    "message.timestamp.type": "CreateTime",
}
BASE: Mapping[str, Any] = {
    "link": {"topics": ["orders.*"], "fence": {"method": "acl", "principals": ["User:app"]}},
    "source": {"id": "AAA"},
    "target": {"id": "BBB"},
    "source_topics": {"orders": USUAL},
    "target_topics": {"orders": USUAL},
    "acls": ["ALLOW User:app WRITE LITERAL:orders *"],
    "target_acls": ["ALLOW User:app WRITE LITERAL:orders *"],
    "connectors": {},
    "endpoints": [],
    "survey": {
        "source": {"users": ["app"], "quotas": {}, "settings": {}},
        "target": {
            "users": ["app"],
            "quotas": {},
            "settings": {},
            "layout": {"brokers": {1: None, 2: None}, "partitions": {}},
        },
        "runs": [],
    },
}


def case(**change: Any) -> Observed:
    return observed(merged(BASE, change))


def shape(
    state: TopicState, replicas: int, own: frozenset[str], default: frozenset[str] = frozenset()
) -> TopicShape:
    settings = {
        key: TopicSetting(value, key in own, key in default, None if key in own else value)
        for key, value in state.config.items()
    }
    return TopicShape(len(state.partitions), replicas, settings)


def seen(
    look: Observed,
    *,
    replicas: int = 3,
    own: frozenset[str] = frozenset(USUAL),
    default: frozenset[str] = frozenset(),
    names: frozenset[str] = frozenset(),
) -> ObservedTopics:
    """Return what the clusters would report, with every setting on the topics themselves."""
    assert isinstance(look.source_topics, Mapping)
    assert isinstance(look.target_topics, Mapping)
    both = (look.source_topics, look.target_topics)
    ours, theirs = (
        {n: shape(s, replicas, own, default) for n, s in t.items() if isinstance(s, TopicState)}
        for t in both
    )
    return ObservedTopics(ours, theirs, names or frozenset(theirs))


def fixed(look: Observed, **how: Any) -> Fixes:
    return all_fixes(look, seen(look, **how))


def carried_out(look: Observed, fixes: Fixes) -> Observed:
    """Return the target after the fixes."""
    topics = dict(look.target_topics)  # type: ignore[arg-type]
    for extended in fixes.partitions:
        old = topics[extended.change.topic]
        assert isinstance(old, TopicState)
        parts = dict.fromkeys(range(extended.change.total), 1)
        topics[old.name] = replace(old, partitions=parts)
    for changed in fixes.settings:
        old = topics[changed.change.topic]
        assert isinstance(old, TopicState)
        config = {**old.config, changed.change.key: changed.change.after}
        topics[old.name] = replace(old, config=config)
    for made in fixes.topics:
        wanted = made.change
        parts = dict.fromkeys(range(wanted.partitions), 1)
        topics[wanted.name] = TopicState(wanted.name, parts, {**USUAL, **wanted.config})
    acls = look.target_acls
    assert isinstance(acls, Acls)
    rules = (*acls.rules, *(fix.change for fix in fixes.rules))
    there = look.survey.target.quotas
    assert isinstance(there, Mapping)
    quotas = {who: dict(limits) for who, limits in there.items()}
    for fix in fixes.quotas:
        quotas.setdefault(fix.change.entity, {})[fix.change.key] = fix.change.to
    target = replace(look.survey.target, quotas=quotas)
    survey = replace(look.survey, target=target)
    return replace(
        look, target_topics=topics, target_acls=Acls(acls.enforced, rules), survey=survey
    )


def nothing(fixes: Fixes) -> bool:
    return not fixes.changes and not fixes.left


RUNS_PRECHECKS: tuple[Check, ...] = (
    parity.missing,
    parity.fewer,
    parity.settings,
    parity_acls.acls,
    parity.retention,
    parity.timestamps,
    parity.quotas,
)


def statuses(look: Observed) -> set[Status]:
    return {finding.status for judge in RUNS_PRECHECKS for finding in judge.findings(look)}


DRIFTS: Mapping[str, Mapping[str, Any]] = {
    "missing": {
        "source_topics": {"orders-b": {**USUAL, "partitions": 3}},
        "target_topics": {"orders-b": None},
    },
    "partitions": {"source_topics": {"orders": {"partitions": 4}}},
    "min isr": {"source_topics": {"orders": {"min.insync.replicas": 2}}},
    "message size": {"source_topics": {"orders": {"max.message.bytes": 5_000_000}}},
    "deletes": {
        "source_topics": {"orders": {"cleanup.policy": "compact"}},
        "target_topics": {"orders": {"cleanup.policy": "delete"}},
    },
    "retention": {
        "source_topics": {"orders": {"retention.ms": -1, "delete.retention.ms": 172_800_000}},
        "target_topics": {"orders": {"retention.bytes": 1000}},
    },
    "time": {"target_topics": {"orders": {"message.timestamp.type": "LogAppendTime"}}},
    "rule": {"target_acls": []},
    "quotas": {
        "survey": {
            "source": {
                "quotas": {"app": {"producer_byte_rate": 5.0}, "jobs": {"x": 2.0, "y": 1.0}}
            },
            "target": {"quotas": {"jobs": {"x": 1.0}}},
        }
    },
    "everything": {
        "source_topics": {
            "orders": {"partitions": 4, "min.insync.replicas": 2},
            "orders-b": {**USUAL, "retention.ms": 1},
        },
        "target_topics": {"orders-b": None},
        "target_acls": [],
    },
}


@pytest.mark.parametrize("name", DRIFTS)
def test_planned_changes_leave_no_difference(name: str) -> None:
    look = case(**DRIFTS[name])
    assert statuses(look) != {Status.OK}
    fixes = fixed(look)
    assert fixes.changes
    assert fixes.left == ()
    after = carried_out(look, fixes)
    assert statuses(after) == {Status.OK}
    assert nothing(fixed(after))


def test_no_difference_means_no_change() -> None:
    look = case()
    assert statuses(look) == {Status.OK}
    assert nothing(fixed(look))
    assert differing_topics(look) == ()


def test_change_has_old_value_and_impact() -> None:
    look = case(source_topics={"orders": {"max.message.bytes": 5_000_000}})
    (fix,) = fixed(look, own=frozenset()).settings
    assert (fix.what, fix.before, fix.after) == (
        "topic orders: max.message.bytes",
        "1048588 (broker default)",
        "5000000",
    )
    assert fix.why == "the target rejects records that the source accepts"


def test_created_topic_has_the_sources_settings_and_possible_replicas() -> None:
    look = case(
        source_topics={"orders-b": {**USUAL, "partitions": 6, "min.insync.replicas": 3}},
        link={"replicator": {"kind": "none", "rename": "a.${topic}"}},
        target_topics={"orders": "<gone>", "a.orders": USUAL, "a.orders-b": None},
        target_acls=["ALLOW User:app WRITE PREFIXED:a. *"],
    )
    own = frozenset({"min.insync.replicas", "retention.ms"})
    (fix,) = fixed(look, own=own, default=frozenset(USUAL) - own).topics
    config = {"min.insync.replicas": "2", "retention.ms": "604800000"}
    assert fix.change == WantedTopic("a.orders-b", 6, 2, config)
    assert fix.note == (
        "the source has 3 replicas, the target only 2 brokers;"
        " min.insync.replicas is 3 on the source, more than the target's replicas"
    )


def test_min_isr_above_the_replicas_is_refused() -> None:
    look = case(source_topics={"orders": {"min.insync.replicas": 2}})
    fixes = fixed(look, replicas=1)
    assert fixes.changes == ()
    (left,) = fixes.left
    assert left.why.startswith("it has 1 replica: with min.insync.replicas=2")
    assert "kafka-reassign-partitions" in left.remedy
    (setting,) = fixed(look, replicas=2).settings
    assert setting.note == "it has 2 replicas: the loss of one broker blocks acks=all"


def test_different_cleanup_policy_is_replaced_with_a_note() -> None:
    (fix,) = fixed(case(**DRIFTS["deletes"])).settings
    assert (fix.before, fix.after) == ("delete", "compact")
    assert fix.note == "cleanup by compact then starts on the copy, as on the source"


def test_docs_name_every_changed_setting() -> None:
    section = page("docs/howto/prepare.md").section("## Align the target")
    assert [key for key in JUDGED if f"`{key}`" not in section] == []


def test_changes_that_delete_records_are_left() -> None:
    look = case(
        source_topics={"orders": {"cleanup.policy": "compact,delete"}},
        target_topics={"orders": {"cleanup.policy": "compact"}},
    )
    fixes = fixed(look)
    assert fixes.changes == ()
    assert [each.why for each in fixes.left] == [
        "it deletes records on the target, which cannot be rolled back"
    ]


MM2 = {
    "link": {"replicator": {"kind": "mirrormaker2", "connect": "http://c:1"}},
    "connectors": {
        "mm2": {"connector.class": "MirrorSourceConnector", "sync.topic.configs.enabled": "true"}
    },
    "source_topics": {"orders": {"max.message.bytes": 5_000_000}},
}


def test_changes_that_mirrormaker_would_revert_are_left() -> None:
    every = frozenset(USUAL)
    fixes = fixed(case(**MM2), own=frozenset(), default=every)
    assert fixes.changes == ()
    (left,) = fixes.left
    assert left.why.startswith("connector mm2 (sync.topic.configs.enabled) would remove it within")
    # The connector copies only settings that the topic itself has, and none that it excludes.
    assert len(fixed(case(**MM2)).settings) == 1
    off = merged(MM2, {"connectors": {"mm2": {"sync.topic.configs.enabled": "false"}}})
    assert len(fixed(case(**off), own=frozenset(), default=every).settings) == 1
    excluded = merged(MM2, {"connectors": {"mm2": {"config.properties.exclude": r"max\..*"}}})
    assert len(fixed(case(**excluded), own=frozenset(), default=every).settings) == 1
    odd = merged(MM2, {"connectors": {"mm2": {"config.properties.exclude": "*.bytes, (.+)+!, ["}}})
    assert fixed(case(**odd), own=frozenset(), default=every).changes == ()


@pytest.mark.parametrize("name", ["missing", "partitions", "message size"])
def test_topics_of_an_offset_preserving_mirror_are_left(name: str) -> None:
    mirror = {"link": {"replicator": {"kind": "offset-preserving"}}}
    fixes = fixed(case(**merged(DRIFTS[name], mirror)))
    assert fixes.changes == ()
    assert all("would conflict with it" in each.why for each in fixes.left)
    assert fixes.left


def rules(look: Observed, **how: Any) -> list[str]:
    return [fix.what.removeprefix("ACL ") for fix in fixed(look, **how).rules]


def test_added_rules_are_narrow() -> None:
    wide = case(
        acls=["ALLOW User:* ALL LITERAL:* *"], target_acls=["ALLOW User:app READ LITERAL:orders *"]
    )
    assert rules(wide) == ["ALLOW User:app WRITE topic orders"]
    hosts = case(acls=["ALLOW User:app WRITE LITERAL:orders 10.0.0.1"], target_acls=[])
    assert rules(hosts) == ["ALLOW User:app WRITE topic orders from 10.0.0.1"]


def test_prefix_rule_is_kept_if_it_covers_only_copies() -> None:
    look = case(acls=["ALLOW User:app WRITE PREFIXED:orders *"], target_acls=[])
    assert rules(look) == ["ALLOW User:app WRITE topics orders..."]
    link = {"link": {"topics": ["orders", "orders-b"]}}
    other = case(acls=["ALLOW User:app WRITE PREFIXED:orders *"], target_acls=[], **link)
    names = frozenset({"orders", "orders-of-somebody-else"})
    assert rules(other, names=names) == ["ALLOW User:app WRITE topic orders"]


def test_rules_of_renamed_copies() -> None:
    look = case(
        link={"replicator": {"kind": "none", "rename": "a.${topic}"}},
        target_topics={"orders": "<gone>", "a.orders": USUAL},
        acls=["ALLOW User:app WRITE PREFIXED:ord *", "ALLOW User:app READ LITERAL:orders *"],
        target_acls=[],
    )
    assert sorted(rules(look)) == [
        "ALLOW User:app READ topic a.orders",
        "ALLOW User:app WRITE topics a.ord...",
    ]


OTHERS = (
    "ALLOW User:app READ LITERAL:billing * GROUP",
    "ALLOW User:app READ PREFIXED:app. 10.0.0.1 GROUP",
    "ALLOW User:app ALL PREFIXED:pay- * TRANSACTIONAL_ID",
    "ALLOW User:* IDEMPOTENT_WRITE LITERAL:kafka-cluster * CLUSTER",
    "ALLOW User:app ALTER LITERAL:kafka-cluster * CLUSTER",
    "ALLOW User:other READ LITERAL:billing * GROUP",
)


def test_rules_of_groups_transactional_ids_and_the_cluster_are_added() -> None:
    look = case(acls=[*BASE["acls"], *OTHERS])
    assert rules(look) == [
        "ALLOW User:app READ group billing",
        "ALLOW User:app READ group app.... from 10.0.0.1",
        "ALLOW User:app WRITE transactional id pay-...",
        "ALLOW User:app DESCRIBE transactional id pay-...",
        "ALLOW User:app IDEMPOTENT_WRITE cluster kafka-cluster",
    ]
    assert fixed(look).left == ()
    again = carried_out(look, fixed(look))
    assert rules(again) == []
    (finding,) = parity_acls.acls.findings(again)
    assert finding.status is Status.OK


def test_other_rules_that_already_suffice_are_not_added() -> None:
    wide = [
        "ALLOW User:app READ LITERAL:* * GROUP",
        "ALLOW User:app ALL PREFIXED:p * TRANSACTIONAL_ID",
        "ALLOW User:* ALL LITERAL:kafka-cluster * CLUSTER",
    ]
    assert rules(case(acls=[*BASE["acls"], *OTHERS], target_acls=[*BASE["acls"], *wide])) == []
    # A rule for a name that equals the prefix is narrower.
    one = "ALLOW User:app READ LITERAL:app. * GROUP"
    look = case(acls=[*BASE["acls"], OTHERS[1]], target_acls=[*BASE["acls"], one])
    assert rules(look) == ["ALLOW User:app READ group app.... from 10.0.0.1"]
    assert rules(case(acls=["ALLOW User:app READ LITERAL:x *", OTHERS[5]])) == []


def test_other_rules_that_are_left_have_a_command() -> None:
    source = [
        *BASE["acls"],
        "ALLOW User:app READ LITERAL:* * GROUP",
        "ALLOW User:app READ LITERAL:billing * GROUP",
        "DENY User:app DESCRIBE PREFIXED:secret- 10.1.1.1 TRANSACTIONAL_ID",
        "DENY User:app READ LITERAL:billing * GROUP",
    ]
    fenced = "DENY User:app READ LITERAL:billing * GROUP"
    denied = "DENY User:app READ PREFIXED:bill * GROUP"
    look = case(acls=source, target_acls=[*BASE["acls"], fenced, denied])
    assert fixed(look).rules == ()
    every, one, deny = fixed(look).left
    head = 'kafka-acls.sh --bootstrap-server "$B" --command-config admin.properties --add'
    assert every.what == "User:app may not READ group *"
    assert every.remedy == f"{head} --allow-principal User:app --operation Read --group '*'"
    assert one.why.endswith("drctl deletes no ACLs: DENY User:app READ group bill...")
    assert deny.what == (
        "ACL not on b: DENY User:app DESCRIBE transactional id secret-... from 10.1.1.1"
    )
    assert deny.remedy.endswith(
        f"{head} --deny-principal User:app --deny-host 10.1.1.1 --operation Describe"
        " --transactional-id secret- --resource-pattern-type prefixed"
    )


def test_deny_rules_of_the_target_are_kept() -> None:
    denied = ["ALLOW User:app WRITE LITERAL:orders *", "DENY User:app ALL PREFIXED:ord *"]
    fixes = fixed(case(target_acls=denied))
    assert fixes.changes == ()
    (left,) = fixes.left
    assert left.what == "User:app may not WRITE orders"
    assert "drctl deletes no ACLs: DENY User:app ALL topics ord..." in left.why


def test_only_deny_rules_of_applications_are_copied() -> None:
    allowed = "ALLOW User:app WRITE LITERAL:orders *"
    look = case(
        acls=[
            allowed,
            "ALLOW User:mm2 READ LITERAL:* *",
            "DENY User:app READ PREFIXED:orders *",
            "DENY User:app WRITE LITERAL:orders *",
            "DENY User:mm2 WRITE LITERAL:orders *",
            "DENY User:* READ LITERAL:orders 10.0.0.9",
        ],
        target_acls=[allowed],
    )
    fixes = fixed(look)
    assert [fix.what for fix in fixes.rules] == ["ACL DENY User:app READ topics orders..."]
    why = {each.what.partition(": ")[2]: each.why for each in fixes.left}
    assert why["DENY User:app WRITE topic orders"].startswith("it looks like a fence")
    assert "everyone" in why["DENY User:* READ topic orders from 10.0.0.9"]
    assert len(why) == 2  # User:mm2 is not named as an application: it is not judged


def test_missing_user_is_named() -> None:
    users = {"survey": {"target": {"users": ["other"]}}}
    fixes = fixed(case(target_acls=[], **users))
    assert fixes.rules[0].note.startswith("b has no SCRAM user app")
    (left,) = fixes.left
    assert left.what == "SCRAM user app is not on b"
    assert "drctl cannot copy them" in left.why
    assert "--entity-name app" in left.remedy


def test_quotas_that_are_missing_or_lower_are_set() -> None:
    quotas = {"app": {"producer_byte_rate": 1000.0, "request_percentage": 5.0}, "jobs": {"x": 1.0}}
    there = {"app": {"producer_byte_rate": 10.0, "request_percentage": 9.0}}
    survey = {"source": {"quotas": quotas}, "target": {"quotas": there}}
    fixes = fixed(case(survey=survey))
    assert [(fix.what, fix.before, fix.after, fix.why) for fix in fixes.quotas] == [
        (
            "quota producer_byte_rate of user app",
            "10",
            "1000",
            "these clients are throttled after a failover",
        ),
        (
            "quota x of user jobs",
            "missing",
            "1",
            "these clients are not throttled after a failover",
        ),
    ]
    assert fixes.left == ()


def test_quotas_apply_to_each_broker() -> None:
    layout = {"brokers": {1: None, 2: None, 3: None}, "partitions": {}}
    source = {"quotas": {"app": {"producer_byte_rate": 10.0}}, "layout": layout}
    (fix,) = fixed(case(survey={"source": source})).quotas
    assert fix.note == "quotas apply to each broker: a has 3, b has 2"


def test_quota_that_only_the_target_has_is_left() -> None:
    only = {"app": {"producer_byte_rate": 10.0}}
    fixes = fixed(case(survey={"target": {"quotas": only}}))
    assert fixes.changes == ()
    (left,) = fixes.left
    assert left.what == "quota producer_byte_rate of user app is not on a"
    assert left.why.startswith("drctl deletes no quotas")
    assert "--delete-config producer_byte_rate --entity-type users" in left.remedy


def test_unobserved_values_are_left_with_the_reason() -> None:
    fixes = fixed(case(target_acls="drctl's user may not see ACLs"))
    assert fixes.changes == ()
    (left,) = fixes.left
    assert left.check == "acl-parity"
    assert left.why.endswith("drctl's user may not see ACLs")
    assert fixed(case()).beyond == ()
    (beyond,) = fixed(case(acls=False)).beyond
    assert beyond.what == "ACLs of groups, of transactional ids and of the cluster"
    assert fixed(case(target_acls=False)).beyond == ()


def test_broker_settings_are_beyond_the_link() -> None:
    sizes = {"message.max.bytes": 1000}
    theirs = {**sizes, "auto.create.topics.enable": "true"}
    survey = {"source": {"settings": sizes}, "target": {"settings": theirs}}
    fixes = fixed(case(survey=survey))
    assert (fixes.changes, fixes.left) == ((), ())
    assert fixes.beyond[0].what == "brokers of cluster b: auto.create.topics.enable=true"


class Strict:
    """A target that refuses every change of topic `orders`."""

    def would_configure(self, changes: list[Alteration]) -> dict[str, Unavailable | None]:
        return {each.topic: Unavailable("Policy violation") for each in changes}

    def would_extend(self, totals: dict[str, int]) -> dict[str, Unavailable | None]:
        return {name: Unavailable("not authorized") for name in totals}

    def would_create(self, topics: list[WantedTopic]) -> dict[str, Unavailable | None]:
        return {each.name: None for each in topics}

    def would_set(self, limits: list[Limit]) -> dict[Limit, Unavailable | None]:
        return {each: Unavailable("unknown quota") if each.key == "x" else None for each in limits}


def test_changes_that_the_target_rejects_are_left() -> None:
    drifts = merged(DRIFTS["everything"], DRIFTS["quotas"])
    strict: Any = Strict()
    fixes = validated(fixed(case(**drifts)), strict, strict)
    assert (fixes.settings, fixes.partitions) == ((), ())
    assert len(fixes.topics) == len(fixes.rules) == 1
    assert [fix.change.key for fix in fixes.quotas] == ["producer_byte_rate", "y"]
    assert [each.why for each in fixes.left] == [
        "the target rejects it: unknown quota",
        "the target rejects it: Policy violation",
        "the target rejects it: not authorized",
    ]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, Status.OK),
        ({"survey": {"runs": [["r1", "failover-planned", "done"]]}}, Status.FAIL),
        (
            {"survey": {"runs": [["r2", "failback", "done"], ["r1", "failover-planned", "done"]]}},
            Status.OK,
        ),
        ({"survey": {"runs": [["r1", "failover-planned", "refused"]]}}, Status.OK),
        ({"survey": {"runs": "the journal is damaged"}}, Status.NOT_CHECKED),
    ],
)
def test_no_repair_after_a_failover(change: Any, status: Status) -> None:
    assert clients_left_source(case(**change)).status is status


def test_ordinary_rule_is_an_acl() -> None:
    look = case(target_acls=[])
    assert [fix.change for fix in fixed(look).rules] == [
        Acl("orders", "LITERAL", "User:app", "*", "WRITE", "ALLOW")
    ]
