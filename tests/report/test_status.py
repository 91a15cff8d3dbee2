"""Status as a document, as lines, as metrics, and as a screen."""

import io
import re
from typing import Any

from rich.console import Console

from drctl.checks.go import GroupsNow, judged
from drctl.model.replication import LeftOut
from drctl.model.topology import TopicPartition
from drctl.views.status_text import (
    StatusMetrics,
    status_document,
    status_line,
    status_table,
    watched_table,
)
from tests.checks.observing import observed
from tests.checks.test_go import HEALTHY
from tests.cli.documents import check

GROUPS = GroupsNow(2, 8, (LeftOut("jobs", TopicPartition("orders", 1), "nothing tells"),))
CONNECTORS: dict[str, Any] = {
    "copy": {
        "state": "RUNNING",
        "tasks": [["RUNNING"], ["FAILED"]],
        "connector.class": "MirrorSource",
    }
}


def seen(**changes: Any) -> Any:
    return judged(observed({**HEALTHY, "connectors": CONNECTORS, **changes}), GROUPS, None, 1.25)


def test_the_document_matches_its_schema() -> None:
    document = check(status_document(seen()))
    assert document["rpo"]["seconds"] == 2.5
    assert document["groups"]["groups_not_translated"] == 1
    assert document["connectors"][0]["tasks"] == {"RUNNING": 1, "FAILED": 1}
    check(status_document(seen(source="silent", lag="silent", connectors="silent")))


def test_a_line() -> None:
    line = status_line(seen())
    assert "planned NO-GO (fence-not-possible); unplanned GO" in line
    assert "RPO about 40 records (at most 60) of the last 2.5 s" in line
    assert "1 committed offset of 1 group cannot be translated" in line


def test_metrics() -> None:
    text = StatusMetrics({"link": 'ma"in', "source": "a", "target": "b"}, seen()).text()
    values = dict(
        re.findall(r"^(\S+) (\S+)$", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE), re.MULTILINE)
    )
    ends = 'link="ma\\"in",source="a",target="b"'
    assert values[f"drctl_status_up{{{ends}}}"] == "1.0"
    assert values[f'drctl_status_go{{{ends},mode="unplanned"}}'] == "1.0"
    assert (
        values[f'drctl_status_blocked_by{{{ends},mode="planned",check="fence-not-possible"}}']
        == "1.0"
    )
    assert values[f'drctl_status_topic_rpo_seconds{{{ends},topic="orders"}}'] == "2.5"
    assert values[f'drctl_status_connector_running{{{ends},connector="copy"}}'] == "0.0"
    assert values[f"drctl_status_group_offsets_not_translated{{{ends}}}"] == "1.0"


def test_undone_changes_after_a_failover_are_named_everywhere() -> None:
    moved = {"moved": ["R1", "failover-planned", 60]}
    link = {
        **HEALTHY["link"],
        "replicator": {
            "kind": "mirrormaker2",
            "connect": "http://c:8083",
            "connectors": {"source": "copy"},
        },
        "fence": {"method": "acl", "principals": ["User:app"]},
    }
    now = seen(active_cluster=moved, link=link, acls=[])
    subjects = ["fence of cluster a", "connector copy"]
    assert [each.subject for each in now.undone] == subjects
    assert (
        "fence of cluster a: missing ACLs of the fence: 1 of 1; connector copy: it is RUNNING"
        in status_line(now)
    )
    metrics = StatusMetrics({}, now).text()
    screen = io.StringIO()
    Console(file=screen, width=200).print(status_table(now))
    for subject in subjects:
        assert f'drctl_status_undone{{subject="{subject}"}} 1.0' in metrics
        assert f"clients-moved: {subject}" in screen.getvalue()
    stopped = {"copy": {**CONNECTORS["copy"], "state": "STOPPED"}}
    held = seen(
        active_cluster=moved,
        link=link,
        acls=["DENY User:app WRITE LITERAL:orders *"],
        connectors=stopped,
    )
    assert "drctl_status_undone{" not in StatusMetrics({}, held).text()


def test_unknown_values_are_not_numbers() -> None:
    text = StatusMetrics({}, seen(source="silent", lag="silent")).text()
    assert "rpo_seconds{" not in text
    assert 'cluster_reachable{cluster="a"} 0.0' in text
    assert StatusMetrics({}).text().splitlines()[-1] == "drctl_status_up{} 0.0"
    assert "drctl_status_up{} 0.0" in StatusMetrics({}, seen(), failed=True).text()


def test_status_fits_one_screen() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=100)
    console.print(status_table(seen()))
    console.print(watched_table(seen(), 1_800_000_005.0, True))
    text = screen.getvalue()
    assert text.startswith(
        "NO-GO  planned failover\nGO     unplanned failover: RPO about 40 records"
    )
    assert "fence-not-possible" in text.partition("RPO by topic")[0]
    assert "the last check failed" in text
    assert len(text.splitlines()) < 60
