"""Writes down where both clusters end, before one of them is opened.

What a person lets copy later begins there: what was written before is on both sides.
"""

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.engine.returning import rows
from drctl.engine.source_offsets import copies_of, log_ends
from drctl.model.plan import Json


class NoteEnds(Looking):
    """The ends of the link's partitions, by their names on either side."""

    name = "note-ends"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        source, target = settings["source"], settings["target"]
        title = f"write down where {source} and {target} end: there copying begins later"
        return Description(title, "the journal has the end of each partition")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Where they end: rows of `[topic, partition, offset]`.

        Raises:
            Unreachable: a cluster did not answer.
        """
        start = log_ends(look.site(settings["source"]), look.topics())
        ends = log_ends(look.site(settings["target"]), copies_of(look))
        return {"source": settings["source"], "from": rows(start), "ends": rows(ends)}

    def verify(self, intent: Json, look: Look) -> Seen:
        """It stands in the journal."""
        words = f"the ends of {len(intent['from'])} partitions of {intent['source']} are known"
        return Seen(State.DONE, words, {"from": intent["from"], "ends": intent["ends"]})
