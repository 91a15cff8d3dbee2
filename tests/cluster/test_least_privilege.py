"""Every command with exactly the permissions of docs/howto/permissions.md, and none too many.

Names and records are hostile, and drctl.yaml has secrets of every kind: nothing is interpreted, and
no secret is in any output, file, journal, event log or list of processes.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from confluent_kafka import KafkaException, TopicPartition

from drctl.cli.help_pages import reference
from drctl.formats.consumer_timestamps import TOPIC as TIMESTAMPS
from drctl.formats.consumer_timestamps import (
    ConsumerTimestamp,
    GroupPartition,
    encode_key,
    encode_value,
)
from drctl.model.topology import Record
from tests.cli.conftest import Ran
from tests.cli.documents import check
from tests.cluster import hostile
from tests.cluster.command import Drctl
from tests.cluster.documented_acls import GRANTED, NEEDED, Permission, permitted, section
from tests.cluster.drill_stage import GO as DRILL
from tests.cluster.drill_stage import PREFIX
from tests.cluster.drill_stage import Stage as DrillStage
from tests.cluster.failover_stage import APP, PARTITIONS, Stage, connect
from tests.cluster.isolated_failbacks import POLICIES, OwnFailback
from tests.cluster.isolated_links import READ, OwnLinks, at_work
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, soon, yes
from tests.cluster.logs import read_logs
from tests.cluster.planted_secrets import plant, shown, watched
from tests.cluster.reconcile_stage import NewStage, new_stages, record
from tests.cluster.test_doctor_fix import Drifted, drifted
from tests.kafka.members import commit
from tests.kafka.timestamps_topic import remove_topic
from tests.lab.cluster_under_test import ClusterUnderTest
from tests.report.test_gap_page_in_browser import inspect

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

__all__ = ["drifted"]

nightly = pytest.mark.nightly
PRIMARY, SECONDARY = ("primary",), ("secondary",)
THERE = {"Clients leave": PRIMARY, "Clients join": SECONDARY}
BACK = {"Clients leave": SECONDARY, "Clients join": PRIMARY}

READ_ONLY = section("## Read-only commands")
JOURNAL = section("## Journal")
FAILOVER = [*READ_ONLY, *JOURNAL, *section("## Failover and failback", THERE)]
RECONCILE = [*JOURNAL, *section("## Reconcile")]
FAILBACK = [*READ_ONLY, *RECONCILE, *section("## Failover and failback", BACK)]

ELSEWHERE = {
    "drctl completion": "contacts nothing",
    "drctl schema": "contacts nothing",
    "drctl elect unclean": "needs a partition without a leader",
}
"""Commands that no test of this file runs, besides those of the lab."""

_JOINED = "Failover and failback: Clients join: Groups of the link: DELETE"
_LEFT = "Failover and failback: Clients leave: Transactional ids: WRITE"
_DRILL, _ELECTED = "Drill: Both: Groups with prefix `PREFIXdrctl-drill-`", "Elections: That cluster"
_JOURNAL, _RUNS_ID = "Topic `__drctl_journal`", "Transactional id `drctl.LINK`"
NOTHING_TO_ELECT = "a leader is elected: not with a single broker"

NOT_NEEDED_HERE: Mapping[str, str] = {
    f"{_JOINED} on primary": "a failback is rolled back",
    f"{_JOINED} on secondary": "a failover is rolled back",
    f"{_LEFT} on secondary": "a failback aborts a transaction, as a failover does here",
    f"{_DRILL}: READ on secondary": "the link has some groups only; here it has all",
    f"{_DRILL}: DELETE on secondary": "the link has some groups only; here it has all",
    "Drill: Target: Transactional ids: WRITE on secondary": "check acl-parity compares ACLs",
    f"{_ELECTED}: Cluster: ALTER on primary": NOTHING_TO_ELECT,
    f"{_ELECTED}: Groups: DESCRIBE on primary": "a partition has no leader",
    **{
        f"Journal: Target: {each} on primary": NOTHING_TO_ELECT
        for each in (
            *(f"{_JOURNAL}: {what}" for what in ("READ", "WRITE", "DESCRIBE_CONFIGS", "CREATE")),
            f"{_RUNS_ID}: WRITE",
        )
    },
}
"""Operations in rows of the page that no test of this file needs, and when they are needed."""

_RUN: set[str] = set()


def leaves() -> set[str]:
    """Return all commands without subcommands of their own."""
    return {each.path for each in reference() if " COMMAND" not in each.usage}


@dataclass
class Walk:
    """Runs commands on one stage, and collects what they show."""

    drctl: Drctl
    ran: dict[str, Ran] = field(default_factory=dict)

    def __call__(self, *words: str, codes: Sequence[int] = (0,)) -> Ran:
        known = [each for n in range(1, 5) if (each := f"drctl {' '.join(words[:n])}") in leaves()]
        _RUN.update(known[-1:])
        ran = self.drctl(*words)
        self.ran[f"{len(self.ran)} {' '.join(words)}"] = ran
        assert ran.code in codes, f"{words}: {ran.code}\n{ran.stdout}{ran.stderr}"
        hostile.must_be_printable(ran.stdout + ran.stderr)
        return ran

    def json(self, *words: str, codes: Sequence[int] = (0,)) -> dict[str, Any]:
        return check(self(*words, "--output", "json", codes=codes).document())


@contextmanager
def walking(drctl: Drctl, clusters: Sequence[ClusterUnderTest]) -> Iterator[Walk]:
    """Run commands in the block; afterwards, look for secrets and for what was interpreted."""
    walk = Walk(drctl)
    with watched() as processes:
        yield walk
    texts = {name: ran.stdout + ran.stderr for name, ran in walk.ran.items()}
    for cluster in clusters:
        own = [each for each in cluster.admin.list_topics(timeout=30).topics if "__drctl" in each]
        logs = read_logs(cluster, own, "read_uncommitted")
        for topic, log in logs.items():
            records = [record for there in log.records.values() for record in there]
            texts[f"{topic} of {cluster.name}"] = repr(records)
    assert shown(drctl, texts, processes) == []
    assert not [*drctl.folder.rglob("pwned")], "a shell has interpreted a name"
    for page in drctl.folder.rglob("*.html"):
        hostile.must_be_inert(page.read_text(encoding="utf-8"))
    for page in drctl.folder.rglob("*.md"):
        hostile.must_be_text(page.read_text(encoding="utf-8"))


def names(topics: Sequence[str], link: str, *groups: str) -> dict[str, Sequence[str]]:
    """Return what replaces the page's placeholders."""
    aliases = ("primary", "secondary")
    return {"TOPICS": topics, "GROUPS": groups, "LINK": (link,), "ALIAS": aliases,
            "PREFIX": (PREFIX,), "LEDGER": ("__drctl_ledger",)}  # fmt: skip


