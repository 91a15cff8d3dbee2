"""Where the source ended, as far as somebody saw it while it lived and wrote it down."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from drctl.cli import wiring
from drctl.cli.offsets import wiring as offsets_wiring
from drctl.cli.runs import plan_wiring
from drctl.engine.story import understood
from drctl.gap.traces import Ends, EndSeen, Sign
from drctl.model.topology import TopicPartition

if TYPE_CHECKING:
    from drctl.cli.runs.loss_sight import LossSight
    from drctl.model.journal import JournalReader

_NEWEST = 5
"""So many runs, and results of drctl gap, are looked at: older ones tell nothing better."""


@dataclass(slots=True)
class KnownEnds:
    """Looks through the journal, results of drctl gap, anchors and the ledger.

    Args:
        into: gets what is found.
    """

    into: "LossSight"
    _ids: set[str] = field(default_factory=set, init=False)

    def gather(self) -> None:
        """All of it."""
        self.into.ask("the journal on the target", self._journaled)
        self.into.ask("results of drctl gap on this machine", self._gap_results)
        self.into.ask("the anchors of drctl offsets track", self._anchored)
        # Last: a ledger is found by the id of the source, which the others tell.
        self.into.ask("the ledger of drctl gap", self._ledger)

    def _journaled(self) -> None:
        """What take-stock of this run and of earlier ones saw of the source."""
        link = self.into.link
        reader = plan_wiring.journal_reader(link)
        for run in reader.runs()[:_NEWEST]:
            self.into.ask(f"the journal of run {run}", partial(self._took_stock, reader, run))

    def _took_stock(self, reader: "JournalReader", run: str) -> None:
        for entry in reader.entries(run):
            with understood(run):
                seen = stock_of(entry, self.into.link.source)
            if seen:
                self.into.ends.append(Ends(f"run {run} wrote it down", exact=True, seen=seen))
                cluster = entry["intent"]["clusters"][self.into.link.source]
                self._ids.add(str(cluster.get("cluster_id", "")))

    def _gap_results(self) -> None:
        from drctl.report.run_gaps import gap_results

        link = self.into.link
        for result in islice(gap_results(self.into.config.state_dir), _NEWEST):
            if (result.link, result.source) != (link.name, link.source):
                continue
            at_ms = round(result.started.timestamp() * 1000)
            seen = {place: EndSeen(end, at_ms) for place, end in result.ends.items()}
            evidence = f"drctl gap saw it ({result.file.parent.name})"
            self.into.ends.append(Ends(evidence, exact=True, seen=seen))
            self._ids.add(result.ids[link.source])

    def _anchored(self) -> None:
        """Nobody has consumed what was not there: positions are no further than the ends."""
        from drctl.offsets.anchor_log import Confirmations, scope_of
        from drctl.offsets.anchor_reading import survived_cluster

        link = self.into.link
        reader = offsets_wiring.anchors_reader(link.target, link.target_config)
        log = reader.catch_up()
        cluster = survived_cluster(log, link.source, reader.cluster_id()) if reader.exists else ""
        if not cluster:
            return
        self._ids.add(cluster)
        passes = log.passes(cluster)
        if passes:
            looked = Sign("drctl offsets track looked at it", max(each.at_ms for each in passes))
            self.into.signs.append(looked)
        seen_ms = Confirmations(passes, scope_of(link)).seen_ms
        seen: dict[TopicPartition, EndSeen] = {}
        for key, held in log.of_cluster(cluster):
            if link.carries(key.topic):
                place = TopicPartition(key.topic, key.partition)
                end = EndSeen(held.head.offset, seen_ms(key, held.head))
                seen[place] = max(end, seen.get(place, end))
        if seen:
            evidence = "drctl offsets track saw groups there"
            self.into.ends.append(Ends(evidence, exact=False, seen=seen))

    def _ledger(self) -> None:
        """What was digested was there."""
        from drctl.gap.comparison import Side
        from drctl.gap.remembering import book_name

        store = wiring.ledger(self.into.config, writes=False)
        seen: dict[TopicPartition, EndSeen] = {}
        for source_id in sorted(self._ids - {""}):
            name = book_name(self.into.link, source_id, self.into.target.cluster_id())
            if store.book(name) is None:
                continue
            for key, log in store.logs(name, self.into.topics).items():
                last = max(log.cells.values(), key=lambda cell: cell.end, default=None)
                if key.side is Side.SOURCE and last is not None:
                    place = TopicPartition(key.topic, key.partition)
                    end = EndSeen(last.end, last.digested_at)
                    seen[place] = max(end, seen.get(place, end))
        if seen:
            evidence = f"the ledger of drctl gap, {store.where}"
            self.into.ends.append(Ends(evidence, exact=False, seen=seen))


def stock_of(entry: Mapping[str, Any], source: str) -> dict[TopicPartition, EndSeen]:
    """What a step that takes stock saw of the source; nothing where it did not answer."""
    intent = entry.get("intent")
    clusters = intent.get("clusters") if isinstance(intent, Mapping) else None
    seen = clusters.get(source) if isinstance(clusters, Mapping) else None
    ends = seen.get("ends") if isinstance(seen, Mapping) else None
    if not isinstance(ends, Mapping):
        return {}
    at_ms = round(datetime.fromisoformat(str(entry["at"])).timestamp() * 1000)
    found = {}
    for name, end in ends.items():
        topic, _, number = str(name).rpartition("-")
        if isinstance(end, int) and topic and number.isdecimal():
            found[TopicPartition(topic, int(number))] = EndSeen(end, at_ms)
    return found
