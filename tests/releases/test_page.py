"""The table of Kafka releases: what a run writes, and what it keeps."""

from collections import Counter
from xml.etree import ElementTree

from tests.releases.__main__ import BEGIN, END, PAGE, PAIRS, ROOT, WORK, counted, row, written

REPORT = """<testsuites><testsuite>
<testcase classname="tests.cluster.test_traps" name="a"/>
<testcase classname="tests.cluster.test_traps" name="b"><failure/></testcase>
<testcase classname="tests.cluster.test_drill" name="c"><skipped/></testcase>
<testcase classname="tests.cluster.test_doctor" name="d"><error/></testcase>
</testsuite></testsuites>"""


def test_every_test_counts_in_its_column() -> None:
    found = counted(ElementTree.fromstring(REPORT))
    assert found["gap"] == {"passed": 1, "failed": 1}
    assert found["drill"] == {"skipped": 1}
    assert found["doctor"] == {"failed": 1}
    assert found["failback"] == {}


def test_a_row_replaces_that_of_the_same_pair_alone() -> None:
    page = f"Before\n{BEGIN}\n\n{END}\nAfter\n"
    passed = {column: Counter(passed=3) for column in WORK}
    failed = {column: Counter(passed=2, failed=1) for column in WORK}
    for pair in reversed(PAIRS):
        page = written(page, {pair: row(pair, passed)})
    again = written(page, {"3.9.1:4.3.1": row("3.9.1:4.3.1", failed)})
    assert written(again, {"3.9.1:4.3.1": row("3.9.1:4.3.1", passed)}) == page
    rows = [line for line in again.splitlines() if line.startswith("| ")][1:]
    assert [line.split(" | ")[:2] for line in rows] == [
        [f"| {pair.partition(':')[0]}", pair.rpartition(":")[2]] for pair in PAIRS
    ]
    assert again.count("2 passed, 1 failed") == len(WORK)
    assert again.startswith("Before\n")
    assert again.endswith("\nAfter\n")


def test_the_files_of_the_table_exist() -> None:
    assert all((ROOT / file).is_file() for files in WORK.values() for file in files)
    assert BEGIN in PAGE.read_text(encoding="utf-8")
