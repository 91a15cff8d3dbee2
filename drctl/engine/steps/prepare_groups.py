"""Makes the link's groups of KIP-848 ready on the target: their members end where there are none.

Positions alone do not make such a group: see `drctl.model.group_preparation`.
"""

from collections.abc import Iterator, Mapping

from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.model.errors import Unreachable
from drctl.model.groups import Group, GroupProtocol, GroupState
from drctl.model.plan import Json
from drctl.model.topology import Unavailable

BATCH = 250
"""Groups that are made ready together."""

RESTART = "restart members of groups of KIP-848's protocol that end when they are moved"

Groups = Mapping[str, Group | Unavailable]


class PrepareGroups:
    """Creates each as an empty group; what is ready, or read in, is left alone."""

    name = "prepare-groups"
    traits = Trait.CHANGES | Trait.PREPARES_GROUPS

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        source, target = settings["source"], settings["target"]
        return Description(
            f"make the groups ready on {target} that are of KIP-848's protocol on {source}",
            f"{target} describes each as a group of that protocol",
            "none is needed: empty groups without positions are forgotten by themselves",
        )

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Which groups are to be made.

        Raises:
            Unreachable: the target did not answer.
        """
        source, target = settings["source"], settings["target"]
        try:
            known = _groups(source, look)
        except Unreachable as error:
            return _guesswork(settings, error.message, _groups(target, look))
        new = [name for name, group in known.items() if _is_new(group)]
        there = look.groups(target).described(new) if new else {}
        return {
            **settings,
            "create": [name for name in new if _can_be_made(there[name])],
            "ready": sum(_is_new(each) for each in there.values()),
            "left": [*_untold(known), *_in_the_way(there, target)],
            "silent": "",
            "unknown": [],
        }

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Make them; one that is ready stays as it is."""
        names = intent["create"]
        if not names:
            return ()
        creator, complaints = hands.group_creator(intent["target"]), []
        for start in range(0, len(names), BATCH):
            answers = creator.create(names[start : start + BATCH])
            complaints += [f"{name}: {why.reason}" for name, why in answers.items() if why]
        return tuple(complaints)

    def verify(self, intent: Json, look: Look) -> Seen:
        """Of which protocol they are on the target."""
        names, target = intent["create"], intent["target"]
        described = look.groups(target).described(names) if names else {}
        others = tuple(
            f"{name}: {_said(described[name])}" for name in names if not _is_new(described[name])
        )
        facts = {"created": len(names), "ready": intent["ready"], "silent": intent["silent"]}
        if others:
            words = f"{len(others)} of {len(names)} groups are not ready on {target}: {others[0]}"
            return Seen(State.WAITING, f"{words}; {RESTART}", {}, others)
        words = (
            f"{len(names) + intent['ready']} groups of KIP-848's protocol are ready on {target},"
            f" {len(names)} of them new"
        )
        return Seen(State.DONE, words, facts, (*intent["left"], *intent["unknown"]), _owes(intent))

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Nothing: they are empty."""
        return ()

    def undone(self, intent: Json, look: Look) -> Seen:
        """They are gone in a while."""
        return Seen(State.DONE, "empty groups without positions are forgotten by themselves")


def _groups(cluster: str, look: Look) -> Groups:
    """The link's, on one cluster.

    Raises:
        Unreachable: it did not answer.
    """
    return look.groups(cluster).described(look.link_groups(cluster))


def _guesswork(settings: Json, silent: str, there: Groups) -> Json:
    """What the target knows by itself: the type of a group that has positions only is no answer."""
    return {
        **settings,
        "create": [],
        "ready": sum(map(_is_new, there.values())),
        "left": [],
        "silent": silent,
        "unknown": [name for name, group in there.items() if not _is_new(group)],
    }


def _is_new(group: Group | Unavailable) -> bool:
    return isinstance(group, Group) and group.protocol is GroupProtocol.CONSUMER


def _can_be_made(group: Group | Unavailable) -> bool:
    # To join where others read would have them rebalance, or change their protocol.
    return isinstance(group, Group) and not group.active and not _is_new(group)


def _untold(groups: Groups) -> Iterator[str]:
    return (f"{n}: {each.reason}" for n, each in groups.items() if isinstance(each, Unavailable))


def _in_the_way(groups: Groups, target: str) -> Iterator[str]:
    yield from _untold(groups)
    for name, group in groups.items():
        if isinstance(group, Group) and group.active and not _is_new(group):
            yield f"{name}: somebody reads in it on {target}, as a group of another protocol"


def _said(group: Group | Unavailable) -> str:
    if isinstance(group, Unavailable):
        return group.reason
    return "not there" if group.state is GroupState.DEAD else group.protocol.value


def _owes(intent: Json) -> str:
    left, unknown = intent["left"], intent["unknown"]
    if intent["silent"]:
        told = f"which groups of {intent['source']} are of KIP-848's protocol is not known"
        others = f" ({len(unknown)} of {intent['target']} may be)" if unknown else ""
        return f"{RESTART}; {told}{others}: {intent['silent']}"
    return f"{RESTART}; {len(left)} groups were not made ready: {left[0]}" if left else ""
