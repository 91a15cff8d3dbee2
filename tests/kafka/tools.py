"""Kafka's own command-line tools, run as people run them."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from drctl.artifacts.jars import resolve
from drctl.artifacts.java import find_java
from drctl.kafka.java_properties import java_properties
from drctl.lab.settings import write_properties
from tests.cli.conftest import Ran
from tests.jvm import classes_of

TOOLS = {
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}
"""The class of each of Kafka's scripts."""


def run_tool(words: Sequence[str], properties: Mapping[str, str], folder: Path) -> Ran:
    """Run a tool in a folder, where it finds `admin.properties`.

    Args:
        properties: of a librdkafka client.
    """
    write_properties(folder / "admin.properties", java_properties(properties))
    jars = [*resolve("kafka", progress=print), *resolve("kafka-tools", progress=print)]
    java = (str(find_java()), *classes_of(jars), "-XX:TieredStopAtLevel=1")
    command = (*java, "-cp", ":".join(map(str, jars)), TOOLS[words[0]], *words[1:])
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=90, check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)
