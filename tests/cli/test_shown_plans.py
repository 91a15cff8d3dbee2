"""`drctl failover` on two clusters in memory: what is shown, and what is not executed."""

import io
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, cast

import pytest

from drctl.app import prechecks
from drctl.app.comparisons import Comparisons
from drctl.app.operation import Operation
from drctl.app.prechecks import known_overrides
from drctl.cli import prompts, running
from drctl.kafka.journal_topic import JournalTopic
from drctl.model.errors import Unreachable
from drctl.model.finding import Finding
from drctl.model.groups import Committed
from drctl.model.loss import Figure, Loss, LossRange
from drctl.model.plan import Plan
from drctl.model.topology import Overview, TopicPartition
from drctl.offsets.applying import BasedOn, Bounds, Translated, Wanted
from tests.cli.conftest import Ran, Run
from tests.cli.documents import check
from tests.fakes import FakeCluster, FakeLog

CONFIG = """clusters:
  primary: {bootstrap: "127.0.0.1:1"}
  secondary: {bootstrap: "127.0.0.1:2"}
links:
  main: {from: primary, to: secondary, topics: [orders]}
"""
ORDERS = TopicPartition("orders", 0)
RESET = "the group was reset backwards after 2026-03-05 17:02:31 UTC"
UNPLANNED = ("failover", "--mode", "unplanned")
LOST = "about 1,240 records of the last 4.5 s are probably not replicated"


@dataclass
class Site:
    """What `drctl failover` reads.

    Attributes:
        partitions: of the only topic, for successive reads; the last one repeats.
        silent: whether the source is unreachable.
        losses: reported losses, one per request.
        known: evidence of the source's groups, and committed offsets on the target.
    """

    partitions: list[int] = field(default_factory=lambda: [2])
    silent: bool = False
    losses: list[Loss | str] = field(default_factory=list)
    known: Translated = field(default_factory=lambda: Translated(()))
    standing: FakeCluster = field(
        default_factory=lambda: FakeCluster({ORDERS: FakeLog(end=900)}, "target")
    )
    asked: int = 0
    planned: bool = False
    lost: bool = False
    config: Any = None
    link: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def cluster_reader(self, name: str) -> Self:
        if self.silent and name == "primary":
            raise Unreachable("cluster primary did not answer")
        return self

    def overview(self) -> Overview:
        self.planned = True
        return Overview("an-id", {"orders": tuple(range(self.partitions[0]))})

    def topics(self) -> tuple[str, ...]:
        return ("orders",)

    def start_snapshot(self) -> None:
        """Do nothing: nothing is read in the background."""

    def watch_source(self) -> None:
        """Do nothing: the source is not probed."""

    def probe_clusters(self, *, abandoned: bool = False) -> None:
        pass

    def prepare(self) -> None:
        """Do nothing: nothing connects."""

    def cluster_id(self) -> str:
        return "an-id"

    def translated(self) -> Translated:
        return self.known

    def groups(self, name: str) -> FakeCluster:
        assert name == "secondary"
        return self.standing

    def look_up(self, wanted: Sequence[tuple[TopicPartition, int]]) -> Any:
        return self.standing.look_up(wanted)

    def findings(self, mode: str) -> Sequence[Finding]:
        """Return findings; called between the reads for a plan, for a lost source also before."""
        if self.planned and len(self.partitions) > 1:
            del self.partitions[0]
        return ()

    def loss(self, task: object = None, *, halted: str | None = None) -> Loss:
        self.asked += 1
        estimate = self.losses.pop(0)
        if isinstance(estimate, str):
            raise Unreachable(estimate)
        return estimate


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Site:
    """Replace the clients of both clusters; writing is refused."""
    (tmp_path / "drctl.yaml").write_text(CONFIG, encoding="utf-8")
    made = Site()

    def opened(config: Any, link: Any, asked: object, lost: bool) -> Any:
        made.config, made.link, made.lost = config, link, lost
        return made

    def writer(*_: object) -> Any:
        raise AssertionError("a refused plan was executed")

    way = Operation(opened, writer, lambda given: {}, lambda plan: "planned")
    monkeypatch.setattr(running, "OVER_LINK", way)
    monkeypatch.setattr(running.run_journal, "refuse_while_held", lambda *_: None)
    monkeypatch.setattr(JournalTopic, "warm_up", lambda _topic: None)
    monkeypatch.setattr(prechecks, "newest_unfinished", lambda _reader: None)
    return made


def loss(records: int, seconds: float) -> Loss:
    words = f"about {records:,} records of the last {seconds} s are probably not replicated"
    found = LossRange(Figure(12, "seen"), Figure(records, "alive"), Figure(9_000, "until now"))
    evidence = ("replication was alive 4.5 s ago: a heartbeat",)
    return Loss(found, seconds, 2 * seconds, words, evidence)


def document(ran: Ran, code: int) -> dict[str, Any]:
    assert ran.code == code, ran.stderr
    return check(ran.document())


