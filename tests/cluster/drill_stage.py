"""A link for drills between both clusters, and what they hold that is, or is not, of drills."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from drctl.drill.cleaning import MARK, drill_of
from drctl.kafka.acls import KafkaAclReader
from drctl.kafka.connection import Connection
from drctl.kafka.groups import KafkaGroupReader
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from tests.cli.conftest import DRCTL, Ran, clean_environment
from tests.cli.documents import check
from tests.cluster import dying_drill_program
from tests.cluster.conftest import NewDrctl
from tests.lab.cluster_under_test import DEADLINE_S, ClusterUnderTest

PREFIX = "flights-"

SMALL = ("--topic-prefix", PREFIX, "--records", "200", "--work", "2s", "--budget", "3m")
GO = (*SMALL, "--execute", "--yes")
WAIT_S = 300.0
BROKERS_OWN = {"__consumer_offsets"}


class Stage:
    """A link between both clusters whose applications a drill must not notice."""

    def __init__(self, lab: Lab, new_drctl: NewDrctl) -> None:
        self.lab = lab
        self.clusters = tuple(ClusterUnderTest(lab.cluster(n)) for n in ("primary", "secondary"))
        names = {name: f"mm2-{name}" for name in ("source", "checkpoint", "heartbeat")}
        connect = f"http://127.0.0.1:{lab.parts.settings.connect_port}"
        section = {
            "from": "primary",
            "to": "secondary",
            "topics": ["flights"],
            "replicator": {"kind": "mirrormaker2", "connect": connect, "connectors": names},
            "fence": {"method": "acl", "principals": ["User:orders-app"]},
        }
        self.drctl = new_drctl({"main": section})
        self.drills = self.drctl.folder / ".drctl" / "drills"

    def line(self, *words: str) -> list[str]:
        return [str(DRCTL), "--config", str(self.drctl.config), "drill", *words]

    def run(self, *words: str) -> Ran:
        """To its end, as a nightly job does."""
        done = subprocess.run(
            self.line(*words, "--output", "json"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.drctl.folder,
            env=clean_environment(),
            timeout=WAIT_S,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def json(self, *words: str, code: int) -> dict[str, Any]:
        ran = self.run(*words)
        assert ran.code == code, ran.stdout + ran.stderr
        return check(ran.document())

    def killed_at(self, step: str) -> str:
        """The name of a drill that is killed once it has announced this step."""
        before = self.known()

        def there() -> bool:
            new = self.known() - before
            return any(self.announced(drill, step) for drill in new)

        return self.killed_when(there)

    def killed_when(self, happened: Callable[[], bool], *words: str) -> str:
        """The name of a drill that is killed once something has happened."""
        with self.running(*GO, *words) as process:

            def now() -> bool:
                assert process.poll() is None
                return happened()

            assert Patience.of(WAIT_S).wait_until(now)
            os.kill(process.pid, signal.SIGKILL)
        return max(self.known())

    def killed_by_itself(self, moment: str, place: str, *words: str) -> None:
        """Run one until SIGKILL ends it there: `dying_drill_program` says where that is."""
        program = (sys.executable, "-P", dying_drill_program.__file__, moment, place)
        done = subprocess.run(
            [*program, *self.line(*words)[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.drctl.folder,
            env=clean_environment(),
            timeout=WAIT_S,
            check=False,
        )
        where = f"{moment} {place}: {done.stdout}{done.stderr}"
        assert done.returncode == -signal.SIGKILL, where

    @contextmanager
    def running(self, *words: str) -> Iterator["subprocess.Popen[str]"]:
        """One that goes on meanwhile; it is dead behind the block."""
        process = subprocess.Popen(
            self.line(*words, "--output", "json"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self.drctl.folder,
            env=clean_environment(),
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate(timeout=30)

    def ended(self, process: "subprocess.Popen[str]", code: int) -> dict[str, Any]:
        """What a drill came to that was left running."""
        stdout, _ = process.communicate(timeout=WAIT_S)
        ran = Ran(process.returncode, stdout, "")
        assert ran.code == code, ran.stdout
        return check(ran.document())

    def known(self) -> set[str]:
        """The drills that this machine has notes of."""
        return {file.parent.name for file in self.drills.glob("*/drill.json")}

    def new(self, before: set[str]) -> str:
        """The name of the drill that has begun since; waits for it."""
        assert Patience.of(WAIT_S).wait_until(lambda: bool(self.known() - before))
        (drill,) = self.known() - before
        return drill

    def announced(self, drill: str, step: str) -> bool:
        """Whether the engine has announced this step of a drill."""
        file = self.drills / drill / "journal.jsonl"
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        return any('"intend"' in line and f'"{step}"' in line for line in lines)

    def fault(self, name: str) -> tuple[str, ...]:
        """What has a drill inject it."""
        return ("--inject", name, "--lab", str(self.lab.root))

    def source_hangs(self) -> bool:
        """Whether all of the source's processes are stopped."""
        parts = self.lab.parts
        return all(parts.part(name).frozen() for name in parts.named("primary"))

    def source_is_dead(self) -> bool:
        """Whether none of the source's processes is there."""
        parts = self.lab.parts
        return all(parts.part(name).process() is None for name in parts.named("primary"))

    def left(self) -> set[str]:
        """What of drills is on either cluster, by name."""
        found: set[str] = set()
        for cluster in self.clusters:
            found |= set(cluster.admin.list_topics(timeout=DEADLINE_S).topics)
            with (
                KafkaGroupReader(Connection(cluster.name, cluster.properties())) as groups,
                KafkaAclReader(Connection(cluster.name, cluster.properties())) as acls,
            ):
                found |= set(groups.groups())
                found |= {rule.name for rule in getattr(acls.acls(), "rules", ())}
        return {name for name in found if drill_of(name)}

    def everything_else(self) -> list[Any]:
        """Topics, positions and rules of both clusters that are not of drills."""
        found: list[Any] = []
        for cluster in self.clusters:
            topics = set(cluster.admin.list_topics(timeout=DEADLINE_S).topics)
            with (
                KafkaGroupReader(Connection(cluster.name, cluster.properties())) as groups,
                KafkaAclReader(Connection(cluster.name, cluster.properties())) as acls,
            ):
                names = [name for name in groups.groups() if not drill_of(name)]
                # A group without a position is forgotten by its cluster whenever it likes.
                kept = {name: at for name, at in groups.committed(names).items() if at}
                found += [kept, acls.acls()]
            found.append({name for name in topics - BROKERS_OWN if not drill_of(name)})
        return found


def records_topic(drill: str) -> str:
    """The topic of a drill on this stage."""
    return f"{PREFIX}{MARK}{drill}-records"
