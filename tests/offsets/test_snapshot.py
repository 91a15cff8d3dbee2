"""Snapshots and translations as files: written, read back, and every kind of damage."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.model.errors import ConfigError, ExitCode, UsageError
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState, Member
from drctl.model.topology import TopicPartition, Unavailable
from drctl.offsets.applying import BasedOn, Bounds, Wanted
from drctl.offsets.documents import TranslationDocument, place_of, read_document
from drctl.offsets.snapshot import (
    Filters,
    GroupSnapshot,
    Snapshot,
    SnapshotDocument,
    of_groups,
    renamed,
    restored,
    snapshot_text,
    take,
)
from drctl.offsets.translating import NEVER
from tests.cli.documents import check
from tests.fakes import FakeCluster, FakeLog, group

NOW = datetime(2026, 3, 5, 14, 20, 7, tzinfo=UTC)
ORDERS = TopicPartition("orders", 0)
PAYMENTS = TopicPartition("payments", 3)


def standing() -> FakeCluster:
    held: dict[str, Any] = {
        "b": {PAYMENTS: Committed(7, 2, "m\x00"), ORDERS: Committed(1)},
        "a": {ORDERS: Committed(5)},
        "hidden": Unavailable("not authorized for group hidden"),
    }
    groups: dict[str, Any] = {
        "b": group("b", members=2),
        "a": group("a", protocol=GroupProtocol.CONSUMER),
        "hidden": group("hidden"),
        "s": Group("s", GroupProtocol.SHARE, GroupState.UNKNOWN),
    }
    return FakeCluster({ORDERS: FakeLog(end=9)}, "target", groups, held)


def taken(filters: Filters | None = None) -> Snapshot:
    return take(standing(), cluster="c", cluster_id="id", taken=NOW, filters=filters or Filters())


def file_of(folder: Path, data: Any) -> Path:
    file = folder / "given.json"
    text = data if isinstance(data, str) else json.dumps(data)
    file.write_text(text, encoding="utf-8")
    return file


def document(snapshot: Snapshot) -> dict[str, Any]:
    found = json.loads(
        snapshot_text(SnapshotDocument.of(snapshot, out="out.json", seconds=1.25).to_json())
    )
    return check(found)


def test_a_snapshot_is_complete() -> None:
    found = taken()
    assert [each.group.name for each in found.groups] == ["a", "b", "s"]
    assert list(found.groups[1].committed_offsets) == [ORDERS, PAYMENTS]
    assert found.unavailable == {"hidden": "not authorized for group hidden"}
    assert (found.exit_code, found.committed_offsets) == (ExitCode.UNKNOWN, 3)
    assert found.without_offsets == ("s",)


def test_filters_match_whole_names() -> None:
    found = taken(Filters(("a|b", "hid"), ("pay.*",)))
    assert [each.group.name for each in found.groups] == ["a", "b"]
    assert [list(each.committed_offsets) for each in found.groups] == [[], [PAYMENTS]]
    assert (found.exit_code, found.unavailable) == (ExitCode.DONE, {})
    with pytest.raises(UsageError, match="--topic-regex '\\[': invalid regular expression"):
        Filters(topics=("[",))


def test_switch_and_restore(tmp_path: Path) -> None:
    snapshot = taken()
    back = read_document(file_of(tmp_path, document(snapshot)))
    assert isinstance(back, Snapshot)
    members = (Member("", ""),) * 2
    known = [
        GroupSnapshot(
            Group(e.group.name, e.group.protocol, e.group.state, members), e.committed_offsets
        )
        if e.group.members
        else e
        for e in snapshot.groups
    ]
    assert back.groups == tuple(known)
    assert (back.cluster_id, back.taken, back.filters) == ("id", NOW, Filters())
    assert back.unavailable == snapshot.unavailable
    assert restored(back) == (
        Wanted("a", ORDERS, Committed(5)),
        Wanted("b", ORDERS, Committed(1)),
        Wanted("b", PAYMENTS, Committed(7, 2, "m\x00")),
    )


names = st.text(min_size=1, max_size=8)
positions = st.dictionaries(
    st.builds(TopicPartition, names, st.integers(0, 5)),
    st.builds(
        Committed,
        st.integers(0, 2**63 - 1),
        st.integers(-1, 2**31 - 1),
        # Metadata that is not valid UTF-8 is kept as lone surrogates.
        st.text(max_size=8) | st.just("\udcff\udc00"),
    ),
    max_size=4,
)


@given(st.dictionaries(names, positions, max_size=4))
def test_any_snapshot_survives_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, held: dict[str, Any]
) -> None:
    groups = tuple(GroupSnapshot(group(name), found) for name, found in held.items())
    snapshot = Snapshot("c", "id", NOW, Filters(), groups, {})
    text = snapshot_text(SnapshotDocument.of(snapshot, out="o", seconds=0.1).to_json())
    assert text.isascii()
    back = read_document(file_of(tmp_path_factory.mktemp("s"), text))
    assert back.groups == groups


def test_only_some_groups() -> None:
    wanted = restored(taken())
    assert of_groups(wanted, []) == wanted
    assert {row.group for row in of_groups(wanted, ["a", "x|b"])} == {"a", "b"}
    with pytest.raises(UsageError, match="no group matches 'x'"):
        of_groups(wanted, ["a", "x"])


def test_a_snapshot_for_an_offset_preserving_target() -> None:
    found = renamed(
        restored(taken()), lambda g: g != "a", lambda t: t == "payments", "copy.{}".format
    )
    assert found == (Wanted("b", TopicPartition("copy.payments", 3), Committed(7, -1, "m\x00")),)


ROW = {
    "group": "g",
    "topic": "orders",
    "partition": 1,
    "target_topic": "p.orders",
    "source_offset": 80,
    "target_offset": 70,
    "method": "offset-sync",
    "rereads_at_most": 12,
    "skips_at_most": 0,
    "evidence": "a sync",
    "age_seconds": 3.0,
    "contradictions": [],
    "blocked": None,
}


def translation(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"schema": "drctl/offsets/1", "rows": list(rows), **more}


def test_a_translation(tmp_path: Path) -> None:
    none = {"target_topic": None, "target_offset": None, "rereads_at_most": None}
    rows = (
        ROW,
        {**ROW, "partition": 2, **none, "skips_at_most": None, "blocked": "no such topic"},
        {**ROW, "partition": 3, **none, "blocked": NEVER},
        {**ROW, "partition": 4, "skips_at_most": None, "blocked": "who knows"},
    )
    found = read_document(file_of(tmp_path, translation(*rows, to="secondary", link="main")))
    based_on = BasedOn("offset-sync", "a sync", 3.0)
    assert found == TranslationDocument(
        "secondary",
        "",
        (
            Wanted(
                "g", TopicPartition("p.orders", 1), Committed(70), Bounds(12, 0), based_on=based_on
            ),
            Wanted("g", TopicPartition("orders", 2), None, blocked="no such topic"),
            Wanted(
                "g",
                TopicPartition("p.orders", 4),
                Committed(70),
                Bounds(12, None),
                blocked="who knows",
                based_on=based_on,
            ),
        ),
    )
    target = {"cluster": "secondary", "id": "x"}
    known = read_document(file_of(tmp_path, translation(ROW, target=target)))
    assert known.target_id == "x"


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (
            ("groups", 1, "committed_offsets", 0, "offset"),
            "groups[1].committed_offsets[0].offset",
            "greater than",
        ),
        (("groups", 0, "extra"), "groups[0].extra", "not permitted"),
        (("taken",), "taken", "valid string"),
        (("groups", 1, "committed_offsets", 0, "metadata"), "metadata", "must be a string"),
        (("groups", 0, "protocol"), "groups[0].protocol", "'classic', 'consumer'"),
    ],
)
def test_an_invalid_snapshot(
    tmp_path: Path, change: tuple[Any, ...], place: str, words: str
) -> None:
    data = document(taken())
    within: Any = data
    for part in change[:-1]:
        within = within[part]
    within[change[-1]] = -1
    text = json.dumps(data, indent=1)
    file = file_of(tmp_path, text)
    with pytest.raises(ConfigError) as wrong:
        read_document(file)
    message = wrong.value.message
    line = int(message.removeprefix(f"{file}:").split(":")[0])
    if change[-1] != "extra":
        assert "-1" in text.splitlines()[line - 1]
        assert f'"{change[-1]}"' in text.splitlines()[line - 1]
    assert place in message
    assert words in message
    assert "drctl offsets snapshot" in wrong.value.hint


def test_a_number_of_members_that_does_not_fit_into_memory(tmp_path: Path) -> None:
    data = document(taken())
    data["groups"][1]["members"] = 10**12
    with pytest.raises(ConfigError, match=r"groups\[1\]\.members"):
        read_document(file_of(tmp_path, data))


def test_duplicates(tmp_path: Path) -> None:
    data = document(taken())
    data["groups"][1]["committed_offsets"].append(data["groups"][1]["committed_offsets"][0])
    data["groups"].append(data["groups"][0])
    data["taken"] = "yesterday"
    with pytest.raises(ConfigError) as wrong:
        read_document(file_of(tmp_path, data))
    assert "3 problems" in wrong.value.message
    assert "groups[1].committed_offsets[2]: duplicate group and partition" in wrong.value.message
    assert "groups[3]: duplicate group" in wrong.value.message
    assert "taken: not a time" in wrong.value.message
    with pytest.raises(ConfigError, match=r"rows\[1\]: duplicate group and partition"):
        read_document(file_of(tmp_path, translation(ROW, ROW)))


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ('{\n  "schema": 1,\n  oops\n}', ConfigError, ":3:3: "),
        ("[" * 100_000, ConfigError, "nested too deep"),
        ("", ConfigError, ":1:1: "),
        ("[]", UsageError, "no field `schema`"),
        ('{"schema": "drctl/gap/1"}', UsageError, "'drctl/gap/1', not drctl/offsets-snapshot/1"),
        ('{"schema": "drctl/offsets/1"}', ConfigError, "rows: Field required"),
        ('{"schema": "drctl/offsets/1", "rows": [1]}', ConfigError, "rows[0]: "),
    ],
)
def test_a_document_of_another_type(
    tmp_path: Path, text: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind) as wrong:
        read_document(file_of(tmp_path, text))
    assert words in str(wrong.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_document(tmp_path / "nothing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_document(tmp_path / "binary")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


@given(json_values, st.integers(0, 3), st.data())
def test_positions_in_a_text(value: Any, indent: int, data: st.DataObject) -> None:
    text = json.dumps(value, indent=indent or None)
    path: list[str | int] = []
    while isinstance(value, dict | list) and value and data.draw(st.booleans()):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        path.append(data.draw(st.sampled_from(keys)))
        value = value[path[-1]]
    line, column = place_of(text, tuple(path))
    lines = text.splitlines(keepends=True)
    at = sum(map(len, lines[: line - 1])) + column - 1
    assert json.JSONDecoder().raw_decode(text, at)[0] == value


def test_an_unknown_position_is_that_of_its_parent() -> None:
    assert place_of('{"a": {"b": 1}}', ("a", "c", 3)) == (1, 7)
    assert place_of("[1, 2]", ("x",)) == (1, 1)
    assert place_of("[1, 2]", (7,)) == (1, 1)
