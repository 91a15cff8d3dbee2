"""Adds rules about topics that the target lacks; removes none that was there."""

from collections.abc import Sequence

from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.engine.steps.shapes import counted
from drctl.model.acls import Acl
from drctl.model.errors import Refused
from drctl.model.fencing import to_add
from drctl.model.plan import Json
from drctl.model.topology import Unavailable


class AddRules:
    """Each rule by its full name; those that are there already are not ours to take back."""

    name = "add-rules"
    traits = Trait.CHANGES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(
            f"add {counted(len(settings['changes']), 'ACL rule')} on {settings['cluster']}",
            f"{settings['cluster']} lists each of them",
            "remove exactly the rules that were added",
        )

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Which of them are not there.

        Raises:
            Refused: the cluster has no authorizer, or its rules cannot be seen.
            Unreachable: it did not answer.
        """
        cluster = settings["cluster"]
        present = look.acls(cluster).acls()
        if isinstance(present, Unavailable):
            raise Refused(
                f"the ACLs of {cluster} cannot be seen: {present.reason}",
                "allow drctl's user DESCRIBE and ALTER on the cluster",
            )
        if not present.enforced:
            raise Refused(f"{cluster} has no authorizer: it enforces no ACLs")
        rules = _rules([each["rule"] for each in settings["changes"]])
        added = to_add(rules, present)
        return {
            "cluster": cluster,
            "rules": [list(rule) for rule in rules],
            "added": [list(rule) for rule in added],
        }

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Add them."""
        if not intent["added"]:
            return ()
        answers = hands.rules(intent["cluster"]).add(_rules(intent["added"]))
        return tuple(f"{_said(rule)}: {why.reason}" for rule, why in answers.items() if why)

    def verify(self, intent: Json, look: Look) -> Seen:
        """Whether the cluster lists each."""
        cluster, rules = intent["cluster"], _rules(intent["rules"])
        there = _there(cluster, look)
        if isinstance(there, Unavailable):
            return Seen(State.UNKNOWN, f"the ACLs of {cluster} cannot be seen: {there.reason}")
        lacking = tuple(_said(rule) for rule in rules if rule not in there)
        if lacking:
            words = (
                f"not on {cluster}: {len(lacking)} of {counted(len(rules), 'rule')}: {lacking[0]}"
            )
            return Seen(State.WAITING, words, {}, lacking)
        words = f"{cluster} lists {counted(len(rules), 'rule')}, {len(intent['added'])} of them new"
        return Seen(State.DONE, words, {"added": len(intent["added"])})

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Remove what was added."""
        if not intent["added"]:
            return ()
        answers = hands.rules(intent["cluster"]).remove(_rules(intent["added"]))
        return tuple(f"{_said(rule)}: {why.reason}" for rule, why in answers.items() if why)

    def undone(self, intent: Json, look: Look) -> Seen:
        """Whether they are gone."""
        cluster, added = intent["cluster"], _rules(intent["added"])
        there = _there(cluster, look) if added else frozenset()
        if isinstance(there, Unavailable):
            return Seen(State.UNKNOWN, f"the ACLs of {cluster} cannot be seen: {there.reason}")
        still = tuple(_said(rule) for rule in added if rule in there)
        if still:
            words = f"still on {cluster}: {len(still)} of {counted(len(added), 'rule')}: {still[0]}"
            return Seen(State.WAITING, words, {}, still)
        return Seen(State.DONE, f"{counted(len(added), 'added rule')} gone from {cluster} again")


def _there(cluster: str, look: Look) -> frozenset[Acl] | Unavailable:
    found = look.acls(cluster).acls()
    return found if isinstance(found, Unavailable) else frozenset(found.rules)


def _rules(data: Sequence[Sequence[str]]) -> tuple[Acl, ...]:
    return tuple(Acl(*each) for each in data)


def _said(rule: Acl) -> str:
    return f"{rule.permission} {rule.principal} {rule.operation} {rule.pattern} {rule.name}"
