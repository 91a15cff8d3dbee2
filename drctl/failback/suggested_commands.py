"""What to type for each step by itself; `drctl failback` does all of them as one plan."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from drctl.checks.check import listed, several
from drctl.checks.connector_settings import REPLICATOR
from drctl.config.mirrors import simple_class
from drctl.failback.facts import Began, Replicator
from drctl.failback.reverse_destination import written_elsewhere
from drctl.failback.situation import Situation
from drctl.failback.steps import held_before
from drctl.model.text import command, connector_url, option, put, quote, quote_lines, variable
from drctl.model.topology import TopicPartition, Unavailable
from drctl.steps.source_offsets import ALIAS


@dataclass(frozen=True, slots=True)
class Start:
    """What has to happen before it is started.

    Attributes:
        body: what Connect is to keep of it, as `PATCH /connectors/NAME/offsets` takes it; empty
            where nothing has to be set.
        unsure: why nobody may start it yet; empty where it may be.
        twice: whether it has copied everything a second time.
    """

    body: str = ""
    unsure: str = ""
    twice: bool = False


def start_of(seen: Situation) -> Start:
    """By where it stands and writes, where new records begin, and what has come already."""
    facts = seen.facts
    if elsewhere := written_elsewhere(facts):
        return Start(unsure=several(f"{each.reason}: {each.cure}" for each in elsewhere))
    if seen.rebuilding:
        return Start()
    if Began.START in seen.arrived.values():
        return Start(twice=True)
    if seen.home is True:
        return Start(unsure=f"clients are home on {facts.source}: compare both directions first")
    if isinstance(facts.reverse, Unavailable):
        return Start(unsure=facts.reverse.reason)
    if not facts.reverse.copying:
        return Start(unsure="the workers have no connector that copies back: create it STOPPED")
    if isinstance(facts.boundaries, Unavailable):
        return Start(unsure=f"where it has to begin is not known: {facts.boundaries.reason}")
    copier = facts.reverse.copying[0]
    if isinstance(copier.positions, Unavailable):
        return Start(unsure=f"where it stands is not known: {copier.positions.reason}")
    behind = several(_behind_what_came(seen, copier.positions))
    if behind:
        return Start(unsure=f"{behind}: what has come since would be copied again")
    return Start(_body(copier, dict(_to_be_set(seen, copier.positions))))


def _behind_what_came(seen: Situation, positions: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Partitions that have begun to come, and that it would begin again."""
    for place, boundary, came in _begun(seen):
        if came is not Began.BOUNDARY and came is not None:
            yield f"what came first of {place} is not the first new record"
        elif came and positions.get(place, 0) < boundary:
            stands = positions.get(place, "nothing")
            yield f"of {place} it keeps {stands}, and what comes from {boundary} on is there"


def _to_be_set(
    seen: Situation, positions: Mapping[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, int]]:
    """Where it has to begin, of partitions of which nothing has come."""
    for place, boundary, came in _begun(seen):
        stands = positions.get(place, 0)
        if came is None and stands != boundary and held_before(place, boundary, seen):
            yield place, boundary


def _begun(
    seen: Situation,
) -> Iterator[tuple[TopicPartition, int, Began | Unavailable | None]]:
    """By partition of the target: where what is new begins, and what has come; None: nothing."""
    partitions = seen.first.partitions if seen.first is not None else ()
    for each in partitions:
        boundary = seen.boundaries.get(each.copy)
        if boundary is not None:
            yield each.copy, boundary, seen.arrived.get(each.place)


def _body(copier: Replicator, wanted: Mapping[TopicPartition, int]) -> str:
    """A partition a line; MirrorMaker 2 keeps the last offset that it copied, not the next."""
    if not wanted:
        return ""
    config = copier.config
    mirror = simple_class(config) != REPLICATOR
    named = {"cluster": config.get(ALIAS, "source")} if mirror else {}
    lines = [
        json.dumps(
            {
                "partition": {**named, "topic": place.topic, "partition": place.partition},
                "offset": {"offset": at - 1 if mirror else at},
            }
        )
        for place, at in sorted(wanted.items())
    ]
    return '{"offsets": [\n' + ",\n".join(lines) + "\n]}"


_RUNBOOK = "runbooks/before-the-primary-returns.md"


@dataclass(frozen=True, slots=True)
class Site:
    """What drctl.yaml calls things, for command lines.

    Attributes:
        back: the link in the other direction; None where there is none.
        gap: the folder of the result to rest on; empty where there is none.
        connect: a worker of the old direction, of reverse replication: without user and password.
        forward: connectors of the old direction; likewise `reverse`.
        forward_runs: whether it copies now.
        rebuilding: whether the source has lost its records, and is rebuilt.
        anew: the one plan that fails back where what is new has no place of its own; else empty.
        stop: the user-supplied command that stops it, word by word; empty where there is none.
        start: how what copies back is started.
        led_home: endpoints that lead to the source already; None where that is not known.
    """

    link: str
    source: str
    target: str
    back: str | None
    principals: tuple[str, ...]
    topics: tuple[str, ...]
    gap: str
    connect: str
    forward: tuple[str, ...]
    connect_back: str
    reverse: tuple[str, ...]
    forward_runs: bool = False
    stop: tuple[str, ...] = ()
    rebuilding: bool = False
    anew: str = ""
    start: Start = field(kw_only=True)
    led_home: tuple[str, ...] | None = field(default=(), kw_only=True)


def whole_plan(site: Site) -> str:
    """The command that does all of it."""
    return site.anew or f"drctl failback --link {quote(site.link)}{' --rebuild' * site.rebuilding}"


