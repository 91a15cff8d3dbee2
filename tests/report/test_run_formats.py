"""One run as Markdown, JSON and JUnit XML: the same content, whatever the names contain."""

import os
import re
from pathlib import Path

import pytest

from drctl.views import run_lines, run_markdown
from drctl.views.junit import run_to_junit as junit
from drctl.views.run_json import ReportDocument, RunDocument
from drctl.views.run_lines import known, next_steps, unknown
from drctl.views.run_report import named, report
from drctl.views.run_words import verdict
from drctl.views.text import length, plain
from tests.cli.documents import check
from tests.report import runs
from tests.report.junit import reds, suite_of

CASES = Path(__file__).parent / "cases" / "runs"
every = pytest.mark.parametrize("name", runs.EVERY)


@every
def test_the_text_of_each_run(name: str) -> None:
    text = run_markdown.render(runs.EVERY[name]().data)
    expected = CASES / f"{name}.md"
    if os.environ.get("DRCTL_REGENERATE"):
        expected.parent.mkdir(parents=True, exist_ok=True)
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")


def test_every_case_is_used() -> None:
    assert {path.stem for path in CASES.iterdir()} == set(runs.EVERY)


@every
def test_no_text_has_a_control_character(name: str) -> None:
    data = runs.EVERY[name]().data
    texts = [verdict(data), *known(data), *unknown(data), *named(report(data), data)]
    for step in next_steps(data):
        texts += [step.what, step.why, step.command or ""]
    for figure in run_lines.figures(data):
        texts += [figure.name, figure.value, figure.how]
    for row in report(data).steps:
        texts += [row.id, row.state, row.took, row.seen]
    texts += run_markdown.render(data).splitlines() + junit(data).splitlines()
    assert [text for text in texts if not text.isprintable()] == []


def test_hostile_names_stay_text_in_markdown() -> None:
    text = run_markdown.render(runs.hostile().data)
    without_code = re.sub(r"(`+) .*? \1|`[^`]*`", "", text.replace("\\`", ""))
    assert "<" not in without_code
    assert not re.search(r"(?<!\\)[\[\]*]", without_code.replace("**", ""))
    assert not re.search(r"(?<!\\)://", without_code)
    assert run_markdown.text("a_b [x](http://y) <i> @ada www.z") == (
        "a\\_b \\[x\\](http\\://y) &lt;i&gt; &#64;ada www\\.z"
    )
    assert run_markdown.code("a `` b") == "``` a `` b ```"


@every
def test_the_documents_match_their_schemas(name: str) -> None:
    data = runs.EVERY[name]().data
    whole = check(ReportDocument.of(data))
    short = check(RunDocument.of(data, report="report.html"))
    assert short["rto_seconds"] == whole["rto"]["seconds"]
    assert [s["status"] for s in short["steps"]] == [s["status"] for s in whole["steps"]]
    assert short["outstanding"] == [each["what"] for each in whole["outstanding"]]
    assert short["report"] == "report.html"


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("done", "done"),
        ("outstanding", "done"),
        ("refused", "refused"),
        ("stopped", "stopped"),
        ("unknown", "unknown"),
        ("interrupted", "stopped"),
        ("lost", "unknown"),
    ],
)
def test_scripts_get_one_of_four_results(name: str, status: str) -> None:
    assert RunDocument.of(runs.EVERY[name]().data).status == status


def test_the_detail_of_a_step_names_every_item_and_error() -> None:
    steps = RunDocument.of(runs.stopped().data).to_json()["steps"]
    failed = next(step for step in steps if step["id"] == "switch-endpoint-1")
    assert failed["detail"] == (
        "kafka.example.net still points to primary; ns1.example.net answers with primary; "
        "ns2.example.net does not answer; ns2.example.net: refused the update (REFUSED)"
    )
    assert (
        RunDocument.of(runs.done().data).to_json()["steps"][0]["started"]
        == "2026-03-05T14:20:07.000+00:00"
    )


@every
def test_junit_matches_the_common_schemas(name: str) -> None:
    data = runs.EVERY[name]().data
    cases = suite_of(junit(data)).findall("testcase")
    assert [c.attrib["name"] for c in cases] == [plain(step.id) for step in data.steps]


@every
def test_junit_fails_if_the_exit_code_is_not_0(name: str) -> None:
    data = runs.EVERY[name]().data
    assert (reds(suite_of(junit(data))) == 0) == (data.ending.exit_code == 0)


def test_junit_distinguishes_failed_unknown_and_skipped() -> None:
    def tags(name: str) -> dict[str, str]:
        suite = suite_of(junit(runs.EVERY[name]().data))
        return {c.attrib["name"]: c[0].tag for c in suite.iter("testcase") if len(c)}

    assert tags("done") == {"wait-for-consumers": "skipped"}
    assert tags("outstanding") == {"fence-producers": "failure"}
    rolled_back = tags("rolled-back")
    assert (rolled_back["commit-offsets"], rolled_back["fence-producers"]) == ("failure", "skipped")
    assert tags("unknown")["drain"] == "error"
    assert tags("partly-rolled-back")["fence-producers"] == "error"
    assert tags("lost")["stop-replication"] == "error"


def test_problems_are_marked_in_the_rows() -> None:
    bad = [row.id for row in report(runs.partly_rolled_back().data).steps if row.bad]
    assert bad == ["fence-producers", "commit-offsets"]
    assert named(report(runs.outstanding().data), runs.outstanding().data) == (
        "outstanding, fence-producers: fence producers on primary: deny WRITE to User:orders-app, "
        "User:payments-app: primary does not answer: fence it before it returns",
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.04, "0.0 s"),
        (57.84, "57.8 s"),
        (59.97, "1 min"),
        (60, "1 min"),
        (172.2, "2 min 52 s"),
        (3599.7, "1 h"),
        (5460, "1 h 31 min"),
        (90_000, "25 h"),
    ],
)
def test_lengths(seconds: float | None, text: str) -> None:
    assert length(seconds) == text
