"""Keeps producers, or consumers, away from one cluster; proven on every broker."""

from collections.abc import Mapping
from dataclasses import dataclass

from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.model.acls import Acl, Acls
from drctl.model.errors import Refused
from drctl.model.fencing import (
    Denied,
    Obedience,
    Owner,
    Topics,
    denials,
    resting,
    sign,
    signed,
    to_add,
)
from drctl.model.plan import Json
from drctl.model.topology import Unavailable

_WHO = {Denied.WRITE: "producers", Denied.READ: "consumers"}
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Fence:
    """Denies principals an operation on the link's topics; rules that were there stay there."""

    name: str
    traits: Trait
    operation: Denied

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        who, cluster = ", ".join(settings["principals"]), settings["cluster"]
        proof = "every broker has the rules"
        if self.operation is Denied.WRITE:
            proof += ", and end offsets do not move"
        return Description(
            f"fence {_WHO[self.operation]} on {cluster}: deny {self.operation} to {who}",
            proof,
            "remove exactly the rules that were added",
        )

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Which rules are to be added, or signed: those that another link's fence rests on.

        Raises:
            Refused: the cluster has no authorizer, or its rules cannot be seen.
        """
        cluster = settings["cluster"]
        topics = look.topics()
        present = look.acls(cluster).acls()
        if isinstance(present, Unavailable):
            raise Refused(
                f"the ACLs of {cluster} cannot be seen: {present.reason}",
                "allow drctl's user DESCRIBE and ALTER on the cluster, or fence by a command",
            )
        if not present.enforced:
            raise Refused(
                f"{cluster} has no authorizer: its ACLs keep nobody away",
                "fence by a command of the site: fence: {method: command, command: [...]}",
            )
        rules = denials(settings["principals"], [Topics(t) for t in topics], [self.operation])
        others = resting(present.rules, settings.get("link", ""))
        shared = (rule for rule in rules if rule in others)
        added = dict.fromkeys((*to_add(rules, present), *shared))
        kept = signed(rules, present.rules, settings.get("link", ""))
        return {
            "cluster": cluster,
            "link": settings.get("link", ""),
            "topics": list(topics),
            "rules": [list(rule) for rule in rules],
            "added": [list(rule) for rule in added],
            "kept": [list(rule) for rule in kept],
            "settle_seconds": settings["settle_seconds"],
        }

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Add the rules; also those that an earlier run of the link had set, if they are gone."""
        rules = _rules([*intent["added"], *intent.get("kept", [])])
        return _complaints(hands.acls(intent["cluster"]).deny(tuple(dict.fromkeys(rules))))

    def verify(self, intent: Json, look: Look) -> Seen:
        """Whether every broker has them, and nothing grows."""
        cluster, rules = intent["cluster"], _rules(intent["rules"])
        present = look.acls(cluster).acls()
        if rules and isinstance(present, Acls) and not set(rules) & set(present.rules):
            # Proving waits for brokers that lag. Where a run died first, there is nothing to prove.
            return Seen(State.WAITING, f"none of {len(rules)} rules is on {cluster} yet")
        if self.operation is Denied.READ:
            # That nothing grows was proven when writes were fenced, and is held against the ends
            # once more before the target opens.
            return _obeyed(look.acls(cluster).obeyed(rules, intent["topics"]))
        proof = look.fence(cluster, intent["settle_seconds"]).prove(rules, intent["topics"])
        ends = {str(place): end for place, end in sorted(proof.stillness.ends.items())}
        facts = {"ends": ends, "brokers": sorted(proof.obedience.brokers)}
        if proof.proven:
            words = (
                f"all {len(facts['brokers'])} brokers deny it; the ends of"
                f" {len(ends)} partitions stood still for {intent['settle_seconds']:g} s"
            )
            return Seen(State.DONE, words, facts)
        return Seen(State.WAITING, "; ".join(proof.doubts[:_SHOWN]), facts, proof.doubts)

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Remove what was added, but for what another link's fence rests on."""
        return _complaints(hands.acls(intent["cluster"]).restore(_rules(intent["added"])))

    def undone(self, intent: Json, look: Look) -> Seen:
        """Whether every broker has them no more."""
        cluster, added = intent["cluster"], _rules(intent["added"])
        if not added:
            return Seen(State.DONE, "no rule had been added")
        others = _needed(look.acls(cluster).acls(), intent.get("link", ""))
        kept = {rule: others[rule].link for rule in added if rule in others}
        link = intent.get("link", "")
        signs = {sign(rule, link) for rule in added} if link else set()
        gone = (set(added) - kept.keys()) | signs
        lifted = look.acls(cluster).lifted(gone, intent["topics"])
        if not lifted.proven:
            return Seen(State.WAITING, "; ".join(lifted.doubts[:_SHOWN]), {}, lifted.doubts)
        words = f"{len(added) - len(kept)} rules are gone from every broker of {cluster}"
        if kept:
            links = ", ".join(sorted(set(kept.values())))
            words = f"{words}; {len(kept)} stay, for the fence of link {links} rests on them"
        return Seen(State.DONE, words)


def _obeyed(found: Obedience) -> Seen:
    facts = {"brokers": sorted(found.brokers)}
    if found.proven:
        return Seen(State.DONE, f"all {len(facts['brokers'])} brokers deny it", facts)
    return Seen(State.WAITING, "; ".join(found.doubts[:_SHOWN]), facts, found.doubts)


def _needed(present: Acls | Unavailable, link: str) -> Mapping[Acl, Owner]:
    """Rules that fences of other links rest on; none where rules cannot be seen."""
    return {} if isinstance(present, Unavailable) else resting(present.rules, link)


def _rules(data: list[list[str]]) -> tuple[Acl, ...]:
    return tuple(Acl(*each) for each in data)


def _complaints(answers: Mapping[Acl, Unavailable | None]) -> tuple[str, ...]:
    return tuple(
        f"{rule.principal} {rule.operation} {rule.name}: {why.reason}"
        for rule, why in answers.items()
        if why is not None
    )


FENCE_PRODUCERS = Fence("fence-producers", Trait.CHANGES | Trait.FENCES_WRITES, Denied.WRITE)
FENCE_CONSUMERS = Fence("fence-consumers", Trait.CHANGES, Denied.READ)