def doing(site: Site) -> Mapping[str, tuple[str, ...]]:
    """By step: lines that are commands, or say what has no command yet."""
    if site.anew and not site.rebuilding:
        boundary = "there is no boundary to begin at: start nothing that copies back by hand"
        return {**_of_each(site), "f": (site.anew, boundary)}
    return {**_of_each(site), **(_anew(site) if site.rebuilding else {})}


def _anew(site: Site) -> Mapping[str, tuple[str, ...]]:
    """Where the source is emptied, and everything is copied to it."""
    names = site.reverse or ("CONNECTOR",)
    offsets = connector_url(site.connect_back, names[0], "offsets")
    return {
        "f": (
            "what of this is not done, in this order; before anything is emptied:",
            f"drctl gap --link {quote(site.link)} --scope full --view truncation --export DIR",
            f"empty the link's topics on {site.source}: kafka-topics.sh --delete --topic TOPIC",
            f"with the connector STOPPED: curl -s -X DELETE {offsets}",
            *_one_way_only(site),
            *(_not_yet(site) or _resumed(site)),
        ),
        "g": (
            "while the connector is STOPPED, take the filter on __drctl_provenance out of its"
            " transforms",
        ),
    }


def _of_each(site: Site) -> Mapping[str, tuple[str, ...]]:
    there = f"drctl gap --link {quote(site.link)} --scope full"
    if site.back is None:
        back = (
            f"add a link from {site.target} to {site.source} to drctl.yaml, and run drctl gap on it"
        )
        switch = f"{back}; then drctl failover --mode planned on it"
    else:
        back = f"drctl gap --link {quote(site.back)} --scope full"
        switch = f"drctl failover --link {quote(site.back)} --mode planned"
    return {
        "a": (*_before_closing(site), _deny(site)),
        "b": _stop(site),
        "c": (there,),
        "d": (there, "then read gap.html of its folder"),
        "e": (
            f"drctl reconcile {quote(site.gap or 'DIR')} --policy copy",
            f"without --execute it is only shown; what to decide: {_RUNBOOK}, steps 7 and 8",
        ),
        "f": _start(site, back),
        "g": (
            "while it is STOPPED, give the connector that copies back"
            " transforms.NAME.type=org.apache.kafka.connect.transforms.Filter with a predicate"
            " HasHeaderKey on __drctl_provenance",
        ),
        "h": (back,),
        "i": (switch,),
        "j": (
            *_again(site),
            *(put(site.connect, name, "resume") for name in site.forward or ("CONNECTOR",)),
        ),
        "k": (there, back, f"drctl offsets translate --link {quote(site.link)}"),
    }


def _start(site: Site, back: str) -> tuple[str, ...]:
    """What copies back, by where it stands."""
    names = site.reverse or ("CONNECTOR",)
    if site.start.twice:
        return (
            *(put(site.connect_back, name, "stop") for name in names),
            f"what {site.source} holds twice stays there: {back}",
            f"or empty {site.source}, and fill it anew: drctl failback --link {quote(site.link)}"
            " --rebuild --override source-whole=REASON",
        )
    return _not_yet(site) or (*_one_way_only(site), *_begin(site, names[0]), *_resumed(site))


def _not_yet(site: Site) -> tuple[str, ...]:
    """Why nothing may be started; empty where it may be."""
    unsure = site.start.unsure
    return (f"do not start what copies back yet: {unsure}",) if unsure else ()


def _resumed(site: Site) -> tuple[str, ...]:
    names = site.reverse or ("CONNECTOR",)
    return tuple(put(site.connect_back, name, "resume") for name in names)


def _begin(site: Site, connector: str) -> tuple[str, ...]:
    if not site.start.body:
        return ("it stands where it has to: nothing is to be set, only started",)
    return (
        "with the connector STOPPED, set its offsets to the boundary:",
        f"curl -s -X PATCH {connector_url(site.connect_back, connector, 'offsets')}"
        f' -H "Content-Type: application/json" --data {quote_lines(site.start.body)}',
    )


def _again(site: Site) -> tuple[str, ...]:
    """Where the old connector goes on; from outside nobody sees where the switchover was."""
    name = site.forward[0] if site.forward else "CONNECTOR"
    at = f" --link {quote(site.link)}"
    return (
        "with the connector STOPPED, see that it keeps where the switchover was, and not less:",
        f"drctl connect offsets export {option('--connector', name)} --out offsets.json{at}",
        f"where it keeps less: write the right offsets into that file, and"
        f" drctl connect offsets apply --from offsets.json{at} --execute",
    )


def _stop(site: Site) -> tuple[str, ...]:
    if site.stop:
        return (command(site.stop),)
    return tuple(put(site.connect, name, "stop") for name in site.forward or ("CONNECTOR",))


def _one_way_only(site: Site) -> tuple[str, ...]:
    """Before reverse replication starts: topics that keep their names would loop for ever."""
    if not site.forward_runs:
        return ()
    return (
        f"first stop what copies from {site.source} to {site.target}: where topics keep their"
        " names, both at once copy records round for ever:",
        *_stop(site),
    )


def _before_closing(site: Site) -> tuple[str, ...]:
    """Nobody is to be kept from writing where applications are at work."""
    if site.led_home is None:
        return (f"only where no application is at work on {site.source}: it cannot be seen here:",)
    if not site.led_home:
        return ()
    there = f"{listed(site.led_home)} leads to {site.source}"
    return (f"only when clients are back on {site.target} ({there} now):",)


def _deny(site: Site) -> str:
    principals = site.principals or ("User:APPLICATION",)
    who = " ".join(f"{option('--deny-principal', each)}" for each in principals)
    topics = " ".join(f"{option('--topic', each)}" for each in site.topics or ("TOPIC",))
    return (
        f'kafka-acls.sh --bootstrap-server "{variable(site.source)}"'
        f" --command-config admin.properties --add {who} --operation Write {topics}"
    )
