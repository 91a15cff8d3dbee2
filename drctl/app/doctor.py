"""Opens everything that `drctl doctor` reads, and runs all checks; nothing here writes."""

import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app import adapters, run_adapters
from drctl.app.link_reader import ClusterLinkReader
from drctl.app.notices import notices
from drctl.app.prechecks import left_out_of, opened_ports
from drctl.checks.clients import ClientConfig, Library, library_of
from drctl.checks.observed import ObservedClient, SecretFile
from drctl.config.configuration import settings_in
from drctl.model.errors import UsageError
from drctl.model.topology import Unavailable

if TYPE_CHECKING:
    from drctl.checks.diagnosis import Diagnosis
    from drctl.checks.observed import (
        Ages,
        Observed,
        ObservedRun,
        ObservedSourceConnector,
        ObservedTracking,
        OriginSample,
        OriginSamples,
        Sampled,
    )
    from drctl.checks.observing import SurveyPorts
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.groups import Group
    from drctl.model.ports import ClusterReader, GroupReader
    from drctl.model.topology import TopicPartition

_KEYS = re.compile(r"ssl\.(key|keystore)\.location|.*keytab")
_GIVEN = re.compile(
    r"(?P<file>.+)=(?P<library>java|librdkafka)-"
    r"(?P<release>(?P<major>\d+)\.(?P<minor>\d+)[\w.-]*)"
)


def secret_files(config: "Config") -> tuple[SecretFile, ...]:
    """The files with secrets that drctl.yaml refers to, and drctl.yaml itself."""
    found = {str(config.path): "drctl.yaml"}
    for setting in settings_in(config.file):
        for reference in setting.references:
            if reference.source == "file":
                path = setting.directory / Path(reference.name).expanduser()
                found[str(path)] = setting.place.rpartition(": ")[2]
    folder = config.path.parent
    for cluster in config.clusters.values():
        for name, setting in cluster.properties.items():
            if _KEYS.fullmatch(name) and not setting.references:
                found[str(folder / Path(setting.raw).expanduser())] = name
    holds = any(each.hidden and not each.references for each in settings_in(config.file))
    files = {path: SecretFile(path, what, mode_of(Path(path))) for path, what in found.items()}
    own = files[str(config.path)]
    if not holds and own.mode is not None:
        # A drctl.yaml without secrets may be readable, but not writable, by others.
        files[own.path] = own._replace(mode=own.mode & ~(stat.S_IRGRP | stat.S_IROTH))
    return tuple(files.values())


