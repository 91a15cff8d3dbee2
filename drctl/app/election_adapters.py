"""Builds adapters for `drctl elect`, and collects evidence of where a lost log ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from drctl.app import adapters
from drctl.app.loss import KnownEnds, LossReader, ReplicatorEvidence
from drctl.elections.loss import Beyond, Evidence
from drctl.elections.results import ElectionOutcome, Outcome, observed
from drctl.model.errors import DrctlError, Unreachable, UsageError
from drctl.model.groups import OFFSETS_TOPIC
from drctl.model.text import plural
from drctl.model.topology import TopicPartition, Unavailable
from drctl.steps.elections import ElectLeaders

if TYPE_CHECKING:
    from drctl.app.link_reader import ClusterLinkReader
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.engine.run_state import RunState
    from drctl.model.ports import GroupReader


@dataclass(slots=True)
class Gathered:
    """The evidence found.

    Attributes:
        groups: committed offsets of groups, by partition.
        silent: systems that may have more evidence and did not answer.
    """

    evidence: list[Evidence] = field(default_factory=list)
    groups: dict[TopicPartition, list[Beyond]] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)


def gather(
    config: "Config",
    cluster: str,
    topic: str,
    numbers: Sequence[int],
    known_ends: Mapping[int, int],
) -> Gathered:
    """Collect all evidence of the log ends of these partitions."""
    found = Gathered()
    places = [TopicPartition(topic, number) for number in numbers]
    words = "given as the log end with --known-end"
    found.evidence += [
        Evidence(TopicPartition(topic, n), words, end, exact=True) for n, end in known_ends.items()
    ]
    _groups(config, cluster, places, found)
    for link in (config.link(name) for name in config.file.links):
        if link.source == cluster and link.carries(topic):
            _link(config, link, places, found)
    return found


def known_ends(given: Sequence[str], numbers: Sequence[int]) -> dict[int, int]:
    """Parse `NUMBER=OFFSET`.

    Raises:
        UsageError: it is invalid, or for another partition.
    """
    found = {}
    for text in given:
        number, _, offset = text.partition("=")
        if not (number.isdecimal() and offset.isdecimal()):
            raise UsageError(
                f"--known-end {text!r} is not NUMBER=OFFSET", "for example: --known-end 0=1840"
            )
        if int(number) not in numbers:
            raise UsageError(f"--known-end {text}: partition {number} is not among those elected")
        found[int(number)] = int(offset)
    return found


def _groups(
    config: "Config", cluster: str, places: Sequence[TopicPartition], found: Gathered
) -> None:
    try:
        reader = adapters.reader(cluster, config.cluster(cluster))
        with reader.elections as leaders:
            # Before the listing: a coordinator elected since then may be missing from it.
            down = leaders.look({OFFSETS_TOPIC}).leaderless
        with reader.groups as groups:
            committed = groups.committed(_listed(groups, cluster, found, incomplete=bool(down)))
    except DrctlError as error:
        found.silent.append(f"group offsets on {cluster}: {error.message}")
        return
    if down:
        found.silent.append(
            f"groups whose coordinator on {cluster} was down:"
            f" {plural(len(down), 'partition')} of {OFFSETS_TOPIC} had no leader; try again"
        )
    for group, positions in committed.items():
        if isinstance(positions, Unavailable):
            found.silent.append(f"offsets of group {group}: {positions.reason}")
            continue
        for place in places:
            if at := positions.get(place):
                found.groups.setdefault(place, []).append(Beyond(group, at.offset))
    for place, rows in found.groups.items():
        furthest = max(rows, key=lambda row: row.offset)
        words = f"group {furthest.group} has read up to {furthest.offset}"
        found.evidence.append(Evidence(place, words, furthest.offset))


def _listed(
    groups: "GroupReader", cluster: str, found: Gathered, *, incomplete: bool
) -> tuple[str, ...]:
    """The groups; if some may be missing from the list, that is reported.

    No broker lists the groups of a coordinator that is starting.
    """
    try:
        return groups.groups(incomplete=incomplete)
    except Unreachable as error:
        found.silent.append(
            f"some groups on {cluster} may be missing from the list: {error.message}; try again"
        )
        return groups.groups(incomplete=True)


def _link(
    config: "Config", link: "Link", places: Sequence[TopicPartition], found: Gathered
) -> None:
    with adapters.reader(link.target, link.target_config).topics as target:
        reader = LossReader(config, link, target, sorted({place.topic for place in places}))
        for evidence in (KnownEnds(reader), ReplicatorEvidence(reader, places)):
            reader.ask(f"evidence on {link.target}", evidence.gather)
    for ends in reader.found.ends:
        for place in places:
            if seen := ends.seen.get(place):
                at = datetime.fromtimestamp(seen.at_ms / 1000, UTC)
                words = f"{ends.evidence} up to {seen.offset}, at {at:%Y-%m-%d %H:%M:%S} UTC"
                found.evidence.append(Evidence(place, words, seen.offset))
    for copied in reader.found.copied:
        for place in places:
            if (copied_to := copied.copied_to.get(place)) is not None:
                words = f"copied to {link.target} up to {copied_to} ({copied.evidence})"
                found.evidence.append(Evidence(place, words, copied_to, copied=True))
    found.silent += reader.found.silent


def outcomes_of(
    state: "RunState", link_reader: "ClusterLinkReader"
) -> tuple[Mapping[TopicPartition, ElectionOutcome], Mapping[TopicPartition, int | None]]:
    """The outcome of each election that a run requested, and the leaders of skipped partitions.

    A partition that got its leader without a request did not need an election.
    """
    step = state.plan.step(state.plan.steps[0].id)
    settings = ElectLeaders().read_settings(step.settings)
    effect = next((e for e in reversed(state.effects) if e.step == step.id), None)
    reader = link_reader.elections(settings.cluster)
    answers = reader.answers()
    try:
        found = dict(observed(settings.election, settings.partitions, reader, answers))
    except Unreachable as error:
        unknown = ElectionOutcome(Outcome.UNKNOWN, reason=error.message)
        found = dict.fromkeys((aim.place for aim in settings.partitions), unknown)
    if effect is None:
        return {}, {place: each.leader for place, each in found.items()}
    intent = ElectLeaders().read_intent(effect.intent)
    for aim in intent.there:
        found[aim.place] = replace(found[aim.place], outcome=Outcome.NOT_NEEDED)
    changed = {each.place: found.pop(each.place).leader for each in intent.changed}
    return found, changed
