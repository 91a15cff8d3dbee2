"""What MirrorMaker 2 itself says of groups: `RemoteClusterUtils.translateOffsets`, run for real."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from drctl.model.topology import TopicPartition
from drctl.systems.artifacts.java import find_java
from drctl.systems.artifacts.resolution import resolve
from drctl.systems.kafka.java import java_properties

DEADLINE_S = 30


class MirrorMaker:
    """Asks the target's checkpoints as a consumer that fails over would."""

    def __init__(self, java: Any, properties: Mapping[str, str], alias: str) -> None:
        self._java = java
        self._properties = java_properties(properties)
        self._alias = alias

    def translated(self, group: str) -> dict[TopicPartition, int]:
        """Where a group goes on, by partition of the target."""
        given = self._java.java.util.HashMap()
        for name, value in self._properties.items():
            given.put(name, value)
        given.put(
            "replication.policy.class", "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
        )
        given.put("source.cluster.alias", self._alias)
        patience = self._java.java.time.Duration.ofSeconds(DEADLINE_S)
        client = self._java.org.apache.kafka.connect.mirror.RemoteClusterUtils
        found = client.translateOffsets(given, self._alias, group, patience)
        return {
            TopicPartition(place.topic(), place.partition()): found[place].offset()
            for place in found
        }


@contextmanager
def mirror_maker(properties: Mapping[str, str], alias: str) -> Iterator[MirrorMaker]:
    """A Java machine with MirrorMaker 2's own classes in it."""
    jars = resolve("connect", progress=logging.getLogger("tests").info)
    port, token, process = launch_gateway(
        classpath=os.pathsep.join(map(str, jars)),
        jarpath=str(next((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))),
        java_path=str(find_java()),
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    gateway = JavaGateway(gateway_parameters=parameters)
    try:
        yield MirrorMaker(gateway.jvm, properties, alias)
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(20)
