"""Refusals of drctl: what they must say, and several at once."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from tests.cli.conftest import Ran
from tests.cli.documents import check

WHY = "agreed with the owner"
"""The reason with which a precheck is overridden."""


def side_by_side(*commands: Callable[[], Ran]) -> list[Ran]:
    """Run several commands at once: none of them writes."""
    with ThreadPoolExecutor() as threads:
        return [each.result() for each in [threads.submit(command) for command in commands]]


def is_refused(ran: Ran, *failing: Mapping[str, str]) -> None:
    """Assert that it was refused with these reasons and remedies, as text."""
    assert (ran.code, ran.stdout) == (3, ""), ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    errors = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    advice = [line for line in ran.stderr.splitlines() if line.startswith("hint: ")]
    assert (len(errors), len(advice)) == (1, 1), ran.stderr
    for each in failing:
        assert f"{each['check']}: {each['subject']}: {each['reason']}" in errors[0]
        assert each["remedy"] in advice[0]


def is_refused_as_document(ran: Ran, *failing: Mapping[str, str]) -> None:
    """Assert the same in JSON."""
    assert ran.code == 3, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    error = check(ran.document())["error"]
    assert (error["code"], error["kind"]) == (3, "Refused")
    for each in failing:
        assert f"{each['check']}: {each['subject']}: {each['reason']}" in error["message"]
        assert each["remedy"] in error["hint"]