def of_link(stage: Any) -> dict[str, Sequence[str]]:
    return names([stage.topic], stage.link, stage.group)


@pytest.fixture(scope="module", autouse=True)
def without_own_topics(primary: ClusterUnderTest, secondary: ClusterUnderTest) -> None:
    """Delete drctl's topics: CREATE is needed only for topics that do not exist."""
    for cluster in (primary, secondary):
        known = cluster.admin.list_topics(timeout=30).topics
        cluster.delete_topics(name for name in known if name.startswith("__drctl_"))


@pytest.fixture
def stage(site: Site, links: OwnLinks) -> Stage:
    """A link at work whose names and records are hostile."""
    topic = site.new_topic(PARTITIONS, prefix=hostile.TOPIC)
    group = f"{topic} {hostile.TEXT}"
    principals = [f"User:{APP}", f"User:{hostile.PRINCIPAL}"]
    made = links.make(
        f"{hostile.CONNECTOR}{{}}",
        topic=topic,
        groups=[re.escape(group)],
        fence={"method": "acl", "principals": principals},
    )
    made.group = group
    at_work(made)
    held = made.held(made.source)
    made.source.produce(topic, RECORDS_WITH_HOSTILE_TEXT, client__id=hostile.SHELL)
    made.copied(held + len(RECORDS_WITH_HOSTILE_TEXT))
    plant(made.drctl, made.link)
    return made


