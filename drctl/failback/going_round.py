"""Both directions at work at once on the way home, under the same names: records go round for ever.

Where only one of them runs nothing does: the old one is stopped by the run, and what brings records
home runs only while it is.
"""

from collections.abc import Iterator
from itertools import product

from drctl.checks.connectors import REPLICATOR, simple_class
from drctl.checks.wording import several
from drctl.config.mirror_names import arrives_as
from drctl.engine.steps.way_back_order import CYCLES
from drctl.failback.facts import Cluster, Facts, Names, Replication, Replicator
from drctl.model.finding import Finding, Status
from drctl.model.pasting import put, quote


def going_round(facts: Facts, names: Names) -> Iterator[Finding]:
    """Two connectors that each take the other's copies for new records.

    Args:
        names: what each copy is called at home; copies that keep their names need not be in it.
    """
    forward, reverse, target = facts.forward, facts.reverse, facts.on_target
    if not isinstance(forward, Replication) or not isinstance(reverse, Replication):
        return
    copies = {place.topic for place in target.logs} if isinstance(target, Cluster) else set()
    topics = sorted(names.get(copy, copy) for copy in copies)
    for there, back in product(forward.copying, reverse.copying):
        round_ = [topic for topic in topics if _comes_round(topic, there, back)]
        if there.runs and back.runs and round_:
            reason = f"each takes the other's copies for new records, for ever: {several(round_)}"
            cure = (
                f"stop both, and see what is there twice by now: {put('', there.name, 'stop')};"
                f" {put('', back.name, 'stop')};"
                f" drctl gap --link {quote(facts.link)} --scope full"
            )
            subject = f"connectors {there.name} and {back.name}"
            yield Finding(CYCLES, Status.FAIL, subject, reason, cure=cure)


def _comes_round(topic: str, there: Replicator, back: Replicator) -> bool:
    """Whether a copy comes to the topic that it was made of, as far as can be told."""
    if simple_class(back.connector.config) == REPLICATOR:
        return False  # it marks records
    copy = arrives_as(there.connector.config, topic)
    return isinstance(copy, str) and arrives_as(back.connector.config, copy) == topic
