"""Everything a command can end with, as exceptions that carry their exit code.

`drctl.cli.main` is the only place that turns one into output and an exit status.
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
    """An expected ending.

    Attributes:
        message: what is true, in one sentence.
        hint: what to do now; empty where nothing sensible can be said.
        exit_code: what the process exits with.
        settings: of drctl.yaml that it is about, each as keys from the top of the file; the
            likeliest first.
    """

    exit_code = ExitCode.UNKNOWN
    settings: tuple[tuple[str, ...], ...] = ()

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def kind(self) -> str:
        """The name that JSON output gives this error."""
        return type(self).__name__


class UsageError(DrctlError):
    """The command line asks for something that does not exist or does not go together."""

    exit_code = ExitCode.USAGE


class ConfigError(DrctlError):
    """drctl.yaml (or what it points to) cannot be used."""

    exit_code = ExitCode.USAGE


class Refused(DrctlError):
    """A precheck failed; nothing was changed."""

    exit_code = ExitCode.REFUSED


class Stopped(DrctlError):
    """Something was changed, not everything."""

    exit_code = ExitCode.STOPPED


class Fenced(Stopped):
    """Another run has taken the link; this one may change nothing more."""


class Unknown(DrctlError):
    """Evidence is missing, or an answer did not come."""

    exit_code = ExitCode.UNKNOWN


class DamagedJournal(Unknown):
    """The journal of a run is not as drctl wrote it."""


class Unreachable(Unknown):
    """A cluster, worker or service did not answer within its deadline."""


class Interrupted(DrctlError):
    """The engineer pressed Ctrl-C, or the process was asked to end."""

    exit_code = ExitCode.INTERRUPTED
