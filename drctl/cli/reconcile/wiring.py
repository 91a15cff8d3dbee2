"""Opens what `drctl reconcile` needs from outside."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli import wiring

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.reconcile.gap_result import FoundGap
    from drctl.reconcile.growth import TargetGrowth
    from drctl.reconcile.rows import Exporter, SourceLog, WantedRows
    from drctl.systems.journal.files import JournalFile
    from drctl.systems.kafka.reconcile_copier import TransactionalCopier
    from drctl.systems.kafka.reconcile_topics import ReconcileTopic
    from drctl.systems.spill.wanted_rows import TemporaryWantedRows


@contextmanager
def wanted_rows(
    gap: "FoundGap", folder: Path, name: str = "records"
) -> "Iterator[TemporaryWantedRows]":
    """The unreplicated records that a gap result lists.

    Args:
        name: of the folder in it that holds them; `others` for those that are not counted so.

    Raises:
        Refused: they are not there, or not those that were counted.
        Unknown: there is no room for them.
    """
    from drctl.reconcile.gap_result import check_rows
    from drctl.systems.collecting import seldom_collected
    from drctl.systems.parquet.gap_records import read_records
    from drctl.systems.spill.wanted_rows import TemporaryWantedRows

    with seldom_collected():
        kept = TemporaryWantedRows(read_records(folder / name))
    try:
        check_rows(gap, kept.tallies(), str(folder))
        yield kept
    finally:
        kept.close()


def source_log(link: "Link") -> "SourceLog":
    """What reads the records; connects when asked to.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.reconcile_source import KafkaSourceLog

    return KafkaSourceLog(link.source, wiring.revealed(link.source_config))


def target_growth(
    link: "Link",
    gap: "FoundGap",
    rows: "WantedRows",
    progress: Callable[[int, int], None],
    *,
    per_partition: bool,
) -> "TargetGrowth":
    """What looks through the records that came to a link's target; connects when asked to.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.gap.encoding import record_digest
    from drctl.gap.planning import identity_of
    from drctl.reconcile.growth import TargetGrowth
    from drctl.reconcile.newcomers import Sameness

    identity, salt = identity_of(link), secrets.randbits(62)
    same = Sameness(
        link.settings.keeps_partitions,
        identity.key,
        identity.timestamp,
        lambda timed: record_digest(identity, timed, salt),
    )
    target = wiring.range_reader(link.target, link.target_config)
    return TargetGrowth(
        gap.source_id,
        rows,
        source_log(link),
        target.read,
        same,
        progress,
        per_partition=per_partition,
    )


@contextmanager
def reconcile_topic(link: "Link") -> "Iterator[ReconcileTopic]":
    """The topic of progress on a link's target.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.reconcile_topics import ReconcileTopic

    topic = ReconcileTopic(link.target, wiring.revealed(link.target_config), wiring.PATIENCE_S)
    try:
        yield topic
    finally:
        topic.close()


def copier(link: "Link") -> "TransactionalCopier":
    """What writes to a link's target; whoever wrote before is fenced when it is entered.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.connection import Connection
    from drctl.systems.kafka.reconcile_copier import TransactionalCopier

    properties = wiring.revealed(link.target_config)
    return TransactionalCopier(Connection(link.target, properties, wiring.PATIENCE_S), link.name)


def exporter(
    folder: Path,
    gap: "FoundGap",
    classes: Sequence[str] = ("unreplicated",),
    *,
    beside: bool = False,
) -> "Exporter":
    """What writes an export.

    Args:
        classes: of the records that go there.
        beside: whether it goes to a folder beside that one where that holds other records.
    """
    from drctl.report.reconcile_export import ExportFolder

    about = {
        "result": gap.id,
        "link": gap.link,
        "source": {"cluster": gap.source, "id": gap.source_id},
        "target": {"cluster": gap.target, "id": gap.target_id},
        "classes": list(classes),
    }
    return ExportFolder(folder, about, beside=beside)


def journal(config: "Config", run: str) -> "JournalFile":
    """The journal of a new run."""
    from drctl.systems.journal.files import JournalFile

    hint = "free space, or set state_dir; run it again: the cluster itself knows what is done"
    return JournalFile(config.state_dir / "reconcile", run, hint)
