"""Other ways to move groups: MirrorMaker 2's library, and Kafka's own tool in a loop."""

import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from bench.crowd import World, committed
from bench.mirror_maker import mirror_maker, positions
from bench.process import WrongAnswer
from bench.stage import Stage
from bench.turns import seconds
from drctl.artifacts.jars import resolve
from drctl.artifacts.java import find_java
from drctl.kafka.java_properties import java_properties
from drctl.lab.settings import write_private, write_properties
from drctl.model.topology import TopicPartition

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_DEADLINE_S = 120


def translate_offsets(
    stage: Stage, world: World, expected: Mapping[str, Mapping[TopicPartition, int]], calls: int
) -> tuple[float, ...]:
    """Measure calls of `RemoteClusterUtils.translateOffsets` in one JVM, in seconds each.

    Raises:
        WrongAnswer: the result differs from the checkpoints topic.
    """
    taken = []
    with mirror_maker(stage.target.client_properties(), stage.source.name) as maker:
        maker.translated(next(iter(world.positions)))  # loads classes
        for group in islice(world.positions, calls):
            began = time.perf_counter()
            answer = maker.asked(group)
            taken.append(time.perf_counter() - began)
            if (found := positions(answer)) != expected[group]:
                raise WrongAnswer(f"translateOffsets of {group} gave {found}")
    return tuple(taken)


def reset_offsets(stage: Stage, world: World, runs: int) -> tuple[float, ...]:
    """Measure `kafka-consumer-groups --reset-offsets --from-file`, one process each, in seconds.

    Raises:
        WrongAnswer: the tool failed.
    """
    folder = stage.folder / "reset"
    folder.mkdir(exist_ok=True)
    config = folder / "client.properties"
    write_properties(config, java_properties(stage.target.client_properties()))
    taken = []
    for group in islice(world.positions, runs):
        wanted = {p: world.logs[p].exact(o) for p, o in world.positions[group].items()}
        file = folder / f"{group}.csv"
        lines = (f"{topic},{number},{offset}\n" for (topic, number), offset in wanted.items())
        write_private(file, "".join(lines))
        words = _command(stage, config, group, file)
        taken.append(seconds(partial(_run, words)))
        if committed(stage.target, [group])[group] != wanted:
            raise WrongAnswer(f"the tool did not reset {group}")
    return tuple(taken)


def _command(stage: Stage, config: Path, group: str, file: Path) -> Sequence[str]:
    jars = [*resolve("kafka", progress=stage.tell), *resolve("kafka-tools", progress=stage.tell)]
    return (
        *(str(find_java()), "-Xmx256M", "-XX:+UseG1GC", "-Djava.awt.headless=true"),
        *("-cp", ":".join(map(str, jars)), TOOL, "--bootstrap-server", stage.target.bootstrap),
        *("--command-config", str(config), "--group", group, "--reset-offsets"),
        *("--from-file", str(file), "--execute"),
    )


def _run(words: Sequence[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
    if done.returncode:
        raise WrongAnswer(f"{TOOL} ended with {done.returncode}: {done.stderr[-500:]}")
