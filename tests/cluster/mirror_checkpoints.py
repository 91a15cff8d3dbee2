"""Waits for what the lab's MirrorMaker 2 notes of groups."""

from drctl.lab.waiting import Patience
from tests.cluster.failover_stage import PARTITIONS, Stage


def await_checkpoint(stage: Stage, group: str) -> None:
    """Until MirrorMaker 2 has written down where the group stands now, in each partition."""

    def noted() -> bool:
        told = [
            stage.run("offsets", "explain", group, stage.topic, str(n), "--output", "json")
            for n in range(PARTITIONS)
        ]
        rows = [each.document() for each in told if each.code in (0, 1)]
        words = [
            method["why"].startswith(f"checkpoint of source offset {row['row']['source_offset']} ")
            for row in rows
            for method in row["methods"]
            if method["method"] == "checkpoint"
        ]
        return len(words) == PARTITIONS and all(words)

    assert Patience.of(60).wait_until(noted)
