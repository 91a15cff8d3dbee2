"""Goes on with a run: from the journal on the surviving cluster, with what is configured here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drctl.checks.standing import parse_overrides
from drctl.cli.confirmation import confirm
from drctl.cli.console import console
from drctl.cli.doctor.fix_way import FIX
from drctl.cli.failback.home import HOME
from drctl.cli.failback.rebuild import REBUILD
from drctl.cli.offsets.writing import check_confirming
from drctl.cli.runs import plan_wiring, run_journal
from drctl.cli.runs.leave_damaged import leave_damaged
from drctl.cli.runs.people import people
from drctl.cli.runs.plan_run import OVER_LINK, giving_up, needs_no_source
from drctl.cli.runs.resume_check import (
    held_kinds,
    must_be_differences,
    must_be_permitted,
    permitted,
)
from drctl.cli.runs.run_ending import show_end, show_state
from drctl.cli.runs.run_watching import watched
from drctl.cli.runs.way import Way
from drctl.cli.settings import configuration
from drctl.cli.stopping import stoppable
from drctl.engine.abandoning import abandon, must_be_describable, standing
from drctl.engine.executing import Execution
from drctl.engine.invariants import violations
from drctl.engine.kind import Trait
from drctl.engine.questions import answers
from drctl.engine.registry import KINDS
from drctl.engine.sequences.failback import leads_home
from drctl.engine.sequences.rebuild import rebuilds
from drctl.engine.sequences.repair import NAME as REPAIR
from drctl.engine.steps.last_look import MOVED
from drctl.engine.story import Story, read_story
from drctl.model.errors import DamagedJournal, Refused, UsageError
from drctl.model.pasting import quote
from drctl.offsets.guards import Guard

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.plan import Plan
    from drctl.systems.kafka.journal_reading import JournalTopicReader


@dataclass(frozen=True, slots=True)
class ResumeOptions:
    """What the command line says."""

    run: str | None
    link: str | None
    execute: bool
    yes: bool
    answers: tuple[str, ...]
    overrides: tuple[str, ...] = ()
    abandon: str | None = None


def go_on(given: ResumeOptions) -> int:
    """Show how far a run came, and with `--execute` go on with it.

    Raises:
        UsageError: there is no such run, or what is given does not go together.
        Refused: it has ended, somebody carries it out, or it is of other clusters.
    """
    check_confirming(given.execute, given.yes)
    overrides = _overrides(given)
    config = configuration()
    link = config.link(given.link)
    reader = plan_wiring.journal_reader(link)
    try:
        with console().task(f"reading the journal on {link.target}"):
            story = _story(reader, given.run, link)
    except DamagedJournal as damaged:
        return _leave_damaged(config, link, reader, given, damaged)
    if given.abandon is None:
        _must_be_resumable(config, link, story)
        _must_have_begun_to_open(story, overrides)
    if not given.execute:
        return _show(story, given)
    if given.abandon is not None:
        confirm(story.plan.target, f"leave run {story.run} behind", yes=given.yes)
        return _leave(config, link, story, given.abandon.strip())
    what = f"go on with run {story.run}{giving_up(story.plan)}"
    confirm(story.plan.target, what, yes=given.yes)
    return _carry_on(config, link, story, given, overrides)


def _leave_damaged(
    config: "Config",
    link: "Link",
    reader: "JournalTopicReader",
    given: ResumeOptions,
    damaged: DamagedJournal,
) -> int:
    """Leave a run behind of which not all is known; anything else cannot be done with it.

    Raises:
        DamagedJournal: it is not to be left behind, or nobody named it.
    """
    if given.abandon is None or given.run is None:
        raise damaged
    console().warn(damaged.message)
    why = given.abandon.strip()
    return leave_damaged(config, link, reader, given.run, why, execute=given.execute, yes=given.yes)


def _overrides(given: ResumeOptions) -> Mapping[str, str]:
    """What is passed over from here on: also what only a run that was away can meet."""
    if given.abandon is None:
        own = [guard.value for guard in Guard if guard.overridable]
        return parse_overrides(given.overrides, (*own, MOVED))
    if not given.abandon.strip():
        raise UsageError("--abandon needs a reason", "it is kept in the journal and the report")
    if given.overrides or given.answers:
        raise UsageError(
            "--abandon goes with neither --override nor --answer: nothing is done any more"
        )
    return {}


def _show(story: Story, given: ResumeOptions) -> int:
    code = show_state(story)
    if given.abandon is not None:
        left = list(standing(story, KINDS).values()) or ["nothing"]
        console().note(f"left behind, this would stay as it is: {'; '.join(left)}")
    return code


def _leave(config: "Config", link: "Link", found: Story, why: str) -> int:
    held = run_journal.holder(found.run)
    with run_journal.gone_on(config, link, held) as (journal, entries), stoppable() as clock:
        story = read_story(entries)
        outcome = abandon(story, why, run_journal.who(held), journal, KINDS, clock)
    return show_end(config, story, outcome)


def _story(reader: "JournalTopicReader", run: str | None, link: "Link") -> Story:
    if run is not None:
        story = _readable(reader, run)
        if story.status:
            raise Refused(f"run {run} has ended: {story.status}", f"drctl report {quote(run)}")
        return story
    for name in [name for name in reader.runs() if not reader.set_aside(name)][:1]:
        newest = _readable(reader, name)
        if not newest.status:
            return newest
    raise UsageError(
        f"link {link.name} has no run to go on with",
        "drctl journal lists all; of drctl reconcile the same command line goes on",
    )


def _readable(reader: "JournalTopicReader", run: str) -> Story:
    story = read_story(reader.entries(run))
    if not story.status:
        reader.must_be_signed(run)
    must_be_describable(story, KINDS)
    return story


def _must_be_of(story: Story, link: "Link") -> None:
    plan = story.plan
    home = leads_home(plan.steps)
    ends = (link.target, link.source) if home else (link.source, link.target)
    if (plan.source, plan.target) != ends:
        raise Refused(
            f"run {story.run} goes from {plan.source} to {plan.target}, and link {link.name} of"
            f" this drctl.yaml from {link.source} to {link.target}",
            "use the drctl.yaml that the run began with; if that is this one, somebody else wrote"
            f" to the journal: `drctl resume {quote(story.run)} --abandon REASON`",
        )


def _must_be_resumable(config: "Config", link: "Link", story: Story) -> None:
    _must_be_of(story, link)
    _must_go_on(story)
    must_be_permitted(config, link, story)


def _must_go_on(story: Story) -> None:
    plan = story.plan
    unknown = sorted({step.kind for step in plan.steps} - set(KINDS))
    if unknown:
        raise Refused(
            f"run {story.run} has steps that this drctl does not know: {', '.join(unknown)}",
            "use the version of drctl that it began with; or leave it behind: --abandon REASON",
        )
    if broken := violations(plan, KINDS):
        raise Refused(
            f"the plan of run {story.run} breaks a rule: {'; '.join(broken)}",
            "use the version of drctl that it began with; if that is this one, somebody else wrote"
            " to the journal: drctl report --verify; --abandon REASON leaves the run behind",
        )


def _must_have_begun_to_open(story: Story, overrides: Mapping[str, str]) -> None:
    """Before that, replication still brings what came through the fence, or all is put back."""
    opens = {step.id for step in story.plan.steps if Trait.OPENS in KINDS[step.kind].traits}
    if MOVED in overrides and not opens & {effect.step for effect in story.effects}:
        raise Refused(
            f"{MOVED}: run {story.run} has not begun to open {story.plan.target}: nothing is lost"
            " by letting it look, or turn back",
            f"drctl resume {quote(story.run)} without it",
        )


def _way(plan: "Plan") -> Way:
    if plan.name == REPAIR:
        return FIX
    if rebuilds(plan.steps):
        return REBUILD
    return HOME if leads_home(plan.steps) else OVER_LINK


def _carry_on(
    config: "Config",
    link: "Link",
    found: Story,
    given: ResumeOptions,
    overrides: Mapping[str, str],
) -> int:
    run = found.run
    held = run_journal.holder(run)
    asked = people()
    asked.given = answers(found.plan, given.answers)
    way = _way(found.plan)
    with (
        way.sight(config, link, asked, needs_no_source(found.plan)) as sight,
        run_journal.gone_on(config, link, held) as (journal, entries),
        stoppable() as clock,
    ):
        story = read_story(entries)
        # Somebody may have written to it since it was first read.
        _must_be_resumable(config, link, story)
        allowed = permitted(config, link, story)
        must_be_differences(story, allowed, sight)
        hands = way.hands(config, sight, run_journal.folder(config, run))
        with watched(story.plan, journal, clock, entries) as seen:
            kinds = held_kinds(story, allowed)
            engine = Execution(kinds, sight, hands, seen.journal, clock, seen.watcher)
            outcome = engine.go_on(story, run_journal.who(held), overrides)
    return show_end(config, story, outcome)
