"""Exports the positions of connectors, and gives them to those of other workers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli.confirmation import confirm
from drctl.cli.connect import wiring as connect_wiring
from drctl.cli.console import console
from drctl.cli.offsets.writing import check_confirming, command_line
from drctl.cli.settings import configuration
from drctl.cli.stopping import stoppable
from drctl.connectors.applying import OffsetsPlan, build_plan, parse_overrides
from drctl.connectors.connector import Connector
from drctl.connectors.diagnosis import Ward
from drctl.connectors.positions import Export, Kept, export_document, kept, read_export
from drctl.model.errors import ConfigError, DrctlError, ExitCode, Interrupted, Unknown, UsageError
from drctl.model.strict_json import read_json
from drctl.report.printable import plural

if TYPE_CHECKING:
    from drctl.cli.connect.wiring import ConnectCluster
    from drctl.config.configuration import Config
    from drctl.connectors.ports import Workers
    from drctl.connectors.writing import OffsetsResult


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """What the command line says."""

    connect: str | None
    link: str | None
    connectors: tuple[str, ...]
    source: Path
    renames: tuple[str, ...]
    overrides: tuple[str, ...]
    execute: bool = False
    yes: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The command line that carries this out."""
        words = ["connect", "offsets", "apply", "--from", str(self.source)]
        words += ["--connect", connect_wiring.retyped(self.connect)] if self.connect else []
        words += ["--link", self.link] if self.link else []
        for option, values in (
            ("--connector", self.connectors),
            ("--rename", self.renames),
            ("--override", self.overrides),
        ):
            for value in values:
                words += [option, value]
        return (*words, "--execute")


def export_offsets(
    connect: str | None, link: str | None, names: tuple[str, ...], out: Path | None
) -> int:
    """Read all positions, write the file, show what is in it.

    Raises:
        Unreachable: no worker answered.
        Unknown: the file cannot be written.
    """
    from drctl.cli.connect.table import export_table
    from drctl.report.private_file import write_whole

    config = configuration()
    cluster = connect_wiring.only_workers(config, connect, link)
    now = datetime.now(UTC)
    with connect_wiring.ward(cluster) as workers, console().task("asking the workers"):
        where = cluster.place
        chosen = _chosen(Ward(where, tuple(workers.all().values())), names)
        connectors = tuple(_kept(each, workers) for each in chosen)
        export = Export(where, workers.kafka_cluster_id(), now.isoformat(), connectors)
    file = out or config.state_dir / "connect" / f"offsets-{now:%Y%m%dT%H%M%S.%fZ}.json"
    document = export_document(export, str(file))
    try:
        write_whole(file, json.dumps(document, indent=2) + "\n")
    except OSError as error:
        raise Unknown(f"{file} cannot be written: {error.strerror}", "choose --out") from None
    console().result(lambda: export_table(export, str(file)), document)
    return int(ExitCode.UNKNOWN if any(each.unread for each in connectors) else ExitCode.DONE)


def apply_offsets(given: ApplyOptions) -> int:
    """Make the plan, and with `--execute` carry it out."""
    check_confirming(given.execute, given.yes)
    overrides = parse_overrides(given.overrides)
    renamed = _renamed(given.renames)
    export = _read(given.source)
    config = configuration()
    cluster = connect_wiring.only_workers(config, given.connect, given.link)
    where = cluster.place
    with connect_wiring.ward(cluster) as workers:
        with console().task("asking the workers"):
            plan = build_plan(export, given.connectors, renamed, workers, where, overrides)
        if not given.execute:
            return _show(plan, given)
        return _carry_out(plan, given, config, cluster)


def _chosen(ward: Ward, names: Sequence[str]) -> tuple[Connector, ...]:
    from drctl.connectors.diagnosis import chosen

    return chosen(ward, names) if names else ward.connectors


def _kept(connector: Connector, workers: "Workers") -> Kept:
    try:
        return kept(connector, workers.positions(connector.name))
    except DrctlError as silent:
        return kept(connector, (), silent.message)


def _read(file: Path) -> Export:
    try:
        return read_export(read_json(file.read_text(encoding="utf-8")), str(file))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(
            f"{file}: {error}", "give what `drctl connect offsets export` wrote"
        ) from None


def _renamed(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in given:
        old, _, new = (part.strip() for part in text.partition("="))
        if not old or not new:
            raise UsageError(f"--rename {text!r} is not OLD=NEW")
        found[old] = new
    return found


def _show(plan: OffsetsPlan, given: ApplyOptions) -> int:
    from drctl.cli.connect.table import offsets_plan_table
    from drctl.connectors.documents import offsets_plan_document

    execute = command_line(given.words)
    document = offsets_plan_document(plan, execute)
    console().result(lambda: offsets_plan_table(plan, execute), document)
    return int(ExitCode.REFUSED if plan.refused else ExitCode.DONE)


def _carry_out(
    plan: OffsetsPlan, given: ApplyOptions, config: "Config", cluster: "ConnectCluster"
) -> int:
    from drctl.cli.connect.table import offsets_result_table
    from drctl.connectors.documents import offsets_result_document
    from drctl.connectors.writing import nothing_written

    result = nothing_written(plan)
    if plan.writes:
        names = {line.connector for line in plan.writes}
        written = plural(len(plan.writes), "position")
        confirm(plan.workers, f"{written} of {plural(len(names), 'connector')}", yes=given.yes)
        result = _written(plan, config, cluster)
    undo = _undo(result, given)
    document = offsets_result_document(result, undo)
    console().result(lambda: offsets_result_table(result, undo), document)
    return int(result.exit_code)


def _written(plan: OffsetsPlan, config: "Config", cluster: "ConnectCluster") -> "OffsetsResult":
    from drctl.connectors.writing import Writing

    run = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    with (
        connect_wiring.ward(cluster) as workers,
        connect_wiring.curer(cluster) as writer,
        connect_wiring.notebook(config, run) as notebook,
        stoppable() as clock,
        console().task(f"writing to {plan.workers}"),
    ):
        writing = Writing(workers, writer, notebook, clock, lambda: datetime.now(UTC))
        try:
            return writing.run(plan, run, workers.kafka_cluster_id())
        except KeyboardInterrupt:
            message = f"interrupted: what may have been written stands in {notebook.where}"
            raise Interrupted(message, "see what is there: drctl connect offsets export") from None


def _undo(result: "OffsetsResult", given: ApplyOptions) -> str:
    if not result.before:
        return ""
    words = ["connect", "offsets", "apply", "--from", result.before]
    words += ["--connect", connect_wiring.retyped(given.connect)] if given.connect else []
    words += ["--link", given.link] if given.link else []
    for override in given.overrides:
        words += ["--override", override]
    return command_line([*words, "--execute"])
