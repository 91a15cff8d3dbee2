"""The incident page: one printed page, five decisions, and every exit code of a failover."""

import re
from pathlib import Path
from textwrap import wrap

PAGE = (Path(__file__).parents[2] / "docs" / "3am.md").read_text(encoding="utf-8")
COLUMNS, LINES = 110, 72
"""Of an A4 page in 9 point."""


def test_it_fits_on_one_page() -> None:
    lines = [each for line in PAGE.splitlines() for each in wrap(line, COLUMNS)]
    assert len(lines) <= LINES


def test_there_are_five_decisions() -> None:
    assert re.findall(r"^## (\d)\. ", PAGE, re.MULTILINE) == ["1", "2", "3", "4", "5"]


def test_every_exit_code_of_a_failover_has_an_action() -> None:
    cells = re.findall(r"^\| ([^|]*) \| [^|]+ \|$", PAGE, re.MULTILINE)
    assert {number for cell in cells for number in re.findall(r"\d+", cell)} == {
        *("0", "1", "2", "3", "4", "5", "130")
    }
    assert "`no run was started`" in PAGE
