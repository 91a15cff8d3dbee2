"""Confluent Replicator: settings without which offsets are translated wrongly or not at all.

The last checks are about its input: the timestamps that consumers write.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import partial

from drctl.checks.acls import EVERYBODY, Access, access, is_about
from drctl.checks.check import Family, check, listed, several
from drctl.checks.connector_settings import (
    REPLICATOR,
    WORKER_OPTION,
    Settings,
    all_connectors,
    find,
    required,
    reverse_replicator,
    settings_of,
    worker_settings,
)
from drctl.checks.observed import Observed
from drctl.checks.verdict import (
    NotObserved,
    Verdict,
    fail,
    not_checked,
    ok,
    require,
    separately,
    warn,
)
from drctl.config.fields import UNCHANGED
from drctl.config.mirrors import arrives_as, simple_class
from drctl.formats import replicator_headers
from drctl.formats.consumer_timestamps import TOPIC
from drctl.model.finding import Status
from drctl.model.repairs import Acl
from drctl.model.replication import Connector
from drctl.model.text import plural
from drctl.model.topology import TopicState, Unavailable

_FAMILY = Family.REPLICATOR
_COPIED_AGAIN = "a failback duplicates records that were already replicated"
_CONVERTER = "io.confluent.connect.replicator.util.ByteArrayConverter"


_AT_RESET = (
    "groups start on the target at their auto.offset.reset: they skip everything or reprocess"
    " everything"
)
_SLOW_MS = 300_000
_EXPIRY_MS = 600_000


@check("replicator-connector", _FAMILY, Status.FAIL)
def connector(observed: Observed) -> Verdict:
    """The link's Replicator is deployed on the workers."""
    found = find(observed, REPLICATOR)
    if found is None:
        return fail(
            "Connect",
            "the link's Replicator is not deployed on the workers",
            f"connectors: {', '.join(sorted(all_connectors(observed))) or 'none'}",
            "no record is replicated and no offset is translated",
            "deploy it, or correct `replicator.connectors.source` of the link in drctl.yaml",
        )
    return ok(f"connector {found.name}", "it is deployed")


@check("replicator-translates", _FAMILY, Status.FAIL)
def translates(observed: Observed) -> Verdict:
    """`offset.translator.tasks.max` lets at least one task translate offsets."""
    tasks = required(observed, REPLICATOR).integer("offset.translator.tasks.max", -1)
    if tasks.value == 0:
        remedy = "set offset.translator.tasks.max=-1"
        reason = "offset translation is off"
        return tasks.fail(reason, _AT_RESET, remedy)
    how_many = (
        "all tasks translate offsets"
        if tasks.value < 0
        else plural(tasks.value, "task translates", "tasks translate")
    )
    return tasks.ok(how_many)


@check("replicator-destination", _FAMILY, Status.FAIL)
def destination(observed: Observed) -> Verdict:
    """Where it translates offsets, `dest.kafka.bootstrap.servers` is set."""
    settings = required(observed, REPLICATOR)
    seen = settings.listed("dest.kafka.bootstrap.servers", "")
    if seen.value:
        return seen.ok("it can commit translated offsets on the target")
    tasks = settings.integer("offset.translator.tasks.max", -1)
    own = settings.flag("offset.timestamps.commit", True)
    evidence = "; ".join(each.evidence for each in (seen, tasks, own))
    if tasks.value == 0 and not own.value:
        return ok(settings.subject, "it translates no offsets", evidence)
    return fail(
        settings.subject,
        "it translates offsets, and does not know the target",
        evidence,
        "its tasks fail with `No resolvable bootstrap urls`: nothing is replicated",
        f"set dest.kafka.bootstrap.servers to the brokers of {observed.link.target}; or disable"
        " translation: offset.translator.tasks.max=0 and offset.timestamps.commit=false",
    )


