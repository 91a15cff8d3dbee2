"""A command of the site: started without a shell, with a deadline and an environment of its own."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from drctl.config.endpoints import CommandEndpoint
from drctl.config.secret import Secret, conceal, reveal
from drctl.model.endpoints import EndpointRejected
from drctl.systems.private import umask_of_programs

_MOST_OUTPUT = 64_000
_GRACE_S = 2


class TimedOut(Exception):
    """A command was ended because its time was over."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; what it printed holds no secret of its environment.

    Attributes:
        code: negative where a signal ended it.
    """

    code: int
    output: str
    errors: str

    @property
    def reason(self) -> str:
        """Why it failed, in words: how it ended, and the last line that it printed."""
        how = f"signal {-self.code} ended it" if self.code < 0 else f"it ended with {self.code}"
        lines = (self.errors.strip() or self.output.strip()).splitlines()
        return f"{how}: {lines[-1][:300]}" if lines else how


@dataclass(frozen=True, slots=True)
class Commands:
    """Starts the commands of an endpoint.

    Attributes:
        folder: where they run.
        environment: all that they get.
        secrets: what of it is not to be shown.
    """

    folder: Path
    environment: Mapping[str, str]
    secrets: frozenset[str]
    timeout_s: float

    def run(self, argv: Sequence[str]) -> Ended:
        """Run one to its end.

        Output goes to files: what a command leaves behind in the background may hold pipes open.

        Raises:
            EndpointRejected: it cannot be started.
            TimedOut: it took too long, and was ended.
        """
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            process = self._started(argv, output, errors)
            try:
                code = process.wait(self.timeout_s)
            except subprocess.TimeoutExpired:
                raise TimedOut from None
            finally:
                if process.returncode is None:
                    _end(process)
            return Ended(code, self._shown(output), self._shown(errors))

    def _started(
        self, argv: Sequence[str], output: IO[bytes], errors: IO[bytes]
    ) -> "subprocess.Popen[bytes]":
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                cwd=self.folder,
                env=dict(self.environment),
                umask=umask_of_programs(),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise EndpointRejected(
                f"the command {argv[0]} cannot be started: {reason}",
                "name it from the folder of drctl.yaml, or absolutely; it is looked for in the PATH"
                " that `env` of the endpoint gives, else in /bin and /usr/bin",
            ) from None

    def _shown(self, file: IO[bytes]) -> str:
        file.seek(0)
        return conceal(file.read(_MOST_OUTPUT).decode(errors="replace"), self.secrets)


def opened(settings: CommandEndpoint, folder: Path, environ: Mapping[str, str]) -> Commands:
    """What starts the commands of an endpoint.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    values = {name: setting.resolve(environ) for name, setting in settings.env.items()}
    secrets = frozenset(reveal(value) for value in values.values() if isinstance(value, Secret))
    clear = {name: reveal(value) for name, value in values.items()}
    return Commands(folder, clear, secrets, settings.timeout_s)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End it and what it started: asked first, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
