"""`drctl doctor`: checks whether a failover of a link would work."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.console import console
from drctl.cli.grammar import LinkName, PlanRequest, seconds, takes_request
from drctl.cli.settings import configuration
from drctl.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drctl.app.link_reader import ClusterLinkReader
    from drctl.app.operation import Prepared
    from drctl.model.plan import Plan
    from drctl.views.view import View


@dataclass(frozen=True, kw_only=True)
class Doctor(PlanRequest):
    """Arguments and options."""

    link: LinkName = None
    client: Annotated[
        tuple[str, ...],
        typer.Option(
            metavar="FILE[=LIBRARY-VERSION]",
            help="Also check the client properties file of an application, for example"
            " app.properties=java-3.9.1 or app.conf=librdkafka-2.12.0. Repeatable.",
        ),
    ] = ()
    worker: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Properties file that the link's Connect workers were started with: converters,"
            " interceptors and exactly-once support, which Connect does not report.",
        ),
    ] = None
    fix: Annotated[
        bool,
        typer.Option(
            "--fix",
            help="Plan the changes that align the target with the source: topics, partitions,"
            " topic configurations, ACLs and client quotas.",
        ),
    ] = False
    fence_probe: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Plan a probe of the fence: add ACLs on a topic that does not exist, watch for"
            " this time whether something deletes them, and remove them. Use a longer time than"
            " the interval of the operator that manages ACLs: 150s for Strimzi's default.",
        ),
    ] = None


@takes_request
def doctor(given: Doctor) -> int:
    """Check whether a failover would work, and what to fix.

    Read-only, unless --execute is given with --fix or --fence-probe. One row per check: ok, warn,
    fail or not-checked, with the reason and a fix.

    Examples:
        drctl doctor
        drctl doctor --client app.properties=java-3.9.1
        drctl doctor --worker connect-distributed.properties
        drctl doctor --fix                                # plan the changes
        drctl doctor --fix --execute
        drctl doctor --fence-probe 150s --execute         # do ACLs stay?

    Exit codes:
        0: no check fails; with --fix: no differences, or all fixed; with --fence-probe: probe done
        1: a check fails, or a required one could not run; with --fix: changes or manual work remain
        3: --fix was refused, or rolled back completely
        4: --fix stopped part-way
        5: a cluster did not answer
    """
    from drctl.app.doctor import examined
    from drctl.views.doctor import doctor_table, fix_table
    from drctl.views.findings import DoctorDocument

    changing = "--fix" if given.fix else "--fence-probe" if given.fence_probe else ""
    beside = {
        "--client": given.client,
        "--worker": given.worker,
        "--fence-probe": given.fix and given.fence_probe,
        "--override": given.fence_probe and given.override,
    }
    if changing and (names := [name for name, there in beside.items() if there]):
        raise UsageError(f"{names[0]} and {changing} cannot be combined", "leave out one of them")
    if given.fence_probe:
        return _probe_fence(given, given.fence_probe)
    if given.fix:
        from drctl.app.repairs import FIX, make_plan
        from drctl.cli.running import plan_or_execute

        def drawn(made: "Prepared") -> "View":
            return fix_table(made.plan, made.findings, made.blockers, made.execute)

        return plan_or_execute(given, ["doctor", "--fix"], make_plan, FIX, draw=drawn)
    acting = {
        "--execute": given.execute,
        "--yes": given.yes,
        "--override": given.override,
        "--plan-out": given.plan_out,
        "--expect-plan": given.expect_plan,
    }
    if names := [name for name, there in acting.items() if there]:
        hint = "drctl doctor --fix, or drctl doctor --fence-probe 150s"
        raise UsageError(f"{' and '.join(names)}: requires --fix or --fence-probe", hint)

    config = configuration()
    found = examined(config, config.link(given.link), given.client, given.worker)
    return console().result(doctor_table(found), DoctorDocument.of(found), found.exit_code)


def _probe_fence(given: Doctor, watched: str) -> int:
    from drctl.cli.running import OVER_LINK, plan_or_execute
    from drctl.plans.single_step import fence_probe_plan

    watch_s = seconds(watched, "--fence-probe")

    def look(reader: "ClusterLinkReader", _overrides: "Mapping[str, str]") -> "Plan":
        fence = reader.link.settings.fence
        if fence.method != "acl":
            raise UsageError(
                f"link {reader.link.name} is not fenced by ACLs: its fence method is"
                f" {fence.method}",
                "nothing to probe: leave out --fence-probe",
            )
        return fence_probe_plan(reader.link, reader.live_cluster_id(reader.link.source), watch_s)

    return plan_or_execute(given, ["doctor", "--fence-probe", watched], look, OVER_LINK)
