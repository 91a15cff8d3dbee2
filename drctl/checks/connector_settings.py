"""Named settings of a connector or worker, read as Kafka would read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from drctl.checks.check import NotObserved, Verdict, fail, ok, warn
from drctl.checks.observed import Connectors, Observed
from drctl.model.replication import Connector
from drctl.model.topology import Unavailable

T = TypeVar("T")

_FLAGS = {"true": True, "false": False}


class Value(NamedTuple, Generic[T]):
    """What a setting says, and what a check says of that.

    Attributes:
        subject: whose setting it is, in words for a person.
        evidence: how it came to this value.
    """

    subject: str
    value: T
    evidence: str

    def ok(self, reason: str, cost: str = "") -> Verdict:
        """All is well; it may cost something all the same."""
        return ok(self.subject, reason, self.evidence, cost)

    def warn(self, reason: str, cost: str, cure: str) -> Verdict:
        """It would cost something."""
        return warn(self.subject, reason, self.evidence, cost, cure)

    def fail(self, reason: str, cost: str, cure: str) -> Verdict:
        """A failover would go wrong."""
        return fail(self.subject, reason, self.evidence, cost, cure)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one thing.

    Attributes:
        subject: whose they are, in words for a person.
    """

    subject: str
    values: Mapping[str, str]

    def text(self, key: str, default: str) -> Value[str]:
        """The value, or what Kafka takes where there is none.

        Raises:
            NotObserved: it stands somewhere else, and only a reference to it here.
        """
        if key not in self.values:
            return Value(
                self.subject, default, f"{key} is not set; the default is {default or 'empty'}"
            )
        value = self.values[key].strip()
        if "${" in value:
            raise NotObserved(
                self.subject,
                f"{key} is a reference, whose value only the worker knows",
                f"look at what {key} of {self.subject} refers to",
                f"{key}={value}",
            )
        return Value(self.subject, value, f"{key}={value}")

    def integer(self, key: str, default: int) -> Value[int]:
        """The same, as a number.

        Raises:
            NotObserved: it is none, or a reference.
        """
        seen = self.text(key, str(default))
        try:
            return Value(self.subject, int(seen.value), seen.evidence)
        except ValueError:
            raise self._odd(key, "a whole number", seen.evidence) from None

    def flag(self, key: str, default: bool) -> Value[bool]:
        """The same, as true or false.

        Raises:
            NotObserved: it is neither, or a reference.
        """
        seen = self.text(key, str(default).lower())
        if (value := _FLAGS.get(seen.value.lower())) is None:
            raise self._odd(key, "true or false", seen.evidence)
        return Value(self.subject, value, seen.evidence)

    def words(self, key: str, default: str) -> Value[tuple[str, ...]]:
        """The same, as a list with commas between.

        Raises:
            NotObserved: it is a reference.
        """
        seen = self.text(key, default)
        listed = (word.strip() for word in seen.value.split(","))
        return Value(self.subject, tuple(word for word in listed if word), seen.evidence)

    def _odd(self, key: str, kind: str, evidence: str) -> NotObserved:
        return NotObserved(
            self.subject,
            f"{key} is not {kind}: how the worker reads it is not known",
            f"correct {key} of {self.subject}",
            evidence,
        )


def worker_settings(observed: Observed) -> Settings:
    """Those of the Connect workers.

    Raises:
        NotObserved: nobody has them.
    """
    if isinstance(observed.worker, Unavailable):
        raise NotObserved(
            "Connect workers",
            f"their configuration is not known: {observed.worker.reason}",
            "look at the properties file that the workers were started with",
        )
    return Settings("Connect workers", observed.worker)


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
