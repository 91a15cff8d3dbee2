"""`drctl offsets translate` and `explain`: where groups go on reading on the target."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli import wiring
from drctl.cli.console import console
from drctl.cli.settings import configuration

if TYPE_CHECKING:
    from rich.console import RenderableType

    from drctl.config.link import Link
    from drctl.offsets.link_translation import LinkTranslated

Linked = Annotated[
    str | None, typer.Option(metavar="LINK", help="A link of drctl.yaml; else the only one.")
]
Time = Annotated[
    datetime | None,
    typer.Option(
        metavar="TIME",
        formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S"],
        help="Where nothing else is known: the first records of this time (UTC).",
    ),
]


def translate(
    link: Linked = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP", help="Only groups that match this; may be repeated."),
    ] = None,
    timestamp: Time = None,
) -> int:
    """Say where each group goes on reading on the target, how sure that is, and why.

    Nothing is written. Exit codes: 0 every position is known, 1 a row must be looked at, 5 evidence
    is missing.
    """
    chosen = configuration().link(link)
    wiring.meet(chosen)
    result = _translated(chosen, tuple(group or ()), timestamp)
    _show(chosen, result)
    from drctl.offsets.translation_json import exit_code

    return int(exit_code(result))


def explain(
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Its name on the source.")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0)],
    link: Linked = None,
    timestamp: Time = None,
) -> int:
    """Show what every method says of one group and partition, and which one won."""
    import re

    from drctl.model.errors import UsageError

    chosen = configuration().link(link)
    wiring.meet(chosen)
    result = _translated(chosen, (re.escape(group),), timestamp)
    for row in result.rows:
        if row.translation.place.partition == (topic, partition):
            break
    else:
        raise UsageError(
            f"nothing is known of group {group} in {topic}-{partition}",
            "`drctl offsets translate` lists all; topics have their names of the source",
        )

    def table() -> "RenderableType":
        from drctl.cli.offsets.explained import Explanation

        return Explanation(row)

    from drctl.offsets.translation_json import explained_document, questionable

    console().result(table, explained_document(row))
    return int(questionable(row.translation))


def _translated(link: "Link", groups: tuple[str, ...], time: datetime | None) -> "LinkTranslated":
    from datetime import UTC

    from drctl.cli.offsets.run import translated

    given_ms = None if time is None else int(time.replace(tzinfo=UTC).timestamp() * 1000)
    return translated(link, groups, given_ms, unproven=configuration().policy.commits_unproven)


def _show(link: "Link", result: "LinkTranslated") -> None:
    from drctl.offsets.translation_json import translation_document

    def table() -> "RenderableType":
        from drctl.cli.offsets.table import translation_table

        return translation_table(link, result)

    document = translation_document(link.name, link.source, link.target, result)
    console().result(table, document)
