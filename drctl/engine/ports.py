"""What steps need from outside: `LinkReader` looks, `LinkWriter` changes.

Clusters go by their names in drctl.yaml. Connectors, endpoints and groups are those of the plan's
link. Everything is opened when it is first asked for.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from drctl.elections.cluster_state import ElectionReader, ElectionWriter
from drctl.engine.failback_state import OutstandingAction, Reconciliation, Search, Wish
from drctl.model.endpoints import EndpointReader, EndpointWriter
from drctl.model.fencing import AclReader, AclWriter, FenceProver
from drctl.model.finding import Finding
from drctl.model.groups import GroupCreator
from drctl.model.loss import Loss
from drctl.model.ports import ClusterReader, GroupReader, GroupWriter
from drctl.model.producer_ids import ProducerIdReader, ProducerIdWriter
from drctl.model.repairs import RuleWriter, ShapeReader, ShapeWriter
from drctl.model.replication import ConnectorStopper, Workers, WorkersWriter
from drctl.model.state_snapshot import StateSnapshot
from drctl.model.topology import TopicPartition, Unavailable
from drctl.offsets.applying import Translated
from drctl.offsets.results import Answers


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """A connector as its workers tell it.

    Attributes:
        state: RUNNING, PAUSED, STOPPED, FAILED, ...; of the connector and all its tasks where they
            agree, else all of them.
        stack_trace: what failed, in the words of its worker; empty where nothing did.
    """

    name: str
    state: str
    stack_trace: str = ""

    @property
    def told(self) -> str:
        """How it stands, and why."""
        return f"{self.name} is {self.state}{f': {self.stack_trace}' if self.stack_trace else ''}"


@dataclass(frozen=True, slots=True)
class ConnectorTasks:
    """The tasks of a connector: they copy, and it only says what they are to copy.

    Attributes:
        configured: how many are to run, as the workers keep it.
        running: what is known of those that ran last, such as `0 is RUNNING`.
        workers: that run the connector or a task of it.
    """

    configured: int
    running: tuple[str, ...]
    workers: frozenset[str]

    @property
    def any(self) -> bool:
        """Whether one is to run, or does."""
        return bool(self.configured or self.running)

    @property
    def told(self) -> tuple[str, ...]:
        """Those that run, or how many are to."""
        return self.running or (f"{self.configured} are to run",)


class ConnectorsReader(Protocol):
    """Looks at the connectors that replicate the link."""

    def tasks(self, name: str) -> ConnectorTasks:
        """Of one connector.

        Raises:
            UsageError: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """

    def tasks_left(self, names: Sequence[str], settle_s: float) -> Sequence[str]:
        """Tasks that are there still, in words; none where for so long none was seen.

        Raises:
            UsageError: there is no such connector.
            Unreachable: no worker answered within the deadline.
        """

    def state(self, name: str) -> ConnectorState:
        """Of one connector and its tasks.

        Raises:
            UsageError: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """

    def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
        """What it keeps of how far it got.

        Raises:
            UsageError: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """

    def kafka_cluster_id(self) -> str:
        """The cluster that the workers are of, and write to where a connector names no other.

        Raises:
            Unreachable: no worker answered within the deadline.
        """

    def config(self, name: str) -> Mapping[str, str]:
        """How it is configured. It may hold passwords: read named keys only, and keep no others.

        Raises:
            UsageError: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """


class ConnectorsWriter(ConnectorStopper, Protocol):
    """Stops, resumes and configures the connectors that replicate the link."""

    def pause(self, name: str) -> None:
        """Let its tasks idle.

        Raises:
            Unknown: no answer came; it may have been paused.
        """

    def configure(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Change some keys of its configuration, and leave all others; None removes one.

        Raises:
            Unknown: no answer came, or the workers do not accept it.
        """

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> None:
        """Set how far it got, of these source partitions; it must be stopped.

        Raises:
            Unknown: no answer came, or the workers do not accept it.
        """


@dataclass(frozen=True, slots=True)
class Missing:
    """What a comparison says.

    Attributes:
        records: that are on the source and not on the target.
        not_compared: what could not be compared, each in words; empty where nothing was left out.
        partitions: of which some are missing, each in words.
        duplicated: records that the target holds more often than the source.
        repeated: of `records`, those with an equal on the target: second copies of the source.
        undecided: partitions of the source with an open transaction, each in words: what it wrote
            counts in none of these numbers, and is a record once it is committed.
        left_missing_before: records that were quarantined or discarded in an earlier incident; not
            counted in `records`.
    """

    records: int
    not_compared: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    duplicated: int = 0
    repeated: int = 0
    undecided: tuple[str, ...] = ()
    left_missing_before: int = 0

    @property
    def unproven(self) -> tuple[str, ...]:
        """Why more may be missing than was counted, each in words."""
        return (*self.not_compared, *self.undecided)

    def but_for(self, second_copies: int) -> int:
        """Records that are missing, but for as many known second copies of the source.

        One without an equal on the target is never such a copy, whatever was counted before.
        """
        return self.records - min(second_copies, self.repeated)


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """How a user-supplied command ended.

    Attributes:
        code: negative where a signal ended it; None where it could not be started.
        output: the end of what it printed, without the secrets of its environment; or why it
            could not be started.
    """

    code: int | None
    output: str = ""


