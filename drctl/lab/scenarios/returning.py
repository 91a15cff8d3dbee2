"""The lost primary comes back: closed first, then compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from drctl.lab.loads import acknowledged_rows
from drctl.lab.reading import Position, read_topic
from drctl.lab.scenarios import way_back
from drctl.lab.scenarios.company import RUNBOOKS, Company
from drctl.lab.scenarios.truth import gap_truth, judge_gap, require_kept
from drctl.model.errors import ExitCode, Stopped

CLOSE = "close-the-primary"
RUNBOOK = f"""\
name: {CLOSE}
about: |
  The lost primary is back, and the failover still owes its fence. Nobody writes to it, and nothing
  replicates from it, until its records are found.
steps:
  - id: secondary-works
    check: [target-unreachable]
  - id: take-stock
    step: take-stock
  - id: replication-stays-stopped
    wait: {{for: connectors stopped, at_most: 30s}}
  - id: close
    step: fence-producers
"""


@dataclass(frozen=True, slots=True)
class Gap:
    """What was missing, and whether drctl said so.

    Attributes:
        words: both, in a sentence or two.
    """

    true: bool
    words: str
    page: Path


def bring_back(people: Company, there: Mapping[Position, bytes], rows: Mapping[int, bytes]) -> Gap:
    """Start the primary, fence it, and let drctl find what never got to the secondary.

    Args:
        there: what the secondary has.
        rows: the records by their numbers.

    Raises:
        Stopped: it does not come back, or lost what it had acknowledged.
    """
    stage, topic = people.stage, people.script.topic
    stage.act(5, "The primary comes back: it is fenced, then its records are looked for")
    stage.lab.start("primary")
    way_back.deploy(stage.lab, topic)
    _close(people)
    stage.tell("")
    out = stage.folder / "gap"
    stage.tell("so few records drctl would compare by itself; here Spark does, as with many")
    code = stage.drctl("gap", "--engine", "spark", "--out", str(out))
    answer = stage.answer(out)
    primary = read_topic(stage.lab.cluster("primary"), topic)
    acknowledged = acknowledged_rows(people.writer.log("primary"), topic)
    require_kept("the primary", primary, acknowledged, rows)
    truth = gap_truth(primary, there.values(), acknowledged)
    verdict = judge_gap(truth, answer, code)
    said = (
        f"The primary had acknowledged {truth.acknowledged:,} records; {len(truth.missing):,} of "
        f"its records never reached the secondary ({truth.promised:,} of them acknowledged)."
    )
    named = "exactly these" if not verdict.differing else f"{verdict.named:,}: {verdict.differing}"
    spark = answer["engine"] == "spark"
    how = f"compared by {'Spark' if spark else 'drctl, not by Spark'}, in {answer['seconds']:.1f} s"
    words = f"{said} drctl gap named {named} ({how})."
    return Gap(spark and not verdict.differing, words, out / "gap.html")


def _close(people: Company) -> None:
    folder = people.stage.folder / RUNBOOKS
    folder.mkdir(exist_ok=True)
    (folder / f"{CLOSE}.yaml").write_text(RUNBOOK, encoding="utf-8")
    code = people.stage.drctl("runbook", "run", CLOSE, "--execute", "--yes")
    if code != ExitCode.DONE:
        raise Stopped(f"runbook {CLOSE} ended with exit code {code}")
