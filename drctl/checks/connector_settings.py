"""Settings of a connector or worker, parsed as Kafka would parse them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Generic, NamedTuple, TypeVar

from drctl.checks.observed import Connectors, Observed
from drctl.checks.verdict import NotObserved, Verdict, fail, ok, require, warn
from drctl.config.fields import UNCHANGED
from drctl.config.mirrors import simple_class
from drctl.model.replication import Connector

T = TypeVar("T")
U = TypeVar("U")

_FLAGS = {"true": True, "false": False}


class Value(NamedTuple, Generic[T]):
    """The value of a setting, with helpers that build verdicts about it.

    Attributes:
        subject: the connector or worker, for messages.
        evidence: the setting as configured, or that the default applies.
    """

    subject: str
    value: T
    evidence: str

    def read_as(self, value: U) -> "Value[U]":
        """The same setting with a parsed value."""
        return Value(self.subject, value, self.evidence)

    def ok(self, reason: str, impact: str = "") -> Verdict:
        """An ok verdict."""
        return ok(self.subject, reason, self.evidence, impact)

    def warn(self, reason: str, impact: str, remedy: str) -> Verdict:
        """A warn verdict."""
        return warn(self.subject, reason, self.evidence, impact, remedy)

    def fail(self, reason: str, impact: str, remedy: str) -> Verdict:
        """A fail verdict."""
        return fail(self.subject, reason, self.evidence, impact, remedy)


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of one connector or worker.

    Attributes:
        subject: the connector or worker, for messages.
    """

    subject: str
    values: Mapping[str, str] = field(repr=False)
    owner: ClassVar[str] = "worker"

    def text(self, key: str, default: str) -> Value[str]:
        """The value as text, or Kafka's default.

        Raises:
            NotObserved: the value is a reference to a secret or variable.
        """
        if key not in self.values:
            return Value(
                self.subject, default, f"{key} is not set; the default is {default or 'empty'}"
            )
        value = self.values[key].strip()
        if "${" in value.replace(UNCHANGED, ""):
            raise NotObserved(
                self.subject,
                f"{key} is a reference that only the {self.owner} can resolve",
                f"check the value that {key} of {self.subject} refers to",
                f"{key}={value}",
            )
        return Value(self.subject, value, f"{key}={value}")

    def integer(self, key: str, default: int) -> Value[int]:
        """The value as a number.

        Raises:
            NotObserved: it is not a number, or a reference.
        """
        text = self.text(key, str(default))
        try:
            return text.read_as(int(text.value))
        except ValueError:
            key = text.evidence.partition("=")[0]
            raise self._odd(key, "a whole number", text.evidence) from None

    def flag(self, key: str, default: bool) -> Value[bool]:
        """The value as true or false.

        Raises:
            NotObserved: it is neither, or a reference.
        """
        text = self.text(key, str(default).lower())
        if (value := _FLAGS.get(text.value.lower())) is None:
            raise self._odd(key, "true or false", text.evidence)
        return text.read_as(value)

    def listed(self, key: str, default: str) -> Value[tuple[str, ...]]:
        """The value as a comma-separated list.

        Raises:
            NotObserved: it is a reference.
        """
        text = self.text(key, default)
        words = (word.strip() for word in text.value.split(","))
        return text.read_as(tuple(filter(None, words)))

    def _odd(self, key: str, kind: str, evidence: str) -> NotObserved:
        return NotObserved(
            self.subject,
            f"{key} is not {kind}: how the {self.owner} interprets it is unknown",
            f"correct {key} of {self.subject}",
            evidence,
        )


WORKER_OPTION = "drctl doctor --worker FILE"


def worker_settings(observed: Observed) -> Settings:
    """The configuration of the Connect workers.

    Raises:
        NotObserved: it is not known.
    """
    subject = "Connect workers"
    look = f"pass the properties file that they were started with: {WORKER_OPTION}"
    return Settings(subject, require(observed.worker, subject, "their configuration is", look))


SOURCE, CHECKPOINT = "MirrorSourceConnector", "MirrorCheckpointConnector"
REPLICATOR = "ReplicatorSourceConnector"


def all_connectors(observed: Observed) -> Connectors:
    """All connectors on the workers that replicate the link.

    Raises:
        NotObserved: the workers could not be queried.
    """
    look = (
        "set `replicator.connect` of the link in drctl.yaml to the workers' REST interface, or"
        " check the connectors' configuration"
    )
    return require(observed.connectors, "Connect", "its connectors are", look)


def required(observed: Observed, class_name: str) -> Settings:
    """The settings of the link's connector of a class.

    Raises:
        NotObserved: it is not known, or not deployed.
    """
    found = find(observed, class_name)
    if found is None:
        raise NotObserved(
            f"{class_name} of the link",
            "the workers have no such connector",
            "see replicator-connector" if class_name == REPLICATOR else "see mm2-connectors",
        )
    return settings_of(found)


def find(observed: Observed, class_name: str) -> Connector | None:
    """The link's connector of a class; None where the workers have none.

    Raises:
        NotObserved: the workers could not be queried, or several connectors match.
    """
    named = observed.link.settings.replicator.connectors
    name = named.checkpoint if class_name == CHECKPOINT else named.source
    return _one(all_connectors(observed), class_name, name, "replicator.connectors")


def reverse_replicator(observed: Observed) -> Settings:
    """The settings of the reverse Replicator.

    Raises:
        NotObserved: it is not known, or not deployed.
    """
    look = "deploy it stopped, and set `replicator.reverse` of the link in drctl.yaml"
    subject, reverse = "reverse Replicator", observed.link.settings.replicator.reverse
    known = require(observed.reverse, subject, "its connectors are", look)
    name = reverse.connectors.source if reverse else None
    found = _one(known, REPLICATOR, name, "replicator.reverse.connectors")
    if found is None:
        raise NotObserved(subject, "it is not deployed yet", look)
    return settings_of(found)


def settings_of(connector: Connector) -> Settings:
    """The settings of a connector."""
    return Settings(f"connector {connector.name}", connector.config)


def _one(connectors: Connectors, class_name: str, name: str | None, key: str) -> Connector | None:
    if name is not None:
        return connectors.get(name)
    found = [c for _, c in sorted(connectors.items()) if simple_class(c.config) == class_name]
    if len(found) > 1:
        names = ", ".join(connector.name for connector in found)
        raise NotObserved(
            f"{class_name} of the link",
            f"several connectors match: {names}",
            f"set `{key}` of the link in drctl.yaml",
        )
    return found[0] if found else None
