"""Cures connectors: the plan, and with `--execute` the restarts or the remedy."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from drctl.cli.confirmation import confirm
from drctl.cli.connect import wiring as connect_wiring
from drctl.cli.connect.status import look_at
from drctl.cli.console import console
from drctl.cli.offsets.writing import check_confirming, command_line
from drctl.cli.settings import configuration
from drctl.cli.stopping import stoppable
from drctl.connectors.backoff import Backoff
from drctl.connectors.diagnosis import chosen
from drctl.connectors.remedies import Remedy
from drctl.connectors.treating import RecoverPlan, parse_overrides, remedy_plan, restart_plan
from drctl.model.errors import ExitCode, Interrupted, Unreachable, UsageError

if TYPE_CHECKING:
    from drctl.cli.connect.wiring import ConnectCluster, FileNotebook
    from drctl.config.configuration import Config
    from drctl.connectors.recovering import Patient
    from drctl.connectors.remedies import Treated

_REMEDY_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class RecoverOptions:
    """What the command line says.

    Attributes:
        pauses: first, longest and settling time, as typed.
    """

    connect: str | None
    link: str | None
    connectors: tuple[str, ...]
    remedy: str | None
    new_name: str | None
    backoff: Backoff
    settle_s: float
    pauses: tuple[str, str, str]
    execute: bool
    yes: bool
    overrides: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The command line that carries this out."""
        words = ["connect", "recover"]
        words += ["--connect", connect_wiring.retyped(self.connect)] if self.connect else []
        words += ["--link", self.link] if self.link else []
        for name in self.connectors:
            words += ["--connector", name]
        words += ["--remedy", self.remedy] if self.remedy else []
        words += ["--as", self.new_name] if self.new_name else []
        given = (*self.pauses, str(self.backoff.attempts))
        names = ("--initial", "--longest", "--settle", "--attempts")
        for name, value, usual in zip(names, given, ("1s", "120s", "10s", "16"), strict=True):
            words += [name, value] if value != usual else []
        for override in self.overrides:
            words += ["--override", override]
        return (*words, "--execute")


def recover_connectors(given: RecoverOptions) -> int:
    """Make the plan, and with `--execute` carry it out."""
    check_confirming(given.execute, given.yes)
    overrides = parse_overrides(given.overrides)
    remedy = _remedy(given)
    config = configuration()
    cluster = connect_wiring.only_workers(config, given.connect, given.link)
    with console().task("asking the workers"):
        plan = _plan(given, remedy, cluster, overrides)
    if not given.execute:
        return _show(plan, given)
    if not plan.acting:
        return _ended(plan, "", ExitCode.REFUSED if plan.refused else ExitCode.DONE)
    confirm(plan.workers, _in_words(plan), yes=given.yes)
    return _carry_out(plan, given, config, cluster)


def _remedy(given: RecoverOptions) -> Remedy | None:
    if given.remedy is None:
        if given.new_name:
            raise UsageError("--as goes with --remedy recreate")
        return None
    if given.remedy not in list(Remedy):
        raise UsageError(f"there is no remedy {given.remedy!r}", f"there are: {', '.join(Remedy)}")
    if len(given.connectors) != 1:
        raise UsageError("--remedy is for one connector", "name it: --connector NAME")
    if given.new_name and given.remedy == Remedy.RESET:
        raise UsageError("--as goes with --remedy recreate")
    return Remedy(given.remedy)


def _plan(
    given: RecoverOptions,
    remedy: Remedy | None,
    cluster: "ConnectCluster",
    overrides: dict[str, str],
) -> RecoverPlan:
    ward = look_at(cluster)
    if ward.silent:
        raise Unreachable(ward.silent)
    connectors = chosen(ward, given.connectors)
    if remedy is None:
        return restart_plan(ward, connectors, overrides)
    name = given.new_name or f"{connectors[0].name}-2"
    return remedy_plan(ward, connectors[0], remedy, name, overrides)


def _show(plan: RecoverPlan, given: RecoverOptions) -> int:
    from drctl.cli.connect.table import recover_plan_table
    from drctl.connectors.documents import recover_plan_document

    execute = command_line(given.words)
    console().result(
        lambda: recover_plan_table(plan, given.backoff, execute),
        recover_plan_document(plan, given.backoff, execute),
    )
    return int(ExitCode.REFUSED if plan.refused else ExitCode.DONE)