class ProbeWriter(Protocol):
    """Writes a probe record."""

    def write_probe(self, topic: str, text: str) -> None:
        """Write one; it counts when all in-sync replicas have it.

        Raises:
            Refused: the cluster does not take it.
            Unknown: no answer came.
        """


class Elections(ElectionReader, Protocol):
    """Looks at the leaders of one cluster, and remembers what its controller said."""

    def answers(self) -> Mapping[TopicPartition, Unavailable | None]:
        """Of the partitions that this process asked for: None where the controller elected."""


class LinkReader(Protocol):
    """Everything that steps may look at; nothing here changes anything."""

    def topics(self) -> tuple[str, ...]:
        """The source's topics that the link carries, sorted; from the target if that is dead.

        Raises:
            Unreachable: neither cluster answered.
        """

    def target_topic(self, topic: str) -> str:
        """What a topic of the source is called on the target."""

    def site(self, name: str) -> ClusterReader:
        """One of the two clusters.

        This and the next ones may remember for a while of a lost source that it is silent.

        Raises:
            Unreachable: it did not answer a while ago.
        """

    def alive(self, name: str, *, newly: bool = False) -> str:
        """The id of a cluster that answers now: nothing that is remembered of it counts.

        A source that is asked all the while may have been silent up to 3 s ago.

        Args:
            newly: whether only an answer counts that comes from now on.

        Raises:
            NotLetIn: somebody is there, and does not let drctl in.
            Unreachable: it did not answer.
        """

    def groups(self, name: str) -> GroupReader:
        """The groups of one of them."""

    def offset_answers(self) -> Answers:
        """What coordinators said to this process of offsets that it committed or removed."""

    def link_groups(self, name: str) -> tuple[str, ...]:
        """Those whose positions the link carries, sorted.

        Raises:
            Unreachable: the cluster did not answer.
        """

    def seen_ahead(self) -> StateSnapshot | None:
        """The stock that was taken during a wait, up to 5 s ago; None where there is none."""

    def acls(self, name: str) -> AclReader:
        """The rules of one cluster."""

    def shapes(self, name: str) -> ShapeReader:
        """The topics of one cluster, as whoever changes them must know them."""

    def producer_ids(self, name: str) -> ProducerIdReader:
        """The producer ids of one cluster."""

    def fence(self, name: str, settle_s: float) -> FenceProver:
        """What proves that a fence of one cluster holds."""

    def elections(self, name: str) -> Elections:
        """The leaders of one cluster."""

    def connectors(self) -> ConnectorsReader:
        """Those that replicate the link."""

    def workers(self) -> Workers:
        """All connectors of the workers that replicate the link, or that the run is about."""

    def endpoint(self, number: int) -> EndpointReader:
        """One of the link's endpoints, counted from 0."""

    def reached(self, number: int, name: str) -> str:
        """The id of the cluster that a client comes to by an endpoint, counted from 0, now.

        Args:
            name: of the cluster whose settings the client has, but for where it begins.

        Raises:
            UsageError: it is not configured how clients connect.
            Unreachable: nobody answered.
        """

    def findings(self, mode: str) -> Sequence[Finding]:
        """What the prechecks find now."""

    def translate_ahead(self, moved: Collection[str] | None = None) -> None:
        """Begin to translate beside other steps: the link's groups are not active any more.

        Args:
            moved: the groups that moved since this was last called; None where that is not known.
        """

    def translated(self) -> Translated:
        """Where the link's groups are to stand on the target, by the evidence there is now.

        Raises:
            Unreachable: the target did not answer.
        """

    def missing(self) -> Missing:
        """What is missing on the target of the source's tail, by content.

        Raises:
            Unreachable: one of the clusters did not answer.
        """

    def loss(self, *, halted: str | None = None) -> Loss:
        """What is probably missing on the target, by what is there.

        Args:
            halted: what kept replication from running when this run told it to stop, empty for
                nothing; None where it was not told, and is asked.

        Raises:
            Unreachable: the target did not answer.
        """

    def probe_readable(self, name: str, topic: str, text: str) -> bool:
        """Whether a probe record can be read on a cluster."""

    def compared(self, scope: str) -> Missing:
        """What is missing on the target of everything, or of the tail, by content.

        Raises:
            Unreachable: one of the clusters did not answer.
        """

    def answer(self, question: str, text: str) -> bool | None:
        """What a person answers to a question; None where nobody is there.

        The same question gets the same answer for as long as this process lives.
        """

    def probe(self, argv: Sequence[str], env: Mapping[str, str], timeout_s: float) -> CommandEnded:
        """Run a user-supplied command that only looks.

        Args:
            env: all that it gets; `${env:NAME}` and `${file:PATH}` in it are read here.

        Raises:
            Unreachable: it took too long, and was ended.
        """

    def ended(self, identity: str) -> CommandEnded | None:
        """How a command ended that this process ran; None where it ran none to its end."""

    def other_way(self) -> "LinkReader":
        """The same of replication in the opposite direction."""

    def proof(self) -> Missing:
        """What is missing on the target, by content; a clean result is kept as evidence.

        Raises:
            Unreachable: one of the clusters did not answer.
        """

    def searched(self) -> Search:
        """What only the cluster has that was lost and is back, by content.

        A result on which decisions, or the failback, rest already is taken as it is.

        Raises:
            Refused: what was found cannot be rested on.
            Unknown: not everything could be compared.
        """

    def remnant(self) -> Search:
        """What only the cluster has that is to be rebuilt; nothing, where it is empty.

        New records of the surviving cluster need no boundary then: all of them are copied.

        Raises:
            Unknown: not everything could be compared.
        """

    def reconciliation(self, wish: Wish) -> Reconciliation:
        """How decisions on the records of a search stand.

        Raises:
            Refused: they cannot be acted upon.
            Unknown: the result is elsewhere, and not everything could be compared.
        """

    def outstanding(self) -> Sequence[OutstandingAction]:
        """What earlier runs over this link owe.

        Raises:
            Unreachable: the journal did not answer.
        """


