"""What does not go together on the command line of `drctl gap`."""

from dataclasses import dataclass
from pathlib import Path

from drctl.model.errors import UsageError
from drctl.model.gap import Engine


@dataclass(frozen=True, slots=True)
class Given:
    """What was typed."""

    topics: tuple[str, ...]
    scope: str
    ledger: bool
    execute: bool
    yes: bool
    every: str | None
    submit: bool
    out: Path | None
    order: bool
    truncation: bool
    export: Path | None
    events: str | None
    cluster: str | None
    others: bool
    settle: str | None
    engine: Engine


def check(given: Given) -> None:
    """See that it goes together.

    Raises:
        UsageError: it does not.
    """
    _check_events(given)
    _check_scope(given)
    _check_writing(given)
    if given.order and given.ledger:
        raise UsageError(
            "--order does not go with --ledger: a ledger does not know in which order records are",
            "leave out one of them",
        )
    _check_export(given)
    _check_engine(given)


def _check_events(given: Given) -> None:
    if given.events is None:
        if given.cluster is not None:
            raise UsageError(
                "--cluster goes with --identity: everything else looks at both ends of a link",
                "name a link with --link",
            )
        return
    others = (given.ledger, given.every, given.submit, given.out, given.order, given.truncation)
    if any(others) or given.settle or given.scope != "auto":
        raise UsageError(
            "--identity looks within topics of one cluster, and goes with --topic, --cluster and"
            " --link only",
            "leave out the other options",
        )
    if not given.topics:
        raise UsageError("--identity looks within topics that are named", "add --topic TOPIC")


def _check_scope(given: Given) -> None:
    if given.ledger and given.scope in ("tail", "estimate"):
        raise UsageError(
            f"--ledger goes with --scope full or auto, not with {given.scope}",
            "with a ledger, full reads no more than the tail",
        )
    if given.scope == "estimate" and (given.every or given.submit or given.out):
        raise UsageError("--scope estimate needs no Spark, runs once, and leaves no files")
    if given.scope == "estimate" and (given.order or given.truncation):
        raise UsageError(
            "--order and --view truncation go by records, and --scope estimate reads none",
            "use --scope full or tail",
        )
    if given.scope == "estimate" and given.settle:
        raise UsageError(
            "--settle waits for records to arrive, and --scope estimate reads none",
            "use --scope full or tail",
        )
    if given.every and given.submit:
        raise UsageError("--every keeps one Spark session; --submit starts one for each run")


def _check_writing(given: Given) -> None:
    if given.execute and not given.ledger:
        raise UsageError("--execute goes with --ledger: nothing else of drctl gap writes")
    if given.yes and not given.execute:
        raise UsageError("--yes goes with --execute: nothing is asked otherwise")


def _check_engine(given: Given) -> None:
    if given.engine is Engine.AUTO:
        return
    if given.scope == "estimate" or given.events is not None:
        other = "--identity" if given.events else "--scope estimate"
        raise UsageError(
            f"--engine is for comparing records; it does not go with {other}",
            "leave out one of them",
        )
    if given.submit and given.engine is Engine.DIRECT:
        raise UsageError(
            "--submit runs on a Spark cluster; it does not go with --engine direct",
            "leave out one of them",
        )


def _check_export(given: Given) -> None:
    if given.export is None:
        if given.others:
            raise UsageError("--others goes with --export", "add --view truncation --export DIR")
        return
    if not given.truncation:
        raise UsageError(
            "--export goes with --view truncation",
            "drctl reconcile exports any result of drctl gap",
        )
    if given.every:
        raise UsageError("--export runs once: it does not go with --every")
    if given.export.exists() and (not given.export.is_dir() or any(given.export.iterdir())):
        raise UsageError(f"{given.export} is not an empty folder", "name another with --export")
