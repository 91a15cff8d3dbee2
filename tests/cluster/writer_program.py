"""An application that writes all the time through its bootstrap address: `FILE TOPIC`.

FILE holds the properties of a librdkafka producer; nothing else is set. After a refused or
unanswered record the application creates a new producer, like one that a supervisor restarts. Each
record is a line: nanoseconds of start and response, the response, the value. It ends with its
standard input.
"""

import itertools
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

PACE_S = 0.05
ANSWER_S = 10


def work(settings: dict[str, str], topic: str) -> None:
    numbers = itertools.count()
    over = threading.Event()
    while not over.wait(PACE_S):
        producer = Producer({**settings, "error_cb": lambda _error: None})
        while write(producer, topic, f"record-{next(numbers)}") and not over.wait(PACE_S):
            pass


def write(producer: Producer, topic: str, value: str) -> bool:
    """Return whether it was acknowledged, and print the result."""
    answers: list[tuple[int, str]] = []

    def delivered(error: KafkaError | None, _message: Any) -> None:
        answers.append((time.time_ns(), error.name() if error else "acknowledged"))

    began = time.time_ns()
    try:
        producer.produce(topic, value.encode(), on_delivery=delivered)
        producer.flush(ANSWER_S)
    except KafkaException as failed:
        answers.append((time.time_ns(), failed.args[0].name()))
    at, answer = answers[0] if answers else (time.time_ns(), "unanswered")
    sys.stdout.write(f"{began}\t{at}\t{answer}\t{value}\n")
    sys.stdout.flush()
    return answer == "acknowledged"


if __name__ == "__main__":
    given = (json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), sys.argv[2])
    threading.Thread(target=work, args=given, daemon=True).start()
    sys.stdin.read()
    # Client threads that wait for a dead cluster would prevent a normal exit.
    os._exit(0)
