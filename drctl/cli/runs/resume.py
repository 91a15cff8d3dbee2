"""`drctl resume`: goes on with a run that was stopped, interrupted or lost."""

from typing import Annotated

import typer

from drctl.cli.shared_options import Answers, Execute, LinkName, Yes


def resume(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Else the newest that has not ended.")
    ] = None,
    link: LinkName = None,
    execute: Execute = False,
    yes: Yes = False,
    answer: Answers = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--override",
            metavar="GUARD=REASON",
            help="Pass over a guard that stopped the run; may be repeated. Kept in the journal.",
        ),
    ] = None,
    abandon: Annotated[
        str | None,
        typer.Option(
            "--abandon",
            metavar="REASON",
            help="Do not go on: end the run as it stands, name what it changed, free the link.",
        ),
    ] = None,
) -> int:
    """Go on with a run where its journal says it came to, from any machine.

    What may have been done is looked at first, and never repeated blindly. Without --execute
    nothing is changed: how far the run came is printed. Exit codes: 0 done, 1 done and something
    is owed, or the run was left behind, 3 refused or everything was put back, 4 stopped part-way,
    5 unknown, 130 interrupted.
    """
    from drctl.cli.runs.resume_run import ResumeOptions, go_on

    given = tuple(answer or ()), tuple(override or ())
    return go_on(ResumeOptions(run, link, execute, yes, *given, abandon))
