"""A member of a group recovers by itself, like a service."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drctl.lab.waiting import Patience
from tests.soak import grouping
from tests.soak.grouping import Member


def test_a_member_without_a_group_rejoins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "ALONE_S", 0.2)
    nobody = {"bootstrap.servers": "127.0.0.1:1"}
    cluster = SimpleNamespace(name="primary", client_properties=lambda _user: nobody)
    endpoint: Any = SimpleNamespace(cluster=lambda: cluster)
    member = Member("g", endpoint, "flights", tmp_path, 20)
    member.start()
    try:
        assert Patience.of(20).wait_until(lambda: member.rejoined >= 2)
        assert not member.failure
    finally:
        assert member.stop()
        member.log.close()
