"""A slice of what `python -m tests.fuzz --inputs 10000000` runs."""

from pathlib import Path
from random import Random

import pytest

from tests.fuzz.__main__ import failures, shares
from tests.fuzz.mutations import mutated
from tests.fuzz.targets import SLOW, TARGETS
from tests.wire.formats import FORMATS, Format

INPUTS = 300


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_a_decoder_reads_an_input_or_refuses_it(target: str, tmp_path: Path) -> None:
    inputs = INPUTS // 3 if target in SLOW else INPUTS
    found = failures(target, TARGETS[target](tmp_path), 0, range(inputs))
    assert not found, "".join(f"{each.error}\nReplay: {each.command}\n" for each in found)


@pytest.mark.slow
@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_inputs_are_neither_all_valid_nor_all_invalid(each: Format) -> None:
    valid = each.made(20)
    inputs = (mutated(Random(f"{each.name} {number}"), valid) for number in range(INPUTS))
    assert {each.refusal(data) is None for data in inputs} == {True, False}


def test_slow_kinds_get_a_tenth_of_the_inputs() -> None:
    assert shares(1100, ["journals", "conditions"]) == {"journals": 100, "conditions": 1000}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_an_endless_decoder_is_reported() -> None:
    def endless(_: Random) -> None:
        while True:
            pass

    (found,) = failures("main", endless, 0, range(1), cpu_s=0.2)
    assert "CPU time" in found.error
    assert found.command == "python -m tests.fuzz --replay main:0:0"
