"""The tables of the page of permissions are the input of tests on clusters."""

import pytest

from tests.cluster.documented_acls import section

MOVES = {"Clients leave": ("primary",), "Clients join": ("secondary",)}


@pytest.mark.parametrize(
    ("heading", "first"),
    [
        ("## Read-only commands", "TOPICS"),
        ("## Journal", "__drctl_journal"),
        ("## Failover and failback", "kafka-cluster"),
        ("## Repairs", "TOPICS"),
        ("## Offset tracking", "__drctl_anchors"),
        ("## Reconcile", "TOPICS"),
        ("## Drill", "PREFIXdrctl-drill-"),
        ("## Elections", "*"),
    ],
)
def test_every_row_of_a_table_is_understood(heading: str, first: str) -> None:
    found = section(heading, MOVES)
    assert found[0].name == first
    assert all(each.operations for each in found)
