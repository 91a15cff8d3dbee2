"""The pipeline of docs/howto/ci.md, unchanged, on real clusters with MirrorMaker 2."""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4
from xml.etree import ElementTree

import pytest
import yaml

from drctl.model.topology import Record
from tests.cli.conftest import DRCTL, Ran, clean_environment
from tests.cli.documents import check
from tests.cluster.failover_stage import mirror_maker
from tests.cluster.groups import commit_offsets, positions_on
from tests.cluster.lab_link import Site, link_over
from tests.cluster.link_command import soon
from tests.docs.pages import page
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

PAGE = page("docs/howto/ci.md")
DEADLINE_S = 180
RECORDS = 60
CONSUMED = 37


@dataclass(frozen=True)
class Checkout:
    """A repository with drctl.yaml and the scripts of the page; commands run in it."""

    folder: Path

    def run(self, script: str) -> Ran:
        """Run each step as a runner does: a script that ends at the first failure."""
        found = os.pathsep.join((str(DRCTL.parent), os.environ["PATH"]))
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=self.folder,
            env={**clean_environment(), "PATH": found},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def job(self, name: str) -> Ran:
        """Run the commands of a job of the workflow up to the first failure."""
        (text,) = PAGE.blocks("workflow")
        steps = yaml.safe_load(text)["jobs"][name]["steps"]
        commands = [step["run"] for step in steps if "run" in step]
        assert commands
        for command in commands:
            ran = self.run(command)
            if ran.code:
                break
        return ran

    def document(self, name: str) -> dict[str, object]:
        """Return a document that drctl wrote."""
        return check(json.loads((self.folder / name).read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Standby:
    """A replicated topic, and a group that has read some of it on the primary."""

    topic: str
    group: str
    secondary: ClusterUnderTest

    def positions(self) -> dict[int, int]:
        """Return the group's committed offsets on the standby cluster."""
        return positions_on(self.secondary, self.group)


@pytest.fixture
def standby(site: Site) -> Standby:
    topic = site.new_topic(1, mirrored=True)
    group = f"orders-app-{uuid4().hex[:8]}"
    site.primary.produce(topic, [Record(0, -1, -1, b"k", b"%d" % n) for n in range(RECORDS)])
    commit_offsets(site.primary, topic, {group: {0: CONSUMED}})
    soon(lambda: site.secondary.end_offsets(topic)[0] >= RECORDS)
    return Standby(topic, group, site.secondary)


@pytest.fixture
def checkout(standby: Standby, site: Site) -> Checkout:
    main = link_over(standby.topic, groups=[standby.group], replicator=mirror_maker(site.lab))
    # Connect stores MirrorMaker 2's offsets once a minute.
    folder = site.new_drctl({"main": main}, policy={"max_lag_records": 1_000_000}).folder
    (folder / "ci").mkdir()
    for name in ("plan", "run", "drill"):
        (folder / "ci" / f"{name}.sh").write_text(script(name), encoding="utf-8")
    return Checkout(folder)


def script(name: str) -> str:
    """Return a script of the page by its first line."""
    (found,) = [each for each in PAGE.blocks("sh") if each.startswith(f"# ci/{name}.sh: ")]
    return found


def agreeing() -> str:
    """Return the command line that creates the plan to approve."""
    (found,) = [each for each in PAGE.blocks("sh") if "--plan-out agreed.json" in each]
    return found


@pytest.mark.nightly
def test_the_documented_pipeline(
    checkout: Checkout, standby: Standby, primary: ClusterUnderTest
) -> None:
    agreed = checkout.run(agreeing())
    assert agreed.code == 0, agreed.stdout + agreed.stderr
    planned = checkout.job("plan")
    assert planned.code == 0, planned.stdout + planned.stderr
    plan = checkout.document("plan.json")
    assert plan["fingerprint"] == checkout.document("agreed.json")["fingerprint"]
    assert standby.positions() == {}, "the plan wrote something"

    ran = checkout.job("run")
    assert ran.code == 0, ran.stdout + ran.stderr
    done = checkout.document("run.json")
    assert (done["schema"], done["status"]) == ("drctl/run/1", "done")
    assert standby.positions() == {0: CONSUMED}
    steps = done["steps"]
    assert isinstance(steps, list)
    suite = ElementTree.parse(checkout.folder / "report.xml").getroot()[0]
    assert [case.get("name") for case in suite.iter("testcase")] == [step["id"] for step in steps]
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert str(done["run"]) in (checkout.folder / "report.html").read_text(encoding="utf-8")

    primary.add_partitions(standby.topic, 2)
    other = checkout.job("plan")
    assert other.code == 3
    assert "the plan is not the one in agreed.json" in other.stderr
    assert "topics of primary" in other.stderr
    refused = checkout.job("run")
    assert refused.code == 3
    assert "the plan is not the one in agreed.json" in refused.stderr


def test_an_unanswered_confirmation_refuses_the_run(checkout: Checkout, standby: Standby) -> None:
    assert checkout.run(agreeing()).code == 0
    ran = checkout.run(script("run").replace("--answer review=yes ", ""))
    assert ran.code == 3
    assert "unanswered questions: review: " in ran.stderr
    assert not (checkout.folder / "report.xml").exists()
    assert standby.positions() == {}


def test_the_documented_drill(checkout: Checkout, standby: Standby) -> None:
    """MirrorMaker 2 replicates no topic with the drill's prefix at first, and drctl says so."""
    refused = checkout.job("drill")
    assert (refused.code, refused.stdout) == (3, "Refused: RTO - s, lost -\n")
    refusal = "connector mm2-source does not replicate topic drills.drctl-drill-"
    assert refusal in refused.stderr
    assert "it replicates topics that match flights" in refused.stderr
    assert not (checkout.folder / ".drctl" / "drills" / "history.jsonl").exists()
    assert not (checkout.folder / "drill.xml").exists()

    copied = script("drill").replace("--topic-prefix drills.", "--topic-prefix flights-")
    assert copied != script("drill")
    (checkout.folder / "ci" / "drill.sh").write_text(copied, encoding="utf-8")
    ran = checkout.job("drill")
    assert ran.code == 0, ran.stdout + ran.stderr
    assert re.fullmatch(r"passed: RTO [\d.]+ s, lost 0\n", ran.stdout)
    done = checkout.document("drill.json")
    assert (done["schema"], done["verdict"], done["reasons"]) == ("drctl/drill/1", "passed", [])
    cleaned = done["cleaned"]
    assert isinstance(cleaned, dict)
    assert cleaned["left"] == []
    history = (checkout.folder / ".drctl" / "drills" / "history.html").read_text(encoding="utf-8")
    assert "1 of 1 drill passed" in history
    suite = ElementTree.parse(checkout.folder / "drill.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    steps = done["steps"]
    assert isinstance(steps, list)
    names = [str(case.get("name")) for case in suite.iter("testcase")]
    assert names[: len(steps)] == [step["id"] for step in steps]
    assert names[len(steps) :] == [
        "run-completed", "within-policy", "other-resources-unchanged", "resources-deleted",
    ]  # fmt: skip