@check("replicator-topics", _FAMILY, Status.FAIL)
def topics(observed: Observed) -> Verdict:
    """`topic.whitelist`, `topic.regex` and `topic.blacklist` include all of the link's topics."""
    settings = required(observed, REPLICATOR)
    look = f"check topic.whitelist and topic.regex of {settings.subject}"
    known = require(observed.source_topics, settings.subject, "the source's topics are", look)
    wanted = observed.link.topics_of(name for name, state in known.items() if state is not None)
    arrivals = {name: arrives_as(settings.values, name) for name in wanted}
    evidence = "; ".join(
        settings.text(f"topic.{key}", "").evidence for key in ("whitelist", "regex", "blacklist")
    )
    unsure = [each.reason for each in arrivals.values() if isinstance(each, Unavailable)]
    if unsure:
        raise NotObserved(settings.subject, unsure[0], look, evidence)
    if left_out := [name for name, copy in arrivals.items() if copy is None]:
        reason = f"topics of the link are not included: {listed(left_out)}"
        impact = "they are not replicated: their records are lost with the source"
        remedy = f"add them to topic.whitelist or topic.regex of {settings.subject}"
        return fail(settings.subject, reason, evidence, impact, remedy)
    return ok(settings.subject, "all topics of the link are included", evidence)


@check("replicator-names", _FAMILY, Status.FAIL)
def names(observed: Observed) -> Verdict:
    """`topic.rename.format`, and transforms that rename, match the link's `rename`."""
    settings, link = required(observed, REPLICATOR), observed.link
    seen = settings.text("topic.rename.format", UNCHANGED)
    wanted = link.settings.replicator.rename
    impact = "drctl looks for topics that do not exist: no group offset is translated"
    if seen.value != wanted and "transforms" not in settings.values:
        reason = f"target topics are named {seen.value}, but the link's `rename` is {wanted}"
        remedy = f"set the link's `rename` to {seen.value}, or topic.rename.format to {wanted}"
        return seen.fail(reason, impact, remedy)
    if "transforms" in settings.values:
        seen = settings.text("transforms", "")
        topics = () if isinstance(observed.source_topics, Unavailable) else observed.source_topics
        names = {n: arrives_as(settings.values, n) for n in link.topics_of(topics)}
        named = {n: copy for n, copy in names.items() if isinstance(copy, str)}
        remedy = f"let its transforms name target topics {wanted}, or correct the link's `rename`"
        if not named:
            raise NotObserved(
                settings.subject, "transforms may rename topics", remedy, seen.evidence
            )
        if other := [f"{n} as {copy}" for n, copy in named.items() if copy != link.target_topic(n)]:
            reason = f"the link's `rename` is {wanted}, but topics arrive as: {listed(other)}"
            return seen.fail(reason, impact, remedy)
    return seen.ok(f"target topics are named {wanted}, as configured in the link")


@check("replicator-separate-tasks", _FAMILY, Status.WARN)
def separate_tasks(observed: Observed) -> Verdict:
    """With `offset.translator.tasks.separate`, `tasks.max` is high enough for both."""
    settings = required(observed, REPLICATOR)
    separate = settings.flag("offset.translator.tasks.separate", False)
    if not separate.value:
        return separate.ok("tasks replicate and translate")
    translating = settings.integer("offset.translator.tasks.max", -1)
    everything = settings.integer("tasks.max", 1)
    evidence = "; ".join(each.evidence for each in (separate, translating, everything))
    if everything.value > max(1, translating.value):
        return ok(
            settings.subject,
            "tasks.max leaves tasks for both translation and replication",
            evidence,
        )
    return warn(
        settings.subject,
        "translation and replication need separate tasks, and tasks.max is too low for both",
        evidence,
        "either records are not replicated, or " + _AT_RESET,
        "raise tasks.max, or set offset.translator.tasks.separate=false",
    )


@check("replicator-translation-interval", _FAMILY, Status.WARN, Status.FAIL)
def translation_interval(observed: Observed) -> Verdict:
    """`offset.translator.batch.period.ms` is at most 5 minutes, and `batch.size` above 0."""
    settings = required(observed, REPLICATOR)
    period = settings.integer("offset.translator.batch.period.ms", 60_000)
    size = settings.integer("offset.translator.batch.size", 1)
    given = "offset.translator.batch.size" in settings.values
    evidence = f"{period.evidence}; {size.evidence}" if given else period.evidence
    seconds = f"{period.value / 1000:g} s"
    impact = f"groups reprocess what they consumed in the last {seconds} or more"
    if period.value <= 0 or size.value <= 0:
        reason = "the batch period or batch size is not positive"
        remedy = "remove the setting to use its default"
        return fail(settings.subject, reason, evidence, _AT_RESET, remedy)
    if period.value > _SLOW_MS:
        remedy = "lower offset.translator.batch.period.ms; its default is 60000"
        reason = f"offsets are only translated every {seconds}"
        return warn(settings.subject, reason, evidence, impact, remedy)
    return ok(settings.subject, f"offsets are translated every {seconds}", evidence, impact)


