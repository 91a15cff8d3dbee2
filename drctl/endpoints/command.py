"""User-supplied commands as an endpoint: one switches clients, one reports where they are sent."""

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from drctl.config.endpoints import CLUSTER, CommandEndpoint
from drctl.config.problems import quoted
from drctl.config.secret import Secret, conceal, reveal
from drctl.host.files import original_umask
from drctl.model.endpoints import (
    EndpointFailed,
    EndpointMoved,
    EndpointRejected,
    EndpointState,
    must_be_of,
)
from drctl.model.errors import Unknown, Unreachable

_MOST_OUTPUT = 64_000
_GRACE_S = 2


class TimedOut(Exception):
    """A command exceeded its timeout, and was killed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a command; secrets of its environment are masked in its output.

    Attributes:
        code: exit code; negative if a signal ended it.
    """

    code: int
    output: str
    errors: str

    @property
    def reason(self) -> str:
        """Why it failed, as text: its exit code or signal, and the last line of its output."""
        how = f"killed by signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        lines = (self.errors.strip() or self.output.strip()).splitlines()
        return f"{how}: {lines[-1][:300]}" if lines else how


@dataclass(frozen=True, slots=True)
class Commands:
    """Starts the commands of an endpoint.

    Attributes:
        folder: where they run.
        environment: their complete environment.
        secrets: values in the environment that are masked.
    """

    folder: Path
    environment: Mapping[str, str]
    secrets: frozenset[str]
    timeout_s: float

    def run(self, argv: Sequence[str]) -> Ended:
        """Run a command to its end.

        Output goes to files: background processes that a command starts may keep pipes open.

        Raises:
            EndpointRejected: it cannot be started.
            TimedOut: it exceeded the timeout, and was killed.
        """
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    cwd=self.folder,
                    env=dict(self.environment),
                    umask=original_umask(),
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                raise EndpointRejected(
                    f"the command {argv[0]} cannot be started: {reason}",
                    "use a path, absolute or relative to the folder of drctl.yaml; a bare name is"
                    " searched for in PATH of the endpoint's `env`, else in /bin and /usr/bin",
                ) from None
            try:
                code = process.wait(self.timeout_s)
            except subprocess.TimeoutExpired:
                raise TimedOut from None
            finally:
                if process.returncode is None:
                    _end(process)
            return Ended(code, self._shown(output), self._shown(errors))

    def _shown(self, file: IO[bytes]) -> str:
        file.seek(0)
        return conceal(file.read(_MOST_OUTPUT).decode(errors="replace"), self.secrets)


def opened(settings: CommandEndpoint, folder: Path, environ: Mapping[str, str]) -> Commands:
    """Create the runner of an endpoint's commands.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    values = {name: setting.resolve(environ) for name, setting in settings.env.items()}
    secrets = frozenset(reveal(value) for value in values.values() if isinstance(value, Secret))
    clear = {name: reveal(value) for name, value in values.items()}
    return Commands(folder, clear, secrets, settings.timeout_s)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End it and its child processes: SIGTERM first, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)


_LONGEST_ANSWER = 1_000


class CommandReader:
    """Runs the command `observe`; never the one that switches.

    Args:
        clusters: cluster names that it may print.
    """

    def __init__(
        self, settings: CommandEndpoint, clusters: Sequence[str], commands: Commands
    ) -> None:
        self._settings = settings
        self._clusters = clusters
        self._commands = commands

    @property
    def endpoint(self) -> str:
        """The command that switches."""
        return f"command {shlex.join(self._settings.argv)}"

    def observe(self) -> EndpointState:
        """Run the command and read its answer.

        Raises:
            Unreachable: it exceeded the timeout.
            EndpointRejected: it cannot be started.
            Unknown: it failed.
        """
        argv = self._settings.observe
        try:
            ended = self._commands.run(argv)
        except TimedOut:
            raise Unreachable(
                f"{shlex.join(argv)} did not answer within {self._commands.timeout_s:g} s",
                "run it by hand, or raise `timeout_s` of the endpoint",
            ) from None
        if ended.code:
            raise Unknown(
                f"{shlex.join(argv)} does not report where clients are sent: {ended.reason}",
                "run it by hand; it must print the name of a cluster in drctl.yaml and exit with 0",
            )
        answer = ended.output.strip()
        cluster = answer if answer in self._clusters else None
        whose = "" if cluster else f", which is not one of {', '.join(self._clusters)}"
        words = f"{shlex.join(argv)} answers {quoted(answer)}{whose}"
        return EndpointState(
            self.endpoint, cluster, words, {"answer": answer[:_LONGEST_ANSWER], "code": ended.code}
        )


class CommandWriter:
    """Starts the command that switches.

    Args:
        clusters: cluster names that the command `observe` may print.
    """

    def __init__(
        self, settings: CommandEndpoint, clusters: Sequence[str], commands: Commands
    ) -> None:
        self._settings = settings
        self._commands = commands
        self._reader = CommandReader(settings, clusters, commands)

    @property
    def endpoint(self) -> str:
        """The command that switches."""
        return self._reader.endpoint

    def switch(self, to: str, before: EndpointState) -> None:
        """Switch to the cluster, unless clients are sent there already.

        Raises:
            EndpointMoved: clients are sent to another cluster than before.
            EndpointRejected: a command cannot be started; nothing was changed.
            EndpointFailed: it failed, and may have changed something.
            Unknown: it timed out, or where clients are sent now is unknown.
        """
        must_be_of(self.endpoint, before)
        now = self._reader.observe()
        if now.cluster == to:
            return
        if now.cluster != before.cluster:
            raise EndpointMoved(
                f"{self.endpoint} has changed since it was read: {now.message}",
                "someone else changed it; find out who, then start again or correct it by hand",
            )
        self._run(to)

    def restore(self, before: EndpointState) -> None:
        """Switch back to the previous cluster, unless clients are sent there already.

        Raises:
            EndpointRejected: the previous cluster is unknown, or a command cannot be started.
            EndpointFailed: it failed, and may have changed something.
            Unknown: it timed out, or where clients are sent now is unknown.
        """
        must_be_of(self.endpoint, before)
        if before.cluster is None:
            raise EndpointRejected(
                f"no known state to restore: {before.message}", "restore it by hand"
            )
        if self._reader.observe().cluster != before.cluster:
            self._run(before.cluster)

    def _run(self, cluster: str) -> None:
        argv = [word.replace(CLUSTER, cluster) for word in self._settings.argv]
        try:
            ended = self._commands.run(argv)
        except TimedOut:
            raise Unknown(
                f"{shlex.join(argv)} did not end within {self._commands.timeout_s:g} s and was"
                " killed; whether it has switched clients is unknown",
                f"first check where clients are sent: {shlex.join(self._settings.observe)}",
            ) from None
        if ended.code:
            raise EndpointFailed(
                f"{shlex.join(argv)} failed, and may have changed something: {ended.reason}",
                f"check with {shlex.join(self._settings.observe)}; complete or undo its changes"
                " before you continue",
            )
