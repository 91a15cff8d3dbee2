"""Runs the prechecks of a failover, over the real systems of one link."""

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
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
    from drctl.model.active_cluster import ActiveCluster, Unfinished
    from drctl.model.finding import Finding
    from drctl.model.ports import ClusterReader


def known_overrides(given: Iterable[str]) -> Mapping[str, str]:
    """`PRECHECK=REASON` as typed.

    Raises:
        UsageError: there is no such precheck, it cannot be overridden, or no reason is given.
    """
    given = tuple(given)
    if not given:
        return {}
    from drctl.checks.diagnosis import checked_overrides
    from drctl.offsets.applying import OVERRIDABLE

    return checked_overrides(given, OVERRIDABLE)


def judged(reader: ClusterLinkReader, mode: str) -> "Sequence[Finding]":
    """What the prechecks say now; what does not answer is said not to."""
    from drctl.checks.observing import Observer
    from drctl.checks.registry import precheck_findings

    config, clock = reader.config, lambda: int(time.time() * 1000)
    # Only before a planned failover somebody asks which positions have no place.
    left_out = left_out_of(reader) if mode == Mode.PLANNED else None
    beats, target = "", reader.cluster_reader(reader.link.target)
    if mode == Mode.UNPLANNED:
        beats = heartbeats_of(reader.link, target)
    with opened_ports(reader, left_out, beats) as ports, notices().task("running prechecks"):
        others = config.beside(reader.link)
        observer = Observer(reader.link, config.policy, ports, clock, others)
        return precheck_findings(observer.observe(Mode(mode)))


def left_out_of(reader: ClusterLinkReader) -> "Callable[[], Sequence[LeftOut]]":
    """Positions without a place; translated here, for the observer's threads must not draw."""
    try:
        wanted = reader.translated().wanted
    except Unreachable as error:
        silent = error

        def failed() -> Sequence[LeftOut]:
            raise silent

        return failed
    rows = [LeftOut(row.group, row.partition, row.blocked) for row in wanted if row.blocked]
    return lambda: rows


@contextmanager
def opened_ports(
    reader: ClusterLinkReader, left_out: "Callable[[], Sequence[LeftOut]] | None", beats: str = ""
) -> "Iterator[LinkPorts]":
    """What looks at a link and at what is around it.

    Args:
        left_out: which positions have no place on the target; None where nobody translates.
        beats: the topic with copied heartbeats; empty where none is looked at.
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
            lambda: ends_of_copies(link, watched, beats),
            beats,
            _journaled(reader),
            reader.copies_before,
        )


def _journaled(link_reader: ClusterLinkReader) -> "Callable[[], ActiveCluster] | None":
    """What the journal of the link tells; None where it is turned round, and kept elsewhere."""
    config, link = link_reader.config, link_reader.link
    if link.name not in config.links or config.link(link.name).source != link.source:
        return None
    reader = run_adapters.journal_reader(link)
    return partial(active_cluster, link, reader)


def active_cluster(link: "Link", reader: "JournalTopicReader") -> "ActiveCluster":
    """Where the link's clients are, and which run stands half-way.

    Raises:
        ConfigError: the journal may not be read.
        Unreachable: the cluster that keeps it did not answer.
        Unknown: it cannot be read, or is damaged.
    """
    from drctl.engine.active_cluster import last_move
    from drctl.engine.run_state import run_states
    from drctl.model.active_cluster import ActiveCluster
    from drctl.steps.registry import KINDS

    return ActiveCluster(last_move(run_states(reader), link.target, KINDS), half_way(reader))


def half_way(reader: "JournalTopicReader") -> "Unfinished | None":
    """The newest run where it has not ended, and this process does not carry it out.

    Raises:
        ConfigError, Unreachable, Unknown: as above.
    """
    from drctl.engine.active_cluster import unfinished
    from drctl.engine.run_state import read_run
    from drctl.steps.registry import KINDS

    newest = next((run for run in reader.runs() if not reader.set_aside(run)), None)
    if newest is None:
        return None
    found = unfinished(read_run(reader.entries(newest)), KINDS)
    held = reader.holder_of(newest)
    if found is None or (held and (held.host, held.pid) == (socket.gethostname(), os.getpid())):
        return None
    alive = reader.alive()
    return replace(found, alive=alive is not None and alive.run == newest)


def unfinished_run(link: "Link") -> "Sequence[Finding]":
    """The run of a link that stands half-way, as a finding; nothing where there is none.

    What cannot be seen of the journal is none here: who takes the link refuses for it.
    """
    from drctl.checks.observed import Observed
    from drctl.checks.runs import unfinished
    from drctl.model.active_cluster import ActiveCluster
    from drctl.model.errors import DrctlError

    reader = run_adapters.journal_reader(link)
    try:
        run = half_way(reader)
    except DrctlError:
        return ()
    return (
        unfinished.findings(Observed(link, active_cluster=ActiveCluster(None, run))) if run else ()
    )


def heartbeats_of(link: "Link", target: "ClusterReader") -> str:
    """The topic with heartbeats that MirrorMaker 2 copied from a link's source; empty: not known.

    By the target's topics alone: a Connect worker that is gone takes long to say so, and whoever
    fails over has no time.
    """
    from drctl.offsets.mirror_topics import guessed_aliases

    if link.settings.replicator.kind != "mirrormaker2":
        return ""
    try:
        names = target.topic_names()
    except Unreachable:
        # Whether copies grow cannot be seen then, either, and is said not to be.
        return ""
    aliases = guessed_aliases(link.source, link.target, names)
    return aliases.heartbeats if aliases is not None and aliases.heartbeats in names else ""


def ends_of_copies(
    link: "Link", target: "ClusterReader", beats: str = ""
) -> Mapping["TopicPartition", int]:
    """Where they end now, copied heartbeats with them.

    Raises:
        Unreachable: the target did not answer.
    """
    return {place: log.end for place, log in logs_of_copies(link, target, beats).items()}


def logs_of_copies(
    link: "Link", target: "ClusterReader", beats: str = ""
) -> Mapping["TopicPartition", PartitionOffsets]:
    """Those that could be read.

    Raises:
        Unreachable: the target did not answer.
    """
    there = target.overview().partitions
    copies = list(link.copies_among(there))
    copies += [beats] if beats in there and beats not in copies else []
    places = [TopicPartition(name, number) for name in copies for number in there[name]]
    known = target.offsets(places).items()
    return {place: log for place, log in known if isinstance(log, PartitionOffsets)}
