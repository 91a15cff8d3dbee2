"""`drctl doctor --fix`: option combinations, unreachable clusters, and how a plan is shown."""

from io import StringIO
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from drctl.app import doctor
from drctl.app.link_reader import ClusterLinkReader
from drctl.checks.observed import Observed
from drctl.checks.repairs import PRECHECK
from drctl.config.configuration import Config
from drctl.config.link import Link
from drctl.model.finding import Finding, Status
from drctl.model.health import Silent
from drctl.views.doctor import fix_table
from tests.cli.conftest import Run
from tests.cli.documents import check
from tests.engine.repairs import plan


@pytest.fixture(autouse=True)
def config(tmp_path: Path) -> None:
    """Both clusters are unused ports."""
    document = {
        "clusters": {name: {"bootstrap": f"{name}.invalid:1"} for name in ("a", "b")},
        "links": {"main": {"from": "a", "to": "b", "topics": ["orders"]}},
    }
    (tmp_path / "drctl.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--execute",), "--execute: requires --fix or --fence-probe"),
        (("--execute", "--yes"), "--execute and --yes: requires --fix or --fence-probe"),
        (("--plan-out", "x.json"), "--plan-out: requires --fix or --fence-probe"),
        (("--override", f"{PRECHECK}=why"), "--override: requires --fix or --fence-probe"),
        (("--fix", "--client", "x"), "--client and --fix cannot be combined"),
        (("--fix", "--fence-probe", "9s"), "--fence-probe and --fix cannot be combined"),
        (("--fence-probe", "9s", "--worker", "x"), "--worker and --fence-probe cannot be combined"),
        (("--fence-probe", "9s", "--override", "x=y"), "--override and --fence-probe cannot be"),
        (("--fence-probe", "soon"), "--fence-probe: 'soon' is not a duration"),
        (("--fix", "--yes"), "--yes requires --execute"),
        (
            ("--fix", "--override", "replication-lag=why"),
            "--override replication-lag: `drctl doctor --fix` has no such precheck",
        ),
        (("--fix", "--override", PRECHECK), f"--override {PRECHECK} needs a reason"),
    ],
)
def test_option_conflicts(called: Run, words: tuple[str, ...], message: str) -> None:
    ran = called("doctor", *words)
    assert (ran.code, ran.stdout) == (2, "")
    assert message in ran.stderr


def test_an_unreachable_cluster_is_not_a_difference(
    called: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def observe(_config: Config, link: Link) -> Observed:
        return Observed(link, source=Silent("cluster a did not answer within 10 s"), target="BBB")

    monkeypatch.setattr(doctor, "observe", observe)
    monkeypatch.setattr(ClusterLinkReader, "probe_clusters", lambda *_, **__: None)
    ran = called("-o", "json", "doctor", "--fix")
    assert ran.code == 5
    assert check(ran.document())["error"]["message"] == "cluster a did not answer within 10 s"


def drawn(findings: tuple[Finding, ...] = (), against: tuple[str, ...] = ()) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(fix_table(plan(), findings, against, "drctl doctor --fix --execute"))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_plan_shows_each_change_and_each_manual_action() -> None:
    left = Finding("x", Status.WARN, "SCRAM user app", "no password", "", "no login", "add it")
    text = drawn((left,))
    assert text.startswith("Ready: link main, primary -> secondary; 8 changes, 1 to fix by hand")
    assert "topic orders: partitions" in text
    assert "Fix: add it" in text
    assert text.rstrip().endswith("To apply the changes: drctl doctor --fix --execute")


def test_a_refused_plan_names_the_reason_and_remedy() -> None:
    moved = Finding(
        PRECHECK, Status.FAIL, "link main", "clients were moved", remedy="go home first"
    )
    text = drawn((moved,), (f"{PRECHECK}: link main: clients were moved",))
    assert text.startswith("Refused: link main, primary -> secondary; 1 blocker below")
    assert "Fix: go home first" in text
    assert f"--override {PRECHECK}=REASON" in text
    assert "To apply the changes" not in text
