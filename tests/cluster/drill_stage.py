"""A link for drills, and what both clusters contain that belongs to drills or not."""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from drctl.drill.cleaning import MARK, drill_of
from drctl.kafka.acls import KafkaAclReader
from drctl.kafka.connection import Connection
from drctl.kafka.groups import KafkaGroupReader
from tests.cli.conftest import Ran
from tests.cli.documents import check
from tests.cluster.failover_stage import mirror_maker
from tests.cluster.killing import dying
from tests.cluster.lab_link import Site, link_over
from tests.cluster.link_command import soon
from tests.lab.cluster_under_test import DEADLINE_S

PREFIX = "flights-"

SMALL = ("--topic-prefix", PREFIX, "--records", "200", "--warm-up", "2s", "--timeout", "3m")
GO = (*SMALL, "--execute", "--yes")
WAIT_S = 300.0
BROKERS_OWN = {"__consumer_offsets"}


class Stage:
    """A link whose applications a drill must not affect."""

    def __init__(self, site: Site, **link: Any) -> None:
        self.lab, self.clusters = site.lab, site.clusters
        section = link_over(
            "flights",
            replicator={k: v for k, v in mirror_maker(site.lab).items() if k != "rename"},
            fence={"method": "acl", "principals": ["User:orders-app"]},
            **link,
        )
        drctl = site.new_drctl({"main": section})
        self.drctl = replace(drctl, first=("drill",))
        self.drills = drctl.folder / ".drctl" / "drills"

    def run(self, *words: str) -> Ran:
        """Run a drill to completion."""
        return self.drctl(*words, "--output", "json")

    def json(self, *words: str, code: int) -> dict[str, Any]:
        ran = self.run(*words)
        assert ran.code == code, ran.stdout + ran.stderr
        return check(ran.document())

    def killed_at(self, step: str) -> str:
        """Return the name of a drill that is killed once it has announced this step."""
        before = self.known()

        def there() -> bool:
            new = self.known() - before
            return any(self.announced(drill, step) for drill in new)

        return self.killed_when(there)

    def killed_when(self, happened: Callable[[], bool], *words: str) -> str:
        """Return the name of a drill that is killed once something has happened."""
        with self.running(*GO, *words) as process:

            def now() -> bool:
                assert process.poll() is None
                return happened()

            soon(now, "it never happened", WAIT_S)
            os.kill(process.pid, signal.SIGKILL)
        return max(self.known())

    def killed_by_itself(self, moment: str, place: str, *words: str) -> None:
        """Run a drill until SIGKILL ends it at a point of `killed_program`."""
        self.drctl.killed(dying("drill", moment, place), *words)

    def running(self, *words: str) -> AbstractContextManager["subprocess.Popen[bytes]"]:
        """Run a drill during the block; it is killed at the end."""
        return self.drctl.running(*words, "--output", "json")

    def ended(self, process: "subprocess.Popen[bytes]", code: int) -> dict[str, Any]:
        """Return the result of a drill that was left running."""
        stdout, _ = process.communicate(timeout=WAIT_S)
        ran = Ran(process.returncode, stdout.decode(), "")
        assert ran.code == code, ran.stdout
        return check(ran.document())

    def close(self) -> None:
        if self.source_hangs():
            self.lab.signal("primary", signal.SIGCONT)
        self.lab.start("primary")
        self.lab.start("connect")
        self.lab.replicate(True)

    def known(self) -> set[str]:
        """Return the drills in this host's history."""
        return {file.parent.name for file in self.drills.glob("*/drill.json")}

    def new(self, before: set[str]) -> str:
        """Wait for a new drill; return its name."""
        soon(lambda: self.known() - before, "no drill", WAIT_S)
        (drill,) = self.known() - before
        return drill

    def announced(self, drill: str, step: str) -> bool:
        """Whether the journal of a drill announces this step."""
        file = self.drills / drill / "journal.jsonl"
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        return any('"intend"' in line and f'"{step}"' in line for line in lines)

    def fault(self, name: str) -> tuple[str, ...]:
        """Return the options that inject a fault."""
        return ("--inject", name, "--lab", str(self.lab.root))

    def source_hangs(self) -> bool:
        """Whether all processes of the source are stopped."""
        parts = self.lab.parts
        return all(parts.part(name).frozen() for name in parts.named("primary"))

    def source_is_dead(self) -> bool:
        """Whether the source has no process."""
        parts = self.lab.parts
        return all(parts.part(name).process() is None for name in parts.named("primary"))

    def left(self) -> set[str]:
        """Return the names of all objects of drills on either cluster."""
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
        """Return topics, committed offsets and ACLs of both clusters that are not a drill's."""
        found: list[Any] = []
        for cluster in self.clusters:
            topics = set(cluster.admin.list_topics(timeout=DEADLINE_S).topics)
            with (
                KafkaGroupReader(Connection(cluster.name, cluster.properties())) as groups,
                KafkaAclReader(Connection(cluster.name, cluster.properties())) as acls,
            ):
                names = [name for name in groups.groups() if not drill_of(name)]
                # The coordinator may delete a group without committed offsets at any time.
                kept = {name: at for name, at in groups.committed(names).items() if at}
                found += [kept, acls.acls()]
            found.append({name for name in topics - BROKERS_OWN if not drill_of(name)})
        return found


def records_topic(drill: str) -> str:
    """Return the topic of a drill on this stage."""
    return f"{PREFIX}{MARK}{drill}-records"
