"""Exit code 5 from a run that must be resumed differs from one of a command that started none."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drctl.cli.running import _before_a_run, resume_required
from drctl.cli.settings import error_document
from drctl.model.errors import (
    DrctlError,
    ExitCode,
    Fenced,
    Refused,
    ResumeRequired,
    Unknown,
    Unreachable,
)
from drctl.model.health import AuthenticationFailed

LINK = cast(Any, SimpleNamespace(name="main", is_inside=False))
DOCS = Path(__file__).parents[2] / "docs" / "reference" / "exit-codes.md"


def during_a_run(error: DrctlError, link: Any = LINK) -> DrctlError:
    with pytest.raises(DrctlError) as caught, resume_required("R1", link):
        raise error
    return caught.value


def before_a_run(error: DrctlError, *, execute: bool = True) -> DrctlError:
    with pytest.raises(DrctlError) as caught, _before_a_run(execute):
        raise error
    return caught.value


@pytest.mark.parametrize("error", [Unreachable("no answer"), Unknown("cannot write journal")])
def test_an_error_during_a_run_names_the_run_and_how_to_resume_it(error: DrctlError) -> None:
    found = during_a_run(error)
    document = error_document(found).error
    assert (document.code, document.kind) == (ExitCode.UNKNOWN, "ResumeRequired")
    assert document.message == f"run R1 is unfinished: {error.message}"
    assert document.hint.endswith("drctl resume R1 --link main --execute")
    assert document.hint.startswith("do not start a new run")
    assert before_a_run(found) is found
    assert "no run was started" not in found.hint


def test_one_cluster_or_workers_that_do_not_answer() -> None:
    inside = SimpleNamespace(name="cluster:primary", is_inside=True)
    assert "resume R1 --cluster primary " in during_a_run(Unknown("x"), inside).hint
    workers = SimpleNamespace(name="connect:http://c:8083", is_inside=True)
    assert "drctl resume R1 --execute" in during_a_run(Unknown("x"), workers).hint


@pytest.mark.parametrize("error", [Refused("no"), Fenced("x"), AuthenticationFailed("password")])
def test_errors_with_other_codes_are_unchanged(error: DrctlError) -> None:
    assert during_a_run(error) is error
    assert before_a_run(error) is error
    assert error.hint == ""


def test_an_error_before_a_run_states_that_none_was_started() -> None:
    assert before_a_run(Unreachable("x", "start it")).hint == "no run was started; start it"
    assert before_a_run(Unknown("x")).hint == "no run was started"
    assert before_a_run(Unreachable("x", "start it"), execute=False).hint == "start it"


def test_the_documentation_names_each_kind() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for kind in (ResumeRequired.__name__, "NoClusterResponds", Unreachable.__name__):
        assert f"`kind` `{kind}`" in text
