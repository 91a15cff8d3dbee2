"""An application that writes continuously to the cluster that a file names: `SETTINGS TOPIC`.

SETTINGS contains properties of a librdkafka producer by bootstrap address, and the name of that
file. It is read before each record and while waiting for an acknowledgement, so that the log shows
promptly when writes are refused and accepted again. Each record is logged as a line: start and end
in nanoseconds, the address and the outcome. The process ends when its standard input is closed.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

PACE_S = 0.02
ANSWER_S = 2.0


def work(settings: dict[str, Any], topic: str) -> None:
    """Write until the process ends."""
    place, producers = Path(settings["endpoint"]), settings["producers"]
    now, producer = "", None
    while True:
        leads = place.read_text(encoding="utf-8").strip() or now
        if leads != now or producer is None:
            now = leads
            producer = Producer({**producers[now], "error_cb": lambda _error: None})
        if not _write(producer, topic, now, place):
            producer = None
        time.sleep(PACE_S)


def _write(producer: Producer, topic: str, leads: str, place: Path) -> bool:
    """Write a record and log the outcome; return whether it was acknowledged."""
    answers: list[tuple[int, str]] = []

    def log_answer(error: KafkaError | None, _message: Any) -> None:
        answers.append((time.time_ns(), error.name() if error else "acknowledged"))

    began, until = time.time_ns(), time.monotonic() + ANSWER_S
    try:
        producer.produce(topic, str(began).encode(), on_delivery=log_answer)
        while not answers and time.monotonic() < until:
            producer.poll(PACE_S)
            if place.read_text(encoding="utf-8").strip() not in (leads, ""):
                break
    except KafkaException as failed:
        answers.append((time.time_ns(), failed.args[0].name()))
    at, answer = answers[0] if answers else (time.time_ns(), "unanswered")
    sys.stdout.write(f"{began}\t{at}\t{leads}\t{answer}\n")
    sys.stdout.flush()
    return answer == "acknowledged"


if __name__ == "__main__":
    given = (json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), sys.argv[2])
    threading.Thread(target=work, args=given, daemon=True).start()
    sys.stdin.read()
    # Client threads that wait for a dead cluster would prevent a normal exit.
    os._exit(0)
