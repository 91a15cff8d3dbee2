"""Listing and finding built-in and user-supplied runbooks."""

from pathlib import Path

import pytest

from drctl.cli.options import begin
from drctl.cli.runbook import list_runbooks, show
from drctl.model.errors import ConfigError, UsageError
from drctl.resources import shipped
from drctl.runbook.reading import FOLDER, find, find_file, listing

PAGE = "before-the-primary-returns"
OWN = "name: {name}\nabout: Ours. And more.\nsteps: [{{id: a, manual: x}}]\n"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    for name in ("ours", "drill"):
        (tmp_path / f"{name}.yaml").write_text(OWN.format(name=name))
    (tmp_path / "broken.yaml").write_text("name: broken\n")
    (tmp_path / "notes.txt").write_text("not a runbook\n")
    return tmp_path


def test_built_in_runbooks_are_listed_with_their_descriptions() -> None:
    found = {each.name: each for each in listing()}
    assert len(found) == 11
    assert found["drill"].about.startswith(
        "Rehearse a switchover: check everything that it depends on"
    )
    assert all(each.valid and not each.own and not each.replaced for each in found.values())


def test_a_long_description_is_wrapped(
    own: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (own / "ours.yaml").write_text(OWN.format(name="ours").replace("Ours", "Ours " * 40))
    begin(["runbook", "list"])
    monkeypatch.setattr("drctl.cli.runbook._own", lambda _: own)
    list_runbooks()
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    (place,) = (n for n, line in enumerate(lines) if line.startswith("ours "))
    assert lines[place + 1].startswith(" " * lines[place].index("Ours") + "Ours")


def test_user_supplied_runbooks_are_listed_and_replace_built_in_ones(own: Path) -> None:
    found = listing(own)
    assert len(found) == 14
    assert [(e.own, e.replaced) for e in found if e.name == "drill"] == [
        (True, False),
        (False, True),
    ]
    broken = next(each for each in found if each.name == "broken")
    assert (broken.valid, broken.about) == (False, "")
    assert next(each for each in found if each.name == "ours").about == "Ours"


def test_a_runbook_is_found_by_its_name(own: Path) -> None:
    assert find("drill", own).path == own / "drill.yaml"
    assert find("drill").path.parent.name == "runbooks"
    assert find("ours", own).file.about == "Ours. And more."


def test_the_page_for_a_lost_primary_is_printed(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An installed drctl has no folder `runbooks` to look into."""
    begin(["runbook", "show", PAGE])
    assert show(PAGE) == 0
    page = (shipped(FOLDER) / f"{PAGE}.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out == page
    with pytest.raises(UsageError):
        find(PAGE)
    ours = own / f"{PAGE}.yaml"
    ours.write_text(OWN.format(name=PAGE))
    assert find_file(PAGE, own) == ours
    with pytest.raises(UsageError, match=r"there is no runbook '\.\./README'"):
        find_file("../README", own)


def test_texts_name_the_command_that_prints_the_page() -> None:
    for name in ("unplanned-failover", "failback"):
        about = find(name).file.about
        assert f"drctl runbook show {PAGE}" in " ".join(about.split())
        assert f"{PAGE}.md" not in about


def test_missing_and_invalid_runbooks(own: Path) -> None:
    with pytest.raises(UsageError) as caught:
        find("dril")
    assert caught.value.hint == "did you mean 'drill'?"
    with pytest.raises(UsageError, match=r"there is no runbook '\.\./drill'"):
        find("../drill", own)
    with pytest.raises(ConfigError, match="about: is required"):
        find("broken", own)
    with pytest.raises(ConfigError, match="not a directory"):
        listing(own / "missing")
