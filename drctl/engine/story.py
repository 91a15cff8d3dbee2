"""What the journal of a run tells: how far it came, and what it may have changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from drctl.engine.entries import VERSION, Entry, What
from drctl.engine.kind import Facts
from drctl.model.errors import DamagedJournal
from drctl.model.plan import Json, Plan, Step


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

    def take(self, entries: Iterable[Entry]) -> None:
        """Let these have happened, too.

        Raises:
            DamagedJournal: one of them is not what this drctl writes.
        """
        for entry in entries:
            try:
                self._take(entry)
            except (KeyError, IndexError, TypeError, ValueError) as wrong:
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
        match What(entry["entry"]):
            case What.RESUMED:
                # Older journals do not have them.
                self.overrides.update(entry.get("overrides", {}))
            case What.ABANDONED:
                self.abandoned, self.stands = str(entry["why"]), dict(entry["stands"])
            case What.INTEND:
                number = int(entry["effect"])
                if number != len(self.effects) + 1:
                    raise ValueError(f"effect {number} follows {len(self.effects)}")
                self.effects.append(Effect(number, entry["step"], entry["intent"]))
                self.forget(entry["step"])
            case What.DONE:
                self.effects[int(entry["effect"]) - 1].done = True
                self.facts[entry["step"]] = entry["facts"]
            case What.LOOKED:
                if entry["state"] != "done":
                    self.effects[int(entry["effect"]) - 1].done = False
                    self.forget(entry["step"])
            case What.STALE:
                self.effects[int(entry["effect"]) - 1].stale = True
                self.forget(entry["step"])
            case What.UNDOING:
                self.effects[int(entry["effect"]) - 1].undoing = True
            case What.UNDONE:
                self.effects[int(entry["effect"]) - 1].undone = True
                self.forget(entry["step"])
            case What.OWED:
                self.owed[entry["step"]] = str(entry["what"])
            case What.PASSED:
                self.passed.add(entry["step"])
            case What.TURNED_BACK:
                self.turned_back = str(entry["why"])
            case What.ENDED:
                self.status = str(entry["status"])
            case _:
                pass


def read_story(entries: Iterable[Entry]) -> Story:
    """The run that these entries tell of.

    Raises:
        DamagedJournal: they are not what this drctl writes.
    """
    first, *more = entries
    run = str(first.get("run", "?"))
    try:
        if What(first["entry"]) is not What.BEGAN or first["version"] != VERSION:
            raise ValueError("it does not begin as a journal of this drctl does")
        began = datetime.fromisoformat(first["at"])
        story = Story(run, Plan.from_json(first["plan"]), first["who"], began, entries=[first])
    except (KeyError, TypeError, ValueError) as wrong:
        raise damaged(run, wrong) from wrong
    story.take(more)
    return story


def damaged(run: str, wrong: Exception) -> DamagedJournal:
    """The journal says what this drctl does not write."""
    return DamagedJournal(
        f"the journal of run {run} cannot be read: {wrong}",
        "another version of drctl wrote it, or somebody changed it: drctl report --verify tells;"
        f" `drctl resume {run} --abandon REASON` frees its link",
    )
