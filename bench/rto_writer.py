"""An application that writes all the time, to the cluster that a file names: `SETTINGS TOPIC`.

SETTINGS holds properties of a librdkafka producer by bootstrap address, and the file that names
one. The file is looked at before each record and while an answer is awaited, so that the log of
this application tells within its pace when writes are refused and when they are taken again. What
became of each record is a line: nanoseconds when it was begun and when the answer came, the address
and the answer. It ends with its standard input.
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
    """Write for ever."""
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
    """Whether it was acknowledged; what became of it is said."""
    answers: list[tuple[int, str]] = []

    def told(error: KafkaError | None, _message: Any) -> None:
        answers.append((time.time_ns(), error.name() if error else "acknowledged"))

    began, until = time.time_ns(), time.monotonic() + ANSWER_S
    try:
        producer.produce(topic, str(began).encode(), on_delivery=told)
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
    # What waits for a cluster that is gone would keep it from ending.
    os._exit(0)
