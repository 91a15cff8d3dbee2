"""Plans `drctl offsets apply`: from what is wanted and what the target says now."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.console import console
from drctl.cli.offsets.input import Ids, Translate, origin_of, translated, translations
from drctl.cli.offsets.writing import carry_out, check_confirming, command_line, show_plan
from drctl.cli.settings import configuration
from drctl.model.errors import UsageError

if TYPE_CHECKING:
    from drctl.config.link import Link


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """What the command line says."""

    link: str | None
    cluster: str | None
    groups: tuple[str, ...]
    source: Path | None
    execute: bool
    yes: bool
    overrides: tuple[str, ...]


def apply_offsets(given: ApplyOptions, translate: Translate = translations) -> int:
    """Make the plan, and with `--execute` carry it out."""
    from drctl.offsets.applying import build_plan, parse_overrides
    from drctl.offsets.documents import read_document
    from drctl.offsets.wanted import look

    _check(given)
    overrides = parse_overrides(given.overrides)
    document = read_document(given.source) if given.source else None
    config = configuration()
    link = None if given.cluster else config.link(given.link)
    target = link.target if link else str(given.cluster)
    settings = config.cluster(target)
    if link is not None and not given.source:
        wiring.meet(link)
    with (
        wiring.open_group_reader(target, settings) as groups,
        wiring.open_reader(target, settings) as reader,
    ):
        with console().task(f"looking at {target}"):
            ids = Ids(reader.cluster_id(), lambda: _source_id(link))
            if given.source and document:
                origin = origin_of(document, given.source, given.groups, link, target, ids)
            else:
                origin = translated(config, link, given.groups, translate)
            plan = build_plan(
                origin.wanted,
                look(groups, reader, origin.wanted),
                cluster=target,
                cluster_id=ids.target,
                origin=origin.told,
                made=datetime.now(UTC),
                overrides=overrides,
                notes=origin.notes,
                unproven=config.policy.commits_unproven,
            )
        if not given.execute:
            return show_plan(plan, _command_line(given))
        return carry_out(plan, config, groups, yes=given.yes)


def _check(given: ApplyOptions) -> None:
    if given.cluster and given.link:
        raise UsageError("--cluster and --link exclude each other", "a link has its own target")
    check_confirming(given.execute, given.yes)


def _command_line(given: ApplyOptions) -> str:
    words = ["offsets", "apply"]
    words += ["--link", given.link] if given.link else []
    words += ["--cluster", given.cluster] if given.cluster else []
    for group in given.groups:
        words += ["--group", group]
    words += ["--from", str(given.source)] if given.source else []
    for override in given.overrides:
        words += ["--override", override]
    return command_line([*words, "--execute"])


def _source_id(link: "Link | None") -> str:
    if link is None:
        return ""
    with wiring.open_reader(link.source, link.source_config) as reader:
        return reader.cluster_id()
