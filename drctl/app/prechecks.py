"""Runs the prechecks of a failover against the real systems of one link."""

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import islice, tee
from typing import TYPE_CHECKING

from drctl.app import adapters, run_adapters
from drctl.app.link_reader import ClusterLinkReader
from drctl.app.notices import notices
from drctl.model.errors import Unreachable
from drctl.model.loss import Mode
from drctl.model.replication import LeftOut
from drctl.model.topology import PartitionOffsets, TopicPartition

if TYPE_CHECKING:
    from drctl.app.run_adapters import JournalTopicReader
    from drctl.checks.ports import LinkPorts
    from drctl.config.link import Link
    from drctl.engine.run_state import RunState
    from drctl.model.active_cluster import ActiveCluster, FenceProbe, Unfinished
    from drctl.model.finding import Finding
    from drctl.model.ports import ClusterReader


def known_overrides(given: Iterable[str]) -> Mapping[str, str]:
    """Parse overrides, `PRECHECK=REASON`.

    Raises:
        UsageError: there is no such precheck, it cannot be overridden, or no reason is given.
    """
    given = tuple(given)
    if not given:
        return {}
    from drctl.checks.diagnosis import checked_overrides
    from drctl.offsets.applying import OVERRIDABLE

    return checked_overrides(given, OVERRIDABLE)


def run_prechecks(reader: ClusterLinkReader, mode: str) -> "Sequence[Finding]":
    """Run the prechecks; a system that does not answer is a finding."""
    from drctl.checks.observing import Observer
    from drctl.checks.registry import precheck_findings

    config, clock = reader.config, lambda: int(time.time() * 1000)
    # Only the prechecks of a planned failover report groups without a target offset.
    left_out = left_out_of(reader) if mode == Mode.PLANNED else None
    heartbeats, target = "", reader.cluster_reader(reader.link.target)
    if mode == Mode.UNPLANNED:
        heartbeats = heartbeats_of(reader.link, target)
    with opened_ports(reader, left_out, heartbeats) as ports, notices().task("running prechecks"):
        others = config.beside(reader.link)
        observer = Observer(reader.link, config.policy, ports, clock, others)
        return precheck_findings(observer.observe(Mode(mode)))


def left_out_of(reader: ClusterLinkReader) -> "Callable[[], Sequence[LeftOut]]":
    """Committed offsets without a target offset.

    They are translated in this thread, because the observer's threads must not show progress.
    """
    try:
        wanted = reader.translated().wanted
    except Unreachable as error:
        failure = error

        def failed() -> Sequence[LeftOut]:
            raise failure

        return failed
    rows = [LeftOut(row.group, row.partition, row.blocked) for row in wanted if row.blocked]
    return lambda: rows


@contextmanager
def opened_ports(
    reader: ClusterLinkReader,
    left_out: "Callable[[], Sequence[LeftOut]] | None",
    heartbeats: str = "",
) -> "Iterator[LinkPorts]":
    """Open readers of everything that checks read of a link.

    Args:
        left_out: committed offsets without a target offset; None if offsets are not translated.
        heartbeats: the topic with copied heartbeats; empty to read none.
    """
    from drctl.checks.ports import LinkPorts

    config, link = reader.config, reader.link
    with (
        run_adapters.cluster_ports(
            link.source, link.source_config, reader.timeout_s(link.source)
        ) as source,
        run_adapters.cluster_ports(link.target, link.target_config) as target,
        adapters.both_readers(link) as (asked_source, asked_target),
        adapters.reader(link.target, link.target_config).topics as watched,
    ):
        yield LinkPorts(
            source,
            target,
            adapters.position_finder(link, asked_source, asked_target),
            adapters.connect_of(link),
            adapters.reverse_connect_of(link),
            tuple(reader.endpoint(n) for n in range(len(link.settings.endpoints))),
            run_adapters.journal_places(config, link),
            left_out,
            lambda: ends_of_copies(link, watched, heartbeats),
            heartbeats,
            _journaled(reader),
            reader.copies_before,
        )


def _journaled(link_reader: ClusterLinkReader) -> "Callable[[], ActiveCluster] | None":
    """Reads the link's journal; None for a reversed link, whose journal is on the other cluster."""
    config, link = link_reader.config, link_reader.link
    if link.name not in config.links or config.link(link.name).source != link.source:
        return None
    reader = run_adapters.journal_reader(link)
    return partial(active_cluster, link, reader, rehearsal=link_reader.rehearses)


