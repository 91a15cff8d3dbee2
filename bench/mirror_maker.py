"""MirrorMaker 2's own translation of offsets, by `RemoteClusterUtils.translateOffsets`."""

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
"""Timeout of one call, never reached; after it MirrorMaker 2 returns what it has read so far."""


class MirrorMaker:
    """Reads the target's checkpoints like a consumer that fails over."""

    def __init__(self, java: Any, properties: Mapping[str, str], alias: str) -> None:
        self._java = java
        self._properties = java_properties(properties)
        self._alias = alias

    def translated(self, group: str) -> dict[TopicPartition, int]:
        """Translate the offsets of a group, by partition of the target.

        Raises:
            WrongAnswer: it took so long that the result may be of half a topic.
        """
        return positions(self.asked(group))

    def asked(self, group: str) -> Any:
        """Return the Java result.

        Raises:
            WrongAnswer: it took so long that the result may be of half a topic.
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
    """Convert a Java result; each of its parts is a request to the JVM."""
    return {
        TopicPartition(place.topic(), place.partition()): found[place].offset() for place in found
    }


@contextmanager
def mirror_maker(properties: Mapping[str, str], alias: str) -> Iterator[MirrorMaker]:
    """Start a JVM with MirrorMaker 2's classes.

    Args:
        properties: of a client of the target.
        alias: MirrorMaker 2's name for the source.
    """
    jars = resolve("connect", progress=logging.getLogger("bench").info)
    with java_machine(jars) as java:
        yield MirrorMaker(java, properties, alias)
