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
        ("## Offsets", "GROUPS"),
        ("## Repairs", "TOPICS"),
        ("## Offset tracking", "__drctl_anchors"),
        ("## Reconcile", "TOPICS"),
        ("## Ledger", "LEDGER"),
        ("## Drill", "PREFIXdrctl-drill-"),
        ("## Elections", "*"),
    ],
)
def test_every_row_of_a_table_is_understood(heading: str, first: str) -> None:
    assert section(heading, MOVES)[0].name == first