@check("replicator-fetch-expiry", _FAMILY, Status.WARN, Status.FAIL)
def expiry(observed: Observed) -> Verdict:
    """`fetch.offset.expiry.ms` is not below its default of 10 minutes."""
    limit = required(observed, REPLICATOR).integer("fetch.offset.expiry.ms", _EXPIRY_MS)
    impact = (
        f"if replication lags by more than {limit.value / 1000:g} s, translations expire and"
        " groups continue from older offsets"
    )
    remedy = f"set fetch.offset.expiry.ms={_EXPIRY_MS} or more"
    if limit.value <= 0:
        reason = "translations expire immediately"
        return limit.fail(reason, _AT_RESET, remedy)
    if limit.value < _EXPIRY_MS:
        reason = "translations expire earlier than by default"
        return limit.warn(reason, impact, remedy)
    reason = "translations wait long enough for replication to catch up"
    return limit.ok(reason, impact)


@check("replicator-fetch-retry", _FAMILY, Status.WARN)
def retry(observed: Observed) -> Verdict:
    """`fetch.offset.retry.backoff.ms` is below `fetch.offset.expiry.ms`."""
    settings = required(observed, REPLICATOR)
    backoff = settings.integer("fetch.offset.retry.backoff.ms", 100)
    limit = settings.integer("fetch.offset.expiry.ms", _EXPIRY_MS)
    evidence = f"{backoff.evidence}; {limit.evidence}"
    if backoff.value < limit.value:
        return ok(settings.subject, "failed translations are retried", evidence)
    return warn(
        settings.subject,
        "a failed translation expires before it is retried",
        evidence,
        "after a failed request, groups continue from older offsets",
        "lower fetch.offset.retry.backoff.ms; its default is 100",
    )


@check("replicator-timestamps-kept", _FAMILY, Status.FAIL)
def timestamps_kept(observed: Observed) -> Iterator[Verdict]:
    """Copies keep timestamps: `topic.timestamp.type`, and `message.timestamp.type` of each."""
    impact = (
        "offsets are looked up by timestamps that the copies do not have: groups skip records or"
        " reprocess very many"
    )
    kind = required(observed, REPLICATOR).text("topic.timestamp.type", "CreateTime")
    if kind.value == "CreateTime":
        yield kind.ok("new copies keep timestamps")
    else:
        reason, remedy = "new copies use LogAppendTime", "set topic.timestamp.type=CreateTime"
        yield kind.fail(reason, impact, remedy)
    look = "check message.timestamp.type of the topics on the target"
    what = "the copies' configuration is"
    copies = require(observed.target_topics, "topics of the target", what, look)
    for name, state in sorted(copies.items()):
        if observed.link.source_topic(name) is not None:
            yield _timestamps_of(name, state, impact)


def _timestamps_of(name: str, state: TopicState | Unavailable | None, impact: str) -> Verdict:
    subject, key = f"topic {name} of the target", "message.timestamp.type"
    if not isinstance(state, TopicState) or key not in state.config:
        known = state.reason if isinstance(state, Unavailable) else "its configuration is not known"
        reason = "the topic does not exist" if state is None else known
        remedy = f"check {key} of {name} on the target"
        return not_checked(subject, reason, remedy)
    evidence = f"{key}={state.config[key]}"
    if not state.log_append_time:
        return ok(subject, "copies keep their timestamps", evidence)
    remedy = f"set {key}=CreateTime on the topic; existing records keep their wrong timestamps"
    return fail(subject, "copies have the target's append time", evidence, impact, remedy)


_INTERCEPTOR = "ConsumerTimestampsInterceptor"
_NO_TIMES = "starts on the target at its auto.offset.reset, without a translated offset"

# These keep their offsets in the sink system, not in Kafka.
_OWN_OFFSETS = frozenset({"HdfsSinkConnector", "Hdfs3SinkConnector", "IcebergSinkConnector"})


@check("replicator-interceptor-for-sinks", _FAMILY, Status.WARN, Status.FAIL)
def interceptor_for_sinks(observed: Observed) -> Iterator[Verdict]:
    """`consumer.interceptor.classes` is set if, and only if, sinks with offsets in Kafka run."""
    connectors = all_connectors(observed).values()
    sinks = sorted((c for c in connectors if c.kind == "sink"), key=lambda sink: sink.name)
    in_kafka = [sink for sink in sinks if simple_class(sink.config) not in _OWN_OFFSETS]
    yield from separately(partial(_sink, sink, observed) for sink in in_kafka)
    if in_kafka:
        return
    interceptors = worker_settings(observed).text("consumer.interceptor.classes", "")
    why = "the sinks here keep their offsets outside Kafka" if sinks else "no sink runs here"
    if _INTERCEPTOR not in interceptors.value:
        yield interceptors.ok(f"{why} and the interceptor is not set")
        return
    yield interceptors.warn(
        f"{why}: the interceptor has no effect",
        "timestamps are written that nothing uses",
        "remove it from consumer.interceptor.classes",
    )


