"""`drctl status` on real clusters: a replicating link, a stopped one, an unreachable source."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from drctl.lab.lab import Lab
from drctl.model.topology import Record
from tests.cli.documents import check
from tests.cluster.command import Drctl
from tests.cluster.groups import commit_offsets
from tests.cluster.link_command import soon
from tests.cluster.test_doctor import stopped
from tests.conftest import NewTopic
from tests.kafka.tls_broker import free_ports
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]


def status(config: Path) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the document."""
    ran = Drctl(config.parent, config)("-o", "json", "status")
    return ran.code, check(ran.document())


@contextmanager
def listening(config: Path) -> Iterator[str]:
    """Run `drctl status --listen`; return its metrics address."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    words = ("status", "--listen", address, "--every", "1s")
    with Drctl(config.parent, config).running(*words) as process:
        yield f"http://{address}/metrics"
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=60)
        assert process.returncode == 130
        assert b"planned" in stdout


def numbers(address: str) -> dict[str, float]:
    """Return metrics without labels except the mode; empty if nobody responds."""
    try:
        with urlopen(address, timeout=5) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, rest = line.partition("{")
            mode = "planned" * ('mode="planned"' in rest)
            found[f"{name} {mode}".strip()] = float(rest.rpartition(" ")[2])
    return found


def test_a_link_with_and_without_running_replication(
    lab: Lab,
    lab_yaml: Callable[..., Path],
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    new_topic: NewTopic,
) -> None:
    topic = new_topic(2, mirrored=True)
    config = lab_yaml(topic)
    now_ms = int(time.time() * 1000)
    primary.produce(topic, [Record(n % 2, -1, now_ms, b"k", b"v") for n in range(40)])
    soon(lambda: sum(secondary.end_offsets(topic).values()) == 40)
    commit_offsets(primary, topic, {f"orders-app-{topic}": {0: 5}})

    documents = []

    def whole() -> bool:
        documents.append(status(config)[1])
        return documents[-1]["rpo"]["records"] == 0

    soon(whole, documents)
    seen = documents[-1]
    assert seen["source"]["reachable"]
    assert seen["unplanned"] == {"go": True, "blockers": []}
    assert {each["check"] for each in seen["planned"]["blockers"]} <= {"replication-lag"}
    assert [row["topic"] for row in seen["topics"]] == [topic]
    assert (seen["groups"]["groups"], seen["groups"]["committed_offsets"]) >= (1, 1)

    with stopped(lab):
        behind_ms = int(time.time() * 1000) - 60_000
        primary.produce(topic, [Record(0, -1, behind_ms, b"k", b"v") for _ in range(7)])
        primary.produce(topic, [Record(0, -1, now_ms + 60_000, b"k", b"late") for _ in range(7)])
        code, seen = status(config)
        assert code == 1
        assert "replication-not-running" in {b["check"] for b in seen["planned"]["blockers"]}
        assert seen["rpo"]["records"] >= 7
        assert seen["rpo"]["at_most"] >= seen["rpo"]["records"]
        assert seen["rpo"]["seconds"] is not None
        assert {each["name"]: each["state"] for each in seen["connectors"]}[
            "mm2-source"
        ] == "STOPPED"
        with listening(config) as address:
            soon(lambda: numbers(address).get("drctl_status_up") == 1)
            metrics = numbers(address)
        assert metrics["drctl_status_go planned"] == 0
        assert metrics["drctl_status_rpo_records"] >= 7
        assert metrics["drctl_status_groups"] >= 1


def test_a_lost_source(
    lab_yaml: Callable[..., Path], primary: ClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    config = lab_yaml(topic)
    nobody = "127.0.0.1:1"
    text = config.read_text(encoding="utf-8").replace(primary.bootstrap, nobody)
    config.write_text(text, encoding="utf-8")
    code, seen = status(config)
    assert code == 5
    assert not seen["source"]["reachable"]
    assert "source-unreachable" in {each["check"] for each in seen["planned"]["blockers"]}
    assert seen["unplanned"]["go"], seen["unplanned"]
    assert seen["rpo"]["how"]
