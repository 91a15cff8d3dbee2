"""Enables writes on the target: removes what denies them, and proves it with a probe record."""

import uuid
from collections.abc import Mapping

from drctl.engine.kind import Description, Facts, Seen, State, Trait, complaints
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.engine.recheck_source import look_at_source
from drctl.model.errors import Refused
from drctl.model.fencing import DENY, Denied, Owner, resting
from drctl.model.plan import Json
from drctl.model.repairs import Acl
from drctl.model.topology import Unavailable

SHARED = "fence-of-another-link"
"""Blocks removing rules that another link needs."""

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

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """That the source is as it was left; which rules keep principals from writing here.

        Raises:
            Refused: the source took records, or is back: see `drctl.engine.recheck_source`; or
                another link's fence keeps the same principals from here.
            Unreachable: the target did not answer.
        """
        look_at_source(settings, facts, reader)
        cluster = settings["cluster"]
        topics = sorted({reader.target_topic(topic) for topic in reader.topics()})
        found = reader.acls(cluster).acls()
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

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Remove the rules, then write the probe record."""
        cluster = intent["cluster"]
        answers = writer.acls(cluster).restore(_rules(intent)) if intent["lifted"] else {}
        writer.canary(cluster).sing(CANARY_TOPIC, intent["text"])
        return complaints(answers, _name)

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether the rules are gone everywhere, and the probe record can be read."""
        cluster = intent["cluster"]
        if intent["lifted"]:
            lifted = reader.acls(cluster).lifted(_rules(intent), intent["topics"])
            if not lifted.proven:
                return Seen(State.WAITING, "; ".join(lifted.doubts), {}, lifted.doubts)
        if not reader.heard(cluster, CANARY_TOPIC, intent["text"]):
            return Seen(State.WAITING, f"the canary is not on {cluster} yet")
        words = f"{cluster} took a record and gave it back"
        owes = ""
        if intent["unseen"]:
            # The probe record is drctl's own: it says nothing of what applications may do.
            owes = f"look whether rules of {cluster} deny applications: {intent['unseen']}"
        return Seen(State.DONE, words, {"lifted": len(intent["lifted"])}, owes=owes)

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Deny again."""
        if not intent["lifted"]:
            return ()
        answers = writer.acls(intent["cluster"]).deny(_rules(intent))
        return complaints(answers, _name)

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether it is denied again everywhere."""
        if not intent["lifted"]:
            return Seen(State.DONE, "nothing had been lifted")
        obeyed = reader.acls(intent["cluster"]).obeyed(_rules(intent), intent["topics"])
        state = State.DONE if obeyed.proven else State.WAITING
        return Seen(state, "; ".join(obeyed.doubts) or "denied again", {}, obeyed.doubts)


def _refuse_if_needed(cluster: str, lifted: list[Acl], others: Mapping[Acl, Owner]) -> None:
    """What stays denied would keep out the clients that are sent here."""
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


def _name(rule: Acl) -> str:
    return rule.name


def _rules(intent: Json) -> tuple[Acl, ...]:
    return tuple(Acl(*each) for each in intent["lifted"])
