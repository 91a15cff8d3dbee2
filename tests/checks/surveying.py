"""What only doctor observes, from a case in YAML; a text says why it could not be read."""

from collections.abc import Callable, Mapping
from typing import Any

from drctl.checks.observed import (
    NOT_QUERIED,
    Ages,
    ClusterSurvey,
    EpochPair,
    ObservedClient,
    ObservedRun,
    ObservedSourceConnector,
    ObservedTracking,
    OriginSample,
    OriginSamples,
    Sampled,
    SecretFile,
    Surveyed,
)
from drctl.config.schema import LedgerConfig
from drctl.formats.replicator_headers import Origin, encode
from drctl.model.groups import Group, GroupProtocol, GroupState, Member
from drctl.model.replication import Connector, Position
from drctl.model.survey import Broker, BrokerFeatures, Capability, Disks, Layout, Replicas
from drctl.model.topology import TopicPartition, Unavailable
from tests.checks.precheck_cases import NOW_MS


def surveyed(case: Mapping[str, Any]) -> Surveyed:
    given = case.get("survey", {})
    seen = {name: _seen(given.get(name), read) for name, read in _READERS.items()}
    return Surveyed(
        _cluster(given.get("source", {})),
        _cluster(given.get("target", {})),
        tracked_offsets=None
        if given.get("tracked_offsets") is False
        else _seen(given.get("tracked_offsets"), _tracked_offsets),
        clients=tuple(ObservedClient(*each.split()) for each in given.get("clients", ())),
        principals=given.get("principals", {}),
        ledger=LedgerConfig(**given["ledger"]) if "ledger" in given else None,
        source_connectors=_seen(given.get("source_connectors"), _sources),
        **seen,
    )


def _why(reason: str | None) -> Unavailable:
    return NOT_QUERIED if reason is None else Unavailable(reason)


def _seen(given: Any, read: Callable[[Any], Any]) -> Any:
    return _why(given) if given is None or isinstance(given, str) else read(given)


def _cluster(given: Mapping[str, Any]) -> ClusterSurvey:
    return ClusterSurvey(
        _seen(given.get("layout"), _layout),
        _seen(given.get("features"), lambda each: {n: _seen(f, _feature) for n, f in each.items()}),
        _seen(given.get("settings"), lambda each: {1: {k: str(v) for k, v in each.items()}}),
        _seen(given.get("users"), frozenset),
        _seen(given.get("quotas"), lambda each: {(("user", n),): q for n, q in each.items()}),
        _seen(given.get("disks"), lambda each: {n: _seen(d, _disks) for n, d in each.items()}),
    )


def _layout(given: Mapping[str, Any]) -> Layout:
    """Parse brokers by id with racks, and partitions as `leader replicas in-sync [eligible]`."""
    return Layout(
        {node: Broker(f"h{node}", 9092, rack or "") for node, rack in given["brokers"].items()},
        {
            place: each
            for name, text in given["partitions"].items()
            for place, each in _held(name, text)
        },
        0.25,
    )


def _held(name: str, text: str) -> list[tuple[TopicPartition, Replicas]]:
    """Parse partitions: `orders-0` is one, `orders*20` are twenty."""
    leader, assigned, in_sync, *eligible = text.split()
    eligible_nodes = _nodes(eligible[0]) if eligible else None
    each = Replicas(int(leader), _nodes(assigned), _nodes(in_sync), eligible_nodes)
    topic, star, count = name.partition("*")
    if star:
        return [(TopicPartition(topic, n), each) for n in range(int(count))]
    topic, _, number = name.rpartition("-")
    return [(TopicPartition(topic, int(number)), each)]


def _nodes(text: str) -> tuple[int, ...]:
    return tuple(int(node) for node in text.split(",") if node != "-")


def _feature(given: Mapping[str, Any]) -> BrokerFeatures:
    missing = frozenset(map(Capability, given.get("missing", ())))
    return BrokerFeatures(given.get("supported", {}), given.get("finalized", {}), missing)


def _disks(given: Mapping[str, Any]) -> Disks:
    """Parse gibibytes: size of the volume, free space, and size by partition."""
    sizes = {
        TopicPartition(name.rpartition("-")[0], int(name.rpartition("-")[2])): size << 30
        for name, size in given.get("sizes", {}).items()
    }
    return Disks(given["total"] << 30, given["usable"] << 30, sizes)


def _tracked_offsets(given: Mapping[str, Any]) -> ObservedTracking:
    seconds = given.get("seconds")
    return ObservedTracking(given["offsets"], None if seconds is None else NOW_MS - 1000 * seconds)


def _ages(given: Mapping[str, Any]) -> Ages:
    times = (given.get(name) for name in ("heartbeat", "checkpoint"))
    return Ages(*(None if age is None else NOW_MS - 1000 * age for age in times))


def _sampled(given: Mapping[str, Any]) -> Sampled:
    different = tuple((TopicPartition("orders", p), o) for p, o in given.get("different", ()))
    longer = tuple(TopicPartition("orders", p) for p in given.get("longer", ()))
    epochs = tuple(EpochPair(TopicPartition("orders", p), *e) for p, *e in given.get("epochs", ()))
    return Sampled(given.get("same", 0), different, tuple(given.get("unread", ())), longer, epochs)


def _origin_samples(given: Mapping[str, Any]) -> OriginSamples:
    """By cluster, for each record `PARTITION OFFSET` and the clusters that it was copied from."""
    return OriginSamples(
        *(tuple(map(_origin_sample, given.get(end, ()))) for end in ("source", "target")),
        unread=tuple(given.get("unread", ())),
    )


def _origin_sample(text: str) -> OriginSample:
    partition, offset, *clusters = text.split()
    origins = tuple(map(_origin, clusters))
    return OriginSample(TopicPartition("orders", int(partition)), int(offset), origins)


def _origin(name: str) -> bytes:
    """A cluster's header; one that ends with `?` has bytes that are in no known layout."""
    if name.endswith("?"):
        return f"{name[:-1]} orders".encode()
    return encode(Origin(name, "orders", NOW_MS))


def _sources(given: Mapping[str, Any]) -> dict[str, ObservedSourceConnector]:
    """Parse connectors by name: configuration, state, and positions or why they are unknown."""
    found = {}
    for name, each in given.items():
        config = {"connector.class": each["class"], **each.get("config", {})}
        state, stored = each.get("state", "RUNNING"), each.get("positions", [])
        connector = Connector(name, "source", {k: str(v) for k, v in config.items()}, state)
        positions = _seen(stored, _positions)
        found[name] = ObservedSourceConnector(connector, positions)
    return found


def _positions(rows: list[dict[str, Any]]) -> tuple[Position, ...]:
    return tuple(Position({"server": "shop"}, row) for row in rows)


def _group(name: str, given: int | str) -> Group:
    """Create a group with this many members, or of this protocol with one member."""
    members = given if isinstance(given, int) else 1
    protocol = GroupProtocol.CLASSIC if isinstance(given, int) else GroupProtocol(given)
    state = GroupState.STABLE if members else GroupState.EMPTY
    return Group(name, protocol, state, (Member("c", "/h"),) * members)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "readers": lambda given: {name: _group(name, members) for name, members in given.items()},
    "transactional_ids": tuple,
    "ages": _ages,
    "runs": lambda given: tuple(ObservedRun(r, plan, s, tuple(o)) for r, plan, s, *o in given),
    "files": lambda given: tuple(SecretFile(p, what, mode) for p, (what, mode) in given.items()),
    "sampled": _sampled,
    "origin_samples": _origin_samples,
}
