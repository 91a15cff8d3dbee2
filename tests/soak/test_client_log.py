"""A client's log lines are available when they are needed."""

from pathlib import Path

from confluent_kafka import Consumer

from drctl.lab.waiting import Patience
from tests.soak.client_log import ClientLog


def test_log_lines_about_a_group_are_kept(tmp_path: Path) -> None:
    log, path = ClientLog("g"), tmp_path / "g.log"
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "debug": "cgrp"}
    consumer = Consumer(settings, logger=log.logger)
    consumer.subscribe(["flights"])

    def reported() -> bool:
        consumer.consume(1, timeout=0.1)
        log.write(path)
        return 'Group "g"' in path.read_text(encoding="utf-8")

    assert Patience.of(20).wait_until(reported)
    consumer.close()
