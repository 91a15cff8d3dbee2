"""Answers that come while nobody waits for them any more."""

import json
import signal
import subprocess
import sys
import time
from uuid import uuid4

import pytest

from drctl.lab.lab import Lab
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition
from drctl.systems.kafka.group_writer import KafkaGroupWriter
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = pytest.mark.jvm

GROUPS = 300
READ = """
import json, sys
from drctl.systems.kafka.groups import KafkaGroupReader
given = json.load(sys.stdin)
with KafkaGroupReader("primary", given["properties"], timeout_s=10) as reader:
    found = reader.committed(given["groups"])
print(sum(1 for positions in found.values() if isinstance(positions, dict)))
"""


def test_a_broker_that_pauses_does_not_end_the_process(
    lab: Lab, primary: ClusterUnderTest, new_topic: NewTopic
) -> None:
    """In a process of its own: librdkafka ended it with an assertion."""
    place = TopicPartition(new_topic(on=("primary",)), 0)
    groups = [f"paused-{uuid4().hex[:8]}-{n}" for n in range(GROUPS)]
    with KafkaGroupWriter("primary", primary.properties()) as writer:
        writer.commit({group: {place: Committed(1)} for group in groups})
    given = json.dumps({"properties": primary.properties(), "groups": groups})
    reading = subprocess.Popen(
        [sys.executable, "-c", READ], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert reading.stdin is not None
        reading.stdin.write(given)
        reading.stdin.close()
        while reading.poll() is None:  # longer than a first try waits, and then a moment of work
            lab.signal("primary", signal.SIGSTOP)
            time.sleep(2.5)
            lab.signal("primary", signal.SIGCONT)
            time.sleep(0.3)
    finally:
        lab.signal("primary", signal.SIGCONT)
        reading.kill()
        reading.wait()
    assert reading.returncode == 0
    assert reading.stdout is not None
    assert 0 <= int(reading.stdout.read()) <= GROUPS
    reading.stdout.close()
