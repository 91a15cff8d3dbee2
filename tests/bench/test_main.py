"""If one part fails, the others still run."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from bench import main, output
from bench.process import WrongAnswer
from bench.rows import Row


def rows(part: str) -> Iterator[Row]:
    yield Row(part, f"{part} measured", (1.0,))
    if part == "help":
        raise WrongAnswer("the help page is empty")


@pytest.mark.parametrize(
    ("parts", "code", "measured"),
    [(("help", "cold"), main.FAILED, ["help", "cold"]), (("cold",), 0, ["cold"])],
)
def test_results_are_kept_and_the_failure_is_reported(
    parts: tuple[str, ...],
    code: int,
    measured: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved: list[Mapping[str, Any]] = []
    measures = {part: lambda part=part: rows(part) for part in parts}
    monkeypatch.setattr(main, "_measures", lambda *_: measures)
    monkeypatch.setattr(main, "machine", lambda: {"cores": 2})
    monkeypatch.setattr(main.signal, "signal", lambda *_: None)
    monkeypatch.setattr(output, "show", lambda *_: None)
    monkeypatch.setattr(output, "save", lambda found, _began: saved.append(found))
    assert main.main([word for part in parts for word in ("--only", part)]) == code
    assert [row["part"] for row in saved[0]["rows"]] == measured
    assert saved[0]["complete"] == (code == 0)
    assert ("the help page is empty" in capsys.readouterr().err) == (code != 0)
