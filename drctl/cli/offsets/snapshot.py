"""Takes and saves the snapshot of `drctl offsets snapshot`."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.console import console
from drctl.cli.settings import configuration
from drctl.model.errors import Unknown, UsageError

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.offsets.snapshot import Filters, Snapshot


def save_snapshot(
    cluster: str | None, groups: tuple[str, ...], topics: tuple[str, ...], out: Path | None
) -> int:
    """Read all positions, write the file, show what is in it."""
    from drctl.cli.offsets.plan_table import snapshot_table
    from drctl.offsets.snapshot import Filters, snapshot_document, snapshot_text
    from drctl.report.private_file import write_whole

    filters = Filters(groups, topics)
    config = configuration()
    name = cluster or _only(config)
    began = time.monotonic()
    taken = _take(config, name, filters)
    file = out or config.state_dir / "offsets" / f"{name}-{taken.taken:%Y%m%dT%H%M%S.%fZ}.json"
    document = snapshot_document(taken, str(file), time.monotonic() - began)
    try:
        write_whole(file, snapshot_text(document))
    except OSError as error:
        raise Unknown(f"{file} cannot be written: {error.strerror}", "choose --out") from None
    if shares := taken.without_positions:
        console().note(f"share groups have no committed offsets: {', '.join(shares)}")
    console().result(lambda: snapshot_table(taken, str(file)), document)
    return int(taken.exit_code)


def _take(config: "Config", name: str, filters: "Filters") -> "Snapshot":
    from drctl.offsets.snapshot import take

    settings = config.cluster(name)
    with (
        console().task(f"reading the groups of {name}"),
        wiring.open_group_reader(name, settings) as groups,
        wiring.open_reader(name, settings) as reader,
    ):
        cluster_id, now = reader.cluster_id(), datetime.now(UTC)
        return take(groups, cluster=name, cluster_id=cluster_id, taken=now, filters=filters)


def _only(config: "Config") -> str:
    from drctl.config.problems import one_of

    names = tuple(config.clusters)
    if len(names) == 1:
        return names[0]
    raise UsageError("which cluster?", f"--cluster: {one_of(names)}")
