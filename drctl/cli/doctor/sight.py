"""Opens everything that `doctor` looks at, and asks all checks; nothing here writes."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.doctor.files import applications, secret_files, seen_clients
from drctl.cli.doctor.samples import sampled
from drctl.cli.notices import notices
from drctl.cli.offsets import wiring as offsets_wiring
from drctl.cli.runs import plan_wiring
from drctl.cli.runs.guarding import left_out_of, opened_ports
from drctl.cli.runs.link_sight import LinkSight

if TYPE_CHECKING:
    from drctl.checks.diagnosis import Diagnosis
    from drctl.checks.observed import Observed
    from drctl.checks.surveyed import Ages, AnchorsSeen, RunSeen
    from drctl.checks.surveying import SurveyPorts
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.config.schema import ClusterConfig
    from drctl.model.groups import Group
    from drctl.model.ports import ClusterReader, GroupReader
    from drctl.model.topology import Unavailable
    from drctl.systems.kafka.survey import KafkaSurveyor

_NOT_ENDED = "not ended"


def examined(config: "Config", link: "Link", clients: tuple[str, ...]) -> "Diagnosis":
    """What all checks say of a link.

    Args:
        clients: `FILE` or `FILE=LIBRARY-VERSION` each.

    Raises:
        UsageError: the settings of an application cannot be read.
    """
    from drctl.checks.client_settings import client_findings
    from drctl.checks.diagnosis import diagnosed

    given = applications(clients, link)
    observed = observe(config, link)
    told = tuple(seen_clients(clients, given))
    observed = replace(observed, survey=replace(observed.survey, clients=told))
    return diagnosed(observed, tuple(f for each in given for f in client_findings(each)))


def observe(config: "Config", link: "Link") -> "Observed":
    """Everything at once: what guards look at, and what only doctor does."""
    from drctl.checks.observing import Observer
    from drctl.checks.surveying import Survey
    from drctl.model.failover import Mode

    with LinkSight(config, link, lambda *_: ()) as sight:
        sight.meet()
        with (
            opened_ports(sight, None) as ports,
            _survey_ports(config, link) as beyond,
            notices().task("looking at both clusters and at what is around them"),
        ):
            survey = Survey(beyond, secret_files(config), ())
            clock = lambda: int(time.time() * 1000)  # noqa: E731
            observer = Observer(link, config.policy, ports, clock, config.beside(link))
            seen = observer.observe(Mode.PLANNED)
            beside = replace(survey.seen(), principals=_principals(link), ledger=config.file.ledger)
            seen = replace(seen, survey=beside)
        return _translated(sight, seen) if link.settings.translate else seen


def _principals(link: "Link") -> dict[str, str]:
    """As whom drctl logs in, by cluster; brokers do not tell, and certificates only to them."""
    found = {}
    ends = (link.source, link.source_config), (link.target, link.target_config)
    for name, cluster in ends:
        given = wiring.revealed(cluster)
        mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", ""))
        if mechanism.startswith(("PLAIN", "SCRAM-")) and "sasl.username" in given:
            found[name] = f"User:{given['sasl.username']}"
    return found


def _translated(sight: LinkSight, seen: "Observed") -> "Observed":
    """With the positions that have no place; nobody translates where a cluster is silent."""
    from drctl.model.errors import Unreachable
    from drctl.model.topology import Unavailable

    silent = next((e for e in (seen.source, seen.target) if isinstance(e, Unavailable)), None)
    if silent is not None:
        return replace(seen, left_out=silent)
    try:
        return replace(seen, left_out=tuple(left_out_of(sight)()))
    except Unreachable as error:
        return replace(seen, left_out=Unavailable(error.message))


@contextmanager
def _survey_ports(config: "Config", link: "Link") -> "Iterator[SurveyPorts]":
    from drctl.checks.surveying import SurveyPorts

    source, target = link.source_config, link.target_config
    kind = link.settings.replicator.kind
    with (
        surveyor(link.source, source) as here,
        surveyor(link.target, target) as there,
        wiring.open_group_reader(link.source, source) as groups,
        wiring.open_reader(link.target, target) as reader,
        wiring.both_readers(link) as (sampled_source, sampled_target),
    ):
        yield SurveyPorts(
            here,
            there,
            partial(_readers, link, groups),
            partial(_ages, link, reader) if kind == "mirrormaker2" else None,
            partial(_anchors, link),
            partial(_runs, config, link),
            partial(sampled, link, sampled_source, sampled_target)
            if kind == "offset-preserving"
            else None,
        )


def surveyor(name: str, cluster: "ClusterConfig") -> "KafkaSurveyor":
    """What looks at one whole cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.survey import KafkaSurveyor

    return KafkaSurveyor(name, wiring.revealed(cluster), timeout_s=wiring.PATIENCE_S)


def _readers(link: "Link", groups: "GroupReader") -> "Mapping[str, Group | Unavailable]":
    return groups.described(tuple(filter(link.carries_group, groups.groups())))


def _ages(link: "Link", target: "ClusterReader") -> "Ages":
    """When MirrorMaker 2 last wrote a heartbeat and a checkpoint to the target."""
    from drctl.checks.surveyed import Ages
    from drctl.model.topology import Found, Mark, TopicPartition

    aliases = wiring.mirror_aliases(link, target)
    if aliases is None:
        return Ages(None, None)
    names = f"{aliases.source}{aliases.separator}heartbeats", aliases.checkpoints
    there = target.overview().partitions
    asked = [TopicPartition(name, 0) for name in names if name in there]
    answers = target.look_up([(place, Mark.NEWEST) for place in asked])() if asked else ()
    newest = {
        place.topic: found.timestamp_ms
        for place, found in zip(asked, answers, strict=True)
        if isinstance(found, Found) and found.timestamp_ms >= 0
    }
    return Ages(newest.get(names[0]), newest.get(names[1]))


def _anchors(link: "Link") -> "AnchorsSeen | None":
    """What `drctl offsets track` has noted of the link's groups."""
    from drctl.checks.surveyed import AnchorsSeen
    from drctl.offsets.anchor_log import scope_of

    reader = offsets_wiring.anchors_reader(link.target, link.target_config)
    log = reader.catch_up()
    if not reader.exists:
        return None
    scope = scope_of(link)
    others = log.cluster_ids() - {reader.cluster_id()}
    count = sum(1 for cluster in others for _ in log.of_cluster(cluster))
    return AnchorsSeen(count, log.last_look_ms(scope.digest))


def _runs(config: "Config", link: "Link") -> "tuple[RunSeen, ...]":
    """The newest runs of the link, from the journal on the target.

    What a repair left is seen by the rows of parity themselves: it owes nothing beside them.
    """
    from drctl.checks.surveyed import RunSeen
    from drctl.engine.sequences.repair import NAME
    from drctl.failback.observers.journal import observe_journal

    reader = plan_wiring.journal_reader(link)
    return tuple(
        RunSeen(run.run, run.plan, "ended")
        if run.plan == NAME and run.status != _NOT_ENDED
        else RunSeen(run.run, run.plan, "" if run.status == _NOT_ENDED else run.status, run.owed)
        for run in observe_journal(reader, link.source)
    )