def test_the_loss_estimate_is_shown_before_execution(called: Run, site: Site) -> None:
    site.silent, site.losses = True, [loss(1240, 4.5), loss(1240, 4.5)]
    shown = document(called(*UNPLANNED, "--output", "json"), 0)
    assert shown["loss"] == {
        "records": 1240,
        "at_least": 12,
        "at_most": 9_000,
        "based_on": {"records": "alive", "at_least": "seen", "at_most": "until now"},
        "seconds": 4.5,
        "seconds_at_most": 9.0,
        "message": LOST,
        "evidence": ["replication was alive 4.5 s ago: a heartbeat"],
    }
    ran = called(*UNPLANNED, environ={"COLUMNS": "160"})
    lines = [line.strip() for line in ran.stdout.splitlines()]
    heading = lines.index("Not replicated, if executed now")
    assert lines[heading + 1 : heading + 3] == [
        LOST,
        "replication was alive 4.5 s ago: a heartbeat",
    ]
    assert heading < lines.index("Steps")


def test_a_growing_estimate_leaves_the_plan_unchanged(
    called: Run, site: Site, tmp_path: Path
) -> None:
    site.silent, site.losses = True, [loss(1240, 4.5), loss(2480, 9.0)]
    files = [tmp_path / name for name in ("one.json", "two.json")]
    shown = [
        document(called(*UNPLANNED, "--plan-out", str(file), "--output", "json"), 0)
        for file in files
    ]
    assert [each["loss"]["records"] for each in shown] == [1240, 2480]
    assert shown[0]["fingerprint"] == shown[1]["fingerprint"]
    one, two = (file.read_text(encoding="utf-8") for file in files)
    assert one == two
    assert check(json.loads(one))["loss"] is None
    site.losses.append(loss(3000, 12.0))
    expected = called(*UNPLANNED, "--expect-plan", str(files[0]), "--output", "json")
    assert document(expected, 0)["loss"]["records"] == 3000


def test_a_loss_that_cannot_be_estimated_is_reported(called: Run, site: Site) -> None:
    site.silent, site.losses = True, ["cluster secondary did not answer"]
    shown = document(called(*UNPLANNED, "--output", "json"), 0)["loss"]
    assert (
        shown["message"]
        == "unknown how many records are not replicated: cluster secondary did not answer"
    )
    assert (shown["records"], shown["at_least"], shown["seconds"]) == (None, None, None)


def unproven(group: str) -> Wanted:
    bounds = Bounds(800, None, 74, RESET)
    based_on = BasedOn("checkpoint", "checkpoint of source offset 120 to 100", 41.0)
    return Wanted(group, ORDERS, Committed(100), bounds, based_on=based_on)


def test_groups_without_an_offset_are_in_the_headline(called: Run, site: Site) -> None:
    site.silent, site.losses = True, [loss(1240, 4.5)] * 2
    nowhere = Wanted("billing", ORDERS, None, blocked="there is no evidence")
    site.known = Translated((unproven("shipping"), nowhere), ("fraud-.*",))
    groups = document(called(*UNPLANNED, "--output", "json"), 0)["groups"]
    assert groups["without_offset"] == ["billing", "fraud-.*"]
    assert (groups["offsets"], groups["rereads_at_most"], groups["rereads_likely"]) == (1, 800, 74)
    (row,) = groups["groups"]
    assert (row["group"], row["skips_only_if"], row["age_seconds"]) == ("shipping", RESET, 41.0)
    output = " ".join(called(*UNPLANNED, environ={"COLUMNS": "300"}).stdout.split())
    headline, rest = output.split("Not replicated")
    assert "2 groups would have no committed offset on secondary: billing, fraud-.*" in headline
    assert "at most 800 records read again, likely 74" in rest
    assert (
        f"checkpoint of source offset 120 to 100, 41 s old; skips records only if {RESET}" in rest
    )


def test_a_policy_may_refuse_unproven_offsets(called: Run, site: Site, tmp_path: Path) -> None:
    refusing = f"{CONFIG}policy: {{unproven_offsets: refuse}}\n"
    (tmp_path / "drctl.yaml").write_text(refusing, encoding="utf-8")
    site.silent, site.losses = True, [loss(1240, 4.5)]
    site.known = Translated((unproven("shipping"),))
    shown = document(called(*UNPLANNED, "--output", "json"), 0)
    assert shown["groups"]["without_offset"] == ["shipping"]
    assert f"if {RESET}" in shown["groups"]["left_out"][0]
    step = next(step for step in shown["steps"] if step["kind"] == "commit-offsets")
    assert step["settings"]["unproven_offsets"] == "refuse"


def test_a_planned_failover_loses_nothing_and_asks_nothing(called: Run, site: Site) -> None:
    assert document(called("failover", "--output", "json"), 0)["loss"] is None
    assert site.asked == 0


