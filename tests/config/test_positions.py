"""Whatever the file looks like, each error names its line and column."""

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.config.loading import read
from drctl.model.errors import ConfigError

FINE: dict[str, Any] = {
    "clusters": {
        "east": {"bootstrap": "east:9092", "properties": {"security.protocol": "SSL"}},
        "west": {"bootstrap": "west:9092", "properties": {"client.id": "drctl"}},
    },
    "links": {
        "main": {
            "from": "east",
            "to": "west",
            "topics": ["orders", "payments-.*"],
            "identity": ["key", "value"],
            "keeps_partitions": True,
            "replicator": {
                "kind": "mirrormaker2",
                "connect": ["http://connect:8083"],
                "connectors": {"source": "mm2"},
                "rename": "${topic}",
            },
            "fence": {"method": "acl", "principals": ["User:app"]},
            "endpoints": [
                {
                    "kind": "dns",
                    "server": "ns",
                    "zone": "example.org",
                    "record": "kafka.example.org",
                    "clusters": {"east": ["10.0.0.1"], "west": ["10.1.0.1"]},
                    "tsig": {"name": "drctl", "secret": "planted"},
                },
                {"kind": "file", "path": "x"},
            ],
        }
    },
    "policy": {"max_lag_records": 0, "order": "per-key"},
    "spark": {"master": "local[*]", "conf": {"a.b": "c"}},
}
# Paths at which a test puts a wrong value, and sections in which it puts an unknown key.
VALUES: list[tuple[str | int, ...]] = [
    ("clusters", "west", "bootstrap"),
    ("links", "main", "topics", 1),
    ("links", "main", "keeps_partitions"),
    ("links", "main", "identity", 0),
    ("links", "main", "replicator", "kind"),
    ("links", "main", "replicator", "connect", 0),
    ("links", "main", "replicator", "rename"),
    ("links", "main", "fence", "principals", 0),
    ("links", "main", "endpoints", 0, "zone"),
    ("links", "main", "endpoints", 0, "clusters", "east", 0),
    ("links", "main", "endpoints", 1, "kind"),
    ("policy", "max_lag_records"),
    ("policy", "order"),
]
SECTIONS: list[tuple[str | int, ...]] = [
    (),
    ("clusters", "east"),
    ("links", "main"),
    ("links", "main", "replicator"),
    ("links", "main", "replicator", "connectors"),
    ("links", "main", "fence"),
    ("links", "main", "endpoints", 0),
    ("links", "main", "endpoints", 0, "tsig"),
    ("policy",),
    ("spark",),
]
# An unclosed bracket is invalid at each path: as a regex, a URL, a number and an enum value.
WRONG = "[bad{}"
PLACES = st.lists(
    st.one_of(
        st.tuples(st.just("value"), st.sampled_from(VALUES)),
        st.tuples(st.just("key"), st.sampled_from(SECTIONS)),
    ),
    min_size=1,
    max_size=6,
    unique=True,
)


def broken(places: list[tuple[str, tuple[str | int, ...]]]) -> dict[str, Any]:
    """Return the valid configuration with a numbered mistake at each of these places."""
    content = deepcopy(FINE)
    for number, (kind, path) in enumerate(places):
        within = content
        for part in path if kind == "key" else path[:-1]:
            within = within[part]  # type: ignore[index]
        if kind == "key":
            within[f"bad{number}x"] = "y"
        else:
            within[path[-1]] = WRONG.format(f"{number}x")  # type: ignore[index]
    return content


def place_of(text: str, number: int) -> tuple[int, int]:
    """Return line and column of a mistake, found in the text itself."""
    match = re.search(rf"['\"]?\[?bad{number}x", text)
    assert match is not None
    before = text[: match.start()].split("\n")
    return len(before), len(before[-1]) + 1


@pytest.mark.slow
@settings(deadline=None)
@given(
    places=PLACES,
    indent=st.integers(2, 6),
    style=st.sampled_from([None, False, True]),
    width=st.sampled_from([40, 80, 10_000]),
    sort=st.booleans(),
    comments=st.lists(st.sampled_from(["", "# x", "# grüße \U0001f600", "#\t:"]), max_size=4),
)
def test_each_error_has_its_position(
    places: list[tuple[str, tuple[str | int, ...]]],
    indent: int,
    style: bool | None,
    width: int,
    sort: bool,
    comments: list[str],
) -> None:
    dumped = yaml.safe_dump(
        broken(places), indent=indent, default_flow_style=style, width=width, sort_keys=sort
    )
    text = "".join(f"{line}\n" for line in comments) + dumped
    with pytest.raises(ConfigError) as caught:
        read(text, Path("x.yaml"))
    reported = {
        (int(line), int(column))
        for line, column in re.findall(r"^x\.yaml:(\d+):(\d+): ", caught.value.message, re.M)
    }
    # `identity` is checked as a whole: the position of its error is that of the list.
    whole = {i for i, (_, path) in enumerate(places) if "identity" in path}
    assert {place_of(text, n) for n in range(len(places)) if n not in whole} <= reported
    assert len(reported) == len(places)


@settings(deadline=None)
@given(st.text(max_size=200))
def test_no_text_causes_a_bug(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text, Path("x.yaml"))
    assert re.search(r"x\.yaml:\d+:\d+: ", caught.value.message)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    [
                        *("clusters", "links", "a", "main", "bootstrap", "properties", "from"),
                        *("to", "topics", "replicator", "kind", "connect", "reverse"),
                        *("connectors", "fence", "endpoints", "spark", "conf", "policy"),
                        *("identity", "exclude", "sasl.password", "rename"),
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=25,
    )
)
def test_no_structure_causes_a_bug(content: object) -> None:
    message = ""
    try:
        read(yaml.safe_dump(content), Path("x.yaml"))
    except ConfigError as error:
        message = error.message
    assert not message or re.search(r"^x\.yaml:\d+:\d+: ", message, re.M)
