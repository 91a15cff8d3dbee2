"""Starts replication, and checks that the first record to arrive is the one that had to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from drctl.engine.failback_state import offsets_of, rows
from drctl.engine.kind import Description, Facts, Polling, Seen, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.plan import Json
from drctl.steps.first_records import first_arrivals
from drctl.steps.manual import ManualChange
from drctl.steps.source_offsets import copies_of, log_ends, logs_of, must_write_to
from drctl.steps.stop_replication import RUNNING, STOPPED, told_each

BRINGS_HOME = ("seed-replication", "seed-from-start")
"""Steps that set offsets of connectors that may never have run in this direction."""


class StartReplication:
    """Resumes from the offsets that were set; the first record of each partition proves it."""

    name = "start-replication"
    traits = Trait.CHANGES | Trait.STARTS_REPLICATION

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        names, source, target = settings["connectors"], settings["source"], settings["target"]
        return Description(
            f"start replication from {source} to {target}: connectors {', '.join(names)}",
            f"they are RUNNING, and what comes first to {target} is the first new record",
            "stop them: what came stays, and how far they got is kept",
        )

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Where it begins.

        Raises:
            Refused: one of them would write to another cluster.
            UsageError: there is no such connector.
            Unreachable: no worker answered.
        """
        names, connectors = settings["connectors"], reader.connectors()
        if settings["seeded_by"] in BRINGS_HOME and not settings.get("writes_passed"):
            must_write_to(settings["target"], names, reader)
        seeded = facts[settings["seeded_by"]]
        return {
            "before": {name: connectors.state(name).state for name in names},
            "source": settings["source"],
            "target": settings["target"],
            "from": seeded["from"],
            "ends": seeded["ends"],
            "whole": seeded.get("whole", False),
        }

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Resume them."""
        return told_each(intent["before"], writer.connectors().resume)

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """How they stand, and what came first."""
        connectors = reader.connectors()
        states = [connectors.state(name) for name in intent["before"]]
        others = tuple(each.told for each in states if each.state != RUNNING)
        if others:
            return Seen(State.WAITING, "; ".join(others), {}, others)
        return first_arrivals(intent, reader)

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Stop those that did not run."""
        idle = [name for name, before in intent["before"].items() if before != RUNNING]
        return told_each(idle, writer.connectors().stop)

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether they are stopped again."""
        connectors = reader.connectors()
        others = tuple(
            f"{name} is {state}"
            for name, before in intent["before"].items()
            if before != RUNNING and (state := connectors.state(name).state) != STOPPED
        )
        if others:
            return Seen(State.WAITING, "; ".join(others), {}, others)
        return Seen(State.DONE, "the connectors do not run any more")


class NoteEnds(Polling):
    """The ends of the link's partitions, by their names on either side."""

    name = "note-ends"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        source, target = settings["source"], settings["target"]
        title = f"write down where {source} and {target} end: there copying begins later"
        return Description(title, "the journal has the end of each partition")

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Where they end: rows of `[topic, partition, offset]`.

        Raises:
            Unreachable: a cluster did not answer.
        """
        start = log_ends(reader.site(settings["source"]), reader.topics())
        ends = log_ends(reader.site(settings["target"]), copies_of(reader))
        return {"source": settings["source"], "from": rows(start), "ends": rows(ends)}

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """It stands in the journal."""
        words = f"the ends of {len(intent['from'])} partitions of {intent['source']} are known"
        return Seen(State.DONE, words, {"from": intent["from"], "ends": intent["ends"]})


BOUNDARY, END, START = "boundary", "end", "start"
"""Where it begins: at the first new record, where its source ended, at the first record of all."""

PROOF = "a person says that it is done, and what comes first to {target} is what had to come first"
_SHOWN = 5
_TELLS_NOTHING = "what comes first tells nothing: `identity` names none of a record's own fields"


@dataclass(frozen=True, slots=True)
class ManualStart(ManualChange):
    """Asks; where the settings say where it begins, that is told, and looked at.

    Settings beside the question's: `begins`, one of the words above; `source` and `target`; and
    optional `mirrors`, offsets are kept; `fields`, by which a record is known again; `connect`,
    Connect keeps its position as Confluent Replicator has it there: the next offset.
    """

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        told = ManualChange.describe(self, settings)
        if "begins" not in settings:
            return told
        return replace(told, proof=PROOF.format(target=settings["target"]))

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Where it begins.

        Raises:
            Unreachable: a cluster did not answer.
        """
        asked = ManualChange.check(self, settings, facts, reader)
        if "begins" not in settings:
            return asked
        where = dict(_WHERE[settings["begins"]](settings, facts, reader))
        kept = ("source", "target", "mirrors", "connect", "fields")
        intent = {**asked, **{key: settings[key] for key in kept if key in settings}, **where}
        if settings.get("mirrors"):
            # What it appends stands at the same offset, whatever stood there before.
            intent |= {"ends": _named_there(where["from"], reader), "whole": True}
        return {**intent, "text": f"{asked['text']}; {_told(intent)}"}

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Put where it begins into the run's folder, as commands take it; the person does it."""
        if "from" in intent:
            lines = [f"{topic},{number},{at}\n" for topic, number, at in intent["from"]]
            writer.keep(_file(intent, "csv"), "".join(lines))
            if intent.get("connect"):
                writer.keep(_file(intent, "json"), _connect_offsets(intent))
        return ()

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """What the person says; then, what came first."""
        said = ManualChange.verify(self, intent, reader)
        if said.state is not State.DONE or "from" not in intent:
            return said
        if not intent.get("fields", True):
            return replace(said, words=f"{_said(intent)}; {_TELLS_NOTHING}")
        seen = first_arrivals(intent, reader)
        if seen.state is State.DONE:
            return Seen(State.DONE, f"{_said(intent)}; {seen.words}", said.facts)
        if seen.state is State.FAILED and intent.get("mirrors"):
            words = (
                f"{intent['target']} still holds something else than {intent['source']} from where"
                f" both part: {', '.join(seen.items[:_SHOWN])}"
            )
            return Seen(State.WAITING, words, {}, seen.items)
        return seen


