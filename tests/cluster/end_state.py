"""The state after a failover and its report: two equal failovers have equal ones."""

from collections.abc import Callable
from typing import Any

from tests.cluster.failover_stage import Stage
from tests.cluster.link_command import LinkCommand


def end_of(stage: Stage, name_of: Callable[[str], str] = str) -> dict[str, Any]:
    """Return all of it.

    Args:
        name_of: the name of a step; empty if it does not count.
    """
    from tests.cluster.isolated_links import positions

    return {
        **report_of(stage, name_of),
        "positions": positions(stage),
        "ends": stage.target.end_offsets(stage.topic),
        "endpoint": stage.directed_to,
        "connector": stage.states(stage.copies)[0],
        "denied": stage.denials(stage.target),
    }


def report_of(on: LinkCommand, name_of: Callable[[str], str] = str) -> dict[str, Any]:
    """Return the report of the newest run without its times."""
    report = on.json("report", on.newest_run, "--verify", code=0)
    return {
        "standing": report["ending"]["status"],
        "writes": report["writes"]["to"],
        "steps": {step: one["status"] for one in report["steps"] if (step := name_of(one["id"]))},
        # After the colon is the error of the dead cluster, which differs from run to run.
        "outstanding": {
            name_of(one["step"]): one["what"].partition(":")[0] for one in report["outstanding"]
        },
        "lost": {name: report["rpo"][name] for name in ("at_least", "exact")},
    }
