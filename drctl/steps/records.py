"""Records that are on one cluster only: found by content, judged, reconciled, and proven."""

from collections.abc import Iterator
from typing import Any

from drctl.engine.failback_state import told_of
from drctl.engine.kind import Description, Facts, Permanent, Polling, Seen, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.plan import Json, Plan, Step
from drctl.model.text import quote


class FindGap(Polling):
    """Compares; more missing records than allowed end the plan."""

    name = "gap"
    traits = Trait.FINDS_GAP

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        most = settings["at_most"]
        title = f"find what {settings['target']} lacks of {settings['source']}"
        proof = "the comparison is complete"
        return Description(title, proof if most is None else f"{proof}, {most:,} missing at most")

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Nothing has to be decided."""
        return {"scope": settings["scope"], "at_most": settings["at_most"]}

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """What is missing now."""
        missing = reader.compared(intent["scope"])
        if unproven := missing.unproven:
            words = f"not everything could be compared: {unproven[0]}"
            return Seen(State.UNKNOWN, words, {}, unproven)
        words = f"{missing.records:,} records are missing on the target"
        facts = {"unreplicated": missing.records}
        most = intent["at_most"]
        if most is not None and missing.records > most:
            return Seen(State.FAILED, f"{words}, not {most:,} at most", facts, missing.partitions)
        return Seen(State.DONE, words, facts, missing.partitions)


class FindMissing(Polling):
    """Compares everything; where decisions rest on an older result that still holds, takes that."""

    name = "find-missing"
    traits = Trait.FINDS_GAP | Trait.OTHER_WAY

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        begins = "" if settings.get("rebuild") else ", and tells where new records begin"
        return Description(
            f"find every record that only {settings['target']} has",
            f"the comparison is complete{begins}",
        )

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Search.

        Raises:
            Refused: what was found cannot be rested on.
            Unknown: not everything could be compared.
        """
        found = reader.remnant() if settings.get("rebuild") else reader.searched()
        return found.to_json()

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """What was found."""
        words = f"{intent['unreplicated']:,} records ({told_of(intent)}); {intent['folder']}"
        if not intent["folder"]:
            words = "it holds no record at all"
        elif intent.get("aside"):
            words = f"{words}; {intent['aside']:,} more the survivor has compacted or deleted"
        return Seen(State.DONE, words, intent)


_STAYS = "what was decided on stays so: the next run finds it there"
COPY, DISCARD = "copy", "discard"


class Reconcile(Permanent):
    """Each record once, in the order of its partition, also after a crash."""

    name = "reconcile"
    traits = Trait.CHANGES | Trait.RECONCILES | Trait.OTHER_WAY | Trait.STAYS

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        told = ", ".join(settings["topics"]) or settings["policy"] or "nothing is said"
        title = (
            f"decide on each of these records: {told}; conflicting ones: {settings['conflicting']}"
        )
        proof = f"{settings['source']} keeps with the records that all of them are done"
        return Description(title, proof, f"none: {_STAYS}")

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """What there is to do.

        Raises:
            Refused: some records have no decision, or must not be acted upon.
            Unknown: the result is elsewhere, and not everything could be compared.
        """
        search = facts["find-missing"]
        wish = wish_of(settings, search)
        if not search["unreplicated"]:
            return {**wish, "records": 0, "due": 0}
        stands = reader.reconciliation(wish)
        if stands.refused:
            raise Refused("; ".join(stands.refused), "decide: --policy, --conflicting")
        records = search["unreplicated"]
        return {**wish, "records": records, "due": stands.due, "newer": stands.newer}

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Do what is left; a run that was interrupted continues where it was."""
        if intent["due"]:
            writer.reconcile(intent)
        return ()

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether something is left."""
        if not intent["records"]:
            return Seen(State.DONE, "there is nothing to decide on", {"left_behind": 0, "done": {}})
        stands = reader.reconciliation(intent)
        if stands.due or stands.refused:
            words = f"{stands.due:,} of {intent['records']:,} records are left"
            return Seen(State.WAITING, words, {}, stands.refused)
        done = dict(sorted(stands.done.items()))
        told = ", ".join(f"{number:,} {what}" for what, number in done.items())
        left = sum(number for what, number in done.items() if what != COPY)
        # On another machine than that of the run the search was repeated, and found none.
        words = f"all are done: {told}" if told else "none of them is missing any more"
        # Journals of before do not say it.
        if newer := intent.get("newer", 0):
            words += f"; {newer:,} safe ones stand behind something newer that was written since"
        return Seen(State.DONE, words, {"left_behind": left, "done": done})

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """That it stays."""
        return Seen(State.DONE, _STAYS, stays=bool(intent["due"]))