def _carry_out(
    plan: RecoverPlan, given: RecoverOptions, config: "Config", cluster: "ConnectCluster"
) -> int:
    run = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    with connect_wiring.notebook(config, run) as notebook:
        notebook.append([_began(plan, run)])
        if plan.remedy is not None:
            treated = _treated(plan, given, cluster, notebook)
            code = treated.code
            notebook.append([_end(code)])
            return _ended(plan, run, code, treated=treated)
        patients = _restarted(plan, given, cluster, notebook)
        code = _code(plan, patients)
        notebook.append([_end(code)])
        if code is ExitCode.INTERRUPTED:
            done = ", ".join(f"{each.name}: {each.attempts} restarts" for each in patients)
            raise Interrupted(f"interrupted ({done}); journal {notebook.where}", "")
        return _ended(plan, run, code, patients)


def _restarted(
    plan: RecoverPlan, given: RecoverOptions, cluster: "ConnectCluster", notebook: "FileNotebook"
) -> "tuple[Patient, ...]":
    from drctl.connectors.recovering import Recovery

    def announce(name: str, attempt: int) -> None:
        entry = {"entry": "intent", "what": "restart", "connector": name, "attempt": attempt}
        notebook.append([{**entry, "at": datetime.now(UTC).isoformat()}])

    with (
        connect_wiring.ward(cluster) as workers,
        connect_wiring.curer(cluster) as writer,
        stoppable() as clock,
        console().task("restarting") as task,
    ):

        def told(words: str) -> None:
            console().progress(words)
            task.update(description=words)

        recovery = Recovery(workers, writer, clock, given.backoff, given.settle_s, announce, told)
        return recovery.run(plan.restarted)


def _treated(
    plan: RecoverPlan, given: RecoverOptions, cluster: "ConnectCluster", notebook: "FileNotebook"
) -> "Treated":
    from drctl.connectors.remedies import Treatment

    assert plan.remedy is not None
    (line,) = plan.lines
    with (
        connect_wiring.ward(cluster) as workers,
        connect_wiring.curer(cluster) as writer,
        stoppable() as clock,
        console().task(f"{plan.remedy} of {line.connector.name}"),
    ):
        treatment = Treatment(
            workers,
            writer,
            notebook,
            clock,
            lambda: datetime.now(UTC),
            console().progress,
            _REMEDY_PATIENCE_S,
            given.settle_s,
        )
        cluster_id = workers.kafka_cluster_id()
        return treatment.run(plan.remedy, line.connector, plan.name, plan.workers, cluster_id)


def _code(plan: RecoverPlan, patients: "tuple[Patient, ...]") -> ExitCode:
    from drctl.connectors.recovering import Ending

    endings = {each.ending for each in patients}
    if Ending.INTERRUPTED in endings:
        return ExitCode.INTERRUPTED
    return ExitCode.DONE if endings == {Ending.RUNNING} and not plan.refused else ExitCode.FOUND


def _ended(
    plan: RecoverPlan,
    run: str,
    code: ExitCode,
    patients: "tuple[Patient, ...]" = (),
    treated: "Treated | None" = None,
) -> int:
    from drctl.cli.connect.table import recover_table
    from drctl.connectors.documents import recover_document

    console().result(
        lambda: recover_table(plan, patients, treated),
        recover_document(plan, run, int(code), patients, treated),
    )
    return int(code)


def _in_words(plan: RecoverPlan) -> str:
    if plan.remedy is None:
        return f"restarts {', '.join(plan.restarted)}"
    (line,) = plan.lines
    return f"{'; '.join(line.steps)}. {line.consequence}"


def _began(plan: RecoverPlan, run: str) -> dict[str, object]:
    return {
        "entry": "began",
        "version": 1,
        "run": run,
        "at": datetime.now(UTC).isoformat(),
        "what": "recover",
        "workers": plan.workers,
        "remedy": plan.remedy.value if plan.remedy else None,
        "connectors": [line.connector.name for line in plan.lines],
        "overrides": dict(plan.overrides),
    }


def _end(code: ExitCode) -> dict[str, object]:
    return {"entry": "ended", "status": code.name.lower(), "at": datetime.now(UTC).isoformat()}
