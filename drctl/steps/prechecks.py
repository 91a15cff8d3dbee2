"""Asks the prechecks, and writes down the state before anything is changed.

The plan continues only where every precheck allows it or was overridden.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from drctl.checks.causes import in_words, told_once
from drctl.checks.diagnosis import standing_against
from drctl.engine.kind import Description, Facts, Polling, Seen, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused, Unknown, Unreachable
from drctl.model.finding import Finding, Status
from drctl.model.loss import Mode
from drctl.model.plan import Json
from drctl.model.repairs import TopicShape
from drctl.model.topology import TopicPartition, Unavailable


class Preflight(Polling):
    """Checks everything that a failover rests on."""

    name = "preflight"
    traits = Trait.JUDGES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = "ask the guards: both clusters, replication, groups, endpoints"
        passed = ", ".join(sorted(settings["overrides"])) or "none"
        return Description(title, f"no guard fails (passed over: {passed})")

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Refuse where a precheck fails that is not overridden.

        Raises:
            Refused: one does; each is named.
        """
        overrides = settings["overrides"]
        left_out = settings.get("not_asked", ())
        said = reader.findings(settings["mode"])
        findings = [each for each in said if each.check not in left_out]
        standing = standing_against(findings, overrides, Mode(settings["mode"]))
        if standing:
            raise Refused(
                "; ".join(in_words(standing)),
                "; ".join(dict.fromkeys(each.cure for each in standing if each.cure)),
            )
        others = [each for each in findings if each.status is not Status.OK]
        told, unseen = told_once(others)
        return {
            "warnings": [_told(each) for each in told],
            "unseen": [
                {"what": u.because.what, "why": u.because.why, "checks": list(u.checks)}
                for u in unseen
            ],
            "passed_over": {
                each.check: overrides[each.check] for each in others if each.check in overrides
            },
        }

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """They were asked a moment ago."""
        warnings, unseen = intent["warnings"], intent.get("unseen", ())
        told = "".join(f"; {len(u['checks'])} could not look: {u['what']}" for u in unseen)
        return Seen(State.DONE, f"no guard fails; {len(warnings)} to know of{told}", intent)


def _told(finding: Finding) -> str:
    unknown = " (not checked)" if finding.status is Status.NOT_CHECKED else ""
    return f"{finding.check}: {finding.subject}: {finding.reason}{unknown}"


_AGAINST = frozenset({Status.FAIL, Status.NOT_CHECKED})


class CheckGuards(Polling):
    """Refuses where one of them fails, could not look, or has nothing to say."""

    name = "check"
    traits = Trait.JUDGES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(f"ask the guards: {', '.join(settings['guards'])}", "none of them fails")

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Ask them.

        Raises:
            Refused: one fails that is not overridden; each is named.
        """
        names = settings["guards"]
        found = [each for each in reader.findings(settings["mode"]) if each.check in names]
        against = list(_against(names, found, settings["overrides"]))
        if against:
            failing = [each for each in found if each.status in _AGAINST]
            cures = dict.fromkeys(each.cure for each in failing if each.cure)
            raise Refused("; ".join(against), "; ".join(cures))
        told = [f"{each.check}: {each.subject}: {each.status.value}" for each in found]
        return {"guards": list(names), "told": told}

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """They were asked a moment ago."""
        return Seen(State.DONE, f"none of {len(intent['guards'])} guards fails", intent)


def _against(
    names: Sequence[str], found: Sequence[Finding], overrides: Mapping[str, str]
) -> Iterator[str]:
    for name in names:
        if name in overrides:
            continue
        said = [each for each in found if each.check == name]
        if not said:
            yield f"{name}: nobody looked: it does not concern this link"
        for each in said:
            if each.status in _AGAINST:
                yield f"{each.check}: {each.subject}: {each.reason}"


FILE = "before.json"


class TakeStock(Polling):
    """Topics and their own settings, ends of logs, positions of groups, connectors."""

    name = "take-stock"
    traits = Trait.TAKES_STOCK

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = "write down topics, end offsets, group positions and connectors of both clusters"
        return Description(title, f"{FILE} in the run's folder, and the journal")

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Observe everything; what does not answer is written down as such."""
        names = settings["connectors"]
        with ThreadPoolExecutor(1) as beside:
            # Connect knows thousands of positions: applications may wait for this.
            connectors = beside.submit(lambda: {name: _connector(name, reader) for name in names})
            clusters = {
                name: reader.seen_ahead(name) or state_of(name, reader)
                for name in settings["clusters"]
            }
            return {"clusters": clusters, "connectors": connectors.result()}

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Keep it beside the journal, too."""
        writer.keep(FILE, intent)
        return ()

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """It stands in the journal."""
        clusters = intent["clusters"]
        facts = {
            "silent": sorted(name for name, seen in clusters.items() if "error" in seen),
            "active_groups": {name: seen.get("active", []) for name, seen in clusters.items()},
        }
        told = ", ".join(_in_words(name, seen) for name, seen in clusters.items())
        return Seen(State.DONE, told, facts)


def state_of(name: str, reader: LinkReader) -> Mapping[str, Any]:
    """What a snapshot holds of a cluster; of one that does not answer, why."""
    try:
        site = reader.site(name)
        identity = site.cluster_id()
        carried = reader.link_groups(name)
        groups = reader.groups(name)
        described, committed = groups.described(carried), groups.committed(carried)
        overview = site.overview().partitions
        topics = sorted(
            {*reader.topics(), *map(reader.target_topic, reader.topics())} & overview.keys()
        )
        places = [TopicPartition(t, number) for t in topics for number in overview[t]]
        offsets = site.offsets(places)
        shapes = reader.shapes(name).shapes(topics)
    except Unreachable as error:
        return {"error": error.message}
    return {
        "cluster_id": identity,
        "topics": {topic: _shape(found) for topic, found in shapes.items()},
        "ends": {
            str(place): found.reason if isinstance(found, Unavailable) else found.end
            for place, found in offsets.items()
        },
        "active": sorted(
            group
            for group, found in described.items()
            if not isinstance(found, Unavailable) and found.active
        ),
        "positions": {
            group: found.reason
            if isinstance(found, Unavailable)
            else {str(place): at.offset for place, at in found.items()}
            for group, found in committed.items()
        },
    }


def _shape(found: TopicShape | Unavailable | None) -> Any:
    """What a topic is made of, and what it does not have from its brokers."""
    if found is None:
        return "it is gone"
    if isinstance(found, Unavailable):
        return found.reason
    own = {key: each.value for key, each in sorted(found.settings.items()) if each.own}
    return {"partitions": found.partitions, "replicas": found.replicas, "settings": own}


def _connector(name: str, reader: LinkReader) -> Mapping[str, Any]:
    try:
        connectors = reader.connectors()
        return {"state": connectors.state(name).state, "offsets": list(connectors.offsets(name))}
    except Unknown as error:
        return {"error": error.message}


def _in_words(name: str, seen: Mapping[str, Any]) -> str:
    if "error" in seen:
        return f"{name} does not answer"
    return f"{name}: {len(seen['ends'])} partitions, {len(seen['positions'])} groups"
