"""Jars on disk: verified ones are reused, any other is named."""

import hashlib
import os
from pathlib import Path

import pytest

from drctl.artifacts.jars import SETS, CachedJars, CorruptArtifact, cache_dir, committed_sums


@pytest.fixture
def cached(tmp_path: Path) -> CachedJars:
    for name in ("a.jar", "b.jar"):
        (tmp_path / name).write_bytes(name.encode() * 10)
    sums = {n: hashlib.sha256(n.encode() * 10).hexdigest() for n in ("a.jar", "b.jar")}
    return CachedJars("some", tmp_path, sums)


def test_valid_jars_pass_repeatedly(cached: CachedJars) -> None:
    cached.check()
    cached.check()
    assert [path.name for path in cached.paths] == ["a.jar", "b.jar"]


def test_a_jar_that_changed_after_verification_is_found(cached: CachedJars) -> None:
    cached.check()
    (cached.folder / "b.jar").write_bytes(b"B.jar" * 10)
    with pytest.raises(CorruptArtifact) as caught:
        cached.check()
    assert str(cached.folder / "b.jar") in caught.value.message
    assert "is corrupt" in caught.value.message
    assert caught.value.hint == f"delete it and retry: rm '{cached.folder / 'b.jar'}'"


def test_an_invalid_jar_never_passes(cached: CachedJars) -> None:
    (cached.folder / "a.jar").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(CorruptArtifact, match=r"a\.jar is corrupt"):
            cached.check()


def test_a_new_modification_time_does_not_matter(cached: CachedJars) -> None:
    cached.check()
    os.utime(cached.folder / "a.jar", ns=(1, 1))
    cached.check()


def test_an_extra_jar_is_named(cached: CachedJars) -> None:
    cached.check()
    (cached.folder / "c.jar").write_bytes(b"")
    with pytest.raises(CorruptArtifact, match=r"c\.jar is not one of the some jars"):
        cached.check()


def test_a_missing_jar_is_named(cached: CachedJars) -> None:
    (cached.folder / "a.jar").unlink()
    assert cached.missing()
    with pytest.raises(CorruptArtifact, match=r"fetched some jars do not include a\.jar"):
        cached.check_bytes()


def test_a_damaged_stamp_causes_a_full_check(cached: CachedJars) -> None:
    cached.check()
    (cached.folder / "checked.json").write_text("{", encoding="utf-8")
    cached.check()


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
