"""Builds adapters for `drctl reconcile`."""

import re
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app import adapters
from drctl.app.notices import notices
from drctl.formats import replicator_headers
from drctl.model.errors import ConfigError, DrctlError, UsageError
from drctl.model.strict_json import read_json

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.failback.gap_results import GapEvidence
    from drctl.kafka.reconcile_copier import TransactionalCopier
    from drctl.kafka.reconcile_topics import ReconcileTopic as ReconcileTopic
    from drctl.reconcile.gap_result import Exporter, FoundGap, SourceLog, WantedRows
    from drctl.reconcile.target_changes import TargetChanges
    from drctl.stores.journal_files import JournalFile
    from drctl.stores.parquet import GapRow
    from drctl.stores.temporary import TemporaryWantedRows


@contextmanager
def wanted_rows(
    gap: "FoundGap", folder: Path, name: str = "records"
) -> "Iterator[TemporaryWantedRows]":
    """The unreplicated records that a gap result lists.

    Args:
        name: the folder in the result; `others` has the records that do not count as unreplicated.

    Raises:
        Refused: they are missing, or do not match the counts.
        Unknown: there is no space for them on this host.
    """
    from drctl.host.processes import reduced_gc
    from drctl.reconcile.gap_result import check_rows
    from drctl.stores.parquet import read_records
    from drctl.stores.temporary import TemporaryWantedRows

    with reduced_gc():
        kept = TemporaryWantedRows(read_records(folder / name))
    try:
        check_rows(gap, kept.tallies(), str(folder))
        yield kept
    finally:
        kept.close()


def listed_records(folder: Path) -> "Iterator[GapRow]":
    """The records in a folder of a gap result, unordered and without a check of their number.

    Raises:
        Refused: a file is missing or damaged.
    """
    from drctl.stores.parquet import read_records

    return read_records(folder)


def source_log(link: "Link") -> "SourceLog":
    """A reader of the source's records; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.reconcile_copier import KafkaSourceLog

    return KafkaSourceLog(link.source, adapters.revealed(link.source_config))


def target_changes(
    link: "Link",
    gap: "FoundGap",
    rows: "WantedRows",
    progress: Callable[[int, int], None],
    *,
    per_partition: bool,
) -> "TargetChanges":
    """Searches new records of a link's target; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.gap.freeze import identity_of
    from drctl.gap.held import record_digest
    from drctl.reconcile.target_changes import Sameness, TargetChanges

    identity, salt = identity_of(link), secrets.randbits(62)
    same = Sameness(
        link.settings.keeps_partitions,
        identity.key,
        identity.timestamp,
        lambda timed: record_digest(identity, timed, salt),
    )
    target = adapters.range_reader(link.target, link.target_config)
    return TargetChanges(
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
    """The topic on a link's target that records the progress.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    with adapters.writer(link.target, link.target_config).reconciled as topic:
        yield topic


def copier(link: "Link", source_id: str) -> "TransactionalCopier":
    """A transactional writer to a link's target; entering it fences earlier writers.

    Args:
        source_id: Kafka's id of the source.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    header = link.settings.origin_header
    # The layout of Replicator's own header is not documented: see `formats.replicator_headers`.
    marks = [(header, source_id.encode())] if header and header != replicator_headers.HEADER else []
    return adapters.writer(link.target, link.target_config).copier(link.name, marks)


def exporter(
    folder: Path,
    gap: "FoundGap",
    classes: Sequence[str] = ("unreplicated",),
    *,
    beside: bool = False,
) -> "Exporter":
    """A writer of exports.

    Args:
        classes: the classes of the exported records.
        beside: whether to use a new folder next to the given one if that contains other records.
    """
    from drctl.views.exports import ExportFolder

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
    from drctl.stores.journal_files import JournalFile

    hint = "free space, or set state_dir; then run the command again: progress is on the cluster"
    return JournalFile(config.state_dir / "reconcile", run, hint)


def transaction_lifetime_s() -> float:
    """How long a transaction of drctl may be open before the brokers abort it."""
    from drctl.kafka.transactions import LIFETIME_S

    return LIFETIME_S


NEWEST = 10
"""How many results of a link are read."""

_MOMENT = r"\d{8}T\d{6}\.\d{6}Z"
_EXAMPLES = 5


def named(folder: Path) -> "GapEvidence":
    """The result in a folder given by the user.

    Raises:
        UsageError: the folder has no result.
        ConfigError: the result is damaged.
    """
    if not (folder / "gap.json").is_file():
        raise UsageError(f"{folder} has no gap.json", "name a folder that drctl gap --out wrote")
    return _read(folder)


def kept(state: Path, link: str) -> "tuple[GapEvidence, ...]":
    """The results of a link in the state_dir, the newest first; warns of unreadable ones."""
    found = []
    for folder in _mine(state, link)[:NEWEST]:
        try:
            found.append(_read(folder))
        except DrctlError as error:
            notices().warn(error.message)
    return tuple(sorted(found, key=lambda each: each.started, reverse=True))


def newest(state: Path, link: str) -> Path | None:
    """The folder of a link's newest result in the state_dir; None if there is none."""
    return next(iter(_mine(state, link)), None)


def with_id(state: Path, link: str, ids: Collection[str]) -> "Iterator[GapEvidence]":
    """All results of a link that have one of these ids, the newest first."""
    for folder in _mine(state, link):
        with suppress(DrctlError):
            found = _read(folder)
            if found.id in ids:
                yield found


def _mine(state: Path, link: str) -> list[Path]:
    """The folders of a link's results, the newest first."""
    of_link = re.compile(f"{re.escape(link)}-{_MOMENT}")
    single = [f for f in _folders(state / "gap") if of_link.fullmatch(f.name)]
    repeated = [f for f in _folders(state / "gap" / link) if re.fullmatch(_MOMENT, f.name)]
    folders = [*single, *repeated]
    return sorted(folders, key=lambda f: f.name.removeprefix(f"{link}-"), reverse=True)


def _folders(of: Path) -> "Iterator[Path]":
    return (each.parent for each in of.glob("*/gap.json"))


def _read(folder: Path) -> "GapEvidence":
    from drctl.failback.gap_results import read_gap
    from drctl.stores.parquet import read_samples

    try:
        document = read_json((folder / "gap.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {folder}/gap.json: {error}", "run drctl gap") from error
    found = read_gap(document, str(folder))
    if not found.unreplicated:
        return found
    return replace(found, samples=read_samples(folder / "records", _EXAMPLES))
