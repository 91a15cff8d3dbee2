"""Commands of the site as endpoint: one that switches, one that tells where clients are sent."""

import shlex
from collections.abc import Sequence

from drctl.config.endpoints import CLUSTER, CommandEndpoint
from drctl.config.problems import quoted
from drctl.model.endpoints import (
    EndpointFailed,
    EndpointMoved,
    EndpointRejected,
    EndpointState,
    must_be_of,
)
from drctl.model.errors import Unknown, Unreachable
from drctl.systems.endpoints.command_process import Commands, TimedOut

_LONGEST_ANSWER = 1_000


class CommandReader:
    """Asks the command `observe`; never starts the one that switches.

    Args:
        clusters: names that it may answer.
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
        """What the command says.

        Raises:
            Unreachable: it took too long.
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
                f"{shlex.join(argv)} does not tell where clients are sent: {ended.reason}",
                "run it by hand; it must print the name of a cluster of drctl.yaml and end with 0",
            )
        answer = ended.output.strip()
        cluster = answer if answer in self._clusters else None
        whose = "" if cluster else f", which is none of {', '.join(self._clusters)}"
        words = f"{shlex.join(argv)} answers {quoted(answer)}{whose}"
        return EndpointState(
            self.endpoint, cluster, words, {"answer": answer[:_LONGEST_ANSWER], "code": ended.code}
        )


class CommandWriter:
    """Starts the command that switches.

    Args:
        clusters: names that the command `observe` may answer.
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
        """Run it for the cluster, unless clients are sent there already.

        Raises:
            EndpointMoved: clients are sent to another cluster than before.
            EndpointRejected: a command cannot be started; nothing was changed.
            EndpointFailed: it failed, and may have changed something.
            Unknown: it took too long; or where clients are sent now cannot be told.
        """
        must_be_of(self.endpoint, before)
        now = self._reader.observe()
        if now.cluster == to:
            return
        if now.cluster != before.cluster:
            raise EndpointMoved(
                f"{self.endpoint} is not as it was when it was looked at: {now.words}",
                "somebody else changed it; find out who, then begin anew, or put it right by hand",
            )
        self._run(to)

    def restore(self, before: EndpointState) -> None:
        """Run it for the cluster that clients were sent to, unless they are sent there again.

        Raises:
            EndpointRejected: that cluster is not known, or a command cannot be started.
            EndpointFailed: it failed, and may have changed something.
            Unknown: it took too long; or where clients are sent now cannot be told.
        """
        must_be_of(self.endpoint, before)
        if before.cluster is None:
            raise EndpointRejected(
                f"there is no way back to what was: {before.words}",
                "put it back by hand",
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
                " ended; whether it had switched is not known",
                f"look with {shlex.join(self._settings.observe)} before anything else is done",
            ) from None
        if ended.code:
            raise EndpointFailed(
                f"{shlex.join(argv)} failed, and may have changed something: {ended.reason}",
                f"look with {shlex.join(self._settings.observe)}; what it did not do must be done,"
                " or undone, before drctl goes on",
            )