def discards(plan: Plan) -> str:
    """What a plan gives up for good, in words: `missing records of audit`; empty for nothing."""
    return ", ".join(dict.fromkeys(words for step in plan.steps for words in _discarded(step)))


def _discarded(step: Step) -> Iterator[str]:
    if step.kind != Reconcile.name:
        return
    settings = step.settings
    for text in settings["topics"]:
        topic, named, own = text.partition("=")
        if (own if named else settings["policy"]) == DISCARD:
            yield f"missing records of {topic}"
        if settings["conflicting"] == DISCARD:
            yield f"conflicting records of {topic}"


def wish_of(settings: Json, search: Json) -> dict[str, Any]:
    """What `Look.reconciliation` and `Hands.reconcile` are told."""
    return {
        "folder": search["folder"],
        # Journals of before do not name it.
        "result": search.get("id", ""),
        "policy": settings["policy"],
        "topics": list(settings["topics"]),
        "conflicting": settings["conflicting"],
    }


class JudgeRecords(Polling):
    """Refuses where some of them have no decision."""

    name = "judge-records"
    traits = Trait.JUDGES | Trait.OTHER_WAY

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description("judge the order of these records", "each of them has a decision")

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Hold the policies against what was found.

        Raises:
            Refused: some records have no decision, or must not be acted upon.
        """
        search = facts["find-missing"]
        found = {name: search[name] for name in ("safe", "conflicting", "unkeyed")}
        if not search["unreplicated"]:
            return {**found, "due": 0}
        stands = reader.reconciliation(wish_of(settings, search))
        if stands.refused:
            raise Refused(
                f"of {search['unreplicated']:,} records that only {settings['target']} has"
                f" ({told_of(search)}): {'; '.join(stands.refused)}",
                "decide: --policy copy|quarantine|export|discard, --conflicting likewise;"
                f" look at them: drctl reconcile {quote(search['folder'])} --policy copy",
            )
        return {**found, "due": stands.due}

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """What was judged."""
        return Seen(State.DONE, f"{told_of(intent)}; each has a decision", intent)


class ProveCopies(Polling):
    """Records may be missing where that was decided; what is in flight is waited for."""

    name = "prove-copies"
    traits = Trait.VERIFIES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        source, target = settings["source"], settings["target"]
        title = f"compare all of {source} with {target}, record by record"
        return Description(title, "nothing is missing but what was decided on, nothing is twice")

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """What may be missing, what was there twice before, and what is twice on the source.

        Equal records are counted: a second copy on one side is missing on the other.
        """
        search, decided = facts.get("find-missing", {}), facts.get("reconcile", {})
        twice_away = search.get("duplicated", 0)
        twice_home = facts.get("prove-copies", {}).get("duplicated", 0)
        old, emptied = settings["old_way"], settings.get("emptied", False)
        return {
            "target": settings["target"],
            # What was emptied has none of the records left that were decided on.
            "may_lack": decided.get("left_behind", 0) if old and not emptied else 0,
            "second_copies": twice_home if old else twice_away,
            "twice_before": twice_away if old else 0,
        }

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """What a comparison finds now."""
        found = reader.proof()
        if unproven := found.unproven:
            words = f"not everything could be compared: {unproven[0]}"
            return Seen(State.WAITING, words, {}, unproven)
        missing = found.but_for(intent.get("second_copies", 0))
        lacks, target = missing - intent["may_lack"], intent["target"]
        if lacks > 0:
            words = f"{target} lacks {lacks:,} records that nobody decided to leave behind"
            return Seen(State.WAITING, words, {}, found.partitions)
        facts = {"missing": missing, "duplicated": found.duplicated}
        twice = found.duplicated - intent["twice_before"]
        words = f"{target} lacks {missing:,} records, as decided; {max(0, twice):,} are twice"
        owes = f"{twice:,} records are on {target} more often than once" if twice > 0 else ""
        return Seen(State.DONE, words, facts, owes=owes)