def _at_boundary(settings: Json, facts: Facts, reader: LinkReader) -> Json:
    search = facts["find-missing"]
    return {"from": search["boundaries"], "ends": search["ends"], "begun": search["begun"]}


def _at_end(settings: Json, facts: Facts, reader: LinkReader) -> Json:
    noted = facts[NoteEnds.name]
    return {"from": noted["from"], "ends": noted["ends"]}


def _at_start(settings: Json, facts: Facts, reader: LinkReader) -> Json:
    there = logs_of(reader.site(settings["source"]), reader.topics())
    # Something may have come already: what is emptied has nothing else to begin with.
    here = logs_of(reader.site(settings["target"]), copies_of(reader))
    starts = ({place: log.log_start for place, log in logs.items()} for logs in (there, here))
    start, ends = map(rows, starts)
    return {"from": start, "ends": ends, "whole": True}


_WHERE: Mapping[str, Callable[[Json, Facts, LinkReader], Json]] = {
    BOUNDARY: _at_boundary,
    END: _at_end,
    START: _at_start,
}


def _named_there(start: list[list[Any]], reader: LinkReader) -> list[list[Any]]:
    return [[reader.target_topic(topic), number, at] for topic, number, at in start]


def _told(intent: Json) -> str:
    """Where it begins, and where all of that is to be found, in words."""
    at = _places(intent)
    if not at:
        return "there is no partition yet"
    told = "both part at" if intent.get("mirrors") else "begin at"
    words = f"{told} {at}"
    if intent.get("begun"):
        words = f"it began at {at}: let it go on from where it came to, do not set it back"
    words += f"; all of it, as topic,partition,offset: {_file(intent, 'csv')} in the run's folder"
    words += ", and the journal"
    if intent.get("connect"):
        words += f"; as the body of PATCH /connectors/NAME/offsets: {_file(intent, 'json')}"
    return words


def _places(intent: Json) -> str:
    at = [f"{place} offset {offset}" for place, offset in offsets_of(intent["from"]).items()]
    more = [f"and {len(at) - _SHOWN:,} more"] if len(at) > _SHOWN else []
    return ", ".join((*at[:_SHOWN], *more))


def _said(intent: Json) -> str:
    """That it was done, and where."""
    return f"a person says that it is done, from {_places(intent) or 'no partition'} on"


def _file(intent: Json, ending: str) -> str:
    return f"begin-{intent['question']}.{ending}"


def _connect_offsets(intent: Json) -> Json:
    """As Confluent Replicator has it in Connect: the next record of each partition."""
    entries = [
        {"partition": {"topic": topic, "partition": number}, "offset": {"offset": at}}
        for topic, number, at in intent["from"]
    ]
    return {"offsets": entries}


MANUAL_START_REPLICATION = ManualStart(
    "manual-start-replication", Trait.CHANGES | Trait.STARTS_REPLICATION
)
