"""`drctl failback` with an offset-preserving mirror, or with Confluent Replicator.

Neither is available here. A plain client that keeps offsets stands for the mirror; deleting a
topic and mirroring it from the start stands for truncating it: each record has the same offset
on both clusters (except transaction markers at the end, which a mirror copies, too). MirrorMaker 2
connectors stand for Replicator: this proves what drctl reads and changes through Connect, and what
it leaves to a person.
"""

from collections import Counter
from pathlib import Path

import pytest

from drctl.engine.failback_state import filter_to_add
from drctl.lab.cluster import read_topic
from tests.cluster.failback_stage import BACK, EVERYTHING, FailbackStage
from tests.cluster.failover_stage import PARTITIONS, connect
from tests.cluster.isolated_connectors import Connectors, mirror_of, settings
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, soon, steps_of, yes
from tests.cluster.test_failback_by_hand import QUESTIONS, ByHand

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]


class Mirrored(ByHand):
    """The mirror keeps offsets in both directions."""

    kind = "offset-preserving"
    keeps_offsets = True

    def cut(self) -> None:
        """Truncate the topic, with the same result as the mirror's own command."""
        self.primary.delete_topics([self.topic])
        soon(lambda: not self.is_there(self.primary))
        self.primary.create_topic(self.topic, PARTITIONS)


def test_a_mirror_fails_back_with_the_same_offsets(site: Site, tmp_path: Path) -> None:
    """Records of the primary alone are on the surviving cluster before the primary is truncated."""
    journey = Mirrored(site, tmp_path)
    journey.lose_primary()
    read, boundary = journey.read_new(), journey.boundary()
    plan = journey.json(*BACK, code=0)
    asked = steps_of(plan, "settings")["start-reverse-replication"]["text"]
    assert "later records on primary are deleted" in asked
    with journey.running(*BACK, *yes(*QUESTIONS), *GO) as process:
        journey.until(process, lambda: journey.has("done", "reconcile"))
        assert journey.begins("start-reverse-replication") == boundary
        journey.cut()
        back = journey.copier("back")
        journey.until(process, lambda: journey.has("done", "drain"))
        back.halt()
        journey.until(process, lambda: journey.has("done", "enable-writes"))
        # The surviving cluster's log ends with a transaction marker, which no plain client copies.
        journey.keeps_offsets = False
        again = journey.begins("restart-forward-replication")
        assert again == journey.primary.end_offsets(journey.topic)
        journey.copier("again", begin=again)
        journey.ends(process)
    assert journey.directed_to == journey.primary.bootstrap
    there, here = (
        read_topic(each.lab_cluster, journey.topic) for each in (journey.secondary, journey.primary)
    )
    assert here == there, "a record is at another offset than on the survivor"
    journey.keeps_running(EVERYTHING, read, again=False)  # offsets are the same


class Replicated(FailbackStage):
    """Connectors in both directions whose start offsets a person sets."""

    def __init__(self, site: Site) -> None:
        self.connectors = site.keep(Connectors(site.lab))
        topic = site.new_topic(PARTITIONS)
        self.there, self.back = f"copy-{topic}", f"home-{topic}"
        replicator = mirror_of(site.lab, self.there, self.back, kind="confluent-replicator")
        super().__init__(site, topic, replicator=replicator)
        self.allow_applications()
        self.create(self.there, "primary", "secondary", running=True)
        self.create(self.back, "secondary", "primary", running=False)

    def create(self, name: str, source: str, target: str, *, running: bool) -> None:
        self.connectors.create(
            name, settings(self.lab, source, target, self.topic, tasks__max="1"), running=running
        )

    def replicate(self, running: bool) -> None:
        (self.connectors.run if running else self.connectors.stop)(self.there)

    def begin(self, name: str, alias: str, ends: dict[int, int]) -> None:
        """Send PATCH /connectors/NAME/offsets, then resume, as a person does."""
        places = {n: {"cluster": alias, "topic": self.topic, "partition": n} for n in ends}
        at = {n: {"offset": end - 1} if end else None for n, end in ends.items()}
        with connect(self.lab) as client:
            client.alter_offsets(
                name, [{"partition": p, "offset": at[n]} for n, p in places.items()]
            )
        self.connectors.run(name)


def test_a_person_sets_the_start_offsets_of_replicators(site: Site) -> None:
    """drctl stops and observes them."""
    journey = Replicated(site)
    # The lab's own checkpoint connectors run in the same direction and would be reported.
    site.opened.callback(site.lab.replicate, True)
    site.lab.replicate(False)
    journey.lose_primary()
    read, boundary = journey.read_new(), journey.boundary()
    looked = journey.run("failback", "--check-order", "--output", "json").document()
    steps = {each["id"]: (each["observed"], each["why"]) for each in looked["steps"]}
    assert steps["b"][0] == "done", steps["b"]
    assert f"stopped: {journey.there}" in steps["b"][1]
    assert f"connector {journey.back} is STOPPED" in steps["f"][1]
    assert (looked["verdict"], looked["next"]) != ("violated", "b")

    questions = ("start-reverse-replication", "restart-forward-replication")
    with journey.running(*BACK, *yes(*questions), *GO) as process:
        journey.until(process, lambda: journey.has("done", "reconcile"))
        config = settings(site.lab, "secondary", "primary", journey.topic)
        changes = filter_to_add(config)
        journey.connectors.configure(journey.back, **changes)
        begin = journey.begins("start-reverse-replication")
        assert begin == boundary
        journey.begin(journey.back, "secondary", begin)
        journey.until(process, lambda: journey.has("done", "enable-writes"))
        assert journey.connectors.states(journey.back) == ["STOPPED"]
        again = journey.begins("restart-forward-replication")
        assert again == journey.primary.end_offsets(journey.topic)
        journey.begin(journey.there, "primary", again)
        journey.ends(process)
    assert journey.directed_to == journey.primary.bootstrap
    assert journey.all_of(journey.primary) == Counter(EVERYTHING)
    journey.keeps_running(EVERYTHING, read)
    assert journey.connectors.states(journey.there, journey.back) == ["RUNNING", "STOPPED"]