def _sink(sink: Connector, observed: Observed) -> Verdict:
    settings = settings_of(sink)
    group = settings.text("consumer.override.group.id", f"connect-{sink.name}").value
    if not observed.link.carries_group(group):
        return ok(settings.subject, f"its group {group} does not belong to the link")
    override, key = "consumer.override.interceptor.classes", "consumer.interceptor.classes"
    if override in sink.config:
        interceptors = settings.text(override, "")
    elif isinstance(observed.worker, Unavailable):
        reason = f"its workers' configuration is not known: {observed.worker.reason}"
        remedy = f"pass the properties of its workers, to check {key}: {WORKER_OPTION}"
        raise NotObserved(settings.subject, reason, remedy)
    else:
        interceptors = worker_settings(observed).text(key, "")
    if _INTERCEPTOR in interceptors.value:
        return ok(
            settings.subject, f"timestamps of its group {group} are written", interceptors.evidence
        )
    remedy = f"add io.confluent.connect.replicator.offsets.{_INTERCEPTOR} to {override}"
    reason = f"timestamps of its group {group} are not written"
    return fail(
        settings.subject, reason, interceptors.evidence, f"its group {group} {_NO_TIMES}", remedy
    )


@check("replicator-own-interceptor", _FAMILY, Status.WARN)
def no_interceptor_itself(observed: Observed) -> Verdict:
    """The consumer of Replicator itself has no interceptor (`src.consumer.interceptor.classes`)."""
    interceptors = required(observed, REPLICATOR).text("src.consumer.interceptor.classes", "")
    if _INTERCEPTOR not in interceptors.value:
        return interceptors.ok("its consumer does not have the interceptor")
    return interceptors.warn(
        "Replicator's own consumer has the interceptor, which is meant for applications",
        "Replicator's own offset is stored twice, and the two may differ",
        "remove it from src.consumer.interceptor.classes",
    )


@check("replicator-timestamps-acls", _FAMILY, Status.WARN, Status.FAIL)
def timestamps_acls(observed: Observed) -> Iterator[Verdict]:
    """Every reader of the link's topics may WRITE and DESCRIBE `__consumer_timestamps`.

    `fence.principals` must; other principals must if their consumers are to fail over.
    """
    subject = f"ACLs of {TOPIC}"
    grant = f"grant WRITE and DESCRIBE on topic {TOPIC} of the source to each application"
    known = require(observed.source_acls, subject, "they are", grant)
    if not known.enforced:
        yield ok(subject, "the source has no authorizer: everyone may write", "no authorizer")
        return
    fenced = observed.link.settings.fence.principals
    for principal in fenced:
        yield _may(principal, known.rules, fenced=True)
    topics = require(observed.source_topics, subject, "who reads the link's topics is", grant)
    others = sorted(_consumers(known.rules, observed.link.topics_of(topics)) - {*fenced, EVERYBODY})
    for principal in others:
        yield _may(principal, known.rules, fenced=False)
    if not fenced and not others:
        reason = "the link has no `fence.principals`, and no ACL names a reader of its topics"
        remedy = "list the applications in `fence.principals` of the link"
        raise NotObserved(subject, reason, remedy)


def _consumers(rules: Iterable[Acl], topics: Collection[str]) -> set[str]:
    """The principals that may read one of the topics, or write timestamps."""
    needed = {"READ": topics, "WRITE": (TOPIC,), "ALL": (*topics, TOPIC)}
    return {
        rule.principal
        for rule in rules
        if rule.permission == "ALLOW"
        if any(is_about(rule, name) for name in needed.get(rule.operation, ()))
    }


