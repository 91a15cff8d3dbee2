"""With dead, frozen or unreachable components every command ends and reports the same.

A row is a component and its fault. For a dead or unreachable component only `drctl` is given an
address where nobody listens or where connecting hangs; a frozen one is stopped.
"""

import re
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from enum import StrEnum
from typing import Any
from uuid import uuid4

import pytest

from drctl.lab.cluster import answering_brokers
from drctl.lab.lab import Lab
from drctl.model.errors import DrctlError
from tests.cli.conftest import Ran
from tests.cluster.failover_stage import APP, connect, mirror_maker
from tests.cluster.lab_link import NewDrctl, cluster_section
from tests.cluster.link_command import GO, LinkCommand, soon
from tests.cluster.refusals import side_by_side
from tests.cluster.writer import writing
from tests.kafka.tls_broker import free_ports
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(420)]

WAITS_S = 12.0
"""How much longer a command may take than `drctl failover` does if all components respond."""

SOURCE, TARGET, CONNECT = "primary", "secondary", "connect"


class Fault(StrEnum):
    DEAD = "dead"
    FROZEN = "frozen"
    HOLE = "black-holed"


STATUS, DOCTOR, ESTIMATE = ("status",), ("doctor",), ("gap", "--scope", "estimate")
PLANNED, UNPLANNED = ("failover",), ("failover", "--mode", "unplanned")
ORDER, TRANSLATE = ("failback", "--check-order"), ("offsets", "translate")
COMMANDS = (
    STATUS,
    DOCTOR,
    ESTIMATE,
    PLANNED,
    (*PLANNED, *GO),
    UNPLANNED,
    (*UNPLANNED, *GO),
    ORDER,
    TRANSLATE,
)

ROWS = [
    *([name] for name in (SOURCE, TARGET, CONNECT)),
    [SOURCE, TARGET],
    [SOURCE, TARGET, CONNECT],
]


def code_of(words: Sequence[str], silent: Sequence[str], fault: Fault) -> int | None:
    """Return the expected exit code of a command; None if it is not run."""
    lost = SOURCE in silent or TARGET in silent
    if SOURCE in silent and TARGET in silent:
        return 5
    if words[:1] == UNPLANNED[:1]:
        # Only a frozen source sends no more copies: in the other rows it is unreachable only for
        # drctl.
        ready = "unplanned" in words and silent == [SOURCE] and fault is Fault.FROZEN
        if ready and "--execute" in words:
            return None  # it would be carried out
        return 0 if ready else 3
    if words == ESTIMATE:
        return 5
    if words == TRANSLATE:
        return 5 if lost else 0
    if words == ORDER:
        return 5
    return 5 if lost else 1


@contextmanager
def black_hole() -> Iterator[int]:
    """Return a port where connecting hangs: its queue is full and the kernel drops packets."""
    with ExitStack() as open_:
        listening = open_.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            waiting = open_.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        port = int(listening.getsockname()[1])
        with socket.socket() as probe:
            probe.settimeout(0.3)
            with pytest.raises(TimeoutError):
                probe.connect(("127.0.0.1", port))
        yield port


class Command(LinkCommand):
    """drctl on a link with unresponsive components."""

    deadline_s = 150.0

    def __init__(
        self, make: NewDrctl, link: Mapping[str, Any], clusters: Mapping[str, Any]
    ) -> None:
        # A new link, of which the journal has no run.
        self.link = f"silent-{uuid4().hex[:6]}"
        self.drctl = make({self.link: dict(link)}, clusters=dict(clusters))

    def timed(self, words: Sequence[str]) -> tuple[float, Ran]:
        began = time.monotonic()
        ran = self.run(*words)
        return time.monotonic() - began, ran


