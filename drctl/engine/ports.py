"""Interfaces that steps use: `LinkReader` reads, `LinkWriter` changes.

Clusters are identified by their names in drctl.yaml. Connectors, endpoints and groups are those of
the plan's link. Connections are opened at their first use.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from drctl.elections.cluster_state import ElectionReader, ElectionWriter
from drctl.engine.failback_state import OutstandingAction, ReconcileRequest, Reconciliation, Search
from drctl.formats.tracked_positions import TrackedPositions
from drctl.model.endpoints import EndpointReader, EndpointWriter
from drctl.model.fencing import AclReader, AclWriter, FenceProver
from drctl.model.finding import Finding
from drctl.model.groups import GroupCreator
from drctl.model.health import HealthReader, TransactionWriter
from drctl.model.loss import Loss
from drctl.model.ports import ClusterReader, GroupReader, GroupWriter
from drctl.model.producer_ids import ProducerIdReader, ProducerIdWriter
from drctl.model.repairs import RuleWriter, ShapeReader, ShapeWriter
from drctl.model.replication import ConnectorStopper, Workers, WorkersWriter
from drctl.model.state_snapshot import StateSnapshot
from drctl.model.survey import QuotaReader, QuotaWriter
from drctl.model.topology import TopicPartition, Unavailable
from drctl.offsets.applying import Translated
from drctl.offsets.results import Answers


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """The state of a connector, as its workers report it.

    Attributes:
        state: RUNNING, PAUSED, STOPPED, FAILED, ...; all states if the connector and its tasks
            differ.
        stack_trace: the stack trace of a failure; empty if nothing failed.
    """

    name: str
    state: str
    stack_trace: str = ""

    @property
    def summary(self) -> str:
        """The state as a sentence, with the stack trace."""
        return f"{self.name} is {self.state}{f': {self.stack_trace}' if self.stack_trace else ''}"


@dataclass(frozen=True, slots=True)
class ConnectorTasks:
    """The tasks of a connector.

    Attributes:
        configured: number of tasks in the stored configuration.
        running: last known states of tasks, such as `0 is RUNNING`.
        workers: workers that run the connector or one of its tasks.
    """

    configured: int
    running: tuple[str, ...]
    workers: frozenset[str]

    @property
    def any(self) -> bool:
        """Whether a task is configured or running."""
        return bool(self.configured or self.running)

    @property
    def summary(self) -> tuple[str, ...]:
        """The states of running tasks, or the number of configured ones."""
        return self.running or (f"{self.configured} configured",)


class ConnectorsReader(Protocol):
    """Reads the connectors that replicate the link."""

    def tasks(self, name: str) -> ConnectorTasks:
        """Return the tasks of a connector.

        Raises:
            UsageError: no connector has this name.
            Unreachable: no worker answered within the deadline.
        """

    def tasks_left(self, names: Sequence[str], stabilize_s: float) -> Sequence[str]:
        """Describe tasks that still exist; empty after `stabilize_s` seconds without any.

        Raises:
            UsageError: a connector does not exist.
            Unreachable: no worker answered within the deadline.
        """

    def state(self, name: str) -> ConnectorState:
        """Return the state of a connector and its tasks.

        Raises:
            UsageError: no connector has this name.
            Unreachable: no worker answered within the deadline.
        """

    def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Return the source offsets of a connector.

        Raises:
            UsageError: no connector has this name.
            Unreachable: no worker answered within the deadline.
        """

    def kafka_cluster_id(self) -> str:
        """Return the id of the workers' Kafka cluster, the default target of their connectors.

        Raises:
            Unreachable: no worker answered within the deadline.
        """

    def config(self, name: str) -> Mapping[str, str]:
        """Return the configuration. It may contain passwords: read only the keys you need.

        Raises:
            UsageError: no connector has this name.
            Unreachable: no worker answered within the deadline.
        """


