"""Says that somebody wants a link, and goes on saying so until he has it or gives up."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from drctl.model.errors import DrctlError
from drctl.systems.kafka.beats import Beats
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.own_topics import JOURNAL
from drctl.systems.kafka.topic_writer import TopicWriter
from drctl.wire.journal_records import Claim, Sign, Withdrawn, encode

_PATIENCE_S = 10.0


@dataclass(slots=True)
class Claiming:
    """What comes of a claim.

    Attributes:
        won: the link was taken upon it.
    """

    won: bool = False


@contextmanager
def claiming(
    connection: Connection, topic: str, link: str, claim: Claim, beat_s: float
) -> Iterator[Claiming]:
    """A claim for as long as the context lasts; its records fence nobody.

    Raises:
        ConfigError: this user may not write.
        Unreachable: the cluster did not answer.
        Unknown: it failed otherwise.
    """
    claimed = Claiming()
    with TopicWriter(connection, topic, JOURNAL, _PATIENCE_S) as writer:

        def say(sign: Sign) -> None:
            writer.write([(link.encode(), encode(sign))])

        def again() -> None:
            with suppress(DrctlError):
                say(claim)

        say(claim)
        try:
            with Beats(beat_s, again):
                yield claimed
        finally:
            if not claimed.won:
                with suppress(DrctlError):
                    say(Withdrawn(claim.token))
