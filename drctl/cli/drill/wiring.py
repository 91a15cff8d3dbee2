"""Opens what `drctl drill` needs from outside."""

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.runs import plan_wiring
from drctl.drill.logs import SOURCE, TARGET
from drctl.model.errors import Unknown

if TYPE_CHECKING:
    from pathlib import Path

    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.config.schema import ClusterConfig
    from drctl.drill.cleaning import Ports
    from drctl.drill.names import Scratch
    from drctl.systems.journal.drill_history import DrillHistory
    from drctl.systems.journal.run_files import RunFiles
    from drctl.systems.kafka.drill_reader import DrillReader
    from drctl.systems.kafka.drill_writer import DrillWriter

FOLDER = "drills"


def folder(config: "Config") -> "Path":
    """Where this machine keeps its drills."""
    return config.state_dir / FOLDER


def history(config: "Config") -> "DrillHistory":
    """The drills that were."""
    from drctl.systems.journal.drill_history import DrillHistory

    return DrillHistory(folder(config) / "history.jsonl")


def journals(config: "Config") -> "RunFiles":
    """The journals of the engine's part; a drill holds no link, and stands in nobody's way."""
    from drctl.systems.journal.run_files import RunFiles

    return RunFiles(folder(config))


@contextmanager
def ports(name: str, cluster: "ClusterConfig") -> "Iterator[Ports]":
    """One cluster, to look at and to clean.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.drill.cleaning import Ports
    from drctl.systems.kafka.drill_scratch import KafkaScratch
    from drctl.systems.kafka.survey import KafkaSurveyor

    with ExitStack() as opened:
        enter = opened.enter_context
        yield Ports(
            name,
            enter(wiring.open_reader(name, cluster, wiring.PATIENCE_S)),
            enter(wiring.open_group_reader(name, cluster, wiring.PATIENCE_S)),
            enter(plan_wiring.acl_reader(name, cluster)),
            enter(KafkaScratch(name, wiring.revealed(cluster), timeout_s=wiring.PATIENCE_S)),
            enter(plan_wiring.acl_writer(name, cluster)),
            enter(KafkaSurveyor(name, wiring.revealed(cluster), timeout_s=wiring.PATIENCE_S)),
        )


def applications_at_home(
    link: "Link", scratch: "Scratch", most: int
) -> "tuple[DrillWriter, DrillReader]":
    """A writer, and a reader that stops after so many."""
    from drctl.systems.kafka.drill_reader import DrillReader
    from drctl.systems.kafka.drill_writer import DrillWriter

    properties = wiring.revealed(link.source_config)
    place = (link.source, properties, scratch.topic)
    return DrillWriter(*place, SOURCE), DrillReader(*place, scratch.group, most)


def applications_there(link: "Link", scratch: "Scratch") -> "tuple[DrillWriter, DrillReader]":
    """The same on the target, from wherever the group stands there."""
    from drctl.systems.kafka.drill_reader import DrillReader
    from drctl.systems.kafka.drill_writer import DrillWriter

    properties = wiring.revealed(link.target_config)
    place = (link.target, properties, link.target_topic(scratch.topic))
    return DrillWriter(*place, TARGET), DrillReader(*place, scratch.group)


def held_there(link: "Link", scratch: "Scratch") -> Mapping[str, int]:
    """How often each record is on the target, as a plain consumer finds it.

    Raises:
        Unreachable: the target did not answer.
    """
    from drctl.systems.kafka.drill_reader import held

    properties = wiring.revealed(link.target_config)
    return held(link.target, properties, link.target_topic(scratch.topic))


def own_principals(link: "Link") -> Sequence[str]:
    """Under which name the drill's writer is known to the source, where its properties say."""
    user = wiring.revealed(link.source_config).get("sasl.username", "")
    return (f"User:{user}",) if user else ()


@contextmanager
def alive(file: "Path") -> Iterator[None]:
    """Hold a file while this process lives: others see by it that the drill does.

    Raises:
        Unknown: it cannot be made.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unknown(f"{file} cannot be written: {error.strerror}", "set state_dir") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def is_alive(file: "Path") -> bool:
    """Whether somebody holds it."""
    try:
        handle = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
