"""Shows a plan, whatever made it, or carries it out once somebody said so."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drctl.checks.glance import Glance
from drctl.cli.confirmation import confirm
from drctl.cli.console import console
from drctl.cli.offsets.writing import check_confirming, command_line
from drctl.cli.runs import run_journal
from drctl.cli.runs.guarding import judged, known_overrides, unfinished_run
from drctl.cli.runs.link_sight import LinkSight
from drctl.cli.runs.people import people
from drctl.cli.runs.plan_files import (
    check_plan_file,
    refuse_another,
    without_secrets,
    write_plan,
)
from drctl.cli.runs.way import Prepared, Way
from drctl.cli.settings import configuration
from drctl.engine.questions import answers, check_words, unanswered
from drctl.model.errors import Refused, Unreachable
from drctl.model.failover import Mode
from drctl.model.plan import Plan
from drctl.model.reachability import NotLetIn

# Whoever waits for a source that is silent waits from the first question on: what is not needed
# for that one is imported behind it.
if TYPE_CHECKING:
    from rich.console import RenderableType

    from drctl.cli.notices import People
    from drctl.cli.runs.link_hands import LinkHands
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.engine.sequences.circumstances import Circumstances

_BESIDE_S = 60.0

_ALL_OF_IT = "without --execute all of it is shown"

MakePlan = Callable[["Config", "Circumstances"], Plan]

LookAndPlan = Callable[[LinkSight, Mapping[str, str]], Plan]
"""Looks, and makes the plan, told what is passed over."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What the command line says of any plan.

    Attributes:
        words: of the command line that makes the same plan again.
        lost: whether the source is likely to be dead, and gets little time to answer.
    """

    words: tuple[str, ...]
    link: str | None
    lost: bool
    execute: bool
    yes: bool
    overrides: tuple[str, ...]
    answers: tuple[str, ...]
    plan_out: Path | None
    expect_plan: Path | None


def needs_no_source(plan: Plan) -> bool:
    """Whether its guards are those of a source that is dead; also within a runbook."""
    from drctl.report.plan_lines import mode_of

    return mode_of(plan) is Mode.UNPLANNED


def _asked_by_preflight(plan: Plan) -> str:
    from drctl.engine.steps.preflight import Preflight
    from drctl.report.plan_lines import mode_of

    return mode_of(plan).value if any(s.kind == Preflight.name for s in plan.steps) else ""


def _sight(config: "Config", link: "Link", asked: "People", lost: bool) -> LinkSight:
    from drctl.config.way_back import way_home

    reverse, opposite = link.settings.replicator.reverse, None
    if reverse is not None and reverse.after_failover:
        opposite = LinkSight(config, way_home(link), judged, asked)
    return LinkSight(config, link, judged, asked, lost, opposite)


def _hands(config: "Config", sight: LinkSight, folder: Path) -> "LinkHands":
    from drctl.cli.runs.link_hands import LinkHands

    back = sight.opposite
    opposite = LinkHands(config, back.link, folder, back.commands) if back else None
    return LinkHands(config, sight.link, folder, sight.commands, opposite)


OVER_LINK = Way(
    _sight,
    _hands,
    known_overrides,
    _asked_by_preflight,
)
"""From a link's source to its target."""


def show_or_run(given: PlanOptions, make: MakePlan) -> int:
    """Make the plan over a link, and with `--execute` carry it out.

    Raises:
        Refused: something stands against it, or nobody confirmed.
    """

    def look(sight: LinkSight, overrides: Mapping[str, str]) -> Plan:
        from drctl.cli.runs import circumstances

        seen = circumstances.look_at(sight.link, sight, overrides)
        policy = sight.config.policy
        return make(sight.config, replace(seen, unproven_offsets=policy.unproven_offsets))

    return show_or_go(given, look, OVER_LINK)


def show_or_go(
    given: PlanOptions,
    make: LookAndPlan,
    way: Way,
    draw: "Callable[[Prepared], RenderableType] | None" = None,
) -> int:
    """Make the plan, and with `--execute` carry it out.

    Raises:
        Refused: something stands against it, or nobody confirmed.
    """
    check_confirming(given.execute, given.yes)
    if given.expect_plan:
        check_plan_file(given.expect_plan)
    check_words(given.answers)
    overrides = way.overrides(given.overrides)
    config = configuration()
    link = config.link(given.link)
    asked = people()
    with way.sight(config, link, asked, given.lost) as sight:
        if given.lost:
            sight.give_up()
        met = Glance(partial(sight.meet, given_up=_gives_up_alive(overrides)), _BESIDE_S)
        # The rest is about the target, and goes on while a silent source is waited for.
        held = Glance(partial(_refuse_while_held, link), _BESIDE_S) if given.execute else None
        if given.lost:
            Glance(partial(sight.findings, Mode.UNPLANNED.value), _BESIDE_S).answer()
        met.value()
        unknown = held.value() if held else None
        plan = without_secrets(make(sight, overrides))
        sight.lost = sight.lost or needs_no_source(plan)
        if given.execute:
            sight.prepare()
        asked.given = answers(plan, given.answers)
        prepared = _prepared(plan, link, sight, given, way)
        _plan_files(prepared, given)
        if not given.execute or not plan.steps:
            return _show(_with_facts(prepared, sight), way, draw)
        _refuse(prepared, {} if asked.terminal else unanswered(plan, asked.given))
        if unknown is not None:
            raise unknown
        if not given.yes:
            _warn(plan, sight)
        confirm(plan.target, f"{plan.name} over link {link.name}{giving_up(plan)}", yes=given.yes)
        _refuse_if_changed(plan, without_secrets(make(sight, overrides)))
        return _carry_out(config, link, way, sight, plan)


