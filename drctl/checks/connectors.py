"""Which of the connectors are those of a link."""

from collections.abc import Mapping

from drctl.checks.check import NotObserved
from drctl.checks.observed import Connector, Connectors, Observed
from drctl.checks.settings import Settings
from drctl.model.topology import Unavailable

SOURCE, CHECKPOINT, REPLICATOR = (
    "MirrorSourceConnector",
    "MirrorCheckpointConnector",
    "ReplicatorSourceConnector",
)


def all_connectors(observed: Observed) -> Connectors:
    """Everything on the workers that replicate the link.

    Raises:
        NotObserved: they could not be asked.
    """
    if isinstance(observed.connectors, Unavailable):
        raise NotObserved(
            "Connect",
            f"its connectors are not known: {observed.connectors.reason}",
            "set `replicator.connect` of the link in drctl.yaml to the workers' REST interface, or"
            " look at the connectors' configuration",
        )
    return observed.connectors


def required(observed: Observed, class_name: str) -> Settings:
    """The settings of the link's connector of a class.

    Raises:
        NotObserved: it was not seen, or is not there.
    """
    found = find(observed, class_name)
    if found is None:
        raise NotObserved(
            f"{class_name} of the link",
            "the workers have no such connector",
            "see the check of the connectors themselves",
        )
    return settings_of(found)


def find(observed: Observed, class_name: str) -> Connector | None:
    """The link's connector of a class; None where the workers have none.

    Raises:
        NotObserved: the workers could not be asked, or it could be several.
    """
    named = observed.link.settings.replicator.connectors
    name = named.checkpoint if class_name == CHECKPOINT else named.source
    return _one(all_connectors(observed), class_name, name, "replicator.connectors")


def reverse_replicator(observed: Observed) -> Settings:
    """The Replicator that would copy back.

    Raises:
        NotObserved: it was not seen, or there is none yet.
    """
    look = "deploy it stopped, and set `replicator.reverse` of the link in drctl.yaml"
    if isinstance(observed.reverse, Unavailable):
        reason = f"its connectors are not known: {observed.reverse.reason}"
        raise NotObserved("reverse Replicator", reason, look)
    reverse = observed.link.settings.replicator.reverse
    name = reverse.connectors.source if reverse else None
    found = _one(observed.reverse, REPLICATOR, name, "replicator.reverse.connectors")
    if found is None:
        raise NotObserved("reverse Replicator", "there is none yet", look)
    return settings_of(found)


def settings_of(connector: Connector) -> Settings:
    """What it is configured with."""
    return Settings(f"connector {connector.name}", connector.config)


def simple_class(config: Mapping[str, str]) -> str:
    """The connector's class without its package; Connect takes short names, too."""
    name = config.get("connector.class", "").rpartition(".")[2]
    return name if name.endswith("Connector") else f"{name}Connector"


def _one(connectors: Connectors, class_name: str, name: str | None, key: str) -> Connector | None:
    if name is not None:
        return connectors.get(name)
    found = [c for _, c in sorted(connectors.items()) if simple_class(c.config) == class_name]
    if len(found) > 1:
        names = ", ".join(connector.name for connector in found)
        raise NotObserved(
            f"{class_name} of the link",
            f"it may be one of several: {names}",
            f"name it in `{key}` of the link in drctl.yaml",
        )
    return found[0] if found else None
