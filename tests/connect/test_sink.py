"""A real sink connector: its positions are its group's offsets, and move with the group."""

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from drctl.lab.starting import free_port_base
from drctl.lab.waiting import Patience
from drctl.model.topology import Record
from tests.conftest import NewTopic
from tests.connect.connect_command import ConnectCommand
from tests.connect.workers import PluginWorker, worker
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

DEADLINE_S = 60
NAME = "orders-out"
GROUP = f"connect-{NAME}"
CLUSTER = ("--cluster", "secondary")
GO = ("--execute", "--yes")


@dataclass
class Sink:
    """A connector that writes every record of a topic as a line of a file."""

    worker: PluginWorker
    kafka: ClusterUnderTest
    topic: str
    file: Path
    command: ConnectCommand

    def write(self, first: int, count: int) -> None:
        """Write this many numbered records."""
        records = [Record(0, -1, -1, None, b"%d" % n) for n in range(first, first + count)]
        self.kafka.produce(self.topic, records)

    def await_lines(self, *numbers: int) -> None:
        """Wait until the file has these lines."""
        wanted = [str(number) for number in numbers]

        def there() -> bool:
            return self.file.is_file() and self.file.read_text().split() == wanted

        assert Patience.of(DEADLINE_S).wait_until(there), self.file.read_text()

    def position(self) -> int | None:
        """Return its position in `drctl connect offsets export`."""
        kept = self.worker_says(
            "offsets", "export", "--connector", NAME, "--output-file", "kept.json"
        )
        (sink,) = kept["connectors"]
        assert (sink["kind"], sink["group"]) == ("sink", GROUP)
        found = [each["offset"]["kafka_offset"] for each in sink["offsets"]]
        return int(found[0]) if found else None

    def worker_says(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Run `drctl connect` on its worker."""
        return self.command.json(*words, "--connect", self.worker.url, code=code)

    def group_says(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Run `drctl offsets` on its group."""
        return replace(self.command, room="offsets").json(*words, *CLUSTER, code=code)


@pytest.fixture
def sink(
    secondary: ClusterUnderTest, new_topic: NewTopic, lab_yaml: Callable[..., Path], tmp_path: Path
) -> Iterator[Sink]:
    topic = new_topic(on=("secondary",))
    (tmp_path / "worker").mkdir()
    port = free_port_base(random.Random())
    opened = worker("sinks", tmp_path / "worker", port, secondary, plugin="connect-file")
    command = ConnectCommand(lab_yaml(topic))
    try:
        with closing(opened.client()) as client:
            client.put_config(
                NAME,
                {
                    "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
                    "tasks.max": "1",
                    "topics": topic,
                    "file": str(tmp_path / "lines"),
                    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
                    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                },
            )
        yield Sink(opened, secondary, topic, tmp_path / "lines", command)
    finally:
        opened.program.end()
        secondary.delete_topics([f"sinks-{kind}" for kind in ("config", "offset", "status")])


def test_a_sink_moves_with_its_group(sink: Sink) -> None:
    sink.write(0, 20)
    sink.await_lines(*range(20))
    assert Patience.of(DEADLINE_S).wait_until(lambda: sink.position() == 20)
    assert sink.worker_says("status")["failed"] == 0

    from_file = ("offsets", "apply", "--from", "kept.json")
    (line,) = sink.worker_says(*from_file, *GO, code=3)["lines"]
    assert line["precheck"] == "sink"
    assert GROUP in line["reason"]

    snapshot = ("snapshot", "--group", GROUP, "--output-file", "group.json")
    assert sink.group_says(*snapshot)["totals"]["committed_offsets"] == 1
    sink.write(20, 5)
    sink.await_lines(*range(25))
    with closing(sink.worker.client()) as client:
        client.stop(NAME)
        assert Patience.of(DEADLINE_S).wait_until(lambda: not client.status(NAME).tasks)
        back = ("--override", "moves-backwards=five again")
        applied = sink.group_says("apply", "--from", "group.json", *back, *GO)
        assert applied["status"] == "done"
        client.resume(NAME)
    sink.await_lines(*range(25), *range(20, 25))
