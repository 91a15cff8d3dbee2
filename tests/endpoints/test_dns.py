"""A record of a real BIND: read, switched, restored; remaining cache time is reported."""

from pathlib import Path
from typing import Any

import dns.message
import dns.query
import dns.rdatatype
import dns.tsig
import dns.update
import pytest

from drctl.lab.waiting import Patience
from drctl.model.endpoints import EndpointMoved, EndpointRejected
from tests.endpoints.bind_server import KEY, NEGATIVE_TTL, Named
from tests.endpoints.configured_endpoints import Endpoint, endpoint, through_json

pytestmark = pytest.mark.endpoints

ADDRESSES = {"primary": ["10.0.0.1", "10.0.0.2"], "secondary": "10.1.0.1"}


def settings(server: Named, **more: Any) -> dict[str, Any]:
    return {
        "kind": "dns",
        "server": "127.0.0.1",
        "port": server.port,
        "zone": server.zone,
        "record": server.record(),
        "ttl": 5,
        "clusters": ADDRESSES,
        "tsig": {"name": KEY, "secret": "${env:TSIG}"},
        **more,
    }


def opened(server: Named, given: dict[str, Any]) -> Endpoint:
    return endpoint(given, Path("x"), {"TSIG": server.secret})


def set_by_hand(server: Named, given: dict[str, Any], kind: str, ttl: int, *data: str) -> None:
    """Set it as another administrator with a valid key."""
    update = dns.update.UpdateMessage(server.zone)
    update.use_tsig(dns.tsig.Key(KEY, server.secret, "hmac-sha256"))
    update.delete(given["record"], kind)
    for each in data:
        update.add(given["record"], ttl, kind, each)
    answer = dns.query.tcp(update, "127.0.0.1", port=server.port, timeout=10)
    assert answer.rcode() == 0


def asked(server: Named, name: str, kind: str = "A") -> list[str]:
    """Return what a client resolves."""
    query = dns.message.make_query(name, kind)
    answer = dns.query.udp(query, "127.0.0.1", port=server.port, timeout=10)
    wanted = dns.rdatatype.from_text(kind)
    return sorted(r.to_text() for rrset in answer.answer if rrset.rdtype == wanted for r in rrset)


def test_switch_and_restore(server: Named) -> None:
    given = settings(server)
    set_by_hand(server, given, "A", 300, "10.0.0.2", "10.0.0.1")
    record = opened(server, given)
    before = record.seen()
    assert before.cluster == "primary"
    assert before.message == (
        f"{given['record']} A is 10.0.0.1, 10.0.0.2 (of primary), TTL 300 s, not 5 s as in"
        " drctl.yaml"
    )
    assert before.evidence["records"] == ["10.0.0.1", "10.0.0.2"]
    assert (before.evidence["ttl"], before.cached_s, before.unfinished) == (300, 300, ())
    record.writer.switch("secondary", before)
    assert asked(server, given["record"]) == ["10.1.0.1"]
    after = record.seen()
    assert (after.cluster, after.cached_s) == ("secondary", 5)
    assert after.evidence["serial"] > before.evidence["serial"]
    record.writer.restore(before)
    again = record.seen()
    assert again.evidence == {**before.evidence, "serial": again.evidence["serial"]}
    assert asked(server, given["record"]) == ["10.0.0.1", "10.0.0.2"]


def test_a_repeated_switch_changes_nothing(server: Named) -> None:
    given = settings(server)
    set_by_hand(server, given, "A", 5, "10.0.0.1", "10.0.0.2")
    record = opened(server, given)
    before = record.seen()
    record.writer.switch("secondary", before)
    serial = record.seen().evidence["serial"]
    record.writer.switch("secondary", before)
    assert record.seen().evidence["serial"] == serial
    record.writer.restore(before)
    serial = record.seen().evidence["serial"]
    record.writer.restore(before)
    assert record.seen().evidence["serial"] == serial


def test_a_missing_value_is_restored_as_missing(server: Named) -> None:
    given = settings(server)
    record = opened(server, given)
    before = record.seen()
    assert (before.cluster, before.message) == (None, f"{given['record']} A does not exist")
    assert before.cached_s == NEGATIVE_TTL
    record.writer.switch("primary", before)
    assert record.seen().cluster == "primary"
    record.writer.restore(before)
    assert record.seen().evidence["records"] == []


def test_a_foreign_value_is_restored(server: Named) -> None:
    given = settings(server)
    set_by_hand(server, given, "A", 60, "10.0.0.1")
    record = opened(server, given)
    before = record.seen()
    assert before.cluster is None
    assert "10.0.0.1 (not the data of any cluster in drctl.yaml)" in before.message
    record.writer.switch("secondary", before)
    record.writer.restore(before)
    assert asked(server, given["record"]) == ["10.0.0.1"]


