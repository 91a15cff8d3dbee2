"""Commands work with exactly the permissions of docs/howto/permissions.md."""

from collections.abc import Sequence

import pytest

from tests.cluster.documented_acls import permitted, section
from tests.cluster.failover_stage import Link
from tests.cluster.isolated_links import READ, RECORDS, OwnLinks, at_work
from tests.cluster.link_command import GO

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(300)]

PLANS = ("planned", "unplanned")
THERE = {"Clients leave": ("primary",), "Clients join": ("secondary",)}

READ_ONLY = section("## Read-only commands")
FAILOVER = [*READ_ONLY, *section("## Journal"), *section("## Failover and failback", THERE)]


def placeholders(stage: Link) -> dict[str, Sequence[str]]:
    """Return what replaces the placeholders of the page."""
    aliases = ("primary", "secondary")
    own = {"TOPICS": [stage.topic], "GROUPS": [stage.group], "LINK": [stage.link]}
    return {**own, "ALIAS": aliases}


def test_read_only_commands_need_only_the_read_only_permissions(links: OwnLinks) -> None:
    stage = links.make()
    at_work(stage)
    stage.copied(RECORDS)
    with permitted(stage.site.clusters, stage.drctl, placeholders(stage), *READ_ONLY):
        gap = stage.json("gap", code=0)
        translated = stage.json("offsets", "translate", code=0)
        status = stage.json("status", code=1)
    assert gap["totals"]["unreplicated"] == 0
    assert {row["target_offset"] for row in translated["rows"]} == {READ}
    # Only what would write is refused for lack of permission.
    blocking = {each["check"] for plan in PLANS for each in status[plan]["blockers"]}
    assert blocking == {"fence-not-possible", "journal-not-writable"}
    unreadable = [each for each in status["other_findings"] if "may not" in str(each)]
    assert not unreadable


def test_a_planned_failover_needs_the_documented_permissions(links: OwnLinks) -> None:
    stage = links.make()
    at_work(stage)
    stage.copied(RECORDS)
    with permitted(stage.site.clusters, stage.drctl, placeholders(stage), *FAILOVER):
        done = stage.json("failover", *GO, code=0)
    assert done["status"] == "done"


def test_offsets_are_tracked_with_the_documented_permissions(links: OwnLinks) -> None:
    stage = links.make()
    at_work(stage)
    tracking = section("## Offset tracking")
    with permitted(stage.site.clusters, stage.drctl, placeholders(stage), *tracking):
        stage.json("offsets", "track", "--once", *GO, code=0)