def active_cluster(
    link: "Link", reader: "JournalTopicReader", *, rehearsal: bool = False
) -> "ActiveCluster":
    """The active cluster of the link, and its unfinished run.

    Args:
        rehearsal: whether to ignore an unfinished run in which no step changes anything.

    Raises:
        ConfigError: drctl has no permission to read the journal.
        Unreachable: the cluster of the journal did not answer.
        Unknown: the journal cannot be read, or is damaged.
    """
    from drctl.engine.active_cluster import last_move
    from drctl.engine.run_state import run_states
    from drctl.model.active_cluster import ActiveCluster
    from drctl.steps.registry import KINDS

    runs, again = tee(run_states(reader))
    moved, probe = last_move(runs, link.target, KINDS), None
    if link.settings.fence.method == "acl":
        probe = _newest_probe(islice(again, _SEARCHED_RUNS))
    return ActiveCluster(moved, newest_unfinished(reader, rehearsal=rehearsal), probe)


_SEARCHED_RUNS = 100
"""How many runs are searched for a probe of the fence."""


def _newest_probe(runs: "Iterable[RunState]") -> "FenceProbe | None":
    """The newest probe of the fence among runs, the newest first; stops at a damaged run."""
    from drctl.engine.run_state import decoding
    from drctl.model.active_cluster import FenceProbe
    from drctl.model.errors import DamagedJournal
    from drctl.steps.fence_probe import ProbeAcls

    with suppress(DamagedJournal):
        for run in runs:
            with decoding(run.run):
                found = run.facts_by_kind().of(ProbeAcls())
            if found is not None:
                at_ms = int(run.began.timestamp() * 1000)
                counts = found.acls, found.deleted, found.seconds
                return FenceProbe(run.run, at_ms, found.principals, *counts)
    return None


def newest_unfinished(
    reader: "JournalTopicReader", *, rehearsal: bool = False
) -> "Unfinished | None":
    """The newest run, if it has not ended and this process does not execute it.

    Args:
        rehearsal: whether to ignore a run in which no step changes anything.

    Raises:
        ConfigError: drctl has no permission to read the journal.
        Unreachable: the cluster of the journal did not answer.
        Unknown: the journal cannot be read, or is damaged.
    """
    from drctl.engine.active_cluster import changes, unfinished
    from drctl.engine.run_state import read_run
    from drctl.steps.registry import KINDS

    newest = next((run for run in reader.runs() if not reader.is_abandoned(run)), None)
    if newest is None:
        return None
    run = read_run(reader.entries(newest))
    found, held = unfinished(run, KINDS), reader.holder_of(newest)
    if rehearsal and not changes(run.plan, KINDS):
        return None
    if found is None or (held and (held.host, held.pid) == (socket.gethostname(), os.getpid())):
        return None
    alive = reader.alive()
    return replace(found, alive=alive is not None and alive.run == newest)


def unfinished_run(link: "Link") -> "Sequence[Finding]":
    """The unfinished run of a link as a finding, if there is one.

    Errors of the journal are ignored here, because locking the link fails for the same reason.
    """
    from drctl.checks.observed import Observed
    from drctl.checks.runs import unfinished
    from drctl.model.active_cluster import ActiveCluster
    from drctl.model.errors import DrctlError

    reader = run_adapters.journal_reader(link)
    try:
        run = newest_unfinished(reader)
    except DrctlError:
        return ()
    if run is None:
        return ()
    return unfinished.findings(Observed(link, active_cluster=ActiveCluster(None, run)))


def heartbeats_of(link: "Link", target: "ClusterReader") -> str:
    """The topic with heartbeats that MirrorMaker 2 copied from the source; empty if unknown.

    Found by the target's topics alone, because a failover has no time to wait for Connect.
    """
    from drctl.offsets.mirror_topics import guessed_aliases

    if link.settings.replicator.kind != "mirrormaker2":
        return ""
    try:
        names = target.topic_names()
    except Unreachable:
        # The precheck that needs it reports that the target does not answer.
        return ""
    aliases = guessed_aliases(link.source, link.target, names)
    return aliases.heartbeats if aliases is not None and aliases.heartbeats in names else ""


def ends_of_copies(
    link: "Link", target: "ClusterReader", heartbeats: str = ""
) -> Mapping["TopicPartition", int]:
    """The end offsets of the copies on the target, including copied heartbeats.

    Raises:
        Unreachable: the target did not answer.
    """
    return {place: log.end for place, log in logs_of_copies(link, target, heartbeats).items()}


def logs_of_copies(
    link: "Link", target: "ClusterReader", heartbeats: str = ""
) -> Mapping["TopicPartition", PartitionOffsets]:
    """The logs of the copies on the target, without those that could not be read.

    Raises:
        Unreachable: the target did not answer.
    """
    partitions = target.overview().partitions
    copies = list(link.copies_among(partitions))
    copies += [heartbeats] if heartbeats in partitions and heartbeats not in copies else []
    places = [TopicPartition(name, number) for name in copies for number in partitions[name]]
    known = target.offsets(places).items()
    return {place: log for place, log in known if isinstance(log, PartitionOffsets)}