HEADERS = ((hostile.TEXT, hostile.TEXT.encode()),)
RECORDS_WITH_HOSTILE_TEXT = [
    Record(n % PARTITIONS, -1, -1, f"{n}{hostile.DATA}".encode(), hostile.DATA.encode(), HEADERS)
    for n in range(4)
]


def test_the_most_frequent_commands(stage: Stage) -> None:
    clusters = stage.site.clusters
    with (
        permitted(clusters, stage.drctl, of_link(stage), *READ_ONLY),
        walking(stage.drctl, clusters) as walk,
    ):
        assert walk.json("gap", "--scope", "full")["complete"]
        translated = walk.json("offsets", "translate")
        assert {row["target_offset"] for row in translated["rows"]} == {READ}
        walk("offsets", "translate")
        walk("gap", "--scope", "full")
        walk("journal")


@nightly
@pytest.mark.browser
def test_commands_that_read(stage: Stage, tmp_path: Path, timestamps: None) -> None:
    clusters = stage.site.clusters
    with (
        permitted(clusters, stage.drctl, of_link(stage), *READ_ONLY),
        walking(stage.drctl, clusters) as walk,
    ):
        while_all_is_well(stage, walk)
        stage.stop(stage.copies)
        stage.source.produce(stage.topic, RECORDS_WITH_HOSTILE_TEXT)
        with_unreplicated_records(stage, walk)
    pages = {f"/{n}": file.read_text("utf-8") for n, file in enumerate(pages_of(stage.drctl))}
    assert pages
    found, asked = inspect(pages, tmp_path)
    for each in found:
        assert each["title"] != "pwned"
        assert (each["scripts"], each["images"], each["handlers"]) == (0, 0, 0)
    assert not [path for path in asked if "leak" in path]


def pages_of(drctl: Drctl) -> list[Path]:
    return sorted(drctl.folder.rglob("*.html"))


@pytest.fixture
def timestamps(primary: ClusterUnderTest, secondary: ClusterUnderTest) -> Iterator[None]:
    """The topic in which Java interceptors store timestamps, with one of another group."""
    key = encode_key(GroupPartition("another", "topic", 0))
    for cluster in (primary, secondary):
        remove_topic(cluster)
        cluster.create_topic(TIMESTAMPS)
        cluster.produce(TIMESTAMPS, [Record(0, -1, -1, key, encode_value(ConsumerTimestamp(1)))])
    yield
    for cluster in (primary, secondary):
        remove_topic(cluster)


def while_all_is_well(stage: Stage, walk: Walk) -> None:
    """Run what reads, and what would write if it had --execute."""
    status = walk.json("status", codes=(1,))
    plans = (status["planned"], status["unplanned"])
    blocking = {each["check"] for plan in plans for each in plan["blockers"]}
    # Only what would write is refused for lack of permission.
    assert blocking == {"fence-not-possible", "journal-not-writable"}, status
    assert not [each for each in status["other_findings"] if "may not" in str(each)]
    walk("status", codes=(1,))
    doctor = walk.json("doctor", codes=(1,))
    refused = [each for each in doctor["checks"] if each["status"] == "not-checked"]
    assert not [each for each in refused if "authoriz" in str(each) or "may not" in str(each)]
    walk("doctor", codes=(1,))
    walk("doctor", "--fix", codes=(0, 1))
    walk("doctor", "--fence-probe", "1s", codes=(0,))
    walk("gap", "--scope", "estimate", codes=(5,))
    walk("duplicates", "--topic", stage.topic, codes=(5,))
    walk("offsets", "explain", "--", stage.group, stage.topic, "0")
    saved = walk.json("offsets", "snapshot", "--cluster", "primary", "--group", stage.group)
    assert json.dumps(stage.group) in json.dumps(saved)
    walk("offsets", "apply")
    walk("offsets", "undo", codes=(2,))
    walk("offsets", "track")
    walk("dump-consumer-timestamps", "--cluster", "primary")
    walk("drill", codes=(3,))
    walk("drill", "history")
    walk("drill", "clean")
    # Their plans have the same blockers.
    walk("failover", codes=(3,))
    walk("failover", "--mode", "unplanned", codes=(3,))
    walk("failback", "--check-order")
    walk("resume", codes=(2,))
    walk("report", codes=(2,))
    for each in ("status", "recover"):
        walk("connect", each)
    walk("connect", "offsets", "export", "--output-file", "connect.json")
    walk("connect", "offsets", "translate", "--from", "connect.json", codes=(3,))
    walk("connect", "offsets", "apply", "--from", "connect.json", codes=(3,))
    walk("runbook", "list")
    own = walk.drctl.folder / "failback.yaml"
    own.write_text(walk("runbook", "show", "failback").stdout, encoding="utf-8")
    walk("runbook", "lint", "failback.yaml")
    hostile.must_be_text(walk("runbook", "render", "planned-switchover").stdout)
    walk("runbook", "run", "planned-switchover", codes=(3,))
    walk("init", *bootstrap_of(walk.drctl), "--output-file", "found.yaml")
    yaml.safe_load((walk.drctl.folder / "found.yaml").read_text(encoding="utf-8"))


