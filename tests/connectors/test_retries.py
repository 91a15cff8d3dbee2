"""The retry settings of a connector: its own, and the defaults of its plugin."""

from collections.abc import Mapping

from drctl.connectors.diagnosis import ConnectorHealth
from drctl.connectors.retries import retry_settings
from drctl.model.errors import Unreachable
from drctl.views.connectors import status_table
from tests.connectors.test_tables import drawn
from tests.connectors.world import connector

DEFAULTS = {"errors.max.retries": "-1", "slot.max.retries": "6", "snapshot.mode": "initial"}


def test_configured_values_replace_defaults() -> None:
    asked: list[str] = []

    def defaults(plugin: str) -> Mapping[str, str]:
        asked.append(plugin)
        return DEFAULTS

    shops = [connector("a", errors_max_retries="3"), connector("b")]
    found = retry_settings(shops, defaults)
    assert [each.words for each in found["a"]] == [
        "errors.max.retries=3",
        "slot.max.retries=6 (default)",
    ]
    assert len(asked) == 1, "a plugin was asked more than once"
    text = drawn(status_table([ConnectorHealth("w:8083", tuple(shops), retries=found)]))
    assert "a: errors.max.retries=3, slot.max.retries=6 (default)" in text


def test_without_plugin_defaults_configured_values_are_shown() -> None:
    def silent(plugin: str) -> Mapping[str, str]:
        raise Unreachable("too old")

    found = retry_settings([connector("a", errors_max_retries="3"), connector("b")], silent)
    assert [each.words for each in found["a"]] == ["errors.max.retries=3"]
    assert found["b"] == ()
    text = drawn(status_table([ConnectorHealth("w:8083", (connector("b"),), "", {"b": ()})]))
    assert "1 connector, none failed" in text
    assert "Retried" not in text


def test_possible_secrets_are_not_shown() -> None:
    planted = connector("a", my_retry_token="planted", other_attempts="${file:x:y}")
    assert retry_settings([planted], lambda plugin: {})["a"] == ()
