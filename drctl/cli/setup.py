"""`drctl init`, `drctl schema` and `drctl completion`: set up drctl."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.app import adapters
from drctl.cli.console import console
from drctl.host import connections
from drctl.model.errors import Unreachable, UsageError
from drctl.model.health import AuthenticationFailed, NoClusterResponds
from drctl.model.text import Lines, plural
from drctl.model.text import lines as meant

if TYPE_CHECKING:
    from drctl.config.draft import Draft, Seen
    from drctl.config.schema import ClusterConfig
    from drctl.model.ports import ClusterReader


class Shell(StrEnum):
    """Supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")],
) -> None:
    """Print a completion script for your shell.

    Examples:
        source <(drctl completion bash)    # add to ~/.bashrc
        source <(drctl completion zsh)     # add to ~/.zshrc, after compinit
        drctl completion fish > ~/.config/fish/completions/drctl.fish
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    from drctl.cli.main import COMPLETION_VARIABLE
    from drctl.views.command_documents import CompletionDocument

    script = get_completion_script(
        prog_name="drctl", complete_var=COMPLETION_VARIABLE, shell=shell.value
    )
    console().result(Lines(script), CompletionDocument(shell=shell.value, script=script))


_SECRETS = "Write secrets as ${env:NAME} or ${file:PATH}. Repeatable."


def init(
    primary: Annotated[
        str,
        typer.Argument(metavar="PRIMARY", help="Bootstrap servers of the source: HOST:PORT,..."),
    ],
    secondary: Annotated[
        str,
        typer.Argument(metavar="SECONDARY", help="Bootstrap servers of the target: HOST:PORT,..."),
    ],
    connect: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Kafka Connect worker URL. Repeatable.")
    ] = None,
    primary_property: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help=f"librdkafka property to connect to PRIMARY. {_SECRETS}"
        ),
    ] = None,
    secondary_property: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help=f"librdkafka property to connect to SECONDARY. {_SECRETS}"
        ),
    ] = None,
    output_file: Annotated[Path, typer.Option(metavar="FILE", help="File to write.")] = Path(
        "drctl.yaml"
    ),
) -> None:
    """Create a commented drctl.yaml for two clusters.

    Finds the topics and the connectors of MirrorMaker 2 or Confluent Replicator. Changes no
    cluster and overwrites no file.

    Examples:
        drctl init broker-a:9092 broker-b:9092
        drctl init broker-a:9092 broker-b:9092 --connect http://connect:8083
        drctl init broker-a:9093 broker-b:9093 --primary-property security.protocol=SSL
            --secondary-property security.protocol=SSL
    """
    file = output_file
    from drctl.config.draft import must_be_free, write_new
    from drctl.config.given import given_cluster
    from drctl.config.loading import read

    must_be_free(file)
    clusters = {
        "primary": given_cluster("primary", primary, primary_property or (), file.parent),
        "secondary": given_cluster("secondary", secondary, secondary_property or (), file.parent),
    }
    with console().task("reading both clusters"):
        draft = _look(clusters, connect or (), file.parent)
    text = draft.text()
    read(text, file)
    write_new(file, text)
    _show(draft, file)


def _look(clusters: "Mapping[str, ClusterConfig]", urls: Sequence[str], folder: Path) -> "Draft":
    from drctl.config.draft import Draft, find_mirrors, must_differ
    from drctl.config.given import given_url, holds_password
    from drctl.config.secret import hide_user_info, reveal

    for url in filter(holds_password, urls):
        raise UsageError(
            f"--connect: {hide_user_info(url)} contains a password that other users can see",
            "use a reference: --connect 'http://user:${env:NAME}@host:8083'",
        )
    addresses = {u: reveal(given_url("--connect", u, folder).resolve(os.environ)) for u in urls}
    with ExitStack() as opened:
        readers = {
            name: opened.enter_context(closing(adapters.reader(name, cluster).topics))
            for name, cluster in clusters.items()
        }
        workers = {
            url: opened.enter_context(closing(adapters.connect_client(address)))
            for url, address in addresses.items()
        }
        first, second = _both(readers, clusters)
        must_differ(first, second)
        return Draft(first, second, find_mirrors(workers, first, second))


def _both(
    readers: "Mapping[str, ClusterReader]", clusters: "Mapping[str, ClusterConfig]"
) -> "tuple[Seen, Seen]":
    """Look at both clusters; there is no drctl.yaml yet that a hint could refer to.

    Raises:
        Unreachable: at least one of them did not answer.
    """
    from drctl.config.draft import see

    connections.begin()
    seen: list[Seen] = []
    silent: list[Unreachable] = []
    for name, reader in readers.items():
        try:
            seen.append(see(reader, clusters[name]))
        except AuthenticationFailed:
            raise
        except Unreachable as error:
            error.hint = (
                f"check the address of the {name}, check that its brokers are running, and check"
                f" --{name}-property security.protocol=..."
            )
            silent.append(error)
    if len(silent) > 1:
        neither = NoClusterResponds(error.message for error in silent)
        neither.hint = (
            "check this host's network, VPN, DNS and firewall first; then both addresses, and"
            " --primary-property and --secondary-property security.protocol=..."
        )
        raise neither
    if silent:
        raise silent[0]
    first, second = seen
    return first, second


def _show(draft: "Draft", file: Path) -> None:
    from drctl.views.command_documents import InitCluster, InitDocument

    first, second = (
        InitCluster(name=seen.name, id=seen.cluster_id, topics=len(seen.topics))
        for seen in (draft.first, draft.second)
    )
    lines = [f"{c.name:<10} {c.id}, {plural(c.topics, 'topic')}" for c in (first, second)]
    lines += [f"{'link':<10} {draft.link}: {draft.kind}", f"wrote {file}"]
    config = "" if file == Path("drctl.yaml") else f" --config {quote(str(file))}"
    lines.append(f"next: add `fence` and `endpoints` to it, then run: drctl{config} doctor")
    for note in draft.notes():
        console().note(note)
    console().result(
        meant(lines),
        InitDocument(
            file=str(file),
            clusters=(first, second),
            link=draft.link,
            replicator=draft.kind,
            notes=draft.notes(),
        ),
    )


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Value of the `schema` field: gap, gap/1 or drctl/gap/1. Without it,"
            " all names are listed.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of drctl's JSON output.

    Examples:
        drctl schema                             # all names
        drctl schema gap
        drctl schema run/1 > run.schema.json
    """
    from drctl.views.command_documents import SchemaDocument, SchemasDocument
    from drctl.views.schemas import names, schema_of

    if name is None:
        every = tuple(names())
        console().result(Lines("\n".join(every)), SchemasDocument(names=every))
        return
    wanted, _, number = name.removeprefix("drctl/").partition("/")
    if wanted not in names() or number not in ("", "1"):
        raise UsageError(*_unknown(name, names()))
    made = schema_of(wanted)
    document = SchemaDocument(name=wanted, version=1, json_schema=made)
    console().result(Lines(json.dumps(made, indent=2)), document)


def _unknown(name: str, versions: Sequence[str]) -> tuple[str, str]:
    from difflib import get_close_matches

    near = get_close_matches(name, versions, n=1)
    message = f"unknown document {name!r}"
    if near:
        message += f"; did you mean '{near[0]}'?"
    return message, f"documents: {', '.join(versions)}"
