"""Takes back a run of `drctl offsets apply`, from its journal."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.console import console
from drctl.cli.offsets import wiring as offsets_wiring
from drctl.cli.offsets.writing import carry_out, check_confirming, command_line, show_plan
from drctl.cli.settings import configuration
from drctl.model.errors import Refused, Unknown, UsageError

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.model.ports import ClusterReader, GroupReader
    from drctl.offsets.applying import ApplyPlan
    from drctl.offsets.journal import JournaledRun


def undo_offsets(run: str, *, execute: bool, yes: bool, overrides: tuple[str, ...]) -> int:
    """Make the plan that takes the run back, and with `--execute` carry it out."""
    check_confirming(execute, yes)
    config = configuration()
    journaled = _named(config, run) if run else _last(config)
    settings = config.cluster(journaled.cluster)
    with (
        wiring.open_group_reader(journaled.cluster, settings) as groups,
        wiring.open_reader(journaled.cluster, settings) as reader,
    ):
        with console().task(f"looking at {journaled.cluster}"):
            plan = _plan(journaled, groups, reader, overrides)
        if not execute:
            return show_plan(plan, _command_line(journaled, overrides))
        return carry_out(plan, config, groups, yes=yes, undone=journaled.run)


def _plan(
    run: "JournaledRun", groups: "GroupReader", reader: "ClusterReader", overrides: tuple[str, ...]
) -> "ApplyPlan":
    from drctl.offsets.applying import build_plan, parse_overrides
    from drctl.offsets.undoing import taken_back
    from drctl.offsets.wanted import look

    passed = parse_overrides(overrides)
    cluster_id = reader.cluster_id()
    if cluster_id != run.cluster_id:
        raise Refused(
            f"run {run.run} wrote to cluster {run.cluster_id}; {run.cluster} of drctl.yaml is"
            f" {cluster_id} now",
            "use the drctl.yaml with which it was run",
        )
    wanted = taken_back(run)
    return build_plan(
        wanted,
        look(groups, reader, wanted),
        cluster=run.cluster,
        cluster_id=cluster_id,
        origin=f"undo of run {run.run}",
        made=datetime.now(UTC),
        overrides=passed,
        notes=() if run.ended else ("the run did not come to its end",),
    )


def _named(config: "Config", run: str) -> "JournaledRun":
    found = _read(config, run)
    if found is None:
        raise UsageError(f"run {run} wrote nothing", "its journal has no entry")
    return found


def _last(config: "Config") -> "JournaledRun":
    """The newest run that is not itself an undo and may have written something."""
    for run in offsets_wiring.offsets_runs(config):
        found = _read(config, run)
        if found is not None and found.changes and not found.undone:
            return found
    raise UsageError("there is no run to undo", f"journals are in {config.state_dir / 'offsets'}")


def _read(config: "Config", run: str) -> "JournaledRun | None":
    from drctl.offsets.journal import Damaged, read_run

    try:
        return read_run(offsets_wiring.offsets_entries(config, run))
    except Damaged as damaged:
        raise Unknown(
            f"the journal of run {run} is damaged: {damaged}",
            "restore it, or put positions back with `drctl offsets apply --from` a snapshot",
        ) from damaged


def _command_line(run: "JournaledRun", overrides: tuple[str, ...]) -> str:
    given = [word for override in overrides for word in ("--override", override)]
    return command_line(["offsets", "undo", run.run, *given, "--execute"])
