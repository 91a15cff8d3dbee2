"""What the steps of a plan change in the real systems of one link."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drctl.app import adapters, run_adapters
from drctl.app.link_reader import must_have
from drctl.app.run_adapters import run_command
from drctl.engine.failback_state import ReconcileRequest
from drctl.engine.ports import CommandResult
from drctl.model.errors import Unknown, Unreachable, UsageError
from drctl.model.topology import Unavailable

if TYPE_CHECKING:
    from collections.abc import Collection

    from drctl.app.run_adapters import ConnectWriter, KafkaElectionWriter
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.elections.cluster_state import Kind
    from drctl.engine.ports import ProbeWriter
    from drctl.model.endpoints import EndpointWriter
    from drctl.model.fencing import AclWriter
    from drctl.model.groups import GroupCreator, Positions
    from drctl.model.health import TransactionWriter
    from drctl.model.ports import GroupWriter
    from drctl.model.producer_ids import ProducerIdWriter
    from drctl.model.repairs import RuleWriter, ShapeWriter
    from drctl.model.replication import WorkersWriter
    from drctl.model.survey import QuotaWriter
    from drctl.model.topology import TopicPartition
    from drctl.offsets.results import Place

    GroupAnswers = Mapping[str, Mapping[TopicPartition, Unavailable | None]]


@dataclass(frozen=True, slots=True)
class Committing:
    """Implements `drctl.model.ports.GroupWriter`; records the coordinators' responses."""

    writer: "GroupWriter"
    responses: "dict[Place, Unavailable | None]"

    def commit(self, wanted: "Mapping[str, Positions]") -> "GroupAnswers":
        """Commit offsets; returns for each group and partition None, or why the commit failed."""
        return self._recorded(self.writer.commit(wanted))

    def delete(self, unwanted: "Mapping[str, Collection[TopicPartition]]") -> "GroupAnswers":
        """Delete offsets; returns for each group and partition None, or why the deletion failed."""
        return self._recorded(self.writer.delete(unwanted))

    def _recorded(self, answers: "GroupAnswers") -> "GroupAnswers":
        for group, places in answers.items():
            self.responses.update({(group, place): why for place, why in places.items()})
        return answers


_ELECTION_S = 30.0


@dataclass(frozen=True, slots=True)
class Electing:
    """Implements `drctl.elections.cluster_state.ElectionWriter`; records responses."""

    writer: "KafkaElectionWriter"
    responses: "dict[TopicPartition, Unavailable | None]"

    def elect(
        self, kind: "Kind", places: "Collection[TopicPartition]"
    ) -> "Mapping[TopicPartition, Unavailable | None]":
        """Elect leaders; returns for each partition None, or why the election failed.

        Raises:
            Unknown: the controller did not answer; some leaders may have been elected.
        """
        with self.writer as writer:
            try:
                answers = writer.elect(kind, places)
            except Unknown as error:
                self.responses.update(dict.fromkeys(places, Unavailable(error.message)))
                raise
        self.responses.update(answers)
        return answers