def _may(principal: str, rules: Iterable[Acl], *, fenced: bool) -> Verdict:
    found = {o: access(rules, principal, o, TOPIC) for o in ("WRITE", "DESCRIBE")}
    evidence = ", ".join(f"{operation}: {grade}" for operation, grade in found.items())
    impact = f"no timestamps of its groups are written: each {_NO_TIMES}"
    missing = " and ".join(o for o, grade in found.items() if grade is Access.NO)
    if missing:
        remedy = f"grant {missing} on topic {TOPIC} of the source to {principal}"
        reason = f"no ACL allows {missing} (ACLs do not show whether it is a super user)"
        if fenced:
            return fail(principal, reason, evidence, impact, remedy)
        return warn(principal, reason, evidence, f"if it is a consumer, {impact}", remedy)
    if Access.SOME_HOSTS in found.values():
        remedy = "check that its ACLs cover all hosts that it runs on"
        return warn(
            principal,
            "its ACLs cover some hosts only",
            evidence,
            f"on other hosts, {impact}",
            remedy,
        )
    return ok(principal, "it may write timestamps", evidence)


@check("replicator-timestamps-topic", _FAMILY, Status.WARN, Status.FAIL)
def timestamps_topic(observed: Observed) -> Verdict:
    """Topic `__consumer_timestamps` exists on the source, and is compacted only."""
    subject, look = f"topic {TOPIC} of the source", "run `drctl dump-consumer-timestamps`"
    topics = require(observed.source_topics, subject, "it is", look)
    state = require(topics.get(TOPIC), subject, "it is", look)
    if state is None:
        impact = f"no consumer has written timestamps: every group {_NO_TIMES}"
        remedy = f"give consumers the {_INTERCEPTOR}, or use drctl.consumer"
        remedy += " (docs/howto/python-consumer.md)"
        return fail(subject, "it does not exist", "", impact, remedy)
    if "cleanup.policy" not in state.config:
        raise NotObserved(subject, "its configuration is not known", look)
    evidence = f"cleanup.policy={state.config['cleanup.policy']}"
    if "delete" not in state.config["cleanup.policy"]:
        return ok(subject, "it is compacted only", evidence)
    kept = state.config.get("retention.ms", "604800000")
    return warn(
        subject,
        "old timestamps are deleted",
        f"{evidence}, retention.ms={kept}",
        f"a group that was inactive for that long {_NO_TIMES}",
        f"set cleanup.policy=compact on {TOPIC}",
    )


@check("replicator-own-timestamps", _FAMILY, Status.FAIL)
def own_timestamps(observed: Observed) -> Verdict:
    """`offset.timestamps.commit` is true: Replicator's own offset is translated, too."""
    kept = required(observed, REPLICATOR).flag("offset.timestamps.commit", True)
    if kept.value:
        return kept.ok("Replicator's own offset is translated")
    reason, remedy = "its own offset is not translated", "set offset.timestamps.commit=true"
    return kept.fail(reason, _COPIED_AGAIN, remedy)


@check("replicator-own-offsets", _FAMILY, Status.WARN)
def own_offsets(observed: Observed) -> Verdict:
    """`offset.topic.commit` is true: Replicator commits its progress to its consumer group."""
    kept = required(observed, REPLICATOR).flag("offset.topic.commit", True)
    if kept.value:
        return kept.ok("it commits its progress to its consumer group")
    return kept.warn(
        "it does not commit its progress to its consumer group",
        "its lag is unknown, so the data loss that a failover would cause cannot be measured"
        " beforehand",
        "set offset.topic.commit=true",
    )


@check("replicator-reverse-start", _FAMILY, Status.FAIL)
def reverse_start(observed: Observed) -> Verdict:
    """`offset.start` of the reverse Replicator is `consumer`: it uses translated offsets."""
    start = reverse_replicator(observed).text("offset.start", "connect")
    if start.value == "consumer":
        return start.ok("it starts at the translated offset")
    reason, remedy = "it ignores the translated offset", "set offset.start=consumer on it"
    return start.fail(reason, _COPIED_AGAIN, remedy)


@check("replicator-group-id", _FAMILY, Status.FAIL)
def group_id(observed: Observed) -> Verdict:
    """`src.consumer.group.id`, else the connector's name, is the same in both directions."""
    there, back = required(observed, REPLICATOR), reverse_replicator(observed)
    ours, theirs = _group(there), _group(back)
    subject, evidence = f"{there.subject}, {back.subject}", f"{ours!r} forward, {theirs!r} reverse"
    if ours == theirs:
        return ok(subject, "both directions use the same group id", evidence)
    reason, remedy = "the directions use different group ids", f"set src.consumer.group.id={ours}"
    return fail(subject, reason, evidence, _COPIED_AGAIN, f"{remedy} on {back.subject}")


