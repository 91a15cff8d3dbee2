"""Named settings of a connector or worker, read as Kafka would read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from drctl.checks.check import NotObserved
from drctl.checks.observed import Observed
from drctl.model.topology import Unavailable

T = TypeVar("T")

_FLAGS = {"true": True, "false": False}


class Seen(NamedTuple, Generic[T]):
    """A setting's value, and how it came to be that."""

    value: T
    evidence: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one thing.

    Attributes:
        subject: whose they are, in words for a person.
    """

    subject: str
    values: Mapping[str, str]

    def text(self, key: str, default: str) -> Seen[str]:
        """The value, or what Kafka takes where there is none.

        Raises:
            NotObserved: it stands somewhere else, and only a reference to it here.
        """
        if key not in self.values:
            return Seen(default, f"{key} is not set; the default is {default or 'empty'}")
        value = self.values[key].strip()
        if "${" in value:
            raise NotObserved(
                self.subject,
                f"{key} is a reference, whose value only the worker knows",
                f"look at what {key} of {self.subject} refers to",
                f"{key}={value}",
            )
        return Seen(value, f"{key}={value}")

    def integer(self, key: str, default: int) -> Seen[int]:
        """The same, as a number.

        Raises:
            NotObserved: it is none, or a reference.
        """
        seen = self.text(key, str(default))
        try:
            return Seen(int(seen.value), seen.evidence)
        except ValueError:
            raise self._odd(key, "a whole number", seen.evidence) from None

    def flag(self, key: str, default: bool) -> Seen[bool]:
        """The same, as true or false.

        Raises:
            NotObserved: it is neither, or a reference.
        """
        seen = self.text(key, str(default).lower())
        if (value := _FLAGS.get(seen.value.lower())) is None:
            raise self._odd(key, "true or false", seen.evidence)
        return Seen(value, seen.evidence)

    def words(self, key: str, default: str) -> Seen[tuple[str, ...]]:
        """The same, as a list with commas between.

        Raises:
            NotObserved: it is a reference.
        """
        seen = self.text(key, default)
        listed = (word.strip() for word in seen.value.split(","))
        return Seen(tuple(word for word in listed if word), seen.evidence)

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
