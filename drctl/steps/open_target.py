"""Opens the target for writes: lifts what denies them there, and proves it with a canary."""

import uuid
from collections.abc import Mapping

from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.engine.recheck_source import look_at_source
from drctl.model.errors import Refused
from drctl.model.fencing import DENY, Denied, Owner, resting
from drctl.model.plan import Json
from drctl.model.repairs import Acl
from drctl.model.topology import Unavailable

SHARED = "fence-of-another-link"
"""The name of what stands against lifting rules that another link needs."""

CANARY_TOPIC = "__drctl_canary"


class OpenTarget:
    """From here on the target may hold writes that the source has not."""

    name = "open-target"
    traits = Trait.CHANGES | Trait.OPENS

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(
            f"open {settings['cluster']} for writes",
            f"a record written to {CANARY_TOPIC} reads back",
            "deny again what was denied before",
        )

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        """That the source is as it was left; which rules keep principals from writing here.

        Raises:
            Refused: the source took records, or is back: see `drctl.engine.recheck_source`; or
                another link's fence keeps the same principals from here.
            Unreachable: the target did not answer.
        """
        look_at_source(settings, facts, look)
        cluster = settings["cluster"]
        topics = sorted({look.target_topic(topic) for topic in look.topics()})
        found = look.acls(cluster).acls()
        unseen = found.reason if isinstance(found, Unavailable) else ""
        rules = () if isinstance(found, Unavailable) else found.rules
        principals = set(settings["principals"])
        lifted = [rule for rule in rules if _denies(rule, principals, topics)]
        _refuse_if_needed(cluster, lifted, resting(rules, settings.get("link", "")))
        return {
            "cluster": cluster,
            "topics": topics,
            "lifted": [list(rule) for rule in lifted],
            "unseen": unseen,
            "text": uuid.uuid4().hex,
        }

    def apply(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Lift the rules, then write the canary."""
        cluster = intent["cluster"]
        answers = hands.acls(cluster).restore(_rules(intent)) if intent["lifted"] else {}
        hands.canary(cluster).sing(CANARY_TOPIC, intent["text"])
        return tuple(f"{rule.name}: {why.reason}" for rule, why in answers.items() if why)

    def verify(self, intent: Json, look: LinkReader) -> Seen:
        """Whether the rules are gone everywhere, and the canary can be read."""
        cluster = intent["cluster"]
        if intent["lifted"]:
            lifted = look.acls(cluster).lifted(_rules(intent), intent["topics"])
            if not lifted.proven:
                return Seen(State.WAITING, "; ".join(lifted.doubts), {}, lifted.doubts)
        if not look.heard(cluster, CANARY_TOPIC, intent["text"]):
            return Seen(State.WAITING, f"the canary is not on {cluster} yet")
        words = f"{cluster} took a record and gave it back"
        owes = ""
        if intent["unseen"]:
            # The canary is drctl's own: it says nothing of what applications may do.
            owes = f"look whether rules of {cluster} deny applications: {intent['unseen']}"
        return Seen(State.DONE, words, {"lifted": len(intent["lifted"])}, owes=owes)

    def undo(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Deny again."""
        if not intent["lifted"]:
            return ()
        answers = hands.acls(intent["cluster"]).deny(_rules(intent))
        return tuple(f"{rule.name}: {why.reason}" for rule, why in answers.items() if why)

    def undone(self, intent: Json, look: LinkReader) -> Seen:
        """Whether it is denied again everywhere."""
        if not intent["lifted"]:
            return Seen(State.DONE, "nothing had been lifted")
        obeyed = look.acls(intent["cluster"]).obeyed(_rules(intent), intent["topics"])
        state = State.DONE if obeyed.proven else State.WAITING
        return Seen(state, "; ".join(obeyed.doubts) or "denied again", {}, obeyed.doubts)


def _refuse_if_needed(cluster: str, lifted: list[Acl], others: Mapping[Acl, Owner]) -> None:
    """What stays denied would keep those out who are sent here."""
    needed = {rule: others[rule] for rule in lifted if rule in others}
    if needed:
        rule, (link, signature) = next(iter(needed.items()))
        raise Refused(
            f"{SHARED}: {len(needed)} rules that keep applications from {cluster} are needed by"
            f" the fence of link {link}, such as {rule.operation} on {rule.name} to"
            f" {rule.principal}",
            f"bring the clients of link {link} home first; or where its fence is not needed any"
            f" more, remove the rules of principal {signature}... on {cluster}",
        )


def _denies(rule: Acl, principals: set[str], topics: list[str]) -> bool:
    """Whether it is a rule of the form in which a fence is set."""
    return (
        rule.permission == DENY
        and rule.operation in {each.value for each in Denied}
        and rule.principal in principals
        and rule.name in topics
    )


def _rules(intent: Json) -> tuple[Acl, ...]:
    return tuple(Acl(*each) for each in intent["lifted"])
