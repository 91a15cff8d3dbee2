"""Compares tails, and tells which missing records were quarantined or discarded before."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli.gap.run import GapOptions, GapRuns
from drctl.cli.notices import notices
from drctl.model.errors import ConfigError, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.gap import GapResult
    from drctl.model.topology import TopicPartition
    from drctl.reconcile.left_before import LeftBefore

Tail = tuple["GapResult", "Mapping[TopicPartition, int]"]
"""What a comparison found, and how many of its missing records were left missing before."""


def compared_tail(config: "Config", link: "Link", options: GapOptions) -> Tail:
    """A comparison; where such records may be among the missing, another that names each.

    Raises:
        Unreachable: one of the clusters did not answer.
    """
    with GapRuns(config, link, options) as runs:
        found = runs.answer()
        before = _before(link, found) if found.totals.unreplicated else {}
        return _named(runs, before) if before else (found, {})


def _before(link: "Link", found: "GapResult") -> "LeftBefore":
    """What may not be read, or not understood, allows for nothing: then all of it is missing."""
    from drctl.cli.reconcile.wiring import reconcile_topic
    from drctl.reconcile.left_before import left_before

    try:
        with reconcile_topic(link) as topic:
            return left_before(topic.kept(), found)
    except (ConfigError, Unknown) as error:
        notices().detail(f"what was decided before is not known, and allows for nothing: {error}")
        return {}


def _named(runs: GapRuns, before: "LeftBefore") -> Tail:
    from drctl.model.topology import TopicPartition
    from drctl.reconcile.left_before import At, counted
    from drctl.systems.parquet.gap_records import read_records

    with tempfile.TemporaryDirectory(prefix="drctl-") as folder:
        out = Path(folder) / "gap"
        found = runs.run(out)
        if not found.totals.unreplicated:
            return found, {}
        rows = read_records(out / found.records_path)
        missing = (At(TopicPartition(row[0], row[1]), row[2], row[3]) for row in rows)
        return found, counted(missing, before)
