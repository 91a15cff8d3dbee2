"""`python -m tests.releases [PRIMARY[:SECONDARY] ...]`: tests on clusters of other Kafka releases.

Runs the files of `WORK` on each pair of releases, and writes one row per pair into
docs/reference/versions.md; rows of pairs that were not run stay. Exit code 1 if a test failed.
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "versions.md"
PAIRS = (
    *("3.7.2", "3.9.1", "4.0.0", "4.1.1", "4.3.1"),
    *("3.7.2:4.3.1", "3.9.1:4.3.1", "4.3.1:3.9.1"),
)
WORK: Mapping[str, Sequence[str]] = {
    "gap": ("tests/cluster/test_traps.py",),
    "lost primary": ("tests/lab/test_scenario.py",),
    "planned failover": ("tests/cluster/test_failover.py",),
    "failback": ("tests/cluster/test_failback_by_hand.py",),
    "drill": ("tests/cluster/test_drill.py",),
    "doctor": ("tests/cluster/test_doctor.py",),
}
"""The test files of each column of the table."""

BEGIN, END = "<!-- measured: python -m tests.releases -->", "<!-- end -->"


def run(pair: str, folder: Path) -> ElementTree.Element:
    """The JUnit report of all files of `WORK` on a lab of these releases."""
    report = folder / "junit.xml"
    files = [file for files in WORK.values() for file in files]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not nightly", f"--junitxml={report}"]
    environment = {**os.environ, "LAB_KAFKA": pair}
    subprocess.run([*command, *files], cwd=ROOT, env=environment, check=False)
    return ElementTree.parse(report).getroot()


def counted(report: ElementTree.Element) -> Mapping[str, Counter[str]]:
    """By column, how many tests passed, failed or were skipped."""
    columns = {
        file.removesuffix(".py").replace("/", "."): column
        for column, files in WORK.items()
        for file in files
    }
    found = {column: Counter[str]() for column in WORK}
    for case in report.iter("testcase"):
        ends = {"failure": "failed", "error": "failed", "skipped": "skipped"}
        end = next((words for tag, words in ends.items() if case.find(tag) is not None), "passed")
        found[columns[case.get("classname", "")]][end] += 1
        if end == "failed":
            print(f"failed: {case.get('classname')}::{case.get('name')}", flush=True)
    return found


def row(pair: str, counts: Mapping[str, Counter[str]]) -> str:
    """A line of the table."""
    primary, _, secondary = pair.partition(":")
    cells = (
        ", ".join(f"{count} {end}" for end, count in sorted(each.items(), reverse=True)) or "no run"
        for each in counts.values()
    )
    day = datetime.now(UTC).date().isoformat()
    return f"| {' | '.join((primary, secondary or primary, *cells, day))} |"


def written(page: str, rows: Mapping[str, str]) -> str:
    """The page with these rows in place of those of the same pairs."""
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    heading = ("Primary", "Secondary, Connect", *WORK, "Date")
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    known = {_pair(line): line for line in lines[1:]} | dict(rows)
    order = sorted(known, key=lambda pair: (":" in pair, PAIRS.index(pair)))
    made = (
        f"| {' | '.join(heading)} |",
        f"|{'---|' * len(heading)}",
        *(known[pair] for pair in order),
    )
    return f"{before}{BEGIN}\n\n" + "\n".join(made) + f"\n\n{END}{after}"


def _pair(line: str) -> str:
    primary, secondary = (cell.strip() for cell in line.split("|")[1:3])
    return primary if primary == secondary else f"{primary}:{secondary}"


def main(pairs: Sequence[str]) -> int:
    """Run the pairs, and write each row as soon as it is known."""
    failed = 0
    for pair in pairs:
        print(f"--- Kafka {pair}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            counts = counted(run(pair, Path(folder)))
        failed += sum(each["failed"] for each in counts.values())
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(written(page, {pair: row(pair, counts)}), encoding="utf-8")
    return int(failed > 0)


if __name__ == "__main__":
    unknown = [pair for pair in sys.argv[1:] if pair not in PAIRS]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; choose from {', '.join(PAIRS)}")
    sys.exit(main(sys.argv[1:] or PAIRS))
