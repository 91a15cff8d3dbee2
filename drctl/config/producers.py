"""Where a source connector's records go: the worker writes them, with its own producer.

Kafka Connect, not the connector, owns the producer of a source connector. It writes to the cluster
of the worker, whatever `target.cluster.*` says, unless `producer.override.*` names another one
(KIP-458).
"""

from collections.abc import Mapping

from drctl.config.mirrors import brokers

_OVERRIDE = "producer.override."
NAMED = f"{_OVERRIDE}bootstrap.servers"
"""The setting by which a connector names the cluster that it writes to."""

_PREFIXES = ("target.cluster.", "dest.kafka.")
_SECURITY = ("security.", "sasl.", "ssl.")


def own_producer(config: Mapping[str, str]) -> frozenset[str]:
    """Addresses that a connector names for its producer; none: it writes as its worker does."""
    return brokers(config.get(NAMED, "")) - {""}


def how_to_write(connector: str, config: Mapping[str, str], cluster: str) -> str:
    """The settings with which it writes to a cluster; no value of them but addresses is shown.

    Args:
        cluster: its name in drctl.yaml.
    """
    prefix = next((each for each in _PREFIXES if f"{each}bootstrap.servers" in config), "")
    addresses = config.get(f"{prefix}bootstrap.servers", "") if prefix else ""
    told = f"of connector {connector}, while it is STOPPED, set"
    told += f" {NAMED}={addresses or f'the brokers of {cluster}'}"
    keys = sorted(key.removeprefix(prefix) for key in config if prefix and key.startswith(prefix))
    security = [f"{_OVERRIDE}{key}" for key in keys if key.startswith(_SECURITY)]
    if security:
        told += f", and {', '.join(security)} as its {prefix}* has them"
    else:
        told += f", and what {cluster} asks of clients as {_OVERRIDE}security.*, sasl.* and ssl.*"
    return f"{told}; its worker needs connector.client.config.override.policy=All"
