"""Write a complete drctl.yaml for the lab."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Annotated, Literal

from drctl.config.draft import write_new
from drctl.lab.cluster import LabCluster
from drctl.lab.mirrors import Direction
from drctl.lab.parts import Parts
from drctl.model.document import OPTIONAL, Document, Name

GROUPS = ("orders-app.*",)
"""Consumer groups of the lab's application."""


def describe(
    parts: Parts,
    topics: Sequence[str] = (),
    groups: Sequence[str] = GROUPS,
    endpoint: str | None = None,
    reverse: str | None = None,
) -> str:
    """Build the text of the file; passwords are references to the lab's files.

    Args:
        topics: topics of the link; by default those that MirrorMaker 2 replicates.
        groups: consumer groups of the link.
        endpoint: file with the bootstrap address that clients use; optional.
        reverse: name of a reverse connector that the lab did not create; optional.
    """
    chosen = topics or (f"{parts.settings.mirrored}.*",)
    clusters = "".join(_cluster(cluster) for cluster in parts.clusters)
    return f"""\
# drctl.yaml for the lab in {parts.root}
# Written by: drctl lab env

clusters:
{indent(clusters, "  ")}
links:
  main:                       # replication from one cluster to the other
    from: primary
    to: secondary
    topics: {json.dumps(list(chosen))}     # full-match regular expressions, also for exclude:
    groups: {json.dumps(list(groups))}  # consumer groups whose offsets matter
    replicator:
      kind: mirrormaker2      # mirrormaker2 | confluent-replicator | offset-preserving | none
      connect: {_urls(parts)}
{indent(_connectors(parts.directions[0]) + _reverse(parts, reverse), "      ")}
    fence:                    # how applications are blocked from writing to the source
      method: acl             # acl | command | none
      principals: ["User:orders-app"]
{_endpoint(endpoint)}
policy:
  max_lag_records: 0          # a planned failover is blocked above this lag
  max_rpo_seconds: 30
  order: per-key              # per-key | per-partition | none: ordering that applications need

spark:
  master: local[*]            # any master URL; conf: {{...}}; jars: [...] without Maven access

state_dir: .drctl             # journals and results, relative to this file
"""


class BootstrapDocument(Document):
    """Bootstrap servers of a cluster."""

    bootstrap: Name


class LabEnvDocument(Document):
    """The drctl.yaml written for a lab.

    Attributes:
        secrets: folder of the files that hold the passwords.
        reverse_connector: the connector that a failback starts; of --failback.
        endpoint: file from which clients read the address of their cluster; of --failback.
    """

    SCHEMA = "drctl/lab-env/1"
    file: Name
    clusters: Mapping[Literal["primary", "secondary"], BootstrapDocument]
    connect: Name
    secrets: Name
    reverse_connector: Annotated[Name | None, OPTIONAL] = None
    endpoint: Annotated[Name | None, OPTIONAL] = None


def write_environment(
    parts: Parts,
    file: Path,
    topics: Sequence[str] = (),
    groups: Sequence[str] = GROUPS,
    endpoint: str | None = None,
    reverse: str | None = None,
) -> LabEnvDocument:
    """Write the file unless it exists with the same content; return `drctl/lab-env/1`.

    Raises:
        Refused: another file of this name exists.
        UsageError: it cannot be written there.
    """
    text = describe(parts, topics, groups, endpoint, reverse)
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        write_new(file, text)
    return LabEnvDocument(
        file=str(file.absolute()),
        clusters=bootstraps(parts),
        connect=parts.worker.url,
        secrets=str(parts.clusters[0].password_file("admin").parent),
        reverse_connector=reverse,
        endpoint=str((file.parent / endpoint).absolute()) if endpoint else None,
    )


def bootstraps(parts: Parts) -> Mapping[Literal["primary", "secondary"], BootstrapDocument]:
    """Bootstrap servers of both clusters."""
    found = {each.name: BootstrapDocument(bootstrap=each.bootstrap) for each in parts.clusters}
    return {"primary": found["primary"], "secondary": found["secondary"]}


def in_words(document: LabEnvDocument) -> str:
    """The document as text."""
    clusters = (f"  {name:<12}{each.bootstrap}" for name, each in document.clusters.items())
    reverse, endpoint = document.reverse_connector, document.endpoint
    return "\n".join(
        (
            f"Wrote {document.file}",
            *clusters,
            f"  {'connect':<12}{document.connect}",
            f"  {'passwords':<12}{document.secrets}/CLUSTER-USER",
            *((f"  {'reverse':<12}connector {reverse}",) if reverse else ()),
            *((f"  {'endpoint':<12}{endpoint}",) if endpoint else ()),
        )
    )


def _cluster(cluster: LabCluster) -> str:
    properties = cluster.public_properties("admin")
    bootstrap = properties.pop("bootstrap.servers")
    properties["sasl.password"] = f"${{file:{cluster.password_file('admin')}}}"
    lines = "".join(f"    {name}: {value}\n" for name, value in properties.items())
    head = f"{cluster.name}:\n  bootstrap: {bootstrap}"
    return f"{head}\n  properties:  # any librdkafka property\n{lines}"


def _urls(parts: Parts) -> str:
    """The URLs of the Connect workers, as in drctl.yaml."""
    urls = [worker.url for worker in parts.workers]
    return json.dumps(urls) if len(urls) > 1 else urls[0]


def _connectors(direction: Direction) -> str:
    names = ", ".join(f"{kind}: {name}" for kind, name in direction.names.items())
    return f"connectors: {{{names}}}\nrename: {direction.rename}  # topic name on the target"


def _endpoint(file: str | None) -> str:
    if file is None:
        return ""
    return f"""\
    endpoints:                # where clients look up their cluster
      - {{kind: file, path: {json.dumps(file)}}}
"""


def _reverse(parts: Parts, connector: str | None) -> str:
    if len(parts.directions) > 1:
        inner = f"connect: {_urls(parts)}\n{_connectors(parts.directions[1])}"
    elif connector:
        inner = f"connect: {_urls(parts)}\nconnectors: {{source: {connector}}}"
    else:
        return ""
    return f"\nreverse:                # replication for failback\n{indent(inner, '  ')}"
