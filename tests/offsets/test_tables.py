"""Translations on a terminal of any width."""

from dataclasses import replace
from io import StringIO
from typing import cast

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from drctl.config.link import Link
from drctl.model.topology import TopicPartition
from drctl.model.translation import Answer, GroupPartition, Method, Translation
from drctl.offsets.link_translation import LinkTranslated
from drctl.offsets.methods import NoAnswer
from drctl.offsets.situation import SourceGroups
from drctl.offsets.translating import Explained
from drctl.views.translation import WIDEST, Explanation, translation_table

WIDTHS = [40, 80, 100, 140, 200]
PLACE = GroupPartition("payments-settlement-europe", TopicPartition("flights.orders-v2", 11))
BEST = Answer(
    Method.RECORD_MATCH, 3_940, 0, 0, "the last consumed record is at offset 3939 of the target"
)
TRACKED = Answer(
    Method.TRACKED_OFFSET, 3_536, 404, 0,
    "tracked offset 3940: the last consumed records are not on the target; the one before "
    "source offset 3536 is, at 3535; committed offset from primary.__consumer_offsets", 31.4,
)  # fmt: skip
OLD = Answer(Method.CONSUMER_TIMESTAMP, 1_203_536, None, None, "of some time", 3 * 86_400)
WENT_BACK = NoAnswer(
    "its checkpoint is of source offset 4940, behind the position 3940: the group went back, and "
    "the checkpoint would skip records"
)
ROW = Translation(PLACE, 3_940, PLACE.partition, BEST, (TRACKED, OLD))
EXPLAINED = Explained(
    ROW,
    (
        ("tracked-offset", TRACKED),
        ("record-match", BEST),
        ("checkpoint", WENT_BACK),
        ("consumer-timestamp", OLD),
        ("timestamp", NoAnswer("the target cannot be asked")),
    ),
)


def drawn(what: RenderableType, width: int) -> list[str]:
    page = StringIO()
    Console(file=page, width=width, highlight=False).print(what)
    return page.getvalue().splitlines()


def squeezed(lines: list[str]) -> str:
    return "".join("".join(lines).split())


@pytest.mark.parametrize("width", WIDTHS)
def test_explanations_fit_and_are_complete(width: int) -> None:
    lines = drawn(Explanation(EXPLAINED), width)
    assert max(map(cell_len, lines)) <= min(width, WIDEST)
    if width < 80:
        return
    text = " ".join(" ".join(lines).split())
    for method, result in EXPLAINED.results:
        (line,) = (line for line in lines if line[5:].startswith(f"{method} "))
        if isinstance(result, Answer):
            assert f"{result.target_offset:,}" in line
        words = result.evidence if isinstance(result, Answer) else result.reason
        if width < 130 and isinstance(result, Answer):
            assert words in text, "the evidence is not below its numbers on one line"
        else:
            for word in words.split():
                assert word in text
    assert "* record-match: skips no records" in text


@pytest.mark.parametrize(("width", "lines"), [(80, 23), (100, 20), (140, 16), (200, 16)])
def test_explanations_use_few_lines(width: int, lines: int) -> None:
    assert len(drawn(Explanation(EXPLAINED), width)) <= lines


def test_the_chosen_answer_and_its_age() -> None:
    lines = drawn(Explanation(EXPLAINED), 140)
    place = "Group payments-settlement-europe, flights.orders-v2-11"
    assert lines[0] == f"{place}: source offset 3,940"
    taken = next(line for line in lines if line.startswith("  *"))
    assert taken.split()[1:6] == ["record-match", "3,940", "0", "0", "now"]
    assert any(line.split()[:5] == ["tracked-offset", "3,536", "404", "0", "31"] for line in lines)
    assert any(line.split()[-5:] == ["3", "d", "of", "some", "time"] for line in lines)


def test_a_row_that_is_blocked_or_has_no_answer() -> None:
    odd = replace(ROW, blocked="answers contradict each other", contradictions=("a \x1b says b",))
    lines = drawn(Explanation(replace(EXPLAINED, translation=odd)), 100)
    assert "Blocked: answers contradict each other" in lines
    assert "Contradiction: a \\x1b says b" in lines
    none = Explained(replace(ROW, answer=None), (("checkpoint", WENT_BACK),))
    lines = drawn(Explanation(none), 100)
    assert lines[-1] == "No method has an answer."
    unsure = replace(ROW, answer=OLD)
    assert (
        "every answer may skip"
        in drawn(Explanation(replace(EXPLAINED, translation=unsure)), 100)[-1]
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_translations_fit_and_are_complete(width: int) -> None:
    blocked = replace(ROW, blocked="the group is STABLE on the target, with 3 members")
    rows = tuple(Explained(row, ()) for row in (ROW, blocked, replace(ROW, answer=None)))
    source = SourceGroups({}, elsewhere=3, unseen={"somebody": "not authorized to describe it"})
    result = LinkTranslated(rows, source, "id", ("a topic that could not be read",))

    class Ends:
        source, target = "primary", "secondary"
        name = "main"

    lines = drawn(translation_table(cast(Link, Ends()), result), width)
    assert max(map(cell_len, lines)) <= width
    whole = squeezed(lines)
    for words in (
        blocked.blocked,
        "not authorized to describe it",
        "a topic that could not be read",
    ):
        assert "".join(words.split()) in whole
    if width >= 100:
        assert sum("payments-settlement-europe" in line for line in lines) == 4


def test_rows_are_a_table_on_wide_terminals() -> None:
    def known(width: int) -> list[str]:
        result = LinkTranslated((Explained(ROW, ()),), SourceGroups({}), "id", ())

        class Ends:
            source, target = "primary", "secondary"
            name = "main"

        return drawn(translation_table(cast(Link, Ends()), result), width)

    assert any(line.split()[0] == "Group" for line in known(100) if line)
    assert any("payments-settlement-europe, flights.orders-v2-11" in line for line in known(80))