def bootstrap_of(drctl: Drctl) -> list[str]:
    """Return the arguments of `drctl init` with which it finds both clusters and the workers."""
    document = yaml.safe_load(drctl.config.read_text(encoding="utf-8"))
    (link,) = document["links"].values()
    options = [f"--connect={link['replicator']['connect']}"]
    for cluster, known in document["clusters"].items():
        for name, value in known["properties"].items():
            options += [f"--{cluster}-property", f"{name}={value}"]
    return [*(each["bootstrap"] for each in document["clusters"].values()), *options]


def with_unreplicated_records(stage: Stage, walk: Walk) -> None:
    """Run what reads records, or would."""
    found = walk.json("gap", "--scope", "full", codes=(1,))
    assert found["totals"]["unreplicated"] == len(RECORDS_WITH_HOSTILE_TEXT)
    walk("gap", "--scope", "full", codes=(1,))
    spark = walk.json("gap", "--scope", "full", "--engine", "spark", codes=(1,))
    assert spark["totals"] == found["totals"]
    events = [each for each in (walk.drctl.folder / "events").rglob("*") if each.is_file()]
    assert any("SparkListenerApplicationEnd" in each.read_text("utf-8") for each in events)
    walk("gap", "truncation", "--scope", "full", "--export", "saved", codes=(1,))
    walk("reconcile", "--policy", "copy")
    walk("failback", "--policy", "copy", codes=(2,))


@nightly
@pytest.mark.browser
def test_a_planned_failover_that_is_interrupted(stage: Stage, tmp_path: Path) -> None:
    clusters = stage.site.clusters
    idle_since = int(time.time() * 1000) - 600_000
    silent = [Record(1, -1, idle_since, b"k", b"silent")]
    stage.source.produce(stage.topic, silent, "open", transaction__timeout__ms=800_000)
    with (
        permitted(clusters, stage.drctl, of_link(stage), *FAILOVER),
        walking(stage.drctl, clusters) as walk,
    ):
        allowed = ("--override", "hanging-transactions=its producer was given up")
        stage.kill_at("fence-producers", "failover", *allowed, *GO)
        walk("resume")
        done = walk.json("resume", *GO)
        assert done["status"] == "done"
        report(walk)
        walk("status", codes=(0, 1))
        walk("journal", "--local")
    with pytest.raises(KafkaException, match=r"(?i)fenced"):
        stage.source.close()
    pages = {f"/{n}": file.read_text("utf-8") for n, file in enumerate(pages_of(stage.drctl))}
    found, asked = inspect(pages, tmp_path)
    assert found
    for each in found:
        assert (each["scripts"], each["images"], each["handlers"]) == (0, 0, 0)
    assert not [path for path in asked if "leak" in path]


def report(walk: Walk) -> None:
    """Report the newest run in all formats."""
    for name in ("html", "md", "json", "junit"):
        walk("report", "--format", name, "--output-file", f"report.{name}")
    json.loads((walk.drctl.folder / "report.json").read_text(encoding="utf-8"))
    ElementTree.parse(walk.drctl.folder / "report.junit")
    walk("report", "--verify")
    (run, *_) = (each["run"] for each in walk.json("journal")["runs"])
    walk("journal", run)
    walk("journal", run, "--output", "json")