def test_changes_by_others_are_kept(server: Named) -> None:
    given = settings(server)
    set_by_hand(server, given, "A", 5, "10.0.0.1", "10.0.0.2")
    record = opened(server, given)
    before = record.seen()
    set_by_hand(server, given, "A", 5, "10.9.9.9")
    with pytest.raises(EndpointMoved, match=r"10\.9\.9\.9") as caught:
        record.writer.switch("secondary", before)
    assert caught.value.hint
    with pytest.raises(EndpointMoved, match=r"10\.9\.9\.9"):
        record.writer.restore(before)
    assert asked(server, given["record"]) == ["10.9.9.9"]
    set_by_hand(server, given, "A", 5)
    with pytest.raises(EndpointMoved, match="does not exist"):
        record.writer.switch("secondary", before)
    assert asked(server, given["record"]) == []


def test_records_created_meanwhile_are_kept(server: Named) -> None:
    given = settings(server)
    record = opened(server, given)
    before = record.seen()
    set_by_hand(server, given, "A", 5, "10.9.9.9")
    with pytest.raises(EndpointMoved, match=r"10\.9\.9\.9"):
        record.writer.switch("secondary", before)
    assert asked(server, given["record"]) == ["10.9.9.9"]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("AAAA", "fd00:0:0::1", ["fd00::2", "fd00::3"]),
        ("CNAME", "Broker-A.example.org", "broker-b.example.org."),
        ("SRV", ["0 0 9092 a.example.org"], ["0 0 9092 b.example.org", "0 5 9093 c.example.org"]),
    ],
)
def test_other_types(server: Named, kind: str, first: object, second: object) -> None:
    given = settings(server, type=kind, clusters={"primary": first, "secondary": second})
    record = opened(server, given)
    nothing = record.seen()
    record.writer.switch("primary", nothing)
    before = record.seen()
    assert before.cluster == "primary"
    record.writer.switch("secondary", before)
    assert record.seen().cluster == "secondary"
    record.writer.restore(before)
    assert record.seen().cluster == "primary"


def test_a_name_that_is_an_alias(server: Named) -> None:
    given = settings(server)
    set_by_hand(server, given, "CNAME", 60, "elsewhere.example.org.")
    record = opened(server, given)
    before = record.seen()
    assert (before.cluster, before.cached_s) == (None, 60)
    assert before.message == f"{given['record']} is an alias of elsewhere.example.org."
    with pytest.raises(EndpointRejected, match="alias cannot have A records") as caught:
        record.writer.switch("secondary", before)
    assert "CNAME" in caught.value.hint
    assert asked(server, given["record"], "CNAME") == ["elsewhere.example.org."]


def test_an_alias_excludes_other_records(server: Named) -> None:
    """A server would ignore it and report success."""
    clusters = {"primary": "a.example.org", "secondary": "b.example.org"}
    given = settings(server, type="CNAME", clusters=clusters)
    set_by_hand(server, given, "A", 60, "10.0.0.1")
    record = opened(server, given)
    with pytest.raises(EndpointMoved):
        record.writer.switch("primary", record.seen())
    assert asked(server, given["record"]) == ["10.0.0.1"]


def test_reading_without_a_key(server: Named) -> None:
    given = settings(server, tsig=None)
    record = opened(server, given)
    before = record.seen()
    with pytest.raises(EndpointRejected, match="refuses to change") as caught:
        record.writer.switch("primary", before)
    assert "update-policy" in caught.value.hint


def test_cached_answers_are_reported_until_they_expire(server: Named, resolver: Named) -> None:
    place = f"127.0.0.1:{resolver.port}"
    given = settings(server, ttl=1, resolvers=[place])
    set_by_hand(server, given, "A", 4, "10.0.0.1", "10.0.0.2")
    record = opened(server, given)
    assert asked(resolver, given["record"]) == ["10.0.0.1", "10.0.0.2"]
    before = record.seen()
    assert (before.cluster, before.unfinished) == ("primary", ())
    assert before.evidence["resolvers"][place]["ttl"] <= 4
    record.writer.switch("secondary", before)
    after = record.seen()
    assert after.cluster == "secondary"
    (behind,) = after.unfinished
    assert behind.startswith(f"the resolver {place} still answers: 10.0.0.1, 10.0.0.2, for ")
    assert behind.endswith(" s more")
    assert Patience.of(20).wait_until(lambda: not record.seen().unfinished)
    assert asked(resolver, given["record"]) == ["10.1.0.1"]


def test_an_unresponsive_resolver_does_not_count_as_updated(server: Named) -> None:
    given = settings(server, resolvers=["127.0.0.1:1"], timeout_s=2)
    set_by_hand(server, given, "A", 2, "10.1.0.1")
    state = through_json(opened(server, given).reader.observe())
    assert state.cluster == "secondary"
    assert "resolver 127.0.0.1:1 is unknown" in state.unfinished[0]
