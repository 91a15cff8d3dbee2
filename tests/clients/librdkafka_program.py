"""An application with librdkafka clients: `TOPIC FILE...`; it knows nothing of a failover.

Each file `NAME.producer.properties` or `NAME.consumer.properties` is a client. Its events are
printed, one per line: monotonic nanoseconds, client, event, text. It ends with its standard input.
"""

import itertools
import os
import sys
import threading
import time
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

PACE_S = 0.05
_LINE = threading.Lock()


def say(client: str, what: str, text: str) -> None:
    with _LINE:
        sys.stdout.write(f"{time.monotonic_ns()}\t{client}\t{what}\t{text}\n")
        sys.stdout.flush()


def delivered(client: str, value: str, error: KafkaError | None, message: Message) -> None:
    if error is None:
        say(client, "acknowledged", f"{message.offset()} {value}")
    else:
        say(client, "refused", error.name())


def produce(client: str, settings: dict[str, str], topic: str) -> None:
    producer = Producer({**settings, "error_cb": partial(failed, client)})
    for number in itertools.count():
        value = f"{client}/{number}"
        try:
            producer.produce(topic, value.encode(), on_delivery=partial(delivered, client, value))
        except BufferError:
            say(client, "refused", "its queue is full")
        except KafkaException as error:
            say(client, "refused", error.args[0].name())
        producer.poll(0)
        time.sleep(PACE_S)


def consume(client: str, settings: dict[str, str], topic: str) -> None:
    consumer = Consumer({**settings, "error_cb": partial(failed, client)})
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            say(client, "read", f"{message.offset()} {(message.value() or b'').decode()}")
        else:
            failed(client, error)


def failed(client: str, error: KafkaError) -> None:
    say(client, "fatal" if error.fatal() else "error", error.name())


def settings_of(path: Path) -> dict[str, str]:
    pairs = (line.partition("=") for line in path.read_text().splitlines())
    return {key: value for key, _, value in pairs}


def main(topic: str, *names: str) -> None:
    works = {"producer": produce, "consumer": consume}
    for path in map(Path, names):
        role = path.name.split(".")[-2]
        given = (path.name.removesuffix(".properties"), settings_of(path), topic)
        threading.Thread(target=works[role], args=given, daemon=True).start()
    sys.stdin.read()
    # Client threads that wait for a dead cluster would prevent a normal exit.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
