"""What a run cost: for how long writes were refused, what was lost, and where writes go now."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from drctl.engine.entries import What
from drctl.engine.kind import Kind, Trait
from drctl.engine.story import Story
from drctl.model.loss import Figure, LossRange, exactly, loss_range, not_known
from drctl.report.run_course import Course, moment_of
from drctl.report.run_data import Became, Rpo, Rto, Writes


def steps_with(story: Story, kinds: Mapping[str, Kind], trait: Trait) -> tuple[str, ...]:
    """The steps of the plan's own direction that have a trait, in their order."""
    traits = {s.id: kinds[s.kind].traits for s in story.plan.steps if s.kind in kinds}
    return tuple(
        step for step, its in traits.items() if trait in its and Trait.OTHER_WAY not in its
    )


def rto(story: Story, kinds: Mapping[str, Kind], course: Course) -> Rto:
    """From the fence's announcement to the moment from which clients can write on the target.

    Where a source was lost nobody saw when writes began to be refused: then from the command.
    """
    commanded = _commanded(story) if story.plan.name.endswith("unplanned") else None
    start = commanded or next(_fenced(story, kinds), None)
    last = _last(story, kinds)
    if last is None:
        return Rto(None, "not measured: the plan does not open a cluster for writes", start)
    step, opens = last
    end = course.tracks[step].proven
    if end is None:
        why = "the run was turned back" if story.turned_back else f"step {step} is not done"
        return Rto(None, f"not measured: {why}", start)
    if start is None:
        return Rto(
            None, "not measured: no fence was set, so nobody saw the first refused write", None, end
        )
    seconds = (end - start).total_seconds()
    if seconds < 0:
        how = "not measured: it began and ended on hosts whose clocks do not agree"
        return Rto(None, how, start, end)
    until = "the target was open" if opens else "the last endpoint was switched"
    since = "command" if commanded else "beginning of the fence"
    how = f"from the {since} until {until} and seen to be (step {step})"
    how += _doubts(story, course, start, end)
    return Rto(seconds, how, start, end, since_command=commanded is not None)


def _commanded(story: Story) -> datetime | None:
    """When the command was given; None where its journal does not say it."""
    told = story.entries[0].get("who", {}).get("commanded", "")
    try:
        return datetime.fromisoformat(told)
    except ValueError:
        return None


def _fenced(story: Story, kinds: Mapping[str, Kind]) -> Iterator[datetime]:
    """When writes may have begun to be refused."""
    fences = steps_with(story, kinds, Trait.FENCES_WRITES)
    for entry in story.entries:
        if entry["entry"] == What.INTEND and entry["step"] in fences:
            yield moment_of(entry)


def _last(story: Story, kinds: Mapping[str, Kind]) -> tuple[str, bool] | None:
    """The step after which clients can write, and whether it is the one that opens."""
    opening = steps_with(story, kinds, Trait.OPENS)
    if not opening:
        return None
    switching = steps_with(story, kinds, Trait.SWITCHES)
    return (switching[-1], False) if switching else (opening[-1], True)


def _doubts(story: Story, course: Course, start: datetime, end: datetime) -> str:
    """What the number does not hold."""
    told = []
    hosts = {
        str(story.entries[number].get("who", {}).get("host"))
        for number in course.begins
        if course.times[number] <= end
    }
    if len(hosts) > 1:
        told.append("by the clocks of several hosts")
    if story.plan.name.endswith("unplanned"):
        told.append("without the outage before the run")
    if any(start <= course.times[number] <= end for number in course.begins):
        told.append("with the time in which nobody was at work")
    return f"; {', '.join(told)}" if told else ""


def rpo(story: Story, kinds: Mapping[str, Kind], course: Course) -> Rpo:
    """What the target lacks: nothing, proven by content; an estimate; or not known."""
    if not any(course.tracks[step].announced for step in steps_with(story, kinds, Trait.OPENS)):
        return _not_measured("not measured: the target was not opened")
    facts = story.facts_by_kind()
    fell = [step for step in steps_with(story, kinds, Trait.FENCES_WRITES) if step in story.owed]
    if fell and "drain" in facts:
        return _not_measured(story.owed[fell[0]])
    if facts.get("drain", {}).get("missing") == 0:
        how = "a comparison by content found no missing record behind the fence"
        return Rpo(exactly(0, how), 0.0, True, how)
    if "measure-loss" in facts:
        loss = facts["measure-loss"]
        return Rpo(
            loss_range(loss),
            _seconds(loss.get("seconds")),
            False,
            "estimated from what survived; drctl gap makes it exact once the source answers",
            tuple(map(str, loss.get("evidence", ()))),
        )
    if "gap" in facts:
        found = _number(facts["gap"].get("unreplicated"))
        how = "a comparison by content, while the source may still have taken writes"
        lost = LossRange(Figure(found, how), Figure(found, how), Figure(None, how))
        return Rpo(lost, None, False, how)
    return _not_measured("not measured: no step of this run has looked for it")


def _not_measured(why: str) -> Rpo:
    return Rpo(not_known(why), None, False, why)


def writes(
    story: Story, kinds: Mapping[str, Kind], course: Course
) -> tuple[Writes, datetime | None]:
    """Where applications can write now, and since when."""
    fences = steps_with(story, kinds, Trait.FENCES_WRITES)
    opening = steps_with(story, kinds, Trait.OPENS)
    if not fences and not opening:
        return Writes.NOT_TOUCHED, None
    opened = [course.tracks[step] for step in opening]
    if any(track.became is Became.DONE for track in opened):
        return Writes.TARGET, next(t.proven for t in opened if t.became is Became.DONE)
    if any(track.announced for track in opened):
        return Writes.UNKNOWN, None
    found = [course.tracks[step] for step in fences if _stands(story, step)]
    if not found:
        return Writes.AS_BEFORE, None
    if all(track.became is Became.DONE for track in found):
        return Writes.NOWHERE, next(_fenced(story, kinds), None)
    return Writes.UNKNOWN, None


def _stands(story: Story, step: str) -> bool:
    """Whether an effect of it may be there; also one whose successor was announced since."""
    return any(effect.step == step and not effect.undone for effect in story.effects)


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
