"""Refusals of drctl: what they have to say, and several of them at once."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from tests.cli.conftest import Ran
from tests.cli.documents import check

WHY = "agreed with the owner"
"""For which a precheck is overridden."""


def side_by_side(*commands: Callable[[], Ran]) -> list[Ran]:
    """Neither writes: none is in the other's way."""
    with ThreadPoolExecutor() as threads:
        return [each.result() for each in [threads.submit(command) for command in commands]]


def is_refused(ran: Ran, *failing: Mapping[str, str]) -> None:
    """With these reasons and cures, in words for a person."""
    assert (ran.code, ran.stdout) == (3, ""), ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    said = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    advice = [line for line in ran.stderr.splitlines() if line.startswith("hint: ")]
    assert (len(said), len(advice)) == (1, 1), ran.stderr
    for each in failing:
        assert f"{each['check']}: {each['subject']}: {each['reason']}" in said[0]
        assert each["remedy"] in advice[0]


def is_refused_as_document(ran: Ran, *failing: Mapping[str, str]) -> None:
    """The same, for a script."""
    assert ran.code == 3, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    error = check(ran.document())["error"]
    assert (error["code"], error["kind"]) == (3, "Refused")
    for each in failing:
        assert f"{each['check']}: {each['subject']}: {each['reason']}" in error["message"]
        assert each["remedy"] in error["hint"]
