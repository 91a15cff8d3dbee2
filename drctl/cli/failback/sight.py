"""Opens what a way back is looked at through; nothing here writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.checks.glance import Glance
from drctl.cli import wiring
from drctl.cli.gap import results as gap_results
from drctl.cli.notices import notices
from drctl.cli.reconcile import wiring as reconcile_wiring
from drctl.cli.runs import plan_wiring
from drctl.cli.site_commands import run_command
from drctl.model.errors import Unreachable

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.failback.answer import Answer
    from drctl.failback.doing import Site
    from drctl.failback.facts import Facts
    from drctl.failback.observing import Results
    from drctl.failback.ports import Brokers, WayBackPorts

_SETTLE_S = 2.0
_MET_S = 60.0
_COMMAND_S = 30.0


def look_at(config: "Config", link: "Link", gap: Path | None, most: int | None = None) -> "Facts":
    """Everything that can be seen of the way back of a link.

    Args:
        most: so many records of a kind are looked through; None: as many as a look may take.

    Raises:
        UsageError: the folder that was named holds no result of `drctl gap`.
    """
    from drctl.failback.observers.pieces import AT_A_LOOK
    from drctl.failback.observing import WayBackObserver

    most = AT_A_LOOK if most is None else most
    results = _results(config, link, gap)
    with _ports(config, link) as ports, notices().task("looking at both clusters and at Connect"):
        # Nobody waits for one silent party after another: Connect is asked meanwhile.
        met = Glance(lambda: wiring.meet(link), _MET_S)
        facts = WayBackObserver(link, config.policy, ports, most=most).observe(results)
        met.value()
        return facts


def site_of(config: "Config", link: "Link", answer: "Answer") -> "Site":
    """What drctl.yaml calls things, for command lines."""
    from drctl.config.fields import for_commands
    from drctl.failback.doing import Site
    from drctl.failback.facts import Cluster, Replication
    from drctl.failback.standing_behind import anew
    from drctl.failback.starting import start_of

    replicator = link.settings.replicator
    reverse = replicator.reverse
    source, gap = answer.seen.facts.on_source, answer.seen.gap.valid
    forward = answer.seen.facts.forward
    logs = source.logs if isinstance(source, Cluster) else {}
    return Site(
        link.name,
        link.source,
        link.target,
        _link_back(config, link),
        tuple(link.settings.fence.principals),
        tuple(sorted({place.topic for place in logs})),
        gap.where if gap else "",
        for_commands(replicator.connect),
        tuple(filter(None, dict(replicator.connectors).values())),
        for_commands(reverse.connect if reverse else None),
        tuple(filter(None, dict(reverse.connectors).values())) if reverse else (),
        isinstance(forward, Replication) and forward.runs,
        tuple(replicator.stop) if not replicator.connect else (),
        answer.seen.rebuilding,
        anew(link.name) if answer.seen.stand_behind else "",
        start=start_of(answer.seen),
        led_home=answer.seen.led_home or (None if answer.seen.home is None else ()),
    )


def _link_back(config: "Config", link: "Link") -> str | None:
    """The link in the other direction, where there is one that brings topics home."""
    from drctl.config.fields import UNCHANGED
    from drctl.config.way_back import opposite

    found = opposite(link, map(config.link, config.links))
    both = (link, found) if found else ()
    kept = all(each.settings.replicator.rename == UNCHANGED for each in both)
    return found.name if found and kept else None


def _results(config: "Config", link: "Link", gap: Path | None) -> "Results":
    from drctl.config.way_back import name_of
    from drctl.failback.observing import Results
    from drctl.report.saved_exports import results_exported

    there = (gap_results.named(gap),) if gap else gap_results.kept(config.state_dir, link.name)
    names = filter(None, (_link_back(config, link), name_of(link)))
    back = (each for name in names for each in gap_results.kept(config.state_dir, name))
    # A link of drctl.yaml, between other clusters, may have the name of this one's failback.
    ours = (each for each in back if (each.source, each.target) == (link.target, link.source))
    newest = sorted(ours, key=lambda each: each.started, reverse=True)
    return Results(there, tuple(newest), results_exported(config.state_dir))


def _brokers(link: "Link") -> "Brokers":
    from drctl.config.mirrors import brokers
    from drctl.failback.ports import Brokers

    name = "bootstrap.servers"
    ends = (wiring.revealed(each)[name] for each in (link.source_config, link.target_config))
    return Brokers(*map(brokers, ends))


@contextmanager
def _ports(config: "Config", link: "Link") -> "Iterator[WayBackPorts]":
    from drctl.failback.ports import WayBackPorts

    def verified() -> tuple[bool, str] | None:
        argv = link.settings.fence.verify
        if not argv:
            return None
        ended = run_command(config, argv, {}, _COMMAND_S)
        return ended.code == 0, ended.output.strip()

    def told() -> tuple[bool, str] | None:
        replicator = link.settings.replicator
        if not replicator.stopped or replicator.connect:
            return None
        ended = run_command(config, replicator.stopped, {}, _COMMAND_S)
        if ended.code is None:
            raise Unreachable(f"{replicator.stopped[0]} did not run: {ended.output.strip()}")
        return ended.code == 0, ended.output.strip()

    source, target = link.source_config, link.target_config
    with (
        plan_wiring.cluster_ports(link.source, source) as here,
        plan_wiring.cluster_ports(link.target, target) as there,
        plan_wiring.fence_prover(link.source, source, _SETTLE_S) as prover,
        reconcile_wiring.reconcile_topic(link) as decisions,
    ):
        yield WayBackPorts(
            here.reader,
            there.reader,
            here.groups,
            there.groups,
            here.health,
            here.acls,
            prover,
            plan_wiring.connector_lister(link),
            plan_wiring.reverse_lister(link),
            _brokers(link),
            tuple(
                plan_wiring.endpoint_reader(config, link, number)
                for number in range(len(link.settings.endpoints))
            ),
            plan_wiring.journal_reader(link),
            plan_wiring.run_files(config),
            decisions.kept,
            verified,
            told,
        )
