"""From the entries of a journal to the values of a report."""

from collections.abc import Mapping, Sequence

from drctl.engine.chain import ChainVerdict, opened
from drctl.engine.entries import Entry
from drctl.engine.kind import Description, Kind, Trait
from drctl.engine.registry import KINDS
from drctl.engine.story import Story
from drctl.model.errors import Unknown
from drctl.model.plan import Step
from drctl.report import run_facts, run_measures
from drctl.report.run_course import Course, Track, course_of
from drctl.report.run_data import Became, Doing, ReportData, Standing, StepReport
from drctl.report.run_ending import attempts, ending

_PROVING = (Doing.EFFECT, Doing.WAITING)


def report_data(
    story: Story, chain: ChainVerdict | None = None, kinds: Mapping[str, Kind] = KINDS
) -> ReportData:
    """What the run came to.

    Args:
        chain: whether its journal is as it was written; None where nobody looked.

    Raises:
        Unknown: an entry is not what this drctl writes.
    """
    unseen = run_facts.unseen(story)
    story = run_facts.told_shortly(story)
    course = course_of(story, kinds)
    end = ending(story, kinds, course)
    writes, since = run_measures.writes(story, kinds, course)
    return ReportData(
        run=story.run,
        plan=story.plan,
        mode=run_facts.mode(story),
        ids=run_facts.cluster_ids(story),
        attempts=attempts(story, kinds, course),
        steps=_steps(story, kinds, course),
        spans=tuple(course.spans),
        ending=end,
        turned_back=story.turned_back,
        abandoned=story.abandoned,
        writes=writes,
        rto=run_measures.rto(story, kinds, course),
        rpo=run_measures.rpo(story, kinds, course),
        warned=run_facts.warned(story),
        # What was put back owes nothing any more.
        owed={} if end.standing is Standing.REFUSED else _owed(story),
        positions=run_facts.positions(story),
        not_checked=run_facts.not_checked(story, course),
        began=course.times[0],
        until=course.times[-1],
        fenced=_fenced(story, kinds, course),
        endpoints=_endpoints(story, kinds, course),
        chain=chain,
        writes_since=since,
        overrides={**story.plan.overrides, **story.overrides},
        topics=run_facts.topics(story),
        set_aside=run_facts.set_aside(story),
        unseen=unseen,
    )


def _owed(story: Story) -> Mapping[str, str]:
    """By step; of one that is owed and stands as well, both."""
    told = (story.owed, story.stands)
    names = dict.fromkeys((*story.owed, *story.stands))
    return {name: "; ".join(each[name] for each in told if name in each) for name in names}


def _fenced(story: Story, kinds: Mapping[str, Kind], course: Course) -> bool:
    steps = run_measures.steps_with(story, kinds, Trait.FENCES_WRITES)
    return any(course.tracks[step].became is Became.DONE for step in steps)


def _endpoints(story: Story, kinds: Mapping[str, Kind], course: Course) -> tuple[int, int]:
    steps = run_measures.steps_with(story, kinds, Trait.SWITCHES)
    return sum(course.tracks[step].became is Became.DONE for step in steps), len(steps)


def sound_entries(run: str, lines: Sequence[bytes], chain: ChainVerdict) -> tuple[Entry, ...]:
    """What a journal tells up to the first line that is not as it was written.

    Raises:
        Unknown: not even its first line is.
    """
    if not chain.lines:
        raise Unknown(
            f"nothing of the journal of run {run} is as it was written: {chain.words}",
            "compare it with its copies: the topic __drctl_journal and the state_dir of whoever"
            " carried it out",
        )
    return tuple(opened(line).entry for line in lines[: chain.lines])


def described(step: Step, kinds: Mapping[str, Kind] = KINDS) -> Description:
    """A step in words; also one that this drctl does not know."""
    kind = kinds.get(step.kind)
    if kind is None:
        return Description(f"{step.id}: a step of a kind that this drctl does not know", "")
    return kind.describe(step.settings)


def _steps(story: Story, kinds: Mapping[str, Kind], course: Course) -> tuple[StepReport, ...]:
    return tuple(
        _step(number, step, story, kinds, course) for number, step in enumerate(story.plan.steps, 1)
    )


def _step(
    number: int, step: Step, story: Story, kinds: Mapping[str, Kind], course: Course
) -> StepReport:
    track, words = course.tracks[step.id], described(step, kinds)
    return StepReport(
        number=number,
        id=step.id,
        kind=step.kind,
        title=words.title,
        proof=words.proof,
        way_back=words.way_back,
        duty=step.duty,
        changes=step.kind in kinds and Trait.CHANGES in kinds[step.kind].traits,
        became=track.became,
        started=track.started,
        seconds=_seconds(step.id, track, course, tuple(Doing)),
        waited=_seconds(step.id, track, course, _PROVING) if track.announced else None,
        words=track.words,
        items=track.items,
        complaints=tuple(track.complaints),
        owed=story.owed.get(step.id, ""),
        taken_back=track.taken_back,
    )


def _seconds(step: str, track: Track, course: Course, doings: tuple[Doing, ...]) -> float | None:
    if track.started is None:
        return None
    spans = (span for span in course.spans if span.step == step and span.doing in doings)
    return round(sum(span.seconds for span in spans), 3)
