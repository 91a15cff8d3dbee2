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
) -> int:
    """Go on with a run where its journal says it came to, from any machine.

    What may have been done is looked at first, and never repeated blindly. Without --execute
    nothing is changed: how far the run came is printed. Exit codes: 0 done, 1 done and something
    is owed, 3 refused or everything was put back, 4 stopped part-way, 5 unknown, 130 interrupted.
    """
    from drctl.cli.runs.resume_run import ResumeOptions, go_on

    return go_on(ResumeOptions(run, link, execute, yes, tuple(answer or ())))
