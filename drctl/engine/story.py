"""What the journal of a run tells: how far it came, and what it may have changed."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime

from drctl.engine import chain
from drctl.engine.entries import VERSION, Entry, What
from drctl.engine.entry_shapes import check_entry
from drctl.engine.kind import Facts
from drctl.model.errors import DamagedJournal
from drctl.model.journal import JournalReader
from drctl.model.pasting import quote
from drctl.model.plan import Json, Plan, Step

SET_ASIDE = "stopped"
"""How a run ended that nobody goes on with; as in `drctl.engine.outcome`."""


@dataclass(slots=True)
class Effect:
    """One effect that was announced, and what became of it.

    Attributes:
        number: in the order of announcement, from 1.
        done: it was seen to be done.
        undoing: it was announced that it is taken back; perhaps it is.
        undone: it was seen to be taken back.
        stale: what it was built from holds no more; another follows.
    """

    number: int
    step: str
    intent: Json
    done: bool = False
    undoing: bool = False
    undone: bool = False
    stale: bool = False

    @property
    def stands(self) -> bool:
        """Whether it is the word of its step."""
        return not (self.undone or self.stale)


@dataclass(slots=True)
class Story:
    """A run as its journal tells it; grows with each entry.

    Attributes:
        effects: in the order of announcement.
        facts: of each step that is done, by its id.
        owed: what a later run must do, by step.
        passed: steps that were not done, and need not be.
        overrides: what who went on with it passed over since it began: guard to reason.
        turned_back: why effects are taken back; empty while the run goes forward.
        abandoned: why nobody is to go on with it; empty where somebody may.
        stands: where it was abandoned, what it left as it was, by step.
        status: what it ended with; empty while it has not.
    """

    run: str
    plan: Plan
    who: Mapping[str, str]
    began: datetime
    effects: list[Effect] = field(default_factory=list)
    facts: dict[str, Json] = field(default_factory=dict)
    owed: dict[str, str] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)
    overrides: dict[str, str] = field(default_factory=dict)
    turned_back: str = ""
    abandoned: str = ""
    stands: dict[str, str] = field(default_factory=dict)
    status: str = ""
    entries: list[Entry] = field(default_factory=list)
    _steps: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._steps = frozenset(step.id for step in self.plan.steps)

    def take(self, entries: Iterable[Entry]) -> None:
        """Let these have happened, too.

        Raises:
            DamagedJournal: one of them is not what this drctl writes.
        """
        for entry in entries:
            try:
                self._take(entry)
            except (AttributeError, KeyError, IndexError, TypeError, ValueError) as wrong:
                raise damaged(self.run, wrong) from wrong
            self.entries.append(entry)

    def effect_of(self, step: str) -> Effect | None:
        """The newest effect of a step that was not taken back and is not stale."""
        return next((e for e in reversed(self.effects) if e.step == step and e.stands), None)

    def is_done(self, step: str) -> bool:
        """Whether the run is through with the step: it was done, is owed or was passed."""
        return step in self.facts or step in self.owed or step in self.passed

    def facts_by_kind(self) -> Facts:
        """What the steps have shown: by kind, the newest of each."""
        return {step.kind: self.facts[step.id] for step in self.plan.steps if step.id in self.facts}

    def settings_of(self, step: Step) -> Json:
        """Those of the plan, and what was passed over since."""
        if not self.overrides:
            return step.settings
        since = {**step.settings.get("overrides", {}), **self.overrides}
        return {**step.settings, "overrides": since}

    def forget(self, step: str) -> None:
        """What the step showed does not hold any more."""
        self.facts.pop(step, None)
        self.owed.pop(step, None)
        self.passed.discard(step)

    def _take(self, entry: Entry) -> None:
        what = check_entry(entry)
        if "step" in entry and entry["step"] not in self._steps:
            raise ValueError(f"its plan has no step {entry['step']!r}")
        match what:
            case What.RESUMED:
                # Older journals do not have them.
                self.overrides.update(entry.get("overrides", {}))
            case What.ABANDONED:
                self.abandoned, self.stands = str(entry["why"]), dict(entry["stands"])
            case What.INTEND:
                number = int(entry["effect"])
                if number != len(self.effects) + 1:
                    raise ValueError(f"effect {number} follows {len(self.effects)}")
                self.plan.step(entry["step"])
                self.effects.append(Effect(number, entry["step"], _json(entry["intent"])))
                self.forget(entry["step"])
            case What.DONE:
                self._effect(entry).done = True
                self.facts[entry["step"]] = _json(entry["facts"])
            case What.LOOKED:
                if entry["state"] != "done":
                    self._effect(entry).done = False
                    self.forget(entry["step"])
            case What.STALE:
                self._effect(entry).stale = True
                self.forget(entry["step"])
            case What.UNDOING:
                self._effect(entry).undoing = True
            case What.UNDONE:
                self._effect(entry).undone = True
                self.forget(entry["step"])
            case What.OWED:
                self.owed[self.plan.step(entry["step"]).id] = str(entry["what"])
            case What.PASSED:
                self.passed.add(self.plan.step(entry["step"]).id)
            case What.TURNED_BACK:
                self.turned_back = str(entry["why"])
            case What.ENDED:
                self.status = str(entry["status"])
            case _:
                pass

    def _effect(self, entry: Entry) -> Effect:
        """The one that an entry is about.

        Raises:
            ValueError: there is none, or it is of another step.
        """
        number = int(entry["effect"])
        if not 0 < number <= len(self.effects):
            raise ValueError(f"there is no effect {number}")
        effect = self.effects[number - 1]
        if effect.step != entry["step"]:
            raise ValueError(f"effect {number} is of step {effect.step}, not {entry['step']}")
        return effect


def read_story(entries: Iterable[Entry]) -> Story:
    """The run that these entries tell of.

    Raises:
        DamagedJournal: they are not what this drctl writes.
    """
    first, *more = tuple(entries) or ({},)
    if not first:
        raise DamagedJournal(
            "the journal of this run is empty: its process ended before it wrote anything, or"
            " somebody emptied it",
            "where it is the copy of this machine: drctl journal without --local says what is so",
        )
    run = str(first.get("run", "?"))
    try:
        if check_entry(first) is not What.BEGAN or first["version"] != VERSION:
            raise ValueError("it does not begin as a journal of this drctl does")
        began = datetime.fromisoformat(first["at"])
        plan, who = Plan.from_json(first["plan"]), _json(first["who"])
        story = Story(run, plan, who, began, entries=[first])
    except (AttributeError, KeyError, TypeError, ValueError) as wrong:
        raise damaged(run, wrong) from wrong
    story.take(more)
    return story


def _json(value: object) -> Json:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} holds no names")
    return value


def stories(reader: JournalReader) -> Iterator[Story]:
    """All runs of a journal, the newest first.

    Of one that is damaged, or not signed, and was set aside, what is sound is told; where that is
    no plan, nothing.

    Raises:
        DamagedJournal: one is damaged, and nobody has set it aside.
        Unknown: they cannot be read.
    """
    for run in reader.runs():
        yield from stories_of(reader, run)


def stories_of(reader: JournalReader, run: str) -> Iterator[Story]:
    """The run; nothing where it was set aside, and not even its plan is sound.

    Raises:
        DamagedJournal: it is damaged, and nobody has set it aside.
        Unknown: it cannot be read.
    """
    try:
        yield read_story(reader.entries(run))
    except DamagedJournal:
        if not reader.set_aside(run):
            raise
        yield from _sound(reader, run)


def _sound(reader: JournalReader, run: str) -> Iterator[Story]:
    lines = reader.lines(run)[: reader.sound(run)]
    with suppress(DamagedJournal):
        story = read_story(chain.opened(line).entry for line in lines)
        story.abandoned = story.abandoned or "its journal is damaged"
        story.status = story.status or SET_ASIDE
        yield story


@contextmanager
def understood(run: str) -> Iterator[None]:
    """What is told of a journal in here is told of what somebody may have written.

    The entries were checked; what settings, intents and facts hold depends on the kind of step.

    Raises:
        DamagedJournal: one of them does not hold what its kind writes.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as wrong:
        raise damaged(run, wrong) from wrong


def damaged(run: str, wrong: Exception) -> DamagedJournal:
    """The journal says what this drctl does not write."""
    return DamagedJournal(
        f"the journal of run {run} cannot be read: {wrong}",
        "another version of drctl wrote it, or somebody changed it: drctl report --verify tells;"
        f" `drctl resume {quote(run)} --abandon REASON` frees its link",
    )
