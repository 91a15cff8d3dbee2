"""Jars on disk: verified ones are reused, any other is named."""

import hashlib
import os
from pathlib import Path

import pytest

from drctl.artifacts.jars import SETS, CorruptArtifact, Shelf, cache_dir, committed_sums


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    for name in ("a.jar", "b.jar"):
        (tmp_path / name).write_bytes(name.encode() * 10)
    sums = {n: hashlib.sha256(n.encode() * 10).hexdigest() for n in ("a.jar", "b.jar")}
    return Shelf("some", tmp_path, sums)


def test_valid_jars_pass_repeatedly(shelf: Shelf) -> None:
    shelf.check()
    shelf.check()
    assert [path.name for path in shelf.paths] == ["a.jar", "b.jar"]


def test_a_jar_that_changed_after_verification_is_found(shelf: Shelf) -> None:
    shelf.check()
    (shelf.folder / "b.jar").write_bytes(b"B.jar" * 10)
    with pytest.raises(CorruptArtifact) as caught:
        shelf.check()
    assert str(shelf.folder / "b.jar") in caught.value.message
    assert "is corrupt" in caught.value.message
    assert caught.value.hint == f"delete it and retry: rm '{shelf.folder / 'b.jar'}'"


def test_an_invalid_jar_never_passes(shelf: Shelf) -> None:
    (shelf.folder / "a.jar").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(CorruptArtifact, match=r"a\.jar is corrupt"):
            shelf.check()


def test_a_new_modification_time_does_not_matter(shelf: Shelf) -> None:
    shelf.check()
    os.utime(shelf.folder / "a.jar", ns=(1, 1))
    shelf.check()


def test_an_extra_jar_is_named(shelf: Shelf) -> None:
    shelf.check()
    (shelf.folder / "c.jar").write_bytes(b"")
    with pytest.raises(CorruptArtifact, match=r"c\.jar is not one of the some jars"):
        shelf.check()


def test_a_missing_jar_is_named(shelf: Shelf) -> None:
    (shelf.folder / "a.jar").unlink()
    assert shelf.missing()
    with pytest.raises(CorruptArtifact, match=r"fetched some jars do not include a\.jar"):
        shelf.check_bytes()


def test_a_damaged_stamp_causes_a_full_check(shelf: Shelf) -> None:
    shelf.check()
    (shelf.folder / "checked.json").write_text("{", encoding="utf-8")
    shelf.check()


@pytest.mark.parametrize("name", SETS)
def test_every_set_has_checksums(name: str) -> None:
    sums = committed_sums(name)
    for module in SETS[name].modules:
        assert f"{module.name}-{module.revision}.jar" in sums
    assert all(len(total) == 64 for total in sums.values())


def test_the_connector_is_four_jars() -> None:
    assert len(committed_sums("spark-connector")) == 4


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRCTL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_dir() == Path("/somewhere/drctl")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/jane")
    assert cache_dir() == Path("/home/jane/.cache/drctl")
    monkeypatch.setenv("DRCTL_CACHE", "/own")
    assert cache_dir() == Path("/own")
