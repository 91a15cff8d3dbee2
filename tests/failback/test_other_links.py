"""Replication of other links between the two clusters, once the lost one has recovered."""

from collections.abc import Mapping

import pytest

from drctl.failback.blockers import OtherLink, other_links
from drctl.model.finding import Status
from drctl.model.replication import Connector, Task
from drctl.model.topology import Unavailable


def warnings_of(known: Mapping[str, Connector] | Unavailable) -> list[str]:
    found = list(other_links([OtherLink("west", "secondary", "primary", ("ba",), known)]))
    assert {each.status for each in found} <= {Status.WARN}
    return [f"{each.subject}: {each.reason} | {each.remedy}" for each in found]


def test_running_replication_is_not_mentioned() -> None:
    assert (
        warnings_of({"ba": Connector("ba", "source", {}, "RUNNING", (Task(0, "RUNNING"),))}) == []
    )


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (
            {"ba": Connector("ba", "source", {}, "RUNNING", (Task(0, "FAILED"),))},
            "connector ba has failed: secondary -> primary is not replicated | drctl connect"
            " recover --link west",
        ),
        ({"ba": Connector("ba", "source", {}, "STOPPED")}, "connector ba is STOPPED"),
        ({}, "connector ba does not exist"),
        (Unavailable("no worker answered"), "unknown: no worker answered"),
    ],
)
def test_stopped_replication_is_mentioned(
    known: Mapping[str, Connector] | Unavailable, message: str
) -> None:
    (found,) = warnings_of(known)
    assert message in found
