"""Keeps a connector from being started that would write beside itself, and not where it copies to.

Whether it names a producer of its own is asked again right before it is started: the guards were
asked when the run began, and copying in a loop on the cluster in production is not taken back.
"""

from collections.abc import Iterable

from drctl.checks.connectors import REPLICATOR, SOURCE, simple_class
from drctl.config.producers import NAMED, how_to_write, own_producer
from drctl.engine.ports import Look
from drctl.model.errors import Refused


def must_write_to(target: str, names: Iterable[str], look: Look) -> None:
    """See that none of them is left to a worker of another cluster.

    Raises:
        Refused: one is.
        UsageError: there is no such connector.
        Unreachable: no worker answered, or not the cluster.
    """
    connectors = look.connectors()
    for name in names:
        config = connectors.config(name)
        if simple_class(config) not in (SOURCE, REPLICATOR) or own_producer(config):
            continue
        if connectors.kafka_cluster_id() != look.site(target).cluster_id():
            raise Refused(
                f"connector {name} would not write to {target}: Connect writes to the cluster of"
                f" its worker, which is another one, and the connector has no {NAMED}",
                how_to_write(name, config, target),
            )
