"""Every kind is complete: settings, reader, writer, documentation; readers cannot write."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic.fields import FieldInfo

from drctl.config.endpoints import SECTIONS, EndpointKind, Section
from drctl.endpoints.registry import KINDS
from drctl.model.endpoints import ClientRedirect, EndpointMoved, EndpointState, in_words
from drctl.model.typed_json import read_as
from tests.docs.pages import page, rows
from tests.endpoints.configured_endpoints import endpoint, section_of, through_json

EXAMPLES: Mapping[str, dict[str, Any]] = {
    "dns": {
        "server": "127.0.0.1",
        "zone": "a.test",
        "record": "k.a.test",
        "clusters": {"primary": "10.0.0.1", "secondary": "10.0.0.2"},
    },
    "haproxy": {
        "socket": "/run/h.sock",
        "backend": "kafka",
        "servers": {"primary": "p1", "secondary": "s1"},
    },
    "file": {"path": "bootstrap"},
    "command": {"argv": ["switch", "{cluster}"], "observe": "look"},
}
PAGE = "docs/explanation/endpoints.md"
LEAVING = "## How clients leave a cluster that is up"


def test_every_kind_has_its_settings_and_an_example() -> None:
    assert set(KINDS) == set(SECTIONS) == set(get_args(EndpointKind)) == set(EXAMPLES)
    for name, kind in KINDS.items():
        assert kind.section is SECTIONS[name]
        assert get_args(kind.section.model_fields["kind"].annotation) == (name,)


@pytest.mark.parametrize(
    ("kind", "more", "leaving"),
    [
        ("dns", {}, ClientRedirect.LOOKED_UP),
        ("haproxy", {}, ClientRedirect.CUT),
        ("haproxy", {"cut_sessions": False}, ClientRedirect.LEFT_OPEN),
        ("file", {}, ClientRedirect.READ_AT_START),
        ("command", {}, ClientRedirect.BY_COMMAND),
    ],
)
def test_each_describes_how_clients_leave_a_running_cluster(
    kind: str, more: dict[str, Any], leaving: ClientRedirect, tmp_path: Path
) -> None:
    section = section_of({"kind": kind, **EXAMPLES[kind], **more}, tmp_path)
    assert section.leaving is leaving
    by_word = {row[0]: row[1] for row in rows(page(PAGE).section(LEAVING))}
    assert f"`{kind}`" in by_word[f"`{leaving}`"]


@pytest.mark.parametrize("leaving", ClientRedirect)
def test_how_clients_leave_is_described_for_both_clusters(leaving: ClientRedirect) -> None:
    text = in_words(leaving, "{old} one", "secondary")
    assert "{old} one" in text, "whatever a cluster is called"
    assert "{new}" not in text


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_reader_has_nothing_that_writes(kind: str, tmp_path: Path) -> None:
    both = endpoint({"kind": kind, **EXAMPLES[kind]}, tmp_path)
    assert both.reader.endpoint == both.writer.endpoint
    assert both.reader.endpoint.startswith(f"{kind} ")
    assert {"switch", "restore"} <= set(dir(both.writer))
    assert not {"switch", "restore"} & set(dir(both.reader))
    assert not isinstance(both.reader, type(both.writer))


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_state_is_restored_only_on_its_own_endpoint(kind: str, tmp_path: Path) -> None:
    both = endpoint({"kind": kind, **EXAMPLES[kind]}, tmp_path)
    other = EndpointState("another", "primary", "", {"records": [], "ttl": 0})
    for call in (
        lambda: both.writer.switch("secondary", other),
        lambda: both.writer.restore(other),
    ):
        with pytest.raises(EndpointMoved, match="belongs to another, not to"):
            call()


def test_states_survive_a_journal() -> None:
    state = EndpointState("x", None, "words", {"a": [1, {"b": None}]}, ("one", "two"), 2.5)
    assert through_json(state) == state
    with pytest.raises(ValueError, match="cluster is missing"):
        read_as(EndpointState, {"endpoint": "x"})


def keys_of(section: type[Section], path: str = "") -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for name, field in section.model_fields.items():
        inner = [a for a in (field.annotation, *get_args(field.annotation)) if _is_section(a)]
        if inner:
            found |= keys_of(inner[0], f"{path}{name}.")
        elif name != "kind":
            found[f"{path}{name}"] = _default(field)
    return found


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _default(field: FieldInfo) -> Any:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, Mapping):
        return dict(default)
    return list(default) if isinstance(default, tuple) else default


@pytest.mark.parametrize("kind", SECTIONS)
def test_the_page_has_every_key_and_its_default(kind: str) -> None:
    section = page("docs/reference/configuration.md").section(f"### {kind}")
    documented = {}
    for key, default, _ in rows(section):
        text = default.strip("`")
        documented[key.strip("`")] = None if text == "none" else yaml.safe_load(text)
    assert documented == keys_of(SECTIONS[kind])


def test_the_page_has_an_example_of_every_kind() -> None:
    shown = " ".join(page(PAGE).blocks("yaml"))
    assert set(re.findall(r"kind: (\w+)", shown)) == set(SECTIONS)
