"""The shipped alert rules and dashboard are valid, and use existing metrics."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from drctl.views.status_text import FAMILIES, PREFIX
from tests.docs.pages import ROOT, page, rows

FOLDER = ROOT / "docs" / "monitoring"
RULES, DASHBOARD = FOLDER / "drctl-alerts.yml", FOLDER / "drctl-dashboard.json"
PROMTOOL = shutil.which("promtool") or shutil.which("promtool", path=ROOT / ".venv" / "bin")
METRIC = re.compile(r"drctl_\w+")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is missing: scripts/ensure-promtool fetches it"
)

ENDS = '{link="main", source="a", target="b"}'


def series(name: str, values: str, more: str = "") -> dict[str, str]:
    return {"series": f"drctl_status_{name}{ENDS[:-1]}{more}}}", "values": values}


def alert(at: str, name: str, *fires: str, **labels: str) -> dict[str, object]:
    """Return whether the alert fires at that time, with its summary and description."""
    labels |= {"link": "main", "source": "a", "target": "b"}
    annotations = dict(zip(("summary", "description"), fires, strict=False))
    expected = [{"exp_labels": labels, "exp_annotations": annotations}] if fires else []
    return {"eval_time": at, "alertname": f"Drctl{name}", "exp_alerts": expected}


CASES = {
    "rule_files": [str(RULES)],
    "evaluation_interval": "1m",
    "tests": [
        {
            "interval": "1m",
            "input_series": [
                series("up", "1x90"),
                series("last_check_timestamp_seconds", "0+60x90"),
                series("rpo_seconds", "45x90"),
                series("rpo_limit_seconds", "30x90"),
                series("go", "1x30 0x60", ', mode="planned"'),
            ],
            "alert_rule_test": [
                alert("10m", "StatusMissing"),
                alert("40m", "NoGoPlanned"),
                alert(
                    *("70m", "NoGoPlanned", "A planned failover of link main would be blocked"),
                    "drctl status lists the blockers.",
                    **{"mode": "planned", "severity": "warning"},
                ),
                alert(
                    *("10m", "RpoExceeded", "Link main would lose 45s of writes"),
                    "Replication lags by more than policy.max_rpo_seconds. drctl doctor says why.",
                    severity="critical",
                ),
            ],
        },
        {
            "interval": "1m",
            "input_series": [series("up", "0x20")],
            "alert_rule_test": [
                alert(
                    *("10m", "StatusMissing", "It is unknown whether a failover would work"),
                    "drctl status has no current result. Check that it runs.",
                    severity="warning",
                )
            ],
        },
    ],
}


def alerts() -> dict[str, str]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


@pytest.mark.slow
@needs_promtool
def test_rules_fire_when_they_should(tmp_path: Path) -> None:
    cases = tmp_path / "cases.yml"
    cases.write_text(yaml.safe_dump(CASES), encoding="utf-8")
    for words in (("check", "rules", str(RULES)), ("test", "rules", str(cases))):
        ran = subprocess.run([str(PROMTOOL), *words], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_rules_and_panels_use_existing_metrics() -> None:
    known = {PREFIX + family.name for family in FAMILIES}
    table = rows(page("docs/reference/metrics.md").section("## drctl offsets track"))
    tracked = {name.strip("`") for row in table for name in row[0].split(", ")}
    known |= {f"drctl_offsets_track_{name}" for name in tracked}
    used = set(METRIC.findall(" ".join(alerts().values())))
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    used |= set(METRIC.findall(" ".join(t["expr"] for panel in panels for t in panel["targets"])))
    assert used
    assert used <= known


def test_every_alert_is_explained() -> None:
    documented = [
        row[0].strip("`")
        for row in rows(page("docs/howto/monitoring.md").section("## Prometheus and Grafana"))
    ]
    assert documented == list(alerts())