class ConnectorsWriter(ConnectorStopper, Protocol):
    """Stops, resumes and configures the connectors that replicate the link."""

    def pause(self, name: str) -> None:
        """Pause a connector and its tasks.

        Raises:
            Unknown: no answer; it may be paused.
        """

    def configure(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Change keys of a configuration; None removes a key. All other keys are unchanged.

        Raises:
            Unknown: no answer, or the workers rejected it.
        """

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> None:
        """Set source offsets of a stopped connector.

        Raises:
            Unknown: no answer, or the workers rejected it.
        """


@dataclass(frozen=True, slots=True)
class Missing:
    """The result of a comparison of source and target by content.

    Attributes:
        records: number of records on the source that are missing on the target.
        not_compared: descriptions of what could not be compared; empty if everything was.
        partitions: descriptions of partitions with missing records.
        duplicated: number of records that the target holds more often than the source.
        repeated: how many of `records` have an equal record on the target: the source holds more
            copies of it.
        undecided: descriptions of source partitions with an open transaction. Its records are not
            counted; they count once it is committed.
        left_missing_before: records that were quarantined or discarded in an earlier incident; not
            counted in `records`.
        only_on_target: number of records that the source does not have.
    """

    records: int
    not_compared: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    duplicated: int = 0
    repeated: int = 0
    undecided: tuple[str, ...] = ()
    left_missing_before: int = 0
    only_on_target: int = 0

    @property
    def unproven(self) -> tuple[str, ...]:
        """Reasons why more records may be missing than were counted."""
        return (*self.not_compared, *self.undecided)

    def but_for(self, second_copies: int) -> int:
        """Missing records without known surplus copies on the source.

        Only records with an equal record on the target can be surplus copies.
        """
        return self.records - min(second_copies, self.repeated)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a user-supplied command ended.

    Attributes:
        code: exit code; negative if a signal ended it, None if it could not be started.
        output: the end of its output with secrets masked, or why it could not be started.
    """

    code: int | None
    output: str = ""


class ProbeWriter(Protocol):
    """Writes a probe record."""

    def write_probe(self, topic: str, text: str) -> None:
        """Write a probe record with acks=all.

        Raises:
            Refused: the cluster rejected it.
            Unknown: no answer.
        """


class Elections(ElectionReader, Protocol):
    """Reads the leaders of one cluster, and keeps the controller's answers."""

    def answers(self) -> Mapping[TopicPartition, Unavailable | None]:
        """Answers to the elections that this process requested; None means success."""


class LinkReader(Protocol):
    """Everything that steps can read; no method changes anything."""

    def topics(self) -> tuple[str, ...]:
        """The link's topics on the source, sorted; from the target if the source is unreachable.

        Raises:
            Unreachable: neither cluster answered.
        """

    def target_topic(self, topic: str) -> str:
        """The name of a source topic on the target."""

    def cluster_reader(self, name: str) -> ClusterReader:
        """Return the reader of one cluster.

        After the source did not answer, all methods treat it as unreachable for a while.

        Raises:
            Unreachable: the cluster recently did not answer.
        """

    def live_cluster_id(self, name: str, *, newly: bool = False) -> str:
        """Ask the cluster for its id, even if it recently did not answer.

        If the source is polled in the background, its answer may be up to 3 s old.

        Args:
            newly: whether to accept only an answer to a new request.

        Raises:
            AuthenticationFailed: it answers, but authentication fails.
            Unreachable: it did not answer.
        """

    def groups(self, name: str) -> GroupReader:
        """The consumer groups of one cluster."""

    def offset_answers(self) -> Answers:
        """The coordinators' answers to the offset commits and deletions that this process sent."""

    def link_groups(self, name: str, *, incomplete: bool = False) -> tuple[str, ...]:
        """The link's consumer groups on one cluster, sorted.

        Args:
            incomplete: whether groups without a coordinator may be left out.

        Raises:
            Unreachable: the cluster did not answer, or groups have no coordinator.
        """

    def early_snapshot(self) -> StateSnapshot | None:
        """A snapshot that was taken while waiting, at most 5 s old; None if there is none."""

    def acls(self, name: str) -> AclReader:
        """The ACL rules of one cluster."""

    def shapes(self, name: str) -> ShapeReader:
        """The partition counts and configurations of topics of one cluster."""

    def quotas(self, name: str) -> QuotaReader:
        """The client quotas of one cluster."""

    def producer_ids(self, name: str) -> ProducerIdReader:
        """The producer ids of one cluster."""

    def health(self, name: str) -> HealthReader:
        """The health of one cluster, and its open transactions."""

    def fence(self, name: str, stabilize_s: float) -> FenceProver:
        """Verifies fences of one cluster."""

    def elections(self, name: str) -> Elections:
        """The leaders of one cluster."""

    def connectors(self) -> ConnectorsReader:
        """The connectors that replicate the link."""

    def workers(self) -> Workers:
        """All connectors of the link's Connect workers, or of the workers that the run is about."""

    def source_workers(self, name: str) -> Workers:
        """The workers whose source connectors write to one cluster of the link.

        Raises:
            UsageError: drctl.yaml has no `source_connectors` for the link.
        """

    def tracked_positions(self) -> Mapping[str, TrackedPositions]:
        """The last export of the source's connectors by `drctl offsets track`, by name.

        Raises:
            Unreachable: the target did not answer.
        """

    def endpoint(self, number: int) -> EndpointReader:
        """One of the link's endpoints, numbered from 0."""

    def reached(self, number: int, name: str) -> str:
        """The id of the cluster that a client reaches through an endpoint now.

        Args:
            number: number of the endpoint, from 0.
            name: the cluster whose client settings are used, except bootstrap servers.

        Raises:
            UsageError: drctl.yaml does not say how clients connect.
            Unreachable: no broker answered.
        """

    def findings(self, mode: str) -> Sequence[Finding]:
        """Run the prechecks of a mode now."""

    def translate_ahead(self, moved: Collection[str] | None = None) -> None:
        """Start translating offsets in the background, once the link's groups are inactive.

        Args:
            moved: groups whose offsets changed since the last call; None if unknown.
        """

    def translated(self) -> Translated:
        """Translate the offsets of the link's groups to the target, from current evidence.

        Raises:
            Unreachable: the target did not answer.
        """

    def compare_ahead(self) -> None:
        """Compare tails of partitions that receive no records, to save `missing` the work."""

    def missing(self) -> Missing:
        """Compare the tail of the link's topics by content.

        Raises:
            Unreachable: one of the clusters did not answer.
        """

    def loss(self, *, halted: str | None = None) -> Loss:
        """Estimate the data loss from what is on the target.

        Args:
            halted: why replication was already not running when this run was to stop it; empty if
                it was running; None to read its state now.

        Raises:
            Unreachable: the target did not answer.
        """

    def probe_readable(self, name: str, topic: str, text: str) -> bool:
        """Whether a probe record can be read on a cluster."""

    def compared(self, scope: str) -> Missing:
        """Compare everything, or the tail, by content.

        Raises:
            Unreachable: one of the clusters did not answer.
        """

    def answer(self, question: str, text: str) -> bool | None:
        """Ask the engineer a yes-no question; None without a terminal.

        Each question is asked once per process; the answer is kept.
        """

    def run_read_only(
        self, argv: Sequence[str], env: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        """Run a user-supplied command that changes nothing.

        Args:
            env: its complete environment; `${env:NAME}` and `${file:PATH}` are resolved here.

        Raises:
            Unreachable: it exceeded the timeout, and was killed.
        """

    def command_result(self, identity: str) -> CommandResult | None:
        """The result of a command that this process ran; None if none ended."""

    def reversed(self) -> "LinkReader":
        """Return the reader for replication in the opposite direction."""

    def proof(self) -> Missing:
        """Compare everything by content; a clean result is stored as evidence.

        Raises:
            Unreachable: one of the clusters did not answer.
        """

    def search_result(self) -> Search:
        """Records that only the recovered cluster has, by content.

        A result is reused if decisions or the failback are already based on it.

        Raises:
            Refused: the result is not usable.
            Unknown: not everything could be compared.
        """

    def search_before_rebuild(self) -> Search:
        """Records that only the cluster to be rebuilt has; none if it is empty.

        The result has no boundaries: all records of the surviving cluster are copied.

        Raises:
            Unknown: not everything could be compared.
        """

    def reconciliation(self, request: ReconcileRequest) -> Reconciliation:
        """The status of decisions on the records of a search.

        Raises:
            Refused: the decisions cannot be executed.
            Unknown: the result is on another host, and not everything could be compared.
        """

    def outstanding(self) -> Sequence[OutstandingAction]:
        """Outstanding actions of the link's earlier runs.

        Raises:
            Unreachable: the journal did not answer.
        """


class LinkWriter(Protocol):
    """Everything that steps can change."""

    def groups(self, name: str) -> GroupWriter:
        """Commits and deletes offsets of one cluster's groups."""

    def group_creator(self, name: str) -> GroupCreator:
        """Creates groups of the KIP-848 protocol on one cluster."""

    def producer_ids(self, name: str) -> ProducerIdWriter:
        """Advances the producer ids of one cluster; a call takes at most ten seconds."""

    def transactions(self, name: str) -> TransactionWriter:
        """Aborts transactions of one cluster."""

    def acls(self, name: str) -> AclWriter:
        """Adds and removes the ACL rules of fences on one cluster."""

    def rules(self, name: str) -> RuleWriter:
        """Adds and removes ACL rules for topics of one cluster."""

    def shapes(self, name: str) -> ShapeWriter:
        """Creates and changes topics of one cluster."""

    def quotas(self, name: str) -> QuotaWriter:
        """Sets client quotas of one cluster."""

    def elections(self, name: str) -> ElectionWriter:
        """Requests leader elections on one cluster."""

    def connectors(self) -> ConnectorsWriter:
        """The connectors that replicate the link."""

    def workers(self) -> WorkersWriter:
        """All connectors of the link's Connect workers, or of the workers that the run is about."""

    def source_workers(self, name: str) -> WorkersWriter:
        """The workers whose source connectors write to one cluster of the link.

        Raises:
            UsageError: drctl.yaml has no `source_connectors` for the link.
        """

    def endpoint(self, number: int) -> EndpointWriter:
        """One of the link's endpoints."""

    def probe_record(self, name: str, endpoint: int | None = None) -> ProbeWriter:
        """Writes probe records to one cluster.

        Args:
            endpoint: number of the endpoint to connect through; None to connect directly.

        Raises:
            UsageError: drctl.yaml does not say how clients connect.
        """

    def run(
        self, identity: str, argv: Sequence[str], env: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        """Run a user-supplied command to its end, without a shell.

        Args:
            identity: key for `LinkReader.command_result`.
            env: its complete environment; `${env:NAME}` and `${file:PATH}` are resolved here.

        Raises:
            Unknown: it exceeded the timeout, and was killed.
        """

    def save_evidence(self, name: str, document: Mapping[str, Any] | str) -> None:
        """Write evidence to the run's folder: text as it is, anything else as JSON.

        Raises:
            Unknown: it could not be written.
        """

    def reversed(self) -> "LinkWriter":
        """Return the writer for replication in the opposite direction."""

    def reconcile(self, request: ReconcileRequest) -> None:
        """Execute decisions on the records of a search; each record once, even after a crash.

        Raises:
            DrctlError: part of it is not done, or its state is unknown.
        """


class Watcher(Protocol):
    """Shows the progress of a run."""

    def step(self, identity: str, number: int, total: int) -> None:
        """Show that a step begins."""

    def waiting(self, identity: str, message: str, left_s: float) -> None:
        """Show the state of a step that is not verified yet; `left_s` seconds remain."""

    def ended(self, identity: str, message: str, figures: Mapping[str, float]) -> None:
        """Show that a step ended."""


class Clock(Protocol):
    """The time, and whether the engineer wants to stop."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""

    def monotonic(self) -> float:
        """Seconds of a monotonic clock."""

    def wait(self, seconds: float) -> None:
        """Sleep; return early if the engineer wants to stop."""

    @property
    def stopping(self) -> bool:
        """Whether the engineer wants to stop."""