class Pair:
    """Both clusters and Connect, any of which can be made unreachable."""

    def __init__(
        self, lab: Lab, clusters: Mapping[str, ClusterUnderTest], make: NewDrctl, topic: str
    ) -> None:
        self.lab, self.make, self.clusters = lab, make, clusters
        self.link = {
            "from": SOURCE,
            "to": TARGET,
            "topics": [topic],
            "groups": [f"nobody-{topic}"],
            "replicator": mirror_maker(lab),
            "fence": {"method": "acl", "principals": [f"User:{APP}"]},
        }

    @contextmanager
    def without(self, silent: Sequence[str], fault: Fault) -> Iterator[Command]:
        link, sections = (
            deepcopy(self.link),
            {n: cluster_section(c) for n, c in self.clusters.items()},
        )
        with ExitStack() as open_:
            for name in silent:
                if fault is Fault.FROZEN:
                    open_.enter_context(self._frozen(name))
                    continue
                hole = fault is Fault.HOLE
                port = open_.enter_context(black_hole()) if hole else free_ports(1)[0]
                if name == CONNECT:
                    link["replicator"]["connect"] = f"http://127.0.0.1:{port}"
                else:
                    sections[name]["bootstrap"] = f"127.0.0.1:{port}"
            yield Command(self.make, link, sections)

    def usual_s(self) -> float:
        """How long `drctl failover` takes if all components respond."""
        with self.without((), Fault.DEAD) as drctl:
            return drctl.timed(PLANNED)[0]

    def changed(self, cluster: str, **changes: str) -> Command:
        """Return it with other properties of a cluster, or another `bootstrap`."""
        sections = {name: cluster_section(each) for name, each in self.clusters.items()}
        section = sections[cluster]
        if "bootstrap" in changes:
            section["bootstrap"] = f"{changes.pop('bootstrap')},{section['bootstrap']}"
        section["properties"] = {**section["properties"], **changes}
        return Command(self.make, self.link, sections)

    @contextmanager
    def _frozen(self, name: str) -> Iterator[None]:
        self.lab.signal(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self.lab.signal(name, signal.SIGCONT)
            soon(lambda: self._answers(name))

    def _answers(self, name: str) -> bool:
        if name != CONNECT:
            return answering_brokers(self.lab.cluster(name).admin(), 5) > 0
        with suppress(DrctlError), connect(self.lab) as client:
            return bool(client.connectors())
        return False


@pytest.fixture(scope="module")
def pair(
    lab: Lab,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    new_drctl: NewDrctl,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Pair]:
    topic = f"flights-silent-{uuid4().hex[:6]}"
    for each in (secondary, primary):
        each.create_topic(topic)
    lab.replicate(True)
    # New copies are the only evidence that a source which drctl cannot reach is alive.
    folder, password = tmp_path_factory.mktemp("writer"), primary.properties()["sasl.password"]
    with writing(folder, primary.bootstrap, "admin", password, topic) as application:
        soon(lambda: secondary.end_offsets(topic)[0] > 0)
        yield Pair(lab, {SOURCE: primary, TARGET: secondary}, new_drctl, topic)
        assert application.taken()
    primary.delete_topics([topic])
    secondary.delete_topics([topic])


def summary(words: Sequence[str], seconds: float, ran: Ran) -> str:
    return f"{' '.join(words)}: {seconds:.1f} s, exit code {ran.code}\n{ran.stdout}\n{ran.stderr}"


def test_unresponsive_components_are_not_awaited_one_after_another(pair: Pair) -> None:
    rows = (
        ([SOURCE, TARGET], Fault.HOLE, (ESTIMATE, (*PLANNED, *GO))),
        ([SOURCE], Fault.DEAD, (ORDER,)),
        ([CONNECT], Fault.FROZEN, (UNPLANNED,)),
    )
    for silent, fault, commands in rows:
        usual_s = pair.usual_s()
        with pair.without(silent, fault) as drctl:
            ran = [drctl.timed(words) for words in commands]
        for words, (seconds, ended) in zip(commands, ran, strict=True):
            assert ended.code == code_of(words, silent, fault), summary(words, seconds, ended)
            assert seconds < usual_s + WAITS_S, summary(words, seconds, ended)
            output = ended.stdout + ended.stderr
            neither = "neither cluster responds to this host" in output.splitlines()[0]
            assert neither == (silent == [SOURCE, TARGET]), output
            if silent == [SOURCE, TARGET]:
                assert "--mode unplanned" not in output, output


@pytest.mark.parametrize(
    "changes",
    [{"sasl.password": "not-the-password"}, {"sasl.mechanism": "SCRAM-SHA-256"}],
    ids=lambda changes: "-".join(changes.values()),
)
def test_a_rejected_login_is_not_a_lost_cluster(pair: Pair, changes: dict[str, str]) -> None:
    for cluster in (SOURCE, TARGET):
        several = "sasl.password" in changes and cluster == SOURCE
        drctl = pair.changed(cluster, **changes)
        commands = (STATUS, DOCTOR, (*PLANNED, *GO), TRANSLATE) if several else (STATUS,)
        ran = [drctl.timed(words) for words in commands]
        lines = drctl.drctl.config.read_text(encoding="utf-8").splitlines()
        for words, (seconds, ended) in zip(commands, ran, strict=True):
            assert ended.code == 2, summary(words, seconds, ended)
            found = re.search(
                rf"error: (\S+):(\d+):\d+: clusters\.{cluster}\.properties\.(\S+):", ended.stderr
            )
            assert found is not None, summary(words, seconds, ended)
            assert found[3] in changes, summary(words, seconds, ended)
            assert found[3] in lines[int(found[2]) - 1]
            assert "unplanned" not in ended.stdout + ended.stderr


def test_a_source_that_rejects_the_login_can_be_abandoned_explicitly(pair: Pair) -> None:
    drctl = pair.changed(SOURCE, **{"sasl.password": "not-the-password"})
    ran = drctl.run(*UNPLANNED, "--override", "source-alive=its directory of users is gone")
    assert ran.code == 0, ran.stdout + ran.stderr


def test_one_failing_address_of_several_is_not_a_lost_cluster(pair: Pair) -> None:
    with black_hole() as hole:
        near = [f"127.0.0.1:{port}" for port in (hole, *free_ports(1))]
        ran = side_by_side(
            *(
                lambda b=bootstrap: pair.changed(SOURCE, bootstrap=b).timed(STATUS)
                for bootstrap in near
            )
        )
    for seconds, ended in ran:
        assert ended.code in (0, 1), summary(STATUS, seconds, ended)


@pytest.mark.nightly
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("silent", ROWS, ids="+".join)
def test_every_command_answers_within_its_limit(
    pair: Pair, silent: list[str], fault: Fault, record_property: Any
) -> None:
    wrong = []
    usual_s = pair.usual_s()
    with pair.without(silent, fault) as drctl:
        for words in COMMANDS:
            code = code_of(words, silent, fault)
            if code is None:
                continue
            seconds, ran = drctl.timed(words)
            record_property(" ".join(words), f"{seconds:.1f}")
            print(
                f"{'+'.join(silent):28} {fault:12} {' '.join(words):44} {seconds:5.1f} {ran.code}"
            )
            if ran.code != code or seconds >= usual_s + WAITS_S:
                wrong.append(f"expected {code}: {summary(words, seconds, ran)}")
    assert not wrong, "\n".join(wrong)