@dataclass(slots=True)
class ClusterLinkWriter:
    """Implements `drctl.engine.ports.LinkWriter`; opens connections on first use.

    Attributes:
        folder: the folder of the run, for evidence.
        commands: the results of commands, which the reader reads.
        opposite: the writer of the reverse direction; None if no step needs it.
        elected: the controller's responses to elections, which the reader reads.
        committed: the coordinators' responses to offset changes, which the reader reads.
    """

    config: "Config"
    link: "Link"
    folder: Path
    commands: dict[str, CommandResult]
    opposite: "ClusterLinkWriter | None" = None
    elected: "dict[TopicPartition, Unavailable | None]" = field(default_factory=dict)
    committed: "dict[Place, Unavailable | None]" = field(default_factory=dict)

    def groups(self, name: str) -> "GroupWriter":
        """Changes the committed offsets of one cluster's groups."""
        groups = adapters.writer(name, self.config.cluster(name)).groups
        return Committing(groups, self.committed)

    def group_creator(self, name: str) -> "GroupCreator":
        """Creates groups of the KIP-848 protocol on one cluster."""
        return adapters.writer(name, self.config.cluster(name)).groups

    def producer_ids(self, name: str) -> "ProducerIdWriter":
        """Has one cluster skip producer ids; a call takes at most ten seconds."""
        return adapters.writer(name, self.config.cluster(name)).producer_ids

    def transactions(self, name: str) -> "TransactionWriter":
        """Aborts transactions of one cluster."""
        return adapters.writer(name, self.config.cluster(name)).transactions

    def acls(self, name: str) -> "AclWriter":
        """Changes the ACL rules of one cluster."""
        return adapters.writer(name, self.config.cluster(name)).shared_acls(self.link.configured)

    def rules(self, name: str) -> "RuleWriter":
        """Adds allow and deny rules for topics of one cluster."""
        return adapters.writer(name, self.config.cluster(name)).rules

    def shapes(self, name: str) -> "ShapeWriter":
        """Creates and changes topics of one cluster."""
        return adapters.writer(name, self.config.cluster(name)).shapes

    def quotas(self, name: str) -> "QuotaWriter":
        """Sets client quotas of one cluster."""
        return adapters.writer(name, self.config.cluster(name)).quotas

    def elections(self, name: str) -> "Electing":
        """Elects leaders of one cluster."""
        cluster = adapters.writer(name, self.config.cluster(name), _ELECTION_S)
        return Electing(cluster.elections, self.elected)

    def connectors(self) -> "ConnectWriter":
        """Changes the connectors that replicate the link.

        Raises:
            UsageError: no worker is configured.
        """
        must_have(adapters.connect_of(self.link))
        return run_adapters.connect_writer_of(self.link)

    def workers(self) -> "WorkersWriter":
        """Changes all connectors of the workers that replicate the link, or that the run is about.

        Raises:
            UsageError: no worker is configured.
        """
        return run_adapters.workers_writer(self.link)

    def source_workers(self, name: str) -> "WorkersWriter":
        """Changes the source connectors that write to one cluster of the link.

        Raises:
            UsageError: the link has no `source_connectors`.
        """
        return run_adapters.source_workers_writer(self.link, name)

    def endpoint(self, number: int) -> "EndpointWriter":
        """Changes one of the link's endpoints."""
        return run_adapters.endpoint_writer(self.config, self.link, number)

    def probe_record(self, name: str, endpoint: int | None = None) -> "ProbeWriter":
        """Writes a probe record to a cluster, directly or through one of the link's endpoints.

        Raises:
            UsageError: the address of the endpoint is not configured.
        """
        cluster = self.config.cluster(name)
        if endpoint is None:
            return adapters.writer(name, cluster).probe_record
        return (
            run_adapters.through_endpoint(self.link, endpoint, cluster, name).writer().probe_record
        )

    def run(
        self, identity: str, argv: Sequence[str], env: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        """Run a user-supplied command to completion, without a shell.

        Raises:
            Unknown: it timed out, and was killed.
        """
        try:
            ended = run_command(self.config, argv, env, timeout_s)
        except Unreachable as error:
            raise Unknown(f"{error.message}: it may have completed in part") from error
        self.commands[identity] = ended
        return ended

    def save_evidence(self, name: str, document: Mapping[str, Any] | str) -> None:
        """Write evidence into the folder of the run, as text or as JSON.

        Raises:
            Unknown: it could not be written.
        """
        from drctl.views.files import write_whole

        text = document if isinstance(document, str) else json.dumps(document, indent=1) + "\n"
        try:
            write_whole(self.folder / name, text)
        except OSError as error:
            raise Unknown(
                f"cannot write {self.folder / name}: {error.strerror}",
                "free space, or set state_dir",
            ) from error

    def reversed(self) -> "ClusterLinkWriter":
        """The writer of the reverse direction.

        Raises:
            UsageError: it is not configured.
        """
        if self.opposite is None:
            raise UsageError("the reverse direction of this link is not configured")
        return self.opposite

    def reconcile(self, request: ReconcileRequest) -> None:
        """Reconcile the records of a search, each exactly once, even after a crash.

        Raises:
            DrctlError: some records were not reconciled, or their state is unknown.
        """
        from drctl.app.failback import reconcile

        reconcile(self.config, self.reversed().link, request)
