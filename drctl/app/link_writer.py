"""What the steps of a plan may change, over the real systems of one link."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drctl.app import adapters, run_adapters
from drctl.app.link_reader import must_have
from drctl.app.run_adapters import run_command
from drctl.engine.failback_state import Wish
from drctl.engine.ports import CommandEnded
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
    from drctl.model.ports import GroupWriter
    from drctl.model.producer_ids import ProducerIdWriter
    from drctl.model.repairs import RuleWriter, ShapeWriter
    from drctl.model.replication import WorkersWriter
    from drctl.model.topology import TopicPartition
    from drctl.offsets.results import Place

    GroupAnswers = Mapping[str, Mapping[TopicPartition, Unavailable | None]]


@dataclass(frozen=True, slots=True)
class Committing:
    """Implements `drctl.model.ports.GroupWriter`; notes what coordinators say."""

    writer: "GroupWriter"
    told: "dict[Place, Unavailable | None]"

    def commit(self, wanted: "Mapping[str, Positions]") -> "GroupAnswers":
        """Commit these positions; by group and partition None where it was, or why it was not."""
        return self._noted(self.writer.commit(wanted))

    def delete(self, unwanted: "Mapping[str, Collection[TopicPartition]]") -> "GroupAnswers":
        """Remove positions; by group and partition None where it was, or why it was not."""
        return self._noted(self.writer.delete(unwanted))

    def _noted(self, answers: "GroupAnswers") -> "GroupAnswers":
        for group, places in answers.items():
            self.told.update({(group, place): why for place, why in places.items()})
        return answers


_ELECTION_S = 30.0


@dataclass(frozen=True, slots=True)
class Electing:
    """Implements `drctl.elections.cluster_state.ElectionWriter`; notes what the controller says."""

    writer: "KafkaElectionWriter"
    told: "dict[TopicPartition, Unavailable | None]"

    def elect(
        self, kind: "Kind", places: "Collection[TopicPartition]"
    ) -> "Mapping[TopicPartition, Unavailable | None]":
        """Ask the controller; by partition None where it did, or why it did not.

        Raises:
            Unknown: no answer came; some may have been elected.
        """
        with self.writer as writer:
            try:
                answers = writer.elect(kind, places)
            except Unknown as silent:
                self.told.update(dict.fromkeys(places, Unavailable(silent.message)))
                raise
        self.told.update(answers)
        return answers


@dataclass(slots=True)
class ClusterLinkWriter:
    """Implements `drctl.engine.ports.Hands`; opens what is asked for, when it is.

    Attributes:
        folder: of the run, for what is kept.
        commands: how those ended that were run, for whoever looks.
        opposite: what acts in the other direction; None where nothing asks for it.
        elected: what the controller said of partitions that it was asked for, likewise.
        committed: what coordinators said of offsets, likewise for whoever looks.
    """

    config: "Config"
    link: "Link"
    folder: Path
    commands: dict[str, CommandEnded]
    opposite: "ClusterLinkWriter | None" = None
    elected: "dict[TopicPartition, Unavailable | None]" = field(default_factory=dict)
    committed: "dict[Place, Unavailable | None]" = field(default_factory=dict)

    def groups(self, name: str) -> "GroupWriter":
        """The positions of one cluster's groups."""
        groups = adapters.writer(name, self.config.cluster(name)).groups
        return Committing(groups, self.committed)

    def group_creator(self, name: str) -> "GroupCreator":
        """Makes groups of KIP-848's protocol ready on one cluster."""
        return adapters.writer(name, self.config.cluster(name)).groups

    def producer_ids(self, name: str) -> "ProducerIdWriter":
        """Has one cluster skip producer ids; a call takes ten seconds at most."""
        return adapters.writer(name, self.config.cluster(name)).producer_ids

    def acls(self, name: str) -> "AclWriter":
        """The rules of one cluster."""
        return adapters.writer(name, self.config.cluster(name)).shared_acls(self.link.configured)

    def rules(self, name: str) -> "RuleWriter":
        """Adds rules about topics of one cluster, of either permission."""
        return adapters.writer(name, self.config.cluster(name)).rules

    def shapes(self, name: str) -> "ShapeWriter":
        """Makes and changes topics of one cluster."""
        return adapters.writer(name, self.config.cluster(name)).shapes

    def elections(self, name: str) -> "Electing":
        """Has leaders of one cluster elected."""
        cluster = adapters.writer(name, self.config.cluster(name), _ELECTION_S)
        return Electing(cluster.elections, self.elected)

    def connectors(self) -> "ConnectWriter":
        """Those that replicate the link.

        Raises:
            UsageError: no worker is configured.
        """
        must_have(adapters.connect_of(self.link))
        return run_adapters.connect_writer_of(self.link)

    def workers(self) -> "WorkersWriter":
        """All connectors of the workers that replicate the link, or that the run is about.

        Raises:
            UsageError: no worker is configured.
        """
        return run_adapters.workers_writer(self.link)

    def endpoint(self, number: int) -> "EndpointWriter":
        """One of the link's endpoints."""
        return run_adapters.endpoint_writer(self.config, self.link, number)

    def probe_record(self, name: str, entrance: int | None = None) -> "ProbeWriter":
        """Writes to one cluster, straight or by one of the link's endpoints.

        Raises:
            UsageError: nobody says what clients come by.
        """
        cluster = self.config.cluster(name)
        if entrance is None:
            return adapters.writer(name, cluster).probe_record
        return run_adapters.entrance(self.link, entrance, cluster, name).writer().probe_record

    def run(
        self, identity: str, argv: Sequence[str], env: Mapping[str, str], timeout_s: float
    ) -> CommandEnded:
        """Run a command of the site to its end, without a shell.

        Raises:
            Unknown: it took too long, and was ended.
        """
        try:
            ended = run_command(self.config, argv, env, timeout_s)
        except Unreachable as silent:
            raise Unknown(f"{silent.message}: it may have completed in part") from silent
        self.commands[identity] = ended
        return ended

    def keep(self, name: str, document: Mapping[str, Any] | str) -> None:
        """Put evidence of the run into its folder; a text as it stands, all else as JSON.

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

    def other_way(self) -> "ClusterLinkWriter":
        """What acts in the other direction.

        Raises:
            UsageError: nothing does.
        """
        if self.opposite is None:
            raise UsageError("the other direction of this link is not configured")
        return self.opposite

    def reconcile(self, wish: Wish) -> None:
        """Act on the records of a search, each once, also after a crash.

        Raises:
            DrctlError: some of it is not done, or nobody can say what was.
        """
        from drctl.app.failback import reconcile

        reconcile(self.config, self.other_way().link, wish)
