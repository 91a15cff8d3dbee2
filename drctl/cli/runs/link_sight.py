"""What the steps of a plan may look at, over the real systems of one link."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from drctl.cli import wiring
from drctl.cli.notices import Nobody, People
from drctl.cli.runs import plan_wiring
from drctl.cli.runs.heard import heard
from drctl.cli.runs.link_connectors import Connectors as Connectors
from drctl.cli.runs.link_connectors import must_have
from drctl.cli.runs.link_sight_comparing import Comparisons
from drctl.cli.runs.loss_sight import LossSight
from drctl.cli.runs.no_way_back import NO_WAY_BACK, NoWayBack
from drctl.cli.runs.source_watch import FRESH_S, SourceWatch
from drctl.cli.site_commands import run_command
from drctl.engine.ports import CommandEnded, Missing
from drctl.model.errors import Unreachable, UsageError
from drctl.model.failover import Mode
from drctl.systems import presence

if TYPE_CHECKING:
    from drctl.checks.arriving import Before
    from drctl.checks.glance import Glance
    from drctl.cli.notices import Task
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.config.schema import ClusterConfig
    from drctl.model.endpoints import EndpointReader
    from drctl.model.fencing import AclReader, FenceProver
    from drctl.model.finding import Finding
    from drctl.model.loss import Loss
    from drctl.model.ports import ClusterReader, GroupReader
    from drctl.model.producer_ids import ProducerIdReader
    from drctl.model.repairs import ShapeReader
    from drctl.model.topology import TopicPartition
    from drctl.offsets.wanted import Translated

_QUICK_S = 2.0
_FRESH_S = 5.0
"""How old it may be that a cluster did not answer where guards decide by it."""

_ASKED_S = 3.0
"""How old answers of the guards may be for a step that asks them again."""


@dataclass(slots=True)
class LinkSight(NoWayBack):
    """Implements `drctl.engine.ports.Look`; opens what is asked for, once.

    Args:
        judge: what says what the guards say, told the mode.
        people: who answer questions.
        lost: whether the source is likely to be dead: it gets little time to answer.
        opposite: what looks at the other direction; None where nothing asks for it.
    """

    config: "Config"
    link: "Link"
    judge: "Callable[[LinkSight, str], Sequence[Finding]]"
    people: People = field(default_factory=Nobody)
    lost: bool = False
    opposite: "LinkSight | None" = None
    commands: dict[str, CommandEnded] = field(default_factory=dict, init=False)
    _copied: tuple[str, ...] | None = field(default=None, init=False)
    _comparisons: Comparisons = field(init=False)
    _found: "dict[str, tuple[float, Sequence[Finding]]]" = field(default_factory=dict, init=False)
    _copies: "Glance[Before] | None" = field(default=None, init=False)
    _watch: SourceWatch | None = field(default=None, init=False)
    _ahead: "Glance[tuple[Mapping[TopicPartition, int], Translated]] | None" = field(
        default=None, init=False
    )
    _open: ExitStack = field(default_factory=ExitStack, init=False)
    _opened: dict[tuple[str, str], Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._comparisons = Comparisons(self.config, self.link)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.close()
        self._open.close()
        if self.opposite is not None:
            self.opposite.__exit__()

    def meet(self, *, given_up: bool = False) -> None:
        """See who is there, all at once.

        Args:
            given_up: whether a source that does not let drctl in is given up all the same.

        Raises:
            ConfigError: a cluster cannot be asked as drctl.yaml says.
            NotLetIn: a cluster does not let drctl in.
        """
        wiring.meet(self.link, source_s=self.patience(self.link.source), given_up=given_up)

    def prepare(self) -> None:
        """Open what steps will look by: it connects while something else is waited for."""
        openers: dict[str, Callable[..., Any]] = {
            "site": wiring.open_reader,
            "groups": wiring.open_group_reader,
            "acls": plan_wiring.acl_reader,
            "shapes": plan_wiring.shape_reader,
            "ids": plan_wiring.producer_id_reader,
        }
        for name in (self.link.target,) if self.lost else (self.link.source, self.link.target):
            for what, opener in openers.items():
                self._once(what, name, opener).prepare()
        if not self.lost:
            self._comparisons.prepare()

    def topics(self) -> tuple[str, ...]:
        """The source's topics that the link carries; from the target if the source is dead.

        Raises:
            Unreachable: neither cluster answered.
        """
        if self.lost and self._copied is not None:
            return self._copied
        try:
            return self.link.topics_of(self.site(self.link.source).topic_names())
        except Unreachable:
            copies = self.site(self.link.target).topic_names()
            names = map(self.link.source_topic, copies)
            self._copied = self.link.topics_of(name for name in names if name is not None)
            return self._copied

    def target_topic(self, topic: str) -> str:
        """What a topic of the source is called on the target."""
        return self.link.target_topic(topic)

    def site(self, name: str) -> "ClusterReader":
        """One of the two clusters."""
        found: ClusterReader = self._once("site", name, wiring.open_reader)
        return found

    def alive(self, name: str, *, newly: bool = False) -> str:
        """The id of a cluster that answers now; it is asked anew, whatever is remembered of it.

        Raises:
            NotLetIn: somebody is there, and does not let drctl in.
            Unreachable: it did not answer.
        """
        if name == self.link.source and self._watch is not None:
            self._watch.newest(0.0 if newly else FRESH_S)
        presence.anew(presence.cluster(name))
        return self.site(name).cluster_id()

    def groups(self, name: str) -> "GroupReader":
        """The groups of one of them."""
        found: GroupReader = self._once("groups", name, wiring.open_group_reader)
        return found

    def link_groups(self, name: str) -> tuple[str, ...]:
        """Those whose positions the link carries, sorted.

        Raises:
            Unreachable: the cluster did not answer.
        """
        return tuple(sorted(filter(self.link.carries_group, self.groups(name).groups())))

    def acls(self, name: str) -> "AclReader":
        """The rules of one cluster."""
        found: AclReader = self._once("acls", name, plan_wiring.acl_reader)
        return found

    def shapes(self, name: str) -> "ShapeReader":
        """The topics of one cluster, as whoever changes them must know them."""
        found: ShapeReader = self._once("shapes", name, plan_wiring.shape_reader)
        return found

    def producer_ids(self, name: str) -> "ProducerIdReader":
        """The producer ids of one cluster."""
        found: ProducerIdReader = self._once("ids", name, plan_wiring.producer_id_reader)
        return found

    def fence(self, name: str, settle_s: float) -> "FenceProver":
        """What proves that a fence of one cluster holds."""
        return plan_wiring.fence_prover(name, self.cluster(name), settle_s)

    def connectors(self) -> Connectors:
        """Those that replicate the link.

        Raises:
            UsageError: no worker is configured.
        """
        if ("connect", "") not in self._opened:
            self._opened["connect", ""] = Connectors(must_have(wiring.connect_of(self.link)))
        found: Connectors = self._opened["connect", ""]
        return found

    def endpoint(self, number: int) -> "EndpointReader":
        """One of the link's endpoints, counted from 0."""
        return plan_wiring.endpoint_reader(self.config, self.link, number)

    def reached(self, number: int, name: str) -> str:
        """The id of the cluster that a client comes to by an endpoint, asked by a new client.

        Raises:
            UsageError: nobody says what clients come by.
            Unreachable: nobody answered.
        """
        properties = plan_wiring.coming_by(self.link, number, self.cluster(name))
        with wiring.reader_of(f"what {properties['bootstrap.servers']} leads to", properties) as it:
            return it.cluster_id()

    def findings(self, mode: str) -> "Sequence[Finding]":
        """What the guards say now; whether a cluster is silent they ask anew."""
        at, kept = self._found.get(mode, (0.0, ()))
        if mode == Mode.UNPLANNED and kept and monotonic() - at < _ASKED_S:
            return kept
        for name in (self.link.source, self.link.target):
            presence.anew(presence.cluster(name), _FRESH_S)
        found = self.judge(self, mode)
        self._found[mode] = monotonic(), found
        return found

    def give_up(self) -> None:
        """Begin to watch a source that is likely to be lost: whatever waits for it waits at once.

        Where its copies end is noted now: the guards ask whether they grow.
        """
        from drctl.checks.glance import Glance
        from drctl.cli.runs.guarding import ends_of_copies, heartbeats_of

        link = self.link

        def copies() -> "Before":
            at = monotonic()
            with wiring.open_reader(link.target, link.target_config) as target:
                return at, ends_of_copies(link, target, heartbeats_of(link, target))

        self._copies = Glance(copies, wiring.PATIENCE_S)
        self._watch = SourceWatch(self._ask_source)

    @property
    def copies_before(self) -> "Callable[[], Before] | None":
        """Where copies ended when the source was given up; None where it was not."""
        return self._copies.value if self._copies is not None else None

    def translated(self) -> "Translated":
        """Where the link's groups are to stand on the target, by the evidence there is now.

        Raises:
            Unreachable: the target did not answer.
        """
        from drctl.cli.runs.guarding import ends_of_copies

        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ends, found = ahead.value()
            if ends_of_copies(self.link, self.site(self.link.target)) == ends:
                return found
        return self._translated()

    def translate_ahead(self) -> None:
        """Begin to translate; what is found counts unless something is copied meanwhile."""
        if not self.link.settings.translate:
            return
        from drctl.checks.glance import Glance
        from drctl.checks.observing import TRANSLATION_S
        from drctl.cli.runs.guarding import ends_of_copies

        def found() -> "tuple[Mapping[TopicPartition, int], Translated]":
            with wiring.open_reader(self.link.target, self.link.target_config) as target:
                return ends_of_copies(self.link, target), self._translated(shown=False)

        self._ahead = Glance(found, TRANSLATION_S)

    def _translated(self, *, shown: bool = True) -> "Translated":
        from drctl.cli.offsets.run import translated
        from drctl.offsets.wanted import Translated, from_translations, unmatched

        unproven = self.config.policy.commits_unproven
        found = translated(self.link, (), None, unproven=unproven, shown=shown)
        wanted = from_translations(row.translation for row in found.rows)
        settings = self.link.settings
        patterns = settings.groups if settings.translate and found.source.silent else ()
        return Translated(wanted, unmatched(patterns, wanted))

    def missing(self) -> Missing:
        """What the target lacks of the source's tail, by content.

        Raises:
            Unreachable: one of the clusters did not answer.
        """
        source, target = self.site(self.link.source), self.site(self.link.target)
        return self._comparisons.missing(source, target)

    def compared(self, scope: str) -> Missing:
        """What the target lacks of everything, or of the tail, by content.

        Raises:
            Unreachable: one of the clusters did not answer.
        """
        return self._comparisons.compared(scope)

    def proof(self) -> Missing:
        """What the target lacks of everything, by content; a clean result is kept as evidence.

        What was written since the proof before is on its way, and not counted.

        Raises:
            Unreachable: one of the clusters did not answer.
        """
        return self._comparisons.proof()

    def other_way(self) -> "LinkSight":
        """What looks at the other direction.

        Raises:
            UsageError: nothing does.
        """
        return _known(self.opposite)

    def loss(self, task: "Task | None" = None, *, halted: str | None = None) -> "Loss":
        """What the target probably lacks, by what is left of the source; a task is told of it.

        Args:
            halted: what kept replication from running when this run told it to stop, empty for
                nothing; None where it was not told, and is asked.

        Raises:
            Unreachable: the target did not answer.
        """
        target = self.site(self.link.target)
        given = self.config, self.link, target, self.topics()
        return LossSight(*given, task=task, told=halted).loss()

    def heard(self, name: str, topic: str, text: str) -> bool:
        """Whether the record of a canary can be read on a cluster."""
        return heard(self.site(name), topic, text)

    def answer(self, question: str, text: str) -> bool | None:
        """What a person says to a question; None where nobody is there to say it."""
        return self.people.answer(question, text)

    def probe(self, argv: Sequence[str], env: Mapping[str, str], timeout_s: float) -> CommandEnded:
        """Run a command of the site that only looks.

        Raises:
            Unreachable: it took too long, and was ended.
        """
        return run_command(self.config, argv, env, timeout_s)

    def ended(self, identity: str) -> CommandEnded | None:
        """How a command ended that this process ran; None where it ran none to its end."""
        return self.commands.get(identity)

    def cluster(self, name: str) -> "ClusterConfig":
        """The settings of one end of the link.

        Raises:
            UsageError: it is neither.
        """
        return self.config.cluster(name)

    def patience(self, name: str) -> float:
        """How long a cluster may take to answer, in seconds."""
        return _QUICK_S if self.lost and name == self.link.source else wiring.PATIENCE_S

    def _ask_source(self) -> None:
        plan_wiring.ask_whether_there(self.link.source, self.link.source_config, _QUICK_S)

    def _once(self, what: str, name: str, opener: Callable[..., Any]) -> Any:
        if (what, name) not in self._opened:
            opened = opener(name, self.cluster(name), self.patience(name))
            self._opened[what, name] = self._open.enter_context(opened)
        return self._opened[what, name]


def _known(sight: LinkSight | None) -> LinkSight:
    if sight is None:
        raise UsageError(NO_WAY_BACK)
    return sight