@nightly
def test_offsets_are_committed_and_restored(stage: Stage) -> None:
    clusters = stage.site.clusters
    offsets = [*READ_ONLY, *JOURNAL, *section("## Offsets")]
    given = {**of_link(stage), "LINK": (stage.link, "cluster:secondary")}
    with permitted(clusters, stage.drctl, given, *offsets), walking(stage.drctl, clusters) as walk:
        commit(stage.target.properties(), stage.group, TopicPartition(stage.topic, 0, 1))
        only = ("--cluster", "secondary", "--group", stage.group)
        walk("offsets", "snapshot", *only, "--output-file", "saved.json")
        walk("offsets", "apply", *GO)
        walk("offsets", "undo")
        walk("offsets", "undo", *GO)
        walk("runbook", "run", "offsets-only", *yes("review", "read-back"), *GO)
        back = ("--from", "saved.json", "--override", "moves-backwards=restored")
        walk("offsets", "apply", *back, "--cluster", "secondary", *GO)


@nightly
def test_offsets_are_tracked(stage: Stage) -> None:
    clusters = stage.site.clusters
    with (
        permitted(clusters, stage.drctl, of_link(stage), *section("## Offset tracking")),
        walking(stage.drctl, clusters) as walk,
    ):
        walk("offsets", "track", "--once", *GO)


@nightly
def test_a_ledger_is_written(stage: Stage) -> None:
    clusters = stage.site.clusters
    document = yaml.safe_load(stage.drctl.config.read_text(encoding="utf-8"))
    document["ledger"] = {"cluster": "secondary"}
    stage.drctl.config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    ledger = [*READ_ONLY, *section("## Ledger")]
    with (
        permitted(clusters, stage.drctl, of_link(stage), *ledger),
        walking(stage.drctl, clusters) as walk,
    ):
        for _ in range(2):
            walk("gap", "--scope", "full", "--ledger", *GO)
    stage.target.delete_topics(["__drctl_ledger"])


@nightly
def test_a_failback(site: Site) -> None:
    topic = site.new_topic(PARTITIONS, prefix=hostile.TOPIC)
    group = f"{topic} {hostile.TEXT}"
    failback = site.keep(OwnFailback(site, topic, groups=[re.escape(group)]))
    failback.group = group
    failback.lose_primary()
    failback.primary.produce(topic, RECORDS_WITH_HOSTILE_TEXT)
    plant(failback.drctl, failback.link, "secondary")
    clusters = failback.site.clusters
    with (
        permitted(clusters, failback.drctl, of_link(failback), *FAILBACK),
        walking(failback.drctl, clusters) as walk,
    ):
        walk("failback", "--check-order")
        walk("failback", *POLICIES)
        done = walk.json("failback", *POLICIES, *GO)
        assert done["status"] == "done"
        report(walk)


@pytest.fixture
def reconciled(site: Site) -> Iterator[NewStage]:
    with new_stages(site) as make:
        yield make


@nightly
def test_records_are_reconciled(reconciled: NewStage, site: Site) -> None:
    at = reconciled(PARTITIONS)
    copied = [record(1)]
    at.primary.produce(at.topic, [*copied, *RECORDS_WITH_HOSTILE_TEXT])
    at.secondary.produce(at.topic, copied)
    plant(at.drctl, at.topic)
    found = at.gap()
    with (
        permitted(site.clusters, at.drctl, names([at.topic], at.topic), *RECONCILE),
        walking(at.drctl, site.clusters) as walk,
    ):
        for policy in ("export", "quarantine", "copy"):
            done = walk.json("reconcile", found, "--policy", policy, *GO)
            assert done["status"] == "done"


@nightly
def test_a_drill(site: Site) -> None:
    stage = site.keep(DrillStage(site))
    drctl = replace(stage.drctl, first=())
    plant(drctl, "main")
    drill = [*section("## Drill"), *FAILOVER]
    with (
        permitted(site.clusters, drctl, names(["flights"], "main", "*"), *drill),
        walking(drctl, site.clusters) as walk,
    ):
        done = walk.json("drill", *DRILL, "--junit", "drill.xml")
        assert done["verdict"] == "passed"
        walk("drill", "history")
        walk("drill", "clean", *GO)
    ElementTree.parse(drctl.folder / "drill.xml")
    assert stage.left() == set()