def mode_of(path: Path) -> int | None:
    """A file's permissions; None if they cannot be read."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def applications(given: tuple[str, ...], link: "Link") -> tuple[ClientConfig, ...]:
    """The client configurations given as `FILE` or `FILE=LIBRARY-VERSION`.

    Raises:
        UsageError: a file cannot be read, or its client library is unknown.
    """
    return tuple(_application(text, link) for text in given)


def seen_clients(
    given: tuple[str, ...], configs: tuple[ClientConfig, ...]
) -> Iterator[ObservedClient]:
    """A summary of each client configuration, with the library release given by the user."""
    for text, config in zip(given, configs, strict=True):
        match = _GIVEN.fullmatch(text)
        yield ObservedClient(
            config.subject, config.library.value, match["release"] if match else ""
        )


def _application(text: str, link: "Link") -> ClientConfig:
    match = _GIVEN.fullmatch(text)
    path = Path(match["file"] if match else text)
    values = _properties("--client", path)
    library = Library(match["library"]) if match else library_of(values)
    if library is None:
        raise UsageError(
            f"--client {path}: client library unknown",
            f"write --client {path}=java-3.9.1 or --client {path}=librdkafka-2.12.0",
        )
    version = (int(match["major"]), int(match["minor"])) if match else None
    config = ClientConfig(
        path.name,
        values,
        library,
        version=version,
        prepared=link.carries_group(values.get("group.id", "")),
        replicator=link.settings.replicator.kind if link.settings.translate else "none",
    )
    endpoint = next(iter(link.settings.endpoints), None)
    if endpoint is None:
        return config
    names = (endpoint.record,) if endpoint.kind == "dns" else ()
    return replace(config, endpoint=endpoint.kind, names=names)


def _properties(option: str, path: Path) -> dict[str, str]:
    from drctl.formats.properties import read_properties

    try:
        return read_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(f"{option} {path}: cannot read: {why}") from None


_SAMPLES = 20


def sampled(link: "Link", source: "ClusterReader", target: "ClusterReader") -> "Sampled":
    """Compare the newest record that both clusters should have, in a few partitions.

    Raises:
        Unreachable: a cluster did not answer.
    """
    from drctl.checks.observed import EpochPair, Sampled
    from drctl.model.topology import PartitionOffsets, Record, TopicPartition

    overview = source.overview()
    topics = link.topics_of(overview.partitions)
    # One partition of each topic first, because most faults affect whole topics.
    places = sorted(
        (TopicPartition(t, n) for t in topics for n in overview.partitions[t]),
        key=lambda place: (place.partition, place.topic),
    )
    copies = {p: TopicPartition(link.target_topic(p.topic), p.partition) for p in places}
    # The target first: otherwise what is replicated in between would look like another writer's.
    target_logs = target.offsets(tuple(copies.values()))
    source_logs = source.offsets(places)
    wanted: dict[TopicPartition, int] = {}
    longer = []
    for place, copy in copies.items():
        log, copied_log = source_logs.get(place), target_logs.get(copy)
        if not isinstance(log, PartitionOffsets) or not isinstance(copied_log, PartitionOffsets):
            continue
        if copied_log.end > log.end:
            longer.append(copy)
        newest = min(log.last_stable, copied_log.last_stable) - 1
        if newest >= max(log.log_start, copied_log.log_start) and len(wanted) < _SAMPLES:
            wanted[place] = newest
    originals = source.records(tuple(wanted.items()))
    copied = target.records(tuple((copies[p], o) for p, o in wanted.items()))
    epochs = source.leader_epochs(wanted)
    copied_epochs = target.leader_epochs({copies[p]: o for p, o in wanted.items()})
    different, unread, pairs = [], [], []
    for place, offset in wanted.items():
        one, other = originals.get((place, offset)), copied.get((copies[place], offset))
        if not isinstance(one, Record) or not isinstance(other, Record):
            unread.append(f"{place} offset {offset}")
        elif (one.key, one.value, one.timestamp_ms) == (other.key, other.value, other.timestamp_ms):
            epoch, copied_epoch = epochs[place], copied_epochs[copies[place]]
            if isinstance(epoch, int) and isinstance(copied_epoch, int):
                pairs.append(EpochPair(place, offset, epoch, copied_epoch))
        else:
            different.append((place, offset))
    same = len(wanted) - len(different) - len(unread)
    known = tuple(pair for pair in pairs if min(pair.original, pair.copied) >= 0)
    return Sampled(same, tuple(different), tuple(unread), tuple(longer), known)


_ORIGIN_SAMPLES = 8


def origin_samples(
    link: "Link", source: "ClusterReader", target: "ClusterReader"
) -> "OriginSamples":
    """Read Replicator's provenance headers of the newest records, in a few partitions.

    Raises:
        Unreachable: a cluster did not answer.
    """
    from drctl.checks.observed import OriginSamples

    topics = link.topics_of(source.overview().partitions)
    copies = tuple(map(link.target_topic, topics))
    ours, theirs = _newest_origins(source, topics), _newest_origins(target, copies)
    unread = [
        f"{at} on {end}: {found.reason}"
        for end, logs in ((link.source, ours), (link.target, theirs))
        for at, found in logs.items()
        if isinstance(found, Unavailable)
    ]
    return OriginSamples(_read(ours), _read(theirs), tuple(unread))


def _read(
    logs: "Mapping[TopicPartition, tuple[OriginSample, ...] | Unavailable]",
) -> "tuple[OriginSample, ...]":
    return tuple(
        each for found in logs.values() if not isinstance(found, Unavailable) for each in found
    )


def _newest_origins(
    cluster: "ClusterReader", topics: "Sequence[str]"
) -> "Mapping[TopicPartition, tuple[OriginSample, ...] | Unavailable]":
    """The newest records of a few partitions."""
    from drctl.checks.observed import OriginSample
    from drctl.formats.replicator_headers import HEADER
    from drctl.model.topology import PartitionOffsets, TopicPartition

    known = cluster.overview().partitions
    places = sorted(
        (TopicPartition(t, n) for t in topics for n in known.get(t, ())),
        key=lambda place: (place.partition, place.topic),
    )[:_SAMPLES]
    logs = cluster.offsets(places)
    starts = {
        place: max(log.log_start, log.last_stable - _ORIGIN_SAMPLES)
        for place, log in logs.items()
        if isinstance(log, PartitionOffsets) and log.last_stable > log.log_start
    }
    unread = {place: log for place, log in logs.items() if isinstance(log, Unavailable)}
    records = cluster.following(starts, _ORIGIN_SAMPLES)
    return unread | {
        at: found
        if isinstance(found, Unavailable)
        else tuple(
            OriginSample(
                at, each.offset, tuple(value for name, value in each.headers if name == HEADER)
            )
            for each in found
        )
        for at, found in records.items()
    }


_NOT_ENDED = "not ended"
_NO_PROPERTIES = Unavailable("the workers' properties were not given")


def examined(
    config: "Config", link: "Link", clients: tuple[str, ...], worker: str | None = None
) -> "Diagnosis":
    """Run all checks on a link.

    Args:
        clients: `FILE` or `FILE=LIBRARY-VERSION` each.
        worker: the properties file of the Connect workers.

    Raises:
        UsageError: a properties file cannot be read.
    """
    from drctl.checks.clients import client_findings
    from drctl.checks.diagnosis import diagnosed

    given = applications(clients, link)
    properties = _properties("--worker", Path(worker)) if worker else _NO_PROPERTIES
    observed = observe(config, link)
    survey = replace(observed.survey, clients=tuple(seen_clients(clients, given)))
    observed = replace(observed, survey=survey, worker=properties)
    return diagnosed(observed, tuple(f for each in given for f in client_findings(each)))


def observe(config: "Config", link: "Link") -> "Observed":
    """Read everything that checks need, in parallel."""
    from drctl.checks.observing import Observer, Survey
    from drctl.model.loss import Mode

    with ClusterLinkReader(config, link, lambda *_: ()) as reader:
        reader.probe_clusters()
        with (
            opened_ports(reader, None) as ports,
            _survey_ports(config, link) as survey_ports,
            notices().task("checking both clusters, Connect and endpoints"),
        ):
            survey = Survey(survey_ports, secret_files(config), ())
            clock = lambda: int(time.time() * 1000)  # noqa: E731
            observer = Observer(link, config.policy, ports, clock, config.beside(link))
            observed = observer.observe(Mode.PLANNED)
            found = replace(survey.seen(), principals=_principals(link), ledger=config.file.ledger)
            observed = replace(observed, survey=found)
        return _translated(reader, observed) if link.settings.translate else observed


def _principals(link: "Link") -> dict[str, str]:
    """The principal of drctl on each cluster; known only for PLAIN and SCRAM."""
    found = {}
    ends = (link.source, link.source_config), (link.target, link.target_config)
    for name, cluster in ends:
        given = adapters.revealed(cluster)
        mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", ""))
        if mechanism.startswith(("PLAIN", "SCRAM-")) and "sasl.username" in given:
            found[name] = f"User:{given['sasl.username']}"
    return found


def _translated(reader: ClusterLinkReader, observed: "Observed") -> "Observed":
    """Add committed offsets without a target offset; unavailable if a cluster is unreachable."""
    from drctl.model.errors import Unreachable

    clusters = (observed.source, observed.target)
    unreachable = next((each for each in clusters if isinstance(each, Unavailable)), None)
    if unreachable is not None:
        return replace(observed, left_out=unreachable)
    try:
        return replace(observed, left_out=tuple(left_out_of(reader)()))
    except Unreachable as error:
        return replace(observed, left_out=Unavailable(error.message))


@contextmanager
def _survey_ports(config: "Config", link: "Link") -> "Iterator[SurveyPorts]":
    from drctl.checks.observing import SurveyPorts

    source, target = link.source_config, link.target_config
    kind = link.settings.replicator.kind
    with (
        adapters.reader(link.source, source).survey as source_survey,
        adapters.reader(link.target, target).survey as target_survey,
        adapters.reader(link.source, source).groups as groups,
        adapters.reader(link.target, target).topics as reader,
        adapters.both_readers(link) as (sampled_source, sampled_target),
    ):
        yield SurveyPorts(
            source_survey,
            target_survey,
            partial(_readers, link, groups),
            partial(_ages, link, reader) if kind == "mirrormaker2" else None,
            partial(_tracked_offsets, link),
            partial(_runs, config, link),
            partial(sampled, link, sampled_source, sampled_target)
            if kind == "offset-preserving"
            else None,
            partial(_source_connectors, link),
            partial(origin_samples, link, sampled_source, sampled_target)
            if kind == "confluent-replicator"
            else None,
        )


def _source_connectors(link: "Link") -> "Mapping[str, ObservedSourceConnector]":
    """Connectors that import data, on the link's workers and on those that write to its source."""
    from drctl.checks.observed import ObservedSourceConnector
    from drctl.checks.observing import tried
    from drctl.model.source_connectors import imports

    moving, replicating = link.settings.source_connectors, adapters.connect_of(link)
    places = [(replicating, moving.pairs.values() if moving else ())] if replicating else []
    if moving:
        places.append((run_adapters.source_workers_reader(link, link.source), ()))
    return {
        name: ObservedSourceConnector(each, tried(partial(workers.positions, name)))
        for workers, standby in places
        for name, each in workers.all().items()
        if imports(each) and name not in standby
    }


