"""After an unplanned failover and the return of the primary: producers that kept their ids."""

import signal

import pytest

from drctl.model.topology import TopicPartition
from tests.cluster.failover_stage import Stage
from tests.cluster.link_command import GO, soon
from tests.kafka.hanging import write_as

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]

KEPT, RESTARTED = 971, 972
CHECK = "producer-ids-collide"


def test_ids_that_are_still_in_use_are_named(stage: Stage) -> None:
    stage.written(20)
    first, second = (TopicPartition(stage.topic, number) for number in (0, 1))
    source, target = stage.source.properties(), stage.target.properties()
    write_as(source, first, KEPT, [b"kept"])
    write_as(source, second, RESTARTED, [b"restarted"])
    # Another producer, such as MirrorMaker 2's, already used this id on the target.
    write_as(target, second, RESTARTED, [b"another"])
    stage.copied(23)
    stage.lab.signal("primary", signal.SIGKILL)
    done = stage.json("failover", "--mode", "unplanned", *GO, code=1)
    assert done["status"] == "done"
    (action,) = [each for each in done["outstanding"] if "idempotent producers" in each]
    assert f"once primary is back, drctl doctor names the ids still in use ({CHECK})" in action
    write_as(target, first, KEPT, [b"moved"])

    stage.lab.start("primary")
    rows: list[dict[str, str]] = []

    def seen() -> bool:
        document = stage.run("doctor", "--output", "json").document()
        rows[:] = [each for each in document["checks"] if each["check"] == CHECK]
        return {each["status"] for each in rows} == {"fail"}

    soon(seen, rows)
    (row,) = rows
    assert row["reason"].startswith(
        "1 producer id of primary is in use on secondary, where clients"
    )
    assert f"id {KEPT} in {first} (epoch 0, last record " in row["evidence"]
    assert str(RESTARTED) not in row["evidence"]
    assert row["remedy"].startswith("restart the producers that write to these partitions")