@nightly
def test_leaders_are_elected(stage: Stage) -> None:
    clusters = stage.site.clusters
    elections = [each._replace(clusters=PRIMARY) for each in JOURNAL] + section("## Elections")
    given = {**of_link(stage), "LINK": ("cluster:primary",)}
    with (
        permitted(clusters, stage.drctl, given, *elections),
        walking(stage.drctl, clusters) as walk,
    ):
        assert walk.json("elect", "show", "--cluster", "primary")["leaderless"] == []
        walk("elect", "wait", "--cluster", "primary")
        walk("elect", "preferred", "--cluster", "primary")
        walk("elect", "preferred", "--cluster", "primary", *GO)


@nightly
def test_differences_are_repaired_and_the_fence_is_probed(drifted: Drifted, site: Site) -> None:
    repairs: list[Permission] = [*READ_ONLY, *JOURNAL, *section("## Repairs")]
    (link,) = yaml.safe_load(drifted.drctl.config.read_text(encoding="utf-8"))["links"]
    plant(drifted.drctl, link)
    given = names([drifted.weak, drifted.missing], link, "nobody")
    with (
        permitted(site.clusters, drifted.drctl, given, *repairs),
        walking(drifted.drctl, site.clusters) as walk,
    ):
        done = walk.json("doctor", "--fix", *GO)
        assert done["status"] == "done"
    probing = [*READ_ONLY, *JOURNAL, *section("## Failover and failback", THERE)]
    with (
        permitted(site.clusters, drifted.drctl, given, *probing),
        walking(drifted.drctl, site.clusters) as walk,
    ):
        walk("doctor", "--fence-probe", "2s", *GO)


@nightly
def test_connectors_are_restarted_and_get_offsets(stage: Stage) -> None:
    clusters = stage.site.clusters
    worker = stage.lab.parts.worker.url
    given = {**of_link(stage), "LINK": (f"connect:{worker.removeprefix('http://')}",)}
    with permitted(clusters, stage.drctl, given, *JOURNAL), walking(stage.drctl, clusters) as walk:
        only = ("--connector", stage.copies)
        walk("connect", "offsets", "export", *only, "--output-file", "connect.json")
        stage.stop(stage.copies)
        walk("connect", "offsets", "translate", "--from", "connect.json", *only)
        walk("connect", "offsets", "apply", "--from", "connect.json", *only, *GO)
        with failing(stage) as name:
            walk("connect", "status", codes=(1,))
            walk("connect", "recover", "--connector", name, codes=(0, 1))
            again = ("--attempts", "1", "--min-uptime", "1s", "--override", "cause=tried")
            walk("connect", "recover", "--connector", name, *again, *GO, codes=(1,))
            walk("report", "--connect", worker, "--output-file", "connect.html")
            walk("journal", "--connect", worker)


@contextmanager
def failing(stage: Stage) -> Iterator[str]:
    """A connector with a hostile name that fails."""
    name = f"fails {hostile.CONNECTOR}"
    with connect(stage.lab) as client:
        config = {**client.config(stage.copies), "name": name, "topics": hostile.SHELL + "(("}
        client.put_config(name, config)
        try:
            soon(lambda: "FAILED" in str(client.statuses().get(name)))
            yield name
        finally:
            client.delete(name)


@pytest.fixture
def all_tests(request: pytest.FixtureRequest) -> None:
    """The tests above have run in this process."""
    selected = {item.name for item in request.session.items if item.path == request.path}
    here = {name for name in globals() if name.startswith("test_")}
    if here - selected:
        pytest.skip("not all tests of this file were selected")


@nightly
@pytest.mark.usefixtures("all_tests")
def test_every_command_was_run() -> None:
    lab = {each for each in leaves() if each.startswith("drctl lab ")}
    assert leaves() - _RUN - lab == ELSEWHERE.keys()


@nightly
@pytest.mark.usefixtures("all_tests")
def test_every_documented_acl_was_needed() -> None:
    assert NOT_NEEDED_HERE.keys() == GRANTED - NEEDED