def _readers(link: "Link", groups: "GroupReader") -> "Mapping[str, Group | Unavailable]":
    return groups.described(tuple(filter(link.carries_group, groups.groups())))


def _ages(link: "Link", target: "ClusterReader") -> "Ages":
    """When MirrorMaker 2 last wrote a heartbeat and a checkpoint to the target."""
    from drctl.checks.observed import Ages
    from drctl.model.topology import Found, Mark, TopicPartition

    aliases = adapters.mirror_aliases(link, target)
    if aliases is None:
        return Ages(None, None)
    names = f"{aliases.source}{aliases.separator}heartbeats", aliases.checkpoints
    partitions = target.overview().partitions
    places = [TopicPartition(name, 0) for name in names if name in partitions]
    answers = target.look_up([(place, Mark.NEWEST) for place in places])() if places else ()
    newest = {
        place.topic: found.timestamp_ms
        for place, found in zip(places, answers, strict=True)
        if isinstance(found, Found) and found.timestamp_ms >= 0
    }
    return Ages(newest.get(names[0]), newest.get(names[1]))


def _tracked_offsets(link: "Link") -> "ObservedTracking | None":
    """The tracked offsets of the link's groups."""
    from drctl.checks.observed import ObservedTracking
    from drctl.offsets.tracking_log import scope_of

    reader = adapters.reader(link.target, link.target_config).tracked_offsets
    log = reader.catch_up()
    if not reader.exists:
        return None
    scope = scope_of(link)
    others = log.cluster_ids() - {reader.cluster_id()}
    count = sum(1 for cluster in others for _ in log.of_cluster(cluster))
    return ObservedTracking(count, log.last_pass_ms(scope.digest))


def _runs(config: "Config", link: "Link") -> "tuple[ObservedRun, ...]":
    """The newest runs of the link, from the journal on the target.

    The outstanding actions of a repair are left out: the parity checks report them.
    """
    from drctl.checks.observed import ObservedRun
    from drctl.failback.observers.journal import observe_journal
    from drctl.plans.repair import NAME

    reader = run_adapters.journal_reader(link)
    return tuple(
        ObservedRun(run.run, run.plan, "ended")
        if run.plan == NAME and run.status != _NOT_ENDED
        else ObservedRun(
            run.run, run.plan, "" if run.status == _NOT_ENDED else run.status, run.outstanding
        )
        for run in observe_journal(reader, link.source)
    )
