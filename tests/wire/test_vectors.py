"""drctl's encoding equals that of Kafka's own classes, in both directions.

`vectors.jsonl` is their output. Regenerate it with `DRCTL_REGENERATE=1 pytest -m jvm
tests/wire/test_vectors.py`, from its own content.
"""

import json
import logging
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from drctl.artifacts.jars import resolve
from drctl.artifacts.java import find_java
from drctl.formats import consumer_offsets, group_metadata
from drctl.formats.consumer_offsets import CommitKey, GroupKey
from tests.wire.formats import FORMATS, commits, groups, made
from tests.wire.kafka_fields import NO_ID, WORDS, camel

Line = dict[str, Any]
FOLDER = Path(__file__).parent
FILE = FOLDER / "vectors.jsonl"
VECTORS: list[Line] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
MADE = 60
_MIRRORED = {"OffsetSync": "offset-syncs", "Checkpoint": "checkpoints", "Heartbeat": "heartbeats"}


def ids(line: Line) -> str:
    return f"{line['name']}-{line['version']}-{line['hex'][:24]}"


@pytest.mark.parametrize("line", VECTORS, ids=ids)
def test_bytes_written_by_kafka(line: Line) -> None:
    word = WORDS[line["name"]]
    given = {k: v for k, v in line["fields"].items() if (k, v) != ("topicId", NO_ID)}
    assert word.fields(line["hex"]) == given
    assert word.hex(line["fields"], line["version"]) == line["hex"]


def test_there_are_vectors_of_every_class_and_version() -> None:
    seen = {(line["name"], line["version"]) for line in VECTORS}
    several = {"OffsetCommitValue": range(5), "GroupMetadataValue": range(5)}
    assert seen == {(name, n) for name in WORDS for n in several.get(name, [0])}
    assert any(line["fields"].get("topicId", NO_ID) != NO_ID for line in VECTORS)


def made_here() -> list[Line]:
    """Return values drawn by Hypothesis in drctl's encoding."""
    by_name = {each.name: each for each in FORMATS}
    lines = [_key_line(key) for key in made(by_name["consumer-offsets-key"].values, MADE)]
    for version in range(5):
        for commit in made(commits(version), MADE):
            text = consumer_offsets.encode_commit(commit).hex()
            lines.append(_line("OffsetCommitValue", version, text))
        for group in made(groups(version), MADE):
            lines.append(
                _line("GroupMetadataValue", version, group_metadata.encode_group(group).hex())
            )
    for name, room in _MIRRORED.items():
        halves = (by_name[f"{room}-{half}"].made(MADE) for half in ("key", "value"))
        lines += [_line(name, 0, f"{k.hex()} {v.hex()}") for k, v in zip(*halves, strict=False)]
    return [line for line in lines if line]


def _key_line(key: consumer_offsets.Key) -> Line:
    text = consumer_offsets.encode_key(key).hex()
    match key:
        case CommitKey(legacy=legacy):
            return _line("LegacyOffsetCommitKey" if legacy else "OffsetCommitKey", 0, text)
        case GroupKey(type=kind):
            return _line(camel(kind), 0, text)
        case _:
            return {}


def _line(name: str, version: int, text: str) -> Line:
    return {"name": name, "version": version, "hex": text}


def asked_of_kafka(lines: list[Line]) -> list[Line]:
    """Return the lines as Kafka's own classes encode and decode them."""
    progress = logging.getLogger("tests").info
    jars = {
        jar.name: jar for name in ("kafka", "connect") for jar in resolve(name, progress=progress)
    }
    done = subprocess.run(
        [
            str(find_java()),
            "-Dfile.encoding=UTF-8",
            "-cp",
            os.pathsep.join(map(str, jars.values())),
            str(FOLDER / "Vectors.java"),
        ],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split("\n") if line]


@pytest.mark.jvm
def test_the_vectors_equal_kafkas_own_encoding() -> None:
    asked = [{k: v for k, v in line.items() if k != "hex"} for line in VECTORS]
    read = [{k: v for k, v in line.items() if k != "fields"} for line in VECTORS]
    made = made_here()
    answers = asked_of_kafka([*asked, *read, *made])
    written, known, others = (
        answers[: len(asked)],
        answers[len(asked) : -len(made)],
        answers[-len(made) :],
    )
    if os.environ.get("DRCTL_REGENERATE"):
        FILE.write_text("".join(json.dumps(line) + "\n" for line in written), encoding="utf-8")
    assert written == VECTORS
    assert known == VECTORS
    for ours, theirs in zip(made, others, strict=True):
        assert theirs["hex"] == ours["hex"]
        seen = WORDS[ours["name"]].fields(ours["hex"])
        assert {k: v for k, v in theirs["fields"].items() if (k, v) != ("topicId", NO_ID)} == seen
