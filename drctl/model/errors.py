"""The errors of drctl, each with its exit code.

Only `drctl.cli.main` turns an error into output and an exit status.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """The contract with scripts; see docs/reference/exit-codes.md."""

    DONE = 0
    FOUND = 1
    USAGE = 2
    REFUSED = 3
    STOPPED = 4
    UNKNOWN = 5
    BUG = 70
    INTERRUPTED = 130


class DrctlError(Exception):
    """Base class of expected errors.

    Attributes:
        message: what failed, where and why, in one sentence.
        hint: what to do; may be empty.
        exit_code: the exit code of the process.
        settings: related settings of drctl.yaml, each as a path of keys; the likeliest first.
    """

    exit_code = ExitCode.UNKNOWN
    settings: tuple[tuple[str, ...], ...] = ()

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def kind(self) -> str:
        """The error's name in JSON output."""
        return type(self).__name__


class UsageError(DrctlError):
    """The command line is invalid."""

    exit_code = ExitCode.USAGE


class ConfigError(DrctlError):
    """drctl.yaml, or a file that it names, is invalid."""

    exit_code = ExitCode.USAGE


class Refused(DrctlError):
    """A precheck failed; nothing was changed."""

    exit_code = ExitCode.REFUSED


class Stopped(DrctlError):
    """The operation stopped after part of the changes."""

    exit_code = ExitCode.STOPPED


class Fenced(Stopped):
    """Another run has acquired the link; this one must not change anything more."""


class Unknown(DrctlError):
    """Evidence or an answer is missing."""

    exit_code = ExitCode.UNKNOWN


class ResumeRequired(Unknown):
    """A run was started, and its state is unknown: `drctl resume` checks what was done.

    Args:
        resume: the command line that resumes the run.
    """

    def __init__(self, run: str, message: str, resume: str) -> None:
        super().__init__(
            f"run {run} is unfinished: {message}",
            f"do not start a new run; when the clusters respond: {resume}",
        )


class DamagedJournal(Unknown):
    """The journal of a run is damaged or was modified."""


class Unreachable(Unknown):
    """A cluster, worker or service did not answer within its deadline."""


class Interrupted(DrctlError):
    """The user pressed Ctrl-C, or the process was terminated."""

    exit_code = ExitCode.INTERRUPTED