def _gives_up_alive(overrides: Mapping[str, str]) -> bool:
    if not overrides:
        return False
    from drctl.checks.source import ALIVE

    return ALIVE in overrides


def _with_facts(prepared: Prepared, sight: LinkSight) -> Prepared:
    from drctl.cli.runs.beside_plan import estimated, resuming

    plan = prepared.plan
    return replace(prepared, loss=estimated(plan, sight), groups=resuming(plan, sight))


def _warn(plan: Plan, sight: LinkSight) -> None:
    from drctl.cli.runs.beside_plan import warn_of_groups, warn_of_loss

    warn_of_loss(plan, sight)
    warn_of_groups(plan, sight)


def _refuse_while_held(link: "Link") -> Unreachable | None:
    """Refuse where somebody changes the link; the error where its journal cannot be asked.

    Without a journal nothing is carried out; what stands against the plan is to be said first.
    """
    try:
        run_journal.refuse_while_held(link)
    except NotLetIn:
        raise
    except Unreachable as silent:
        return silent
    return None


def giving_up(plan: Plan) -> str:
    """What a plan discards, behind what it is; empty where it discards nothing."""
    from drctl.engine.steps.reconcile import discards
    from drctl.report.printable import plain

    told = discards(plan)
    return f", which discards for good: {plain(told)} (find-missing says how many)" if told else ""


def _prepared(plan: Plan, link: "Link", sight: LinkSight, given: PlanOptions, way: Way) -> Prepared:
    from drctl.checks.causes import UNFINISHED, causes_first
    from drctl.checks.standing import standing_against
    from drctl.engine.concerned import asked_of
    from drctl.engine.invariants import violations
    from drctl.engine.registry import KINDS
    from drctl.report.plan_lines import mode_of

    mode, asked = mode_of(plan), way.asked(plan)
    said = asked_of(plan, sight.findings(asked)) if asked else ()
    if not any(each.check == UNFINISHED for each in said):
        said = (*said, *unfinished_run(link))
    findings = causes_first(said, plan.overrides)
    failing = standing_against(findings, plan.overrides, mode)
    words = [*given.words, "--link", plan.link]
    for name, why in plan.overrides.items():
        words += ["--override", f"{name}={why}"]
    for answer in given.answers:
        words += ["--answer", answer]
    execute = command_line([*words, "--execute"])
    return Prepared(plan, findings, violations(plan, KINDS), failing, execute)


def _refuse(prepared: Prepared, asked: Mapping[str, str]) -> None:
    if prepared.against:
        raise Refused("; ".join(prepared.against), "; ".join((*prepared.cures, _ALL_OF_IT)))
    if asked:
        told = "; ".join(f"{name}: {text}" for name, text in asked.items())
        raise Refused(
            f"nobody is there to answer {told}", "answer beforehand: --answer QUESTION=yes"
        )


def _refuse_if_changed(plan: Plan, now: Plan) -> None:
    from drctl.model.plan_changes import changes

    changed = changes(plan, now)
    if changed:
        raise Refused(
            f"the clusters have changed since the plan was made: {'; '.join(changed)}",
            "make the plan anew",
        )


def _document(prepared: Prepared) -> dict[str, Any]:
    from drctl.report.plan_json import plan_document

    given = prepared.plan, prepared.findings, prepared.broken, prepared.execute
    return plan_document(*given, loss=prepared.loss, groups=prepared.groups)


def _plan_files(prepared: Prepared, given: PlanOptions) -> None:
    if given.plan_out:
        write_plan(_document(prepared), given.plan_out)
    if given.expect_plan:
        refuse_another(prepared.plan, given.expect_plan)


def _show(prepared: Prepared, way: Way, draw: "Callable[[Prepared], RenderableType] | None") -> int:
    from drctl.cli.runs.plan_table import plan_table

    def drawn() -> "RenderableType":
        if draw is not None:
            return draw(prepared)
        given = prepared.plan, prepared.findings, prepared.broken, prepared.execute
        return plan_table(*given, prepared.loss, prepared.groups)

    console().result(drawn, _document(prepared))
    return int(way.code(prepared))


def _carry_out(config: "Config", link: "Link", way: Way, sight: LinkSight, plan: Plan) -> int:
    from drctl.cli.runs.run_ending import show_end
    from drctl.cli.runs.run_watching import watched
    from drctl.cli.stopping import stoppable
    from drctl.engine.executing import Execution
    from drctl.engine.registry import KINDS

    held = run_journal.holder(run_journal.new_run())
    with (
        run_journal.begun(config, link, held) as journal,
        stoppable() as clock,
        watched(plan, journal, clock) as seen,
    ):
        hands = way.hands(config, sight, run_journal.folder(config, held.run))
        engine = Execution(KINDS, sight, hands, seen.journal, clock, seen.watcher)
        story, outcome = engine.start(plan, run_journal.commanded(held))
    return show_end(config, story, outcome)
