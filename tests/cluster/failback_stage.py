"""A link whose primary was lost and has recovered, on the clusters of the lab; its failback."""

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from drctl.lab.cluster import read_topic
from drctl.lab.scenarios import stage
from tests.cluster.failover_stage import APP, FORWARD, PARTITIONS, Link, consumed, mirror_maker
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, NOTHING_LOST, soon
from tests.cluster.topic_acls import allow, forget
from tests.lab.cluster_under_test import ClusterUnderTest

COPIED, TAIL, NEW, LATER = 60, 20, 40, 30
REBUILD = ("failback", "--rebuild")
BACK = ("failback", "--policy", "copy")


class FailbackStage(Link):
    """A link whose primary was lost and has recovered, with applications on the secondary."""

    def __init__(self, site: Site, topic: str, *beside: Any, **link: Any) -> None:
        super().__init__(site, topic, *beside, **link)
        self.direct_to("secondary")

    def replicate(self, running: bool) -> None:
        """Start or stop forward replication."""
        self.lab.replicate(running)

    def allow_applications(self) -> None:
        """Allow applications to use the topic, which the lab does not know."""
        for cluster in self.site.clusters:
            allow(cluster, APP, self.name_on(cluster))
            self.site.opened.callback(forget, cluster, self.name_on(cluster))

    def lose_primary(self) -> None:
        """Write replicated records, unreplicated ones on the primary, new ones on the secondary."""
        self.write_copied()
        self.replicate(False)
        self.wrote("tail", TAIL, self.primary)
        self.wrote("new", NEW, self.secondary)

    def write_copied(self) -> None:
        before = self.held(self.secondary) if self.is_there(self.secondary) else 0
        self.wrote("copied", COPIED, self.primary)
        self.await_held(self.secondary, before + COPIED)

    def is_there(self, cluster: ClusterUnderTest) -> bool:
        return self.name_on(cluster) in cluster.admin.list_topics(timeout=30).topics

    def await_held(self, cluster: ClusterUnderTest, count: int) -> None:
        soon(lambda: self.held(cluster) >= count, f"{cluster.name} does not hold {count}", 90)

    def write(
        self, prefix: str, count: int, cluster: ClusterUnderTest, *, keys: str = ""
    ) -> list[str]:
        """Write as the application; return acknowledged records.

        Args:
            keys: prefix of the keys; by default no record follows another of its key.
        """
        records = {f"{prefix}-{n}": f"{keys or prefix}-{n}" for n in range(count)}
        return self.produced(cluster, records, delivery__timeout__ms=10_000)

    def wrote(
        self, prefix: str, count: int, cluster: ClusterUnderTest, *, keys: str = ""
    ) -> set[str]:
        """Write as the application; all records must be acknowledged."""
        found = set(self.write(prefix, count, cluster, keys=keys))
        assert found == named(prefix, count)
        return found

    @contextmanager
    def live(self) -> "Iterator[list[str]]":
        """Run an application that writes to the secondary until it is refused."""
        acknowledged: list[str] = []
        stop = threading.Event()

        def work() -> None:
            number = 0
            while not stop.is_set():
                written = self.write(f"live{number}", 5, self.secondary)
                acknowledged.extend(written)
                number += 1
                if len(written) < 5:
                    return
                stop.wait(0.5)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield acknowledged
        finally:
            stop.set()
            thread.join(60)

    def read(self, group: str, cluster: ClusterUnderTest, wanted: set[str]) -> list[str]:
        """Read as the group from its committed offset until it has all of these; commit."""
        topics = [self.name_on(cluster)]
        own = {"session.timeout.ms": 6000}
        values, came = consumed(cluster, group, topics, lambda got: wanted <= set(got), **own)
        assert came, sorted(wanted - set(values))
        return values

    def read_new(self) -> list[str]:
        """Let the group read new records, but not what is written after them."""
        return self.read(self.group, self.secondary, named("copied", COPIED) | named("new", NEW))

    def check_order_afterwards(self) -> None:
        """Return `--check-order` after the failback, here and on another host."""
        for elsewhere in (False, True):
            if elsewhere:
                self.move_to_another_machine()
            found = self.json("failback", "--check-order", code=0)
            observed = "".join(step["observed"][0] for step in found["steps"])
            assert (observed, found["verdict"], found["next"]) == ("d" * 11, "ok", None), found
            assert found["state"] == "completed"

    def completed_failback(self, *words: str) -> dict[str, Any]:
        """Fail back with this command; assert that nothing is lost."""
        done = self.json(*words, *GO, code=0)
        assert (done["status"], done["rpo"]) == ("done", NOTHING_LOST), done
        assert self.directed_to == self.primary.bootstrap
        return done

    def both_hold(self, everything: Iterable[str]) -> None:
        """Assert that both clusters have each record once."""
        for cluster in self.site.clusters:
            assert self.all_of(cluster) == Counter(everything), cluster.name

    def keeps_running(
        self, everything: Iterable[str], read: list[str], *, again: bool = True
    ) -> None:
        """Assert that new records are replicated, and that the group has then read everything.

        Args:
            again: whether it may read again as many records as drctl stated.
        """
        wanted = {*everything, *self.wrote("later", LATER, self.primary)}
        self.await_held(self.secondary, len(wanted))
        self.both_hold(wanted)
        more = wanted - set(read)
        read += self.read_rest(read, wanted) if again else self.read(self.group, self.primary, more)
        assert set(read) == wanted
        assert again or len(read) == len(wanted), "the group read a record twice"

    def in_order(self, cluster: ClusterUnderTest, topic: str = "") -> dict[int, list[str]]:
        """Return every record by partition."""
        found = defaultdict[int, list[str]](list)
        there = read_topic(cluster.lab_cluster, topic or self.name_on(cluster))
        for (number, _), value in sorted(there.items()):
            found[number].append(value.decode())
        return dict(found)

    def alike(self) -> dict[int, list[str]]:
        """Whether both clusters have the same records in the same order."""
        primary, secondary = (self.in_order(each) for each in self.site.clusters)
        assert primary == secondary
        assert len(primary) == PARTITIONS
        return primary

    def boundary(self) -> dict[int, int]:
        """Return the offsets of the secondary at which new records begin."""
        held = self.in_order(self.secondary)
        new = {n: sum(value.startswith("new-") for value in held.get(n, ())) for n in held}
        ends = self.secondary.end_offsets(self.topic)
        return {number: end - new.get(number, 0) for number, end in ends.items()}

    def read_rest(self, before: list[str], wanted: set[str]) -> list[str]:
        """Read on the primary what the group has not read; count the records that it reads again.

        Args:
            before: what the group has read on the secondary.
            wanted: everything that it must have read at the end.
        """
        found = self.read(self.group, self.primary, wanted - set(before))
        again = [value for value in found if value in set(before)]
        assert len(again) <= self.rereads_at_most(), f"{len(again)} were read again: {again[:9]}"
        return found

    def rereads_at_most(self) -> int:
        """Return the limit of records read again that the newest run stated."""
        committed = [
            each["intent"]["rereads"].get(self.group, 0)
            for each in self.entries("intend")
            if each["step"].endswith("commit-offsets")
        ]
        assert committed, "the run committed no offsets"
        return int(max(committed))

    def begins(self, step: str) -> dict[int, int]:
        """Return the start offsets of replication by partition, once drctl asks for them."""
        name = f"start-offsets-{step}.csv"

        def files() -> list[Path]:
            return [*self.drctl.runs.glob(f"*/{name}")]

        soon(files, self.output, self.deadline_s)
        (file,) = files()
        rows = [line.split(",") for line in file.read_text(encoding="utf-8").splitlines()]
        (asked,) = [each["intent"] for each in self.entries("intend", step)]
        for topic, number, at in rows:
            assert topic == self.topic
            assert f"{topic}-{number} offset {at}" in asked["text"]
        return {int(number): int(at) for _, number, at in rows}


class MirrorMakerFailback(FailbackStage):
    """MirrorMaker 2 keeps topic names; a stopped connector for reverse replication exists."""

    def __init__(self, site: Site, *beside: Any, **reverse: Any) -> None:
        self.reverse = f"mm2-home-{uuid4().hex[:6]}"
        topic = site.new_topic(PARTITIONS, mirrored=True)
        replicator = mirror_maker(site.lab, self.reverse, **reverse)
        super().__init__(site, topic, *beside, replicator=replicator)
        stage.deploy(site.lab, topic, self.reverse)

    def runs_forward(self) -> None:
        """Start forward replication as before the incident."""
        assert self.states(*FORWARD.values(), self.reverse) == [*["RUNNING"] * 3, "STOPPED"]

    def close(self) -> None:
        self.lab.start("primary")
        stage.remove(self.lab, self.reverse)
        self.lab.replicate(True)


def named(prefix: str, count: int) -> set[str]:
    return {f"{prefix}-{number}" for number in range(count)}


HAD = named("copied", COPIED) | named("new", NEW)
EVERYTHING = HAD | named("tail", TAIL)