def test_the_prompt_shows_the_loss(
    called: Run, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.silent, site.losses = True, [loss(1240, 4.5)]
    site.known = Translated((), ("shipping",))
    monkeypatch.setattr(prompts, "_attended", lambda stream: True)
    monkeypatch.setattr(sys, "stdin", cast(Any, io.StringIO("primary\n")))
    given = ("--answer", "fence-producers=yes", "--answer", "stop-replication=yes")
    ran = called(*UNPLANNED, *given, "--execute")
    assert ran.code == 3, ran.stderr
    assert "typed 'primary' instead of 'secondary'; nothing was written" in ran.stderr
    assert ran.stderr.index(LOST) < ran.stderr.index("Type the cluster's name")
    without = ran.stderr.index("1 group would have no committed offset on secondary: shipping")
    assert without < ran.stderr.index("Type the cluster's name")


@pytest.mark.parametrize("mode", ["planned", "unplanned"])
def test_a_change_between_plan_and_execution_refuses_the_run(
    called: Run, site: Site, mode: str
) -> None:
    site.partitions = [2, 3]
    given = [f"--answer={name}=yes" for name in ("fence-producers", "stop-consumers")]
    given += ["--answer=stop-replication=yes"]
    given = [each for each in given if mode == "planned" or "consumers" not in each]
    ran = called("failover", "--mode", mode, *given, "--execute", "--yes", "--output", "json")
    error = document(ran, 3)["error"]
    assert error["message"].startswith(
        "the clusters have changed since the plan was made: topics of primary: 1 topic, 2 "
    )
    assert " -> 1 topic, 3 partitions" in error["message"]
    assert site.asked == 0, "the loss was estimated before the step that estimates it"


def test_a_plan_that_differs_from_the_approved_one_is_refused_without_a_prompt(
    called: Run, site: Site, tmp_path: Path
) -> None:
    file = str(tmp_path / "agreed.json")
    document(called("failover", "--plan-out", file, "--output", "json"), 0)
    site.partitions = [3]
    for more in ((), ("--execute", "--yes")):
        ran = called("failover", "--expect-plan", file, *more, "--output", "json")
        error = document(ran, 3)["error"]
        assert error["message"].startswith(f"the plan is not the one in {file}: topics of primary:")
        assert error["hint"] == "review the new plan and write it with --plan-out"


SECRET = "hunter2-planted"
SECRETIVE = CONFIG.replace(
    '"127.0.0.1:1"}', f'"127.0.0.1:1", properties: {{sasl.password: {SECRET}}}}}'
)


def test_a_plan_with_a_secret_matches_its_file(
    called: Run, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overridden = replace(running.OVER_LINK, overrides=known_overrides)
    monkeypatch.setattr(running, "OVER_LINK", overridden)
    (tmp_path / "drctl.yaml").write_text(SECRETIVE, encoding="utf-8")
    file = tmp_path / "agreed.json"
    words = ("failover", "--override", f"replication-lag=as {SECRET} said")
    shown = document(called(*words, "--plan-out", str(file), "--output", "json"), 0)
    text = file.read_text(encoding="utf-8")
    assert SECRET not in text
    held = json.loads(text)
    assert held["overrides"] == [{"precheck": "replication-lag", "reason": "as *** said"}]
    overrides = {each["precheck"]: each["reason"] for each in held["overrides"]}
    plan = Plan.from_json({**held, "overrides": overrides})
    assert plan.fingerprint == held["fingerprint"] == shown["fingerprint"]

    again = called(*words, "--expect-plan", str(file), "--output", "json")
    assert document(again, 0)["fingerprint"] == held["fingerprint"]
    site.partitions = [3]
    ran = called(*words, "--expect-plan", str(file), "--output", "json")
    message = document(ran, 3)["error"]["message"]
    assert "topics of primary" in message
    assert "override" not in message, "the override did not change"


def test_a_step_that_differs_without_its_secret_is_refused(
    called: Run, site: Site, tmp_path: Path
) -> None:
    fence = f"fence: {{method: command, command: [./fence, {SECRET}], undo: [./fence, undo]}}"
    config = SECRETIVE.replace("topics: [orders]", f"topics: [orders], {fence}")
    (tmp_path / "drctl.yaml").write_text(config, encoding="utf-8")
    for more in ((), ("--execute", "--yes")):
        ran = called("failover", *more, "--output", "json")
        error = document(ran, 3)["error"]
        assert error["message"] == (
            "step fence-producers: its argv would write a secret to the journal"
        )
        assert "${env:NAME}" in error["hint"]
        assert SECRET not in ran.stdout + ran.stderr


def test_human_readable_texts_are_masked_and_kept(called: Run, site: Site, tmp_path: Path) -> None:
    word = "remove the block"
    config = CONFIG.replace(
        '"127.0.0.1:1"}', f'"127.0.0.1:1", properties: {{sasl.password: {word}}}}}'
    )
    (tmp_path / "drctl.yaml").write_text(config, encoding="utf-8")
    steps = document(called("failover", "--output", "json"), 0)["steps"]
    (fence,) = (each for each in steps if each["kind"] == "manual-fence")
    assert fence["settings"]["undo"] == "let producers write to primary again: ***, or restart them"


def test_modules_of_a_comparison_can_be_imported_in_advance() -> None:
    Comparisons(cast(Any, None), cast(Any, None)).prepare()
