"""What the steps of a way home look at and change, over the real systems of one link."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.checks.glance import Glance
from drctl.cli.failback.meeting import producers_that_meet
from drctl.cli.reconcile import wiring as reconcile_wiring
from drctl.cli.runs import plan_wiring
from drctl.cli.runs.guarding import judged
from drctl.cli.runs.link_hands import LinkHands
from drctl.cli.runs.link_sight import LinkSight
from drctl.cli.runs.way import Way
from drctl.engine.returning import Owed, Reconciliation, Search
from drctl.engine.sequences.failback import MIRRORED
from drctl.engine.steps.way_back_order import ASKED_FOR, PASSED
from drctl.model.pasting import quote
from drctl.model.plan import Json

if TYPE_CHECKING:
    from drctl.cli.notices import People
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.failback.answer import Answer
    from drctl.failback.standing_against import Terms
    from drctl.model.finding import Finding
    from drctl.offsets.wanted import Translated, Wanted
    from drctl.reconcile.policy import Policies

_CONNECT_S = 20.0


@dataclass(slots=True)
class HomeSight(LinkSight):
    """Looks along the way home; its link leads from the survivor to the returned cluster."""

    @property
    def old(self) -> "Link":
        """The link as it was, and will be again."""
        return self.other_way().link

    def searched(self) -> Search:
        """What only the returned cluster has, by content.

        Raises:
            Refused: what was found cannot be rested on.
            Unknown: not everything could be compared.
        """
        from drctl.cli.failback.search import searched

        return searched(self.config, self.old)

    def reconciliation(self, wish: Json) -> Reconciliation:
        """How decisions on the records of a search stand.

        Raises:
            Refused: they cannot be acted upon.
            Unknown: the result is elsewhere, and not everything could be compared.
        """
        from drctl.cli.failback.records import reconciliation

        return reconciliation(self.config, self.old, wish)

    def owed(self) -> Sequence[Owed]:
        """What runs owe since the last finished way home, and what that one left, newest first.

        Raises:
            Unreachable: the journal did not answer.
        """
        from drctl.cli.failback.owing import owed_since_the_last
        from drctl.engine.story import stories

        link = self.old
        reader = plan_wiring.journal_reader(link)
        return owed_since_the_last(stories(reader))

    def translated(self) -> "Translated":
        """Where groups are to stand at home: before every record that they have not read.

        Raises:
            Unreachable: a cluster did not answer.
        """
        # A dataclass with slots is another class than the one that `super()` looks for.
        found = LinkSight.translated(self)
        if self.link.settings.replicator.kind == MIRRORED:
            # At home, too, a copy stands where it does on the survivor.
            return found
        return found._replace(wanted=self._held_back(found.wanted))

    def _held_back(self, wanted: "tuple[Wanted, ...]") -> "tuple[Wanted, ...]":
        from drctl.failback import unread_copies as copies

        survivor, home = self.link.source, self.link.target
        home_id = self.site(home).cluster_id()
        with reconcile_wiring.reconcile_topic(self.old) as topic:
            last = copies.last_copies(topic.kept(), home_id)
        if not last:
            return wanted
        stands = self.groups(survivor).committed(sorted({each.group for each in wanted}))
        since = copies.unread_from(last, stands)
        far = frozenset(p for p, at in since.items() if last[p] - at > copies.MOST)
        near = {place: at for place, at in since.items() if place not in far}
        reader, home_topic = self.site(survivor), self.link.target_topic
        found = copies.find_copies(reader, near, last, home_id, home_topic)
        brought = copies.Brought(last, found, far)
        return copies.held_back(wanted, stands, brought, self.link.source_topic)


def home_sight(
    config: "Config", link: "Link", asked: "People", policies: "Policies | None" = None
) -> HomeSight:
    """What looks along the way home of a link.

    Args:
        policies: what is to become of records that only the returned cluster has; None where the
            guards are not to ask.

    Raises:
        ConfigError: nothing says what copies back.
    """
    from drctl.config.way_back import way_home

    back = way_home(link, map(config.link, config.links))
    guards = partial(_guards, policies)
    return HomeSight(config, back, guards, asked, opposite=LinkSight(config, link, judged, asked))


def home_hands(config: "Config", sight: LinkSight, folder: Path) -> LinkHands:
    """What acts along it."""
    old = LinkHands(config, sight.other_way().link, folder, sight.other_way().commands)
    return LinkHands(config, sight.link, folder, sight.commands, old)


def guards_of(
    sight: LinkSight,
    mode: str,
    of_the_way: str,
    terms: "Callable[[LinkSight, Terms], Terms]" = lambda _, terms: terms,
) -> "Sequence[Finding]":
    """What the guards say.

    Args:
        of_the_way: the mode in which they are asked about the way home as a whole.
        terms: what is said of the way home beside drctl.yaml.
    """
    if mode != of_the_way:
        return judged(sight, mode)
    from drctl.cli.failback.sight import look_at
    from drctl.failback.answer import answer
    from drctl.failback.standing_against import against

    found = answer(look_at(sight.config, sight.other_way().link, None))
    known = terms(sight, _terms(sight, found))
    # Filled anew, the returned cluster remembers no producer.
    met = () if known.rebuilding else producers_that_meet(sight, found.seen.facts)
    return (*against(found, known), *met, *_of_other_links(sight))


def _guards(policies: "Policies | None", sight: LinkSight, mode: str) -> "Sequence[Finding]":
    return guards_of(sight, mode, ASKED_FOR, lambda _, terms: replace(terms, policies=policies))


def _of_other_links(sight: LinkSight) -> "tuple[Finding, ...]":
    """What replicates between the two clusters beside the link."""
    from drctl.failback.other_links import OtherLink, other_links

    ours = sight.other_way().link
    others = [
        each
        for each in map(sight.config.link, sight.config.links)
        if {each.source, each.target} == {ours.source, ours.target} and each.name != ours.name
    ]
    # What copies over the link itself is looked at by the way home.
    mine = {*_connectors(ours), *_connectors(sight.link)}
    found = []
    for link in others:
        lister = plan_wiring.connector_lister(link)
        if lister is not None:
            known = Glance(lister.described, _CONNECT_S).answer()
            rest = tuple(name for name in _connectors(link) if name not in mine)
            found.append(OtherLink(link.name, link.source, link.target, rest, known))
    return tuple(other_links(found))


def _connectors(link: "Link") -> tuple[str, ...]:
    named = link.settings.replicator.connectors
    return tuple(filter(None, (named.source, named.checkpoint, named.heartbeat)))


def _terms(sight: LinkSight, found: "Answer") -> "Terms":
    """What drctl.yaml says of the way home."""
    from drctl.config.fields import for_commands
    from drctl.failback.facts import Cluster
    from drctl.failback.standing_against import Terms

    replicator, target = sight.link.settings.replicator, found.seen.facts.on_target
    known = target if isinstance(target, Cluster) else Cluster("", {})
    links = list(map(sight.config.link, sight.config.links))
    ends = (sight.link.source, sight.link.target)
    others = [each for each in links if (each.source, each.target) == ends]
    return Terms(
        _connectors(sight.link) if replicator.connect else (),
        _rebuild(sight),
        {place.topic: sight.link.target_topic(place.topic) for place in known.logs},
        frozenset(p.topic for p in known.beside if any(each.carries(p.topic) for each in others)),
        connect=for_commands(replicator.connect),
    )


def _rebuild(sight: LinkSight) -> str:
    """What to type where the returned cluster has lost its records."""
    return f"drctl failback --link {quote(sight.other_way().link.name)} --rebuild shows the plan"


def known_overrides(given: Sequence[str]) -> Mapping[str, str]:
    """`GUARD=REASON` as typed: those that a way home may pass over.

    Raises:
        UsageError: there is no such guard, or no reason is given.
    """
    from drctl.checks.standing import parse_overrides
    from drctl.offsets.guards import Guard

    own = [guard.value for guard in Guard if guard.overridable]
    return parse_overrides(given, (*own, *PASSED))


HOME = Way(
    lambda config, link, asked, _lost: home_sight(config, link, asked),
    home_hands,
    known_overrides,
    lambda _plan: ASKED_FOR,
)
"""From a link's target to its source, which was lost and is back."""


def home_with(policies: "Policies") -> Way:
    """The same, where somebody was to say what becomes of the records that only it has."""
    return replace(HOME, sight=lambda c, link, asked, _: home_sight(c, link, asked, policies))
