"""Class data archives: valid ones are used, damaged ones do no harm."""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from drctl.artifacts.jars import resolve
from drctl.artifacts.java import class_archive, find_java, keep, recorded_into, started_with
from drctl.model.errors import Stopped

pytestmark = pytest.mark.jvm

MAIN = "org.apache.kafka.clients.admin.AdminClientConfig"
"""A class that prints its configuration options and exits."""


def command(options: Sequence[str]) -> list[str]:
    """Run a program from Kafka's jars."""
    jars = resolve("kafka", progress=lambda _line: None)[0].parent
    flags = ("-Xlog:class+load:stdout", "-XX:-CreateCoredumpOnCrash")
    return [str(find_java()), *options, *flags, "-cp", f"{jars}/*", MAIN]


def java(*options: str) -> str:
    """Return where the class was loaded from."""
    ran = subprocess.run(command(options), capture_output=True, text=True, timeout=60, check=True)
    (line,) = [line for line in ran.stdout.splitlines() if f" {MAIN} source:" in line]
    return line.partition("source: ")[2]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a JVM without an archive recorded."""
    file = tmp_path_factory.mktemp("classes") / "recorded"
    assert "kafka-clients" in java(*recorded_into(file))
    return file


def test_recorded_and_used(recorded: Path, tmp_path: Path) -> None:
    archive = class_archive(tmp_path)
    assert archive.parent == tmp_path
    assert started_with(archive) == ()
    keep(recorded, archive, command)
    assert recorded.exists()
    assert [file.name for file in tmp_path.iterdir()] == [archive.name]
    assert java(*started_with(archive)) == "shared objects file (top)"


def one_bit_flipped(whole: bytes) -> bytes:
    middle = len(whole) // 2
    return whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]


@pytest.mark.parametrize(
    "damage",
    [lambda whole: b"", lambda whole: whole[:4096], lambda whole: whole[:-4096], one_bit_flipped],
    ids=["empty", "first-page", "without-last-page", "one-bit"],
)
def test_a_damaged_archive_is_not_kept(
    recorded: Path, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    damaged = tmp_path / "damaged"
    damaged.write_bytes(damage(recorded.read_bytes()))
    with pytest.raises(Stopped, match="cannot be used"):
        keep(damaged, tmp_path / "archive", command)
    assert not (tmp_path / "archive").exists()


def test_a_jvm_that_wrote_nothing(tmp_path: Path) -> None:
    with pytest.raises(Stopped, match="no classes were recorded"):
        keep(tmp_path / "recorded", tmp_path / "archive", command)
    assert not list(tmp_path.iterdir())


def test_each_java_has_its_own_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = class_archive(tmp_path)
    other = tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    script = other / "bin" / "java"
    script.write_text(f'#!/bin/sh\nexec {find_java()} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(other))
    assert class_archive(tmp_path) != mine