@check("replicator-provenance", _FAMILY, Status.WARN, Status.FAIL)
def provenance(observed: Observed) -> Verdict:
    """`provenance.header.enable` is true, so that no record is copied back to its origin."""
    settings = required(observed, REPLICATOR)
    enabled = settings.flag("provenance.header.enable", False)
    if enabled.value:
        return enabled.ok("copies carry a provenance header")
    replicator = observed.link.settings.replicator
    reverse = replicator.reverse
    same = reverse is not None and replicator.rename == reverse.rename == UNCHANGED
    reason, remedy = "copies carry no provenance header", "set provenance.header.enable=true"
    if same:
        impact = "with the same topic names in both directions, records are replicated in a loop"
        return enabled.fail(reason, impact, remedy)
    return enabled.warn(reason, _COPIED_AGAIN, remedy)


@check("replicator-header-converter", _FAMILY, Status.FAIL)
def header_converter(observed: Observed) -> Verdict:
    """`header.converter` is Replicator's `ByteArrayConverter` where it writes headers."""
    settings = required(observed, REPLICATOR)
    enabled = settings.flag("provenance.header.enable", False)
    if not enabled.value:
        return enabled.ok("provenance headers are off")
    if "header.converter" not in settings.values:
        settings = worker_settings(observed)
    converter = settings.text("header.converter", "SimpleHeaderConverter")
    if converter.value == _CONVERTER:
        return converter.ok("provenance headers are kept as bytes")
    reason, remedy = (
        "provenance headers are not kept as bytes",
        f"set header.converter={_CONVERTER}",
    )
    impact = f"Replicator does not recognize its own copies; {_COPIED_AGAIN}"
    return converter.fail(reason, impact, f"{remedy} on the connector")


@check("replicator-copies-marked", _FAMILY, Status.WARN, Status.FAIL)
def copies_marked(observed: Observed) -> Verdict:
    """The newest copies have the provenance header: their topics store record format v2."""
    settings = required(observed, REPLICATOR)
    enabled = settings.flag("provenance.header.enable", False)
    if not enabled.value:
        return enabled.ok("provenance headers are off")
    subject = f"newest copies on cluster {observed.link.target}"
    look = f"read some copies, and look for header {replicator_headers.HEADER}"
    origin_samples = require(observed.survey.origin_samples, subject, "their headers are", look)
    if not origin_samples.target:
        reason = "no copy could be read" if origin_samples.unread else "there is no copy to read"
        raise NotObserved(subject, reason, look, several(origin_samples.unread))
    without = sorted({each.at.topic for each in origin_samples.target if not each.origins})
    if not without:
        return ok(
            subject,
            f"every copy that was read ({len(origin_samples.target):,}) has a provenance header",
        )
    topics = {} if isinstance(observed.target_topics, Unavailable) else observed.target_topics
    formats = {name: _format(topics.get(name)) for name in without}
    old = [f"{name} {version}" for name, version in formats.items() if _before_headers(version)]
    number = sum(not each.origins for each in origin_samples.target)
    reason = f"copies without a provenance header: {number:,} of {len(origin_samples.target):,}"
    impact = f"Replicator does not recognize them as copies; {_COPIED_AGAIN}"
    if old:
        evidence = f"message.format.version: {several(old)}; headers need 0.11.0 or later"
        remedy = "raise message.format.version of these topics to that of the brokers"
        return fail(subject, reason, evidence, impact, remedy)
    remedy = (
        "find what wrote them: applications or another replicator; copies from before"
        " provenance.header.enable=true stay without the header"
    )
    return warn(subject, reason, f"topics {listed(without)}", impact, remedy)


def _format(state: TopicState | Unavailable | None) -> str:
    """`message.format.version`; empty if it is unknown, as in releases with a single format."""
    return state.config.get("message.format.version", "") if isinstance(state, TopicState) else ""


def _before_headers(version: str) -> bool:
    """Whether a format is older than v2, which came with Kafka 0.11 and has headers."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", version)
    return found is not None and tuple(map(int, found.groups())) < (0, 11)


def _group(settings: Settings) -> str:
    name = settings.subject.removeprefix("connector ")
    known = settings.text("src.consumer.group.id", settings.values.get("name", name)).value
    if not known:
        remedy = f"set src.consumer.group.id of {settings.subject}"
        raise NotObserved(settings.subject, "its group id is empty", remedy)
    return known
