"""Named settings of a connector or worker, read as Kafka would read them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Generic, NamedTuple, TypeVar

from drctl.checks.observed import Connectors, Observed
from drctl.checks.verdict import NotObserved, Verdict, fail, ok, require, warn
from drctl.config.mirrors import simple_class
from drctl.model.replication import Connector

T = TypeVar("T")
U = TypeVar("U")

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

    def read_as(self, value: U) -> "Value[U]":
        """The same setting, its text read as something else."""
        return Value(self.subject, value, self.evidence)

    def ok(self, reason: str, cost: str = "") -> Verdict:
        """All is well; it may cost something all the same."""
        return ok(self.subject, reason, self.evidence, cost)

    def warn(self, reason: str, cost: str, remedy: str) -> Verdict:
        """It would cost something."""
        return warn(self.subject, reason, self.evidence, cost, remedy)

    def fail(self, reason: str, cost: str, remedy: str) -> Verdict:
        """A failover would go wrong."""
        return fail(self.subject, reason, self.evidence, cost, remedy)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one thing.

    Attributes:
        subject: whose they are, in words for a person.
    """

    subject: str
    values: Mapping[str, str] = field(repr=False)
    knower: ClassVar[str] = "worker"

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
                f"{key} is a reference, whose value only the {self.knower} knows",
                f"look at what {key} of {self.subject} refers to",
                f"{key}={value}",
            )
        return Value(self.subject, value, f"{key}={value}")

    def integer(self, key: str, default: int) -> Value[int]:
        """The same, as a number.

        Raises:
            NotObserved: it is none, or a reference.
        """
        text = self.text(key, str(default))
        try:
            return text.read_as(int(text.value))
        except ValueError:
            key = text.evidence.partition("=")[0]
            raise self._odd(key, "a whole number", text.evidence) from None

    def flag(self, key: str, default: bool) -> Value[bool]:
        """The same, as true or false.

        Raises:
            NotObserved: it is neither, or a reference.
        """
        text = self.text(key, str(default).lower())
        if (value := _FLAGS.get(text.value.lower())) is None:
            raise self._odd(key, "true or false", text.evidence)
        return text.read_as(value)

    def words(self, key: str, default: str) -> Value[tuple[str, ...]]:
        """The same, as a list with commas between.

        Raises:
            NotObserved: it is a reference.
        """
        text = self.text(key, default)
        words = (word.strip() for word in text.value.split(","))
        return text.read_as(tuple(filter(None, words)))

    def _odd(self, key: str, kind: str, evidence: str) -> NotObserved:
        return NotObserved(
            self.subject,
            f"{key} is not {kind}: how the {self.knower} reads it is not known",
            f"correct {key} of {self.subject}",
            evidence,
        )


def worker_settings(observed: Observed) -> Settings:
    """Those of the Connect workers.

    Raises:
        NotObserved: nobody has them.
    """
    subject, look = (
        "Connect workers",
        "look at the properties file that the workers were started with",
    )
    return Settings(subject, require(observed.worker, subject, "their configuration is", look))


SOURCE, CHECKPOINT = "MirrorSourceConnector", "MirrorCheckpointConnector"
REPLICATOR = "ReplicatorSourceConnector"


def all_connectors(observed: Observed) -> Connectors:
    """Everything on the workers that replicate the link.

    Raises:
        NotObserved: they could not be asked.
    """
    look = (
        "set `replicator.connect` of the link in drctl.yaml to the workers' REST interface, or"
        " look at the connectors' configuration"
    )
    return require(observed.connectors, "Connect", "its connectors are", look)


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
    subject, reverse = "reverse Replicator", observed.link.settings.replicator.reverse
    known = require(observed.reverse, subject, "its connectors are", look)
    name = reverse.connectors.source if reverse else None
    found = _one(known, REPLICATOR, name, "replicator.reverse.connectors")
    if found is None:
        raise NotObserved(subject, "there is none yet", look)
    return settings_of(found)


def settings_of(connector: Connector) -> Settings:
    """What it is configured with."""
    return Settings(f"connector {connector.name}", connector.config)


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
