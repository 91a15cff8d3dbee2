"""What MirrorMaker 2 itself says of groups: `RemoteClusterUtils.translateOffsets`, run for real."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.java_machine import java_machine
from bench.process import WrongAnswer
from drctl.artifacts.jars import resolve
from drctl.kafka.java_properties import java_properties
from drctl.model.topology import TopicPartition

DEADLINE_S = 300.0
"""Of one question, never waited for; after it MirrorMaker 2 gives what it has read so far."""


class MirrorMaker:
    """Asks the target's checkpoints as a consumer that fails over would."""

    def __init__(self, java: Any, properties: Mapping[str, str], alias: str) -> None:
        self._java = java
        self._properties = java_properties(properties)
        self._alias = alias

    def translated(self, group: str) -> dict[TopicPartition, int]:
        """Where a group goes on, by partition of the target.

        Raises:
            WrongAnswer: it took so long that it may be the answer of half a topic.
        """
        return positions(self.asked(group))

    def asked(self, group: str) -> Any:
        """The answer as Java has it.

        Raises:
            WrongAnswer: it took so long that it may be the answer of half a topic.
        """
        given = self._java.java.util.HashMap()
        for name, value in self._properties.items():
            given.put(name, value)
        given.put(
            "replication.policy.class", "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
        )
        given.put("source.cluster.alias", self._alias)
        patience = self._java.java.time.Duration.ofMillis(round(DEADLINE_S * 1000))
        client = self._java.org.apache.kafka.connect.mirror.RemoteClusterUtils
        began = time.monotonic()
        found = client.translateOffsets(given, self._alias, group, patience)
        if time.monotonic() - began >= DEADLINE_S:
            raise WrongAnswer(f"translateOffsets of {group} took more than {DEADLINE_S:g} s")
        return found


def positions(found: Any) -> dict[TopicPartition, int]:
    """An answer of Java's; each of its parts is a question of its own to the Java machine."""
    return {
        TopicPartition(place.topic(), place.partition()): found[place].offset() for place in found
    }


@contextmanager
def mirror_maker(properties: Mapping[str, str], alias: str) -> Iterator[MirrorMaker]:
    """A Java machine with MirrorMaker 2's own classes in it.

    Args:
        properties: of a client of the target.
        alias: MirrorMaker 2's name for the source.
    """
    jars = resolve("connect", progress=logging.getLogger("bench").info)
    with java_machine(jars) as java:
        yield MirrorMaker(java, properties, alias)
