"""Confluent Replicator: what consumers need to write their times down."""

from collections.abc import Iterator
from functools import partial

from drctl.checks.acls import Access, access
from drctl.checks.check import Family, NotObserved, Verdict, check, fail, ok, separately, warn
from drctl.checks.connector_settings import (
    REPLICATOR,
    all_connectors,
    required,
    settings_of,
    simple_class,
    worker_settings,
)
from drctl.checks.observed import Observed
from drctl.formats.consumer_timestamps import TOPIC
from drctl.model.finding import Status
from drctl.model.replication import Connector
from drctl.model.topology import Unavailable

_FAMILY = Family.REPLICATOR
_INTERCEPTOR = "ConsumerTimestampsInterceptor"
_UNKNOWN = "is not translated: it begins on the target where its auto.offset.reset says"

# Their positions are in files or tables at the sink, not in Kafka.
_OWN_OFFSETS = frozenset({"HdfsSinkConnector", "Hdfs3SinkConnector", "IcebergSinkConnector"})


@check(
    "replicator-interceptor-for-sinks",
    _FAMILY,
    "workers have the interceptor in `consumer.interceptor.classes` exactly where sinks with"
    " positions in Kafka run",
    Status.WARN,
    Status.FAIL,
)
def for_sinks(observed: Observed) -> Iterator[Verdict]:
    """Whether sinks that would profit write their times down, and nobody else tries to."""
    connectors = all_connectors(observed).values()
    sinks = sorted((c for c in connectors if c.kind == "sink"), key=lambda sink: sink.name)
    in_kafka = [sink for sink in sinks if simple_class(sink.config) not in _OWN_OFFSETS]
    yield from separately(partial(_sink, sink, observed) for sink in in_kafka)
    if in_kafka:
        return
    seen = worker_settings(observed).text("consumer.interceptor.classes", "")
    why = "the sinks here keep their positions elsewhere" if sinks else "no sink runs here"
    if _INTERCEPTOR not in seen.value:
        yield seen.ok(f"{why}, and the interceptor is not set")
        return
    yield seen.warn(
        f"{why}: the interceptor is useless",
        "nothing is translated that would not be otherwise; times are written that nobody needs",
        "remove it from consumer.interceptor.classes",
    )


def _sink(sink: Connector, observed: Observed) -> Verdict:
    settings = settings_of(sink)
    group = settings.text("consumer.override.group.id", f"connect-{sink.name}").value
    if not observed.link.carries_group(group):
        return ok(settings.subject, f"its group {group} is not one of the link")
    override, key = "consumer.override.interceptor.classes", "consumer.interceptor.classes"
    if override in sink.config:
        seen = settings.text(override, "")
    elif isinstance(observed.worker, Unavailable):
        reason = f"its workers' configuration is not known: {observed.worker.reason}"
        cure = f"look at {key} in the properties of its workers"
        raise NotObserved(settings.subject, reason, cure)
    else:
        seen = worker_settings(observed).text(key, "")
    if _INTERCEPTOR in seen.value:
        return ok(
            settings.subject, f"the times of its group {group} are written down", seen.evidence
        )
    cure = f"put io.confluent.connect.replicator.offsets.{_INTERCEPTOR} into {override}"
    reason = f"the times of its group {group} are not written down"
    return fail(settings.subject, reason, seen.evidence, f"its group {group} {_UNKNOWN}", cure)


@check(
    "replicator-no-interceptor-itself",
    _FAMILY,
    "Replicator's own consumer has no interceptor (`src.consumer.interceptor.classes`)",
    Status.WARN,
)
def not_itself(observed: Observed) -> Verdict:
    """Whether the interceptor is where Confluent says that it must not be."""
    seen = required(observed, REPLICATOR).text("src.consumer.interceptor.classes", "")
    if _INTERCEPTOR not in seen.value:
        return seen.ok("its consumer has no such interceptor")
    return seen.warn(
        "Replicator's consumer has the interceptor, which is for applications only",
        "Replicator's own position is written down twice, in ways that need not agree",
        "remove it from src.consumer.interceptor.classes",
    )


@check(
    "replicator-timestamps-acls",
    _FAMILY,
    f"the applications (`fence.principals`) may WRITE and DESCRIBE topic `{TOPIC}` of the source",
    Status.WARN,
    Status.FAIL,
)
def acls(observed: Observed) -> Iterator[Verdict]:
    """Whether consumers may write their times down."""
    subject, known = f"ACLs of {TOPIC}", observed.source_acls
    grant = f"grant WRITE and DESCRIBE on topic {TOPIC} of the source to each application"
    if isinstance(known, Unavailable):
        raise NotObserved(subject, f"they are not known: {known.reason}", f"see that you {grant}")
    if not known.enforced:
        yield ok(subject, "the source has no authorizer: everybody may", "no authorizer")
        return
    principals = observed.link.settings.fence.principals
    if not principals:
        reason = "drctl.yaml does not say who the applications are"
        raise NotObserved(subject, reason, "name them in `fence.principals` of the link")
    for principal in principals:
        found = {o: access(known.rules, principal, o, TOPIC) for o in ("WRITE", "DESCRIBE")}
        yield _may(principal, found)


def _may(principal: str, found: dict[str, Access]) -> Verdict:
    evidence = ", ".join(f"{operation}: {grade}" for operation, grade in found.items())
    cost = f"no time of its groups is written down: each {_UNKNOWN}"
    lacking = " and ".join(o for o, grade in found.items() if grade is Access.NO)
    if lacking:
        cure = f"grant {lacking} on topic {TOPIC} of the source to {principal}"
        reason = f"no ACL lets it {lacking} (super users need none, which ACLs do not tell)"
        return fail(principal, reason, evidence, cost, cure)
    if Access.SOME_HOSTS in found.values():
        cure = "see that the hosts of its ACLs are all that it runs on"
        return warn(principal, "it may from some hosts only", evidence, f"elsewhere {cost}", cure)
    return ok(principal, "it may write times down", evidence)


@check(
    "replicator-timestamps-topic",
    _FAMILY,
    f"topic `{TOPIC}` exists on the source, and is compacted only",
    Status.WARN,
    Status.FAIL,
)
def topic(observed: Observed) -> Verdict:
    """Whether times are written down, and kept."""
    subject, look = f"topic {TOPIC} of the source", "run `drctl dump-consumer-timestamps`"
    topics = observed.source_topics
    state = topics if isinstance(topics, Unavailable) else topics.get(TOPIC)
    if isinstance(state, Unavailable):
        raise NotObserved(subject, f"it is not known: {state.reason}", look)
    if state is None:
        cost = f"no consumer ever wrote a time down: every group {_UNKNOWN}"
        cure = f"give consumers the {_INTERCEPTOR}, or drctl's consumer (docs/consumer.md)"
        return fail(subject, "there is none", "", cost, cure)
    if "cleanup.policy" not in state.config:
        raise NotObserved(subject, "its configuration is not known", look)
    evidence = f"cleanup.policy={state.config['cleanup.policy']}"
    if "delete" not in state.config["cleanup.policy"]:
        return ok(subject, "the latest time of each position is kept", evidence)
    kept = state.config.get("retention.ms", "604800000")
    return warn(
        subject,
        "times are deleted when they get old",
        f"{evidence}, retention.ms={kept}",
        f"a group that has not consumed for that long {_UNKNOWN}",
        f"set cleanup.policy=compact on {TOPIC}",
    )
