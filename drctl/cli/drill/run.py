"""Shows a drill, or carries it out: what is made is deleted, whatever happens between."""

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.confirmation import confirm
from drctl.cli.console import console
from drctl.cli.drill import left as drill_left
from drctl.cli.drill import wiring as drill_wiring
from drctl.cli.drill.end import committed, step_times
from drctl.cli.drill.inject import Fault, injected
from drctl.cli.drill.leaving import Ending, leaving_nothing, stocktaking
from drctl.cli.drill.left import Leftovers
from drctl.cli.drill.stage import Stage, Wanted
from drctl.cli.offsets.writing import check_confirming, command_line
from drctl.cli.runs import run_journal
from drctl.cli.runs.link_sight import Connectors
from drctl.cli.settings import configuration
from drctl.cli.stopping import StoppableClock, stoppable
from drctl.drill.coverage import Coverage, coverage
from drctl.drill.judging import Limits
from drctl.drill.measuring import measured
from drctl.drill.names import Scratch, began, new_drill
from drctl.drill.result import Result
from drctl.model.errors import ExitCode, UsageError
from drctl.model.failover import Mode
from drctl.model.topology import Unavailable
from drctl.report.printable import plural

if TYPE_CHECKING:
    from drctl.config.link import Link
    from drctl.drill.cleaning import Ports

_LEAST_RECORDS = 20


@dataclass(frozen=True, slots=True)
class DrillOptions:
    """What the command line says.

    Attributes:
        words: of the command line that makes the same drill again.
        max_rto_s: None where any is good enough.
        lab: the folder of the lab in which a fault is injected; None for the user's own.
        junit: where the result is to be in the words of CI, too.
    """

    words: tuple[str, ...]
    link: str | None
    wanted: Wanted
    prefix: str
    max_rto_s: float | None
    fault: Fault | None
    lab: Path | None
    junit: Path | None
    execute: bool
    yes: bool


def drill(given: DrillOptions) -> int:
    """Show it, or carry it out.

    Raises:
        Refused: the replicator does not copy what would be made, a run holds the link, or a fault
            is asked for outside a lab.
    """
    check_confirming(given.execute, given.yes)
    _check(given)
    config = configuration()
    link = config.link(given.link)
    scratch = Scratch(new_drill(datetime.now(UTC), secrets.token_hex(3)), given.prefix)
    fault = injected(given.fault, link, given.lab) if given.fault else None
    if given.execute:
        drill_left.bury(config)
    run_journal.refuse_while_held(link)
    covered = _coverage(link)
    covered.require(scratch)
    with (
        drill_wiring.ports(link.source, link.source_config) as source,
        drill_wiring.ports(link.target, link.target_config) as target,
    ):
        principals, clock = _principals(link, scratch, source), StoppableClock()
        stage = Stage(config, link, scratch, given.wanted, principals, clock, source, target, fault)
        left = drill_left.leftovers(config, source, target, everything=False)
        for line in drill_left.told(left.spared):
            console().note(line)
        if not given.execute:
            return _show(stage, covered, left, given)
        what = f"drill {scratch.drill} over link {link.name}, and cluster {link.source}"
        confirm(link.target, what, yes=given.yes)
        # At a question Ctrl-C ends drctl at once; from here on it stops the drill.
        with stoppable() as stage.clock:
            return _carried_out(stage, left, given)


def _check(given: DrillOptions) -> None:
    if not re.fullmatch(r"[a-zA-Z0-9._-]{0,150}", given.prefix):
        raise UsageError("--topic-prefix: at most 150 letters, digits, '.', '_' or '-'")
    if given.wanted.records < _LEAST_RECORDS:
        raise UsageError(f"--records: {_LEAST_RECORDS} at least, for a group to read half of them")
    if given.wanted.budget_s > drill_left.LONGEST.total_seconds() / 2:
        raise UsageError("--budget: 3h at most")
    if given.lab and not given.fault:
        raise UsageError("--lab goes with --inject")


def _coverage(link: "Link") -> Coverage:
    """What the link's source connector says; everything where there is none to ask.

    Raises:
        Unreachable: no worker answered.
    """
    name, connect = link.settings.replicator.connectors.source, wiring.connect_of(link)
    if connect is None or not name:
        return Coverage()
    return coverage(name, Connectors(connect).config(name))


def _principals(link: "Link", scratch: Scratch, source: "Ports") -> tuple[str, ...]:
    """Whom the drill's fence denies: nobody where the link's own is no ACL.

    Raises:
        Unreachable: the source did not answer.
    """
    rules = source.acls.acls()
    if link.settings.fence.method != "acl" or isinstance(rules, Unavailable) or not rules.enforced:
        return ()
    return (scratch.principal, *drill_wiring.own_principals(link))


def _show(stage: Stage, covered: Coverage, left: Leftovers, given: DrillOptions) -> int:
    from drctl.cli.drill.table import plan_table
    from drctl.report.drill_document import plan_document

    with stage.sight() as sight:
        planned = stage.plan(sight)
    execute = command_line([*given.words, "--link", stage.link.name, "--execute"])
    kind = stage.fault.fault.value if stage.fault else ""
    document = plan_document(
        planned,
        stage.scratch,
        stage.link.target_topic,
        kind,
        covered.refresh_s,
        left.words,
        execute,
    )
    console().result(lambda: plan_table(document), document)
    return int(ExitCode.DONE)


def _carried_out(stage: Stage, left: Leftovers, given: DrillOptions) -> int:
    from drctl.cli.drill.end import show_end

    if left.dead:
        console().progress(f"cleaning up after {plural(len(left.dead), 'drill')} that died")
        drill_left.clean_up(stage.source, stage.target, left.dead, stage.clock.wait)
    before, ending = stocktaking(stage), Ending()
    place = drill_wiring.folder(stage.config) / stage.scratch.drill
    with drill_wiring.alive(place / drill_left.ALIVE):
        fault = stage.fault.to_json() if stage.fault else None
        drill_left.note(stage.config, stage.scratch.drill, stage.link, fault)
        start = stage.clock.monotonic()
        with leaving_nothing(stage, before, ending):
            logs = stage.run()
            if logs is not None:
                ending.measures = measured(logs, committed(stage.story))
        result = _result(stage, ending, given, stage.clock.monotonic() - start)
        return show_end(stage.config, result, given.junit)


def _result(stage: Stage, ending: Ending, given: DrillOptions, seconds: float) -> Result:
    link, mode = stage.link, stage.mode
    rpo_s = stage.config.policy.max_rpo_seconds
    return Result(
        stage.scratch,
        link.name,
        link.source,
        link.target,
        link.target_topic(stage.scratch.topic),
        mode.value,
        stage.fault.fault.value if stage.fault else "",
        began(stage.scratch.drill),
        seconds,
        Limits(rpo_s, given.max_rto_s, planned=mode is Mode.PLANNED),
        ending.broke_off or stage.not_done,
        ending.unanswered or stage.not_seen_done,
        ending.interrupted,
        ending.measures,
        step_times(stage.story),
        stage.left_out,
        tuple(ending.deleted),
        tuple(ending.left),
        ending.compared,
        ending.not_compared,
        stage.journal,
    )