class LinkWriter(Protocol):
    """Everything that steps may change."""

    def groups(self, name: str) -> GroupWriter:
        """The positions of one cluster's groups."""

    def group_creator(self, name: str) -> GroupCreator:
        """Makes groups of KIP-848's protocol ready on one cluster."""

    def producer_ids(self, name: str) -> ProducerIdWriter:
        """Has one cluster skip producer ids; a call takes ten seconds at most."""

    def acls(self, name: str) -> AclWriter:
        """The rules of one cluster."""

    def rules(self, name: str) -> RuleWriter:
        """Adds rules about topics of one cluster, of either permission."""

    def shapes(self, name: str) -> ShapeWriter:
        """Makes and changes topics of one cluster."""

    def elections(self, name: str) -> ElectionWriter:
        """Has leaders of one cluster elected."""

    def connectors(self) -> ConnectorsWriter:
        """Those that replicate the link."""

    def workers(self) -> WorkersWriter:
        """All connectors of the workers that replicate the link, or that the run is about."""

    def endpoint(self, number: int) -> EndpointWriter:
        """One of the link's endpoints."""

    def probe_record(self, name: str, entrance: int | None = None) -> ProbeWriter:
        """Writes to one cluster.

        Args:
            entrance: number of the endpoint that it comes by; None where it comes straight.

        Raises:
            UsageError: it is not configured how clients connect.
        """

    def run(
        self, identity: str, argv: Sequence[str], env: Mapping[str, str], timeout_s: float
    ) -> CommandEnded:
        """Run a user-supplied command to its end, without a shell.

        Args:
            identity: by which `LinkReader.ended` knows it again.
            env: all that it gets; `${env:NAME}` and `${file:PATH}` in it are read here.

        Raises:
            Unknown: it took too long, and was ended.
        """

    def keep(self, name: str, document: Mapping[str, Any] | str) -> None:
        """Put evidence of the run into its folder; a text as it stands, all else as JSON.

        Raises:
            Unknown: it could not be written.
        """

    def other_way(self) -> "LinkWriter":
        """The same of replication in the opposite direction."""

    def reconcile(self, wish: Wish) -> None:
        """Act on the records of a search, each once, also after a crash.

        Raises:
            DrctlError: some of it is not done, or that is not known.
        """


class Watcher(Protocol):
    """Is told of a run's progress; a terminal, or plain lines."""

    def step(self, identity: str, number: int, total: int) -> None:
        """A step begins."""

    def waiting(self, identity: str, words: str, left_s: float) -> None:
        """Its proof is not there yet; so many seconds remain."""

    def ended(self, identity: str, words: str, figures: Mapping[str, float]) -> None:
        """It came to an end."""


class Clock(Protocol):
    """Time, and the wish to stop."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def wait(self, seconds: float) -> None:
        """Return after this time, or as soon as somebody wants to stop."""

    @property
    def stopping(self) -> bool:
        """Whether somebody wants to stop."""
