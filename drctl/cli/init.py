"""`drctl init`: a commented drctl.yaml, after looking at two clusters."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drctl.cli import wiring
from drctl.cli.console import console
from drctl.model.errors import UsageError
from drctl.model.lines import lines as meant

if TYPE_CHECKING:
    from drctl.config.draft import Draft
    from drctl.config.schema import ClusterConfig

_HELP = "A librdkafka property; a secret as ${env:NAME} or ${file:PATH}. May be repeated."
_Properties = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help=_HELP)]


def init(
    primary: Annotated[str, typer.Argument(metavar="PRIMARY", help="HOST:PORT,... of the source.")],
    secondary: Annotated[
        str, typer.Argument(metavar="SECONDARY", help="HOST:PORT,... of the target.")
    ],
    connect: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A Kafka Connect worker. May be repeated."),
    ] = None,
    primary_property: _Properties = None,
    secondary_property: _Properties = None,
    file: Annotated[Path, typer.Option(metavar="FILE", help="What to write.")] = Path("drctl.yaml"),
) -> None:
    """Write a commented drctl.yaml after looking at two clusters.

    Finds topics, and MirrorMaker 2 or Replicator connectors. Writes to no cluster, and over no
    file.
    """
    from drctl.config.draft import must_be_free, write_new
    from drctl.config.given import given_cluster
    from drctl.config.loading import read

    must_be_free(file)
    clusters = {
        "primary": given_cluster("primary", primary, primary_property or (), file.parent),
        "secondary": given_cluster("secondary", secondary, secondary_property or (), file.parent),
    }
    with console().task("looking at both clusters"):
        draft = _look(clusters, connect or (), file.parent)
    text = draft.text()
    read(text, file)
    write_new(file, text)
    _show(draft, file)


def _look(clusters: "Mapping[str, ClusterConfig]", urls: Sequence[str], folder: Path) -> "Draft":
    from drctl.config.draft import Draft
    from drctl.config.given import given_url, holds_password
    from drctl.config.secret import hide_user_info, reveal
    from drctl.config.survey import find_mirrors, must_differ, see

    for url in filter(holds_password, urls):
        raise UsageError(
            f"--connect: {hide_user_info(url)} holds a password, and other users can see it here",
            "refer to it: 'http://user:${env:NAME}@host:8083'",
        )
    addresses = {u: reveal(given_url("--connect", u, folder).resolve(os.environ)) for u in urls}
    with ExitStack() as opened:
        readers = {
            name: opened.enter_context(closing(wiring.open_reader(name, cluster)))
            for name, cluster in clusters.items()
        }
        workers = {
            url: opened.enter_context(closing(wiring.connect_client(address)))
            for url, address in addresses.items()
        }
        first, second = (see(reader, clusters[name]) for name, reader in readers.items())
        must_differ(first, second)
        return Draft(first, second, find_mirrors(workers, first, second))


def _show(draft: "Draft", file: Path) -> None:
    clusters: list[dict[str, Any]] = [
        {"name": seen.name, "id": seen.cluster_id, "topics": len(seen.topics)}
        for seen in (draft.first, draft.second)
    ]
    lines = [f"{c['name']:<10} {c['id']}, {c['topics']} topics" for c in clusters]
    for note in draft.notes():
        console().note(note)
    console().result(
        meant([*lines, f"{'link':<10} {draft.link}: {draft.kind}", f"wrote {file}"]),
        {
            "schema": "drctl/init/1",
            "file": str(file),
            "clusters": clusters,
            "link": draft.link,
            "replicator": draft.kind,
            "notes": list(draft.notes()),
        },
    )
