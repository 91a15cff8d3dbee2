"""The two remedies for a resume point that is gone, and what each of them costs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from drctl.connectors.applying import Export, kept
from drctl.connectors.connector import SINK, STOPPED, Clock, Connector, Workers, WorkersWriter
from drctl.connectors.writing import Notebook
from drctl.model.errors import DrctlError, ExitCode
from drctl.model.journal import Entry

_POLL_S = 0.5
_NO_ROWS = frozenset({"never", "no_data", "schema_only", "recovery", "schema_only_recovery"})


class Remedy(StrEnum):
    """What is done about a connector that cannot resume from its position."""

    RESET = "reset"
    """It forgets its positions, and starts from scratch."""
    RECREATE = "recreate"
    """Another one of the same configuration starts from scratch; the old one stays stopped."""


def consequence(connector: Connector) -> str:
    """What becomes of the data when it starts from scratch."""
    if connector.kind == SINK:
        reset = connector.config.get("consumer.override.auto.offset.reset", "the worker's setting")
        return f"it reads its topics from where auto.offset.reset says ({reset})"
    if connector.plugin.startswith("io.debezium."):
        mode = connector.config.get("snapshot.mode", "initial")
        if mode in _NO_ROWS:
            return (
                f"snapshot.mode {mode} reads no rows: whatever changed since the position that is"
                " lost is missing in Kafka for good"
            )
        return (
            f"a new snapshot (snapshot.mode {mode}): every row is sent again; of rows that changed"
            " since, only the last state is seen, and nobody tells which were deleted"
        )
    if connector.plugin.endswith("MirrorSourceConnector"):
        return "it copies its topics from their beginning: what was copied is there twice then"
    return "it begins as if it had never run: what it sent before it may send again"


def steps(remedy: Remedy, connector: Connector, name: str) -> tuple[str, ...]:
    """What is done, a line each."""
    stop = f"stop {connector.name}, and keep its positions in a file"
    if remedy is Remedy.RESET:
        return (stop, f"have {connector.name} forget them", f"let {connector.name} go on")
    return (stop, f"make {name} with the same configuration", f"{connector.name} stays stopped")


@dataclass(frozen=True, slots=True)
class Treated:
    """How a remedy ended.

    Attributes:
        before: the file with the positions that there were; empty where it did not come to that.
        done: the steps that are done, in words.
    """

    code: ExitCode
    words: str
    before: str
    done: tuple[str, ...]


@dataclass(slots=True)
class Treatment:
    """One remedy for one connector.

    Attributes:
        patience_s: how long each state may take.
        settle_s: how long it has to run in the end.
    """

    workers: Workers
    writer: WorkersWriter
    notebook: Notebook
    clock: Clock
    now: Callable[[], datetime]
    told: Callable[[str], None]
    patience_s: float
    settle_s: float

    def run(
        self, remedy: Remedy, connector: Connector, name: str, where: str, cluster_id: str
    ) -> Treated:
        """Carry it out; each step is verified before the next."""
        done: list[str] = []
        before = ""
        try:
            self._note("stop", connector.name)
            self.writer.stop(connector.name)
            if not self._await(connector.name, lambda c: c.state == STOPPED and len(c.parts) == 1):
                return _ended(f"{connector.name} does not stop", before, done)
            done.append(f"{connector.name} is stopped")
            positions = self.workers.positions(connector.name)
            export = Export(
                where, cluster_id, self.now().isoformat(), (kept(connector, positions),)
            )
            before = self.notebook.keep(export)
            done.append(f"its positions are kept in {before}")
            if remedy is Remedy.RESET:
                self._note("delete-positions", connector.name)
                self.writer.delete_positions(connector.name)
                done.append(f"{connector.name} has no positions")
                self._note("resume", connector.name)
                self.writer.resume(connector.name)
                done.append(f"{connector.name} goes on")
            else:
                self._note("create", name)
                self.writer.put_config(name, {**connector.config, "name": name})
                done.append(f"{name} is made")
            return self._verified(name, before, done)
        except DrctlError as error:
            code = error.exit_code if not done else ExitCode.STOPPED
            return _ended(error.message, before, done, code)

    def _verified(self, name: str, before: str, done: list[str]) -> Treated:
        working = self._await(name, lambda c: c.running and len(c.parts) > 1)
        until = self.clock.monotonic() + self.settle_s
        while working and self.clock.monotonic() < until and not self.clock.stopping:
            self.clock.wait(_POLL_S)
        found = self.workers.all().get(name)
        if found is None or not found.running:
            return _ended(f"{name} does not run: drctl connect status says why", before, done)
        words = f"{name} runs, and begins anew" if working else f"{name} runs, and has no task"
        return Treated(ExitCode.DONE, words, before, tuple(done))

    def _await(self, name: str, there: Callable[[Connector], bool]) -> bool:
        until = self.clock.monotonic() + self.patience_s
        while True:
            found = self.workers.all().get(name)
            if found is not None and there(found):
                return True
            if self.clock.stopping or self.clock.monotonic() >= until:
                return False
            self.clock.wait(_POLL_S)

    def _note(self, what: str, name: str) -> None:
        self.told(f"{name}: {what}")
        entry: Entry = {
            "entry": "intent",
            "what": what,
            "connector": name,
            "at": self.now().isoformat(),
        }
        self.notebook.append([entry])


def _ended(
    words: str, before: str, done: Sequence[str], code: ExitCode = ExitCode.STOPPED
) -> Treated:
    return Treated(code, words, before, tuple(done))
