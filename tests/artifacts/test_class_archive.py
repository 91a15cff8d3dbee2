"""Archives of classes: those that fit are used, all others do no harm."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from drctl.artifacts.jars import resolve
from drctl.artifacts.java import class_archive, find_java, keep, recorded_into, started_with
from drctl.model.errors import Stopped

pytestmark = pytest.mark.jvm

MAIN = "org.apache.kafka.clients.admin.AdminClientConfig"
"""Prints what it knows, and ends."""


def command(options: Sequence[str]) -> list[str]:
    """Run a program out of Kafka's jars."""
    jars = resolve("kafka", progress=lambda _line: None)[0].parent
    told = ("-Xlog:class+load:stdout", "-XX:-CreateCoredumpOnCrash")
    return [str(find_java()), *options, *told, "-cp", f"{jars}/*", MAIN]


def java(*options: str) -> str:
    """Where the class that was run came from."""
    ran = subprocess.run(command(options), capture_output=True, text=True, timeout=60, check=True)
    (line,) = [line for line in ran.stdout.splitlines() if f" {MAIN} source:" in line]
    return line.partition("source: ")[2]


def test_recorded_and_used(tmp_path: Path) -> None:
    archive = class_archive(tmp_path)
    assert archive.parent == tmp_path
    assert started_with(archive) == ()
    recorded = tmp_path / "recorded"
    assert "kafka-clients" in java(*recorded_into(recorded))
    keep(recorded, archive, command)
    assert {file.name for file in tmp_path.iterdir()} == {"recorded", archive.name}
    assert java(*started_with(archive)) == "shared objects file (top)"


@pytest.mark.parametrize("kept", [0, 4096, -4096])
def test_half_an_archive_is_not_kept(tmp_path: Path, kept: int) -> None:
    whole, half = tmp_path / "whole", tmp_path / "half"
    java(*recorded_into(whole))
    half.write_bytes(whole.read_bytes()[:kept])
    with pytest.raises(Stopped, match="cannot be used"):
        keep(half, tmp_path / "archive", command)
    assert not (tmp_path / "archive").exists()
    flipped = bytearray(whole.read_bytes())
    flipped[len(flipped) // 2] ^= 1
    half.write_bytes(flipped)
    with pytest.raises(Stopped, match="cannot be used"):
        keep(half, tmp_path / "archive", command)


def test_a_jvm_that_wrote_nothing(tmp_path: Path) -> None:
    with pytest.raises(Stopped, match="no classes were recorded"):
        keep(tmp_path / "recorded", tmp_path / "archive", command)
    assert not list(tmp_path.iterdir())


def test_another_java_has_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = class_archive(tmp_path)
    other = tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    script = other / "bin" / "java"
    script.write_text(f'#!/bin/sh\nexec {find_java()} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(other))
    assert class_archive(tmp_path) != mine
