"""How the journal's topic is made, and what makes one useless."""

from collections.abc import Mapping

from drctl.model.errors import ConfigError
from drctl.model.topology import TopicState
from drctl.wire.journal_records import MOST_BYTES

CONFIG: Mapping[str, str] = {
    # Compaction would keep one record a link; and nothing may ever be too old.
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
}

_ROOM = 1 << 10
"""What a record needs beside a part of a line."""

_CURE = "set " + ", ".join(f"{name}={value}" for name, value in CONFIG.items()) + " on it"


def check_partitions(where: str, state: TopicState) -> None:
    """See that the order of all records is one.

    Raises:
        ConfigError: it is not.
    """
    if len(state.partitions) != 1:
        raise ConfigError(
            f"{where} has {len(state.partitions)} partitions: a journal has one",
            "delete it and let drctl make it; runs that it holds are in the state_dir of whoever"
            " carried them out, too",
        )


def check_settings(where: str, config: Mapping[str, str]) -> None:
    """See that what is written stays there.

    Raises:
        ConfigError: it would not, or nobody may know.
    """
    if not config:
        raise ConfigError(
            f"the settings of {where} may not be read by this user: would it keep a journal?",
            "grant DESCRIBE_CONFIGS on it (docs/journal.md)",
        )
    for name, wanted in CONFIG.items():
        found = config.get(name, wanted)
        if found != wanted:
            raise ConfigError(
                f"{where} has {name}={found}: it would forget what is kept in it", _CURE
            )
    most = int(config.get("max.message.bytes", MOST_BYTES + _ROOM))
    if most < MOST_BYTES + _ROOM:
        raise ConfigError(
            f"{where} has max.message.bytes={most}: an entry may be larger than that",
            f"set max.message.bytes to {MOST_BYTES + _ROOM} or more on it",
        )
