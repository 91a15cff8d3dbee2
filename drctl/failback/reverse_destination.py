"""Whether reverse replication writes to the source cluster."""

from collections.abc import Collection, Iterator

from drctl.config.mirrors import NAMED, how_to_write, own_producer
from drctl.failback.facts import Cluster, Facts, Replication, Replicator
from drctl.model.finding import Finding, Status
from drctl.model.topology import Unavailable
from drctl.steps.failback import WRITES

_UNSEEN = "destination cluster unknown"


def written_to(facts: Facts, reverse: Replication, names: Collection[str]) -> Iterator[Finding]:
    """A finding for each named connector that is not known to write to the source."""
    for each in reverse.copying:
        if each.name in names:
            named = own_producer(each.config)
            yield from (
                _named(facts, reverse, each, named) if named else _worker(facts, reverse, each)
            )


def written_elsewhere(facts: Facts) -> tuple[Finding, ...]:
    """A finding for each reverse connector that writes to another cluster."""
    reverse = facts.reverse
    if isinstance(reverse, Unavailable):
        return ()
    names = [each.name for each in reverse.copying]
    found = written_to(facts, reverse, names)
    return tuple(each for each in found if each.status is Status.FAIL)


def _named(
    facts: Facts, reverse: Replication, each: Replicator, named: frozenset[str]
) -> Iterator[Finding]:
    """Checks against drctl.yaml where a connector with its own producer address writes."""
    if named & reverse.into:
        return
    text = f"{NAMED}={','.join(sorted(named))}"
    if named & reverse.out_of:
        reason = f"it writes to {facts.target}, not to {facts.source}: {text}"
        yield _wrong(facts, each, reason)
        return
    remedy = f"verify that these are brokers of {facts.source}"
    yield _unsure(each, f"{_UNSEEN}: drctl.yaml does not list {text}", remedy)


def _worker(facts: Facts, reverse: Replication, each: Replicator) -> Iterator[Finding]:
    """Checks a connector that writes to the cluster of its worker."""
    cluster, workers = facts.on_source, reverse.workers
    if isinstance(cluster, Unavailable) or isinstance(workers, Unavailable):
        unseen = next(seen for seen in (cluster, workers) if isinstance(seen, Unavailable))
        remedy = f"set {NAMED} to the brokers of {facts.source}"
        yield _unsure(each, f"{_UNSEEN}: it has no {NAMED}, and {unseen.reason}", remedy)
    elif workers != cluster.identity:
        reason = (
            f"it writes to {_name(facts, workers)}, not to {facts.source}: Connect writes to the"
            f" cluster of its worker, and the connector has no {NAMED}"
        )
        yield _wrong(facts, each, reason)


def _name(facts: Facts, identity: str) -> str:
    there = facts.on_target
    ours = isinstance(there, Cluster) and there.identity == identity
    return facts.target if ours else f"another cluster ({identity})"


def _wrong(facts: Facts, each: Replicator, reason: str) -> Finding:
    remedy = how_to_write(each.name, each.config, facts.source)
    return Finding(WRITES, Status.FAIL, f"connector {each.name}", reason, remedy=remedy)


def _unsure(each: Replicator, reason: str, remedy: str) -> Finding:
    return Finding(WRITES, Status.WARN, f"connector {each.name}", reason, remedy=remedy)
