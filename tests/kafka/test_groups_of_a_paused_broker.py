"""Responses that arrive after the client has stopped waiting."""

import json
import signal
import subprocess
import sys
import time
from uuid import uuid4

import pytest

from drctl.kafka.connection import Connection
from drctl.kafka.group_offsets import KafkaGroupWriter
from drctl.lab.lab import Lab
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = pytest.mark.jvm

GROUPS = 300
PAUSES = 3
PAUSE_S = 2.5
"""Longer than the timeout of a first attempt."""

READ = """
import json, sys
from drctl.lab.waiting import Patience
from drctl.model.errors import Unreachable
from drctl.kafka.connection import Connection
from drctl.kafka.groups import KafkaGroupReader
given = json.load(sys.stdin)

def all_described():
    try:
        found = reader.committed(given["groups"])
    except Unreachable:
        return 0
    return sum(1 for positions in found.values() if isinstance(positions, dict))

with KafkaGroupReader(Connection("primary", given["properties"], 10)) as reader:
    print("reading", flush=True)
    print(Patience.of(90).wait_until(lambda: all_described() == len(given["groups"])))
"""


LET_IN_AGAIN_S = 7
"""Longer than a broker's session in the lab: the broker has to register again."""

WHO_IS_THERE = """
import json, sys, time
from drctl.kafka.connection import Connection
connection = Connection("primary", json.loads(sys.stdin.readline()), 10)
print("asking", flush=True)
for line in sys.stdin:
    until = time.monotonic() + 2
    # The moment after it comes back is what matters.
    while time.monotonic() < until:
        found = len(connection.nodes(connection.deadline()).brokers)
    print(found, flush=True)
"""


def test_a_broker_that_pauses_does_not_end_the_process(
    lab: Lab, primary: ClusterUnderTest, new_topic: NewTopic
) -> None:
    """In a separate process, which an assertion of librdkafka used to end."""
    place = TopicPartition(new_topic(on=("primary",)), 0)
    groups = [f"paused-{uuid4().hex[:8]}-{n}" for n in range(GROUPS)]
    with KafkaGroupWriter(Connection("primary", primary.properties())) as writer:
        writer.commit({group: {place: Committed(1)} for group in groups})
    given = json.dumps({"properties": primary.properties(), "groups": groups})
    reading = subprocess.Popen(
        [sys.executable, "-c", READ], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert reading.stdin is not None
        reading.stdin.write(given)
        reading.stdin.close()
        assert reading.stdout is not None
        assert reading.stdout.readline() == "reading\n"
        for _ in range(
            PAUSES
        ):  # the pause itself is the fault, so there is no condition to wait for
            lab.signal("primary", signal.SIGSTOP)
            time.sleep(PAUSE_S)
            lab.signal("primary", signal.SIGCONT)
            time.sleep(PAUSE_S / 10)
        assert reading.stdout.readline() == "True\n"
        assert reading.wait(20) == 0
    finally:
        lab.signal("primary", signal.SIGCONT)
        reading.kill()
        reading.wait()
        if reading.stdout is not None:
            reading.stdout.close()


@pytest.mark.nightly
def test_a_cluster_without_any_broker_does_not_end_the_process(
    lab: Lab, primary: ClusterUnderTest
) -> None:
    """In a separate process, which `describe_cluster` of librdkafka used to end."""
    asking = subprocess.Popen(
        [sys.executable, "-c", WHO_IS_THERE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert asking.stdin is not None
    assert asking.stdout is not None
    try:
        print(json.dumps(primary.properties()), file=asking.stdin, flush=True)
        assert asking.stdout.readline() == "asking\n"
        for _ in range(
            PAUSES
        ):  # the pause itself is the fault, so there is no condition to wait for
            lab.signal("primary", signal.SIGSTOP)
            time.sleep(LET_IN_AGAIN_S)
            print("now", file=asking.stdin, flush=True)
            time.sleep(PAUSE_S / 10)
            lab.signal("primary", signal.SIGCONT)
            assert asking.stdout.readline() == "1\n"
        asking.stdin.close()
        assert asking.wait(20) == 0
    finally:
        lab.signal("primary", signal.SIGCONT)
        asking.kill()
        asking.wait()
        asking.stdin.close()
        asking.stdout.close()
