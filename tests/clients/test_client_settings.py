"""Checks of client settings: ok if such clients were seen to follow a failover, and only then."""

import ctypes
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka.cimpl
import pytest
from confluent_kafka import KafkaException, Producer

from drctl.artifacts.jars import resolve
from drctl.artifacts.java import find_java
from drctl.checks.clients import (
    CLIENT_CHECKS,
    INTERCEPTOR,
    ClientConfig,
    Library,
    client_findings,
    library_of,
)
from drctl.formats.properties import read_properties
from drctl.model.finding import Finding, Status
from tests.clients import profiles
from tests.docs.pages import page, rows

JAVA, LIBRDKAFKA = Library.JAVA, Library.LIBRDKAFKA
OK, WARN, FAIL, NOT_CHECKED = Status.OK, Status.WARN, Status.FAIL, Status.NOT_CHECKED
NEWEST = {JAVA: (4, 3), LIBRDKAFKA: (2, 16)}
DEFAULT = re.compile(r"([\w.]+) is not set; the default is (\S+)")


def client(library: Library = JAVA, **more: Any) -> ClientConfig:
    """Create a client whose settings are all known."""
    given = {
        "values": {"bootstrap.servers": "kafka.example.org:9092", **more.pop("values", {})},
        "names": ("kafka.example.org",),
        "version": NEWEST[library],
        "jvm": "-Xmx1g -Dsun.net.inetaddr.ttl=5",
    }
    return ClientConfig("application", library=library, **{**given, **more})


def finding_of(name: str, of: ClientConfig) -> Finding | None:
    (check,) = [check for check in CLIENT_CHECKS if check.name == name]
    found = check.findings(of)
    assert len(found) <= 1
    return found[0] if found else None


GROUP = {"group.id": "billing"}
INTERCEPTED = {"interceptor.classes": f"com.example.Tracing, {INTERCEPTOR}"}


def replicated(library: Library = JAVA, **more: Any) -> ClientConfig:
    """Create a consumer whose offsets Replicator translates."""
    return client(library, **{"values": GROUP, "replicator": "confluent-replicator", **more})


OF_PRODUCERS = ("delivery-timeout", "retries", "acks", "idempotence", "transactions")
ORDER = {"client-idempotence"}
"""A check that does not concern failovers: librdkafka is not idempotent by default."""
CASES: list[tuple[str, ClientConfig, Status, str]] = [
    ("bootstrap", client(), OK, "uses the endpoint"),
    ("bootstrap", client(names=("KAFKA.example.org.",)), OK, "uses the endpoint"),
    ("bootstrap", client(values={"bootstrap.servers": "a:9092,b:9092"}), FAIL, "a, b are not"),
    ("bootstrap", client(values={"bootstrap.servers": "kafka.example.org:1,b:1"}), WARN, "b is"),
    (
        "bootstrap",
        client(names=(), values={"bootstrap.servers": "[::1]:1,10.0.0.1:1"}),
        FAIL,
        "::1",
    ),
    ("bootstrap", client(names=()), NOT_CHECKED, "given"),
    ("bootstrap", client(values={"bootstrap.servers": " "}), NOT_CHECKED, "application's code"),
    ("bootstrap", client(values={"bootstrap.servers": "${env:K}"}), NOT_CHECKED, "a reference"),
    ("bootstrap", client(endpoint="file"), WARN, "only when it starts"),
    ("rebootstrap", client(), OK, "it rebootstraps"),
    (
        "rebootstrap",
        client(values={"metadata.recovery.strategy": "NONE"}),
        FAIL,
        "never rebootstraps",
    ),
    ("rebootstrap", client(version=(3, 9)), FAIL, "never rebootstraps"),
    (
        "rebootstrap",
        client(version=(3, 9), values={"metadata.recovery.strategy": "rebootstrap"}),
        OK,
        "it rebootstraps",
    ),
    ("rebootstrap", client(version=(3, 7)), FAIL, "never rebootstraps"),
    (
        "rebootstrap",
        client(version=(3, 7), values={"metadata.recovery.strategy": "rebootstrap"}),
        FAIL,
        "cannot rebootstrap",
    ),
    ("rebootstrap", client(LIBRDKAFKA, version=(2, 10)), OK, "it rebootstraps"),
    ("rebootstrap", client(LIBRDKAFKA, version=None), NOT_CHECKED, "version was not given"),
    ("rebootstrap-trigger", client(), WARN, "late"),
    ("rebootstrap-trigger", client(version=(3, 9)), WARN, "no such limit"),
    (
        "rebootstrap-trigger",
        client(values={"metadata.recovery.rebootstrap.trigger.ms": "60000"}),
        OK,
        "unresponsive source",
    ),
    (
        "rebootstrap-trigger",
        client(values={"metadata.recovery.rebootstrap.trigger.ms": "1m"}),
        NOT_CHECKED,
        "not a whole number",
    ),
    ("dns-lookup", client(), OK, "each time"),
    (
        "dns-lookup",
        client(values={"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}),
        FAIL,
        "resolved at startup",
    ),
    ("dns-lookup", client(values={"client.dns.lookup": "${x}"}), NOT_CHECKED, "a reference"),
    ("dns-cache", client(), OK, "caches DNS"),
    ("dns-cache", client(jvm=None), NOT_CHECKED, "given"),
    ("dns-cache", client(jvm="-Djava.security.properties=x"), NOT_CHECKED, "java.security file"),
    ("dns-cache", client(jvm=""), WARN, "default of 30 s"),
    ("dns-cache", client(jvm="-Dnetworkaddress.cache.ttl=1"), WARN, "default of 30 s"),
    ("dns-cache", client(jvm="-Dsun.net.inetaddr.ttl=60"), WARN, "for 60 s"),
    ("dns-cache", client(jvm="-Dsun.net.inetaddr.ttl=-1"), FAIL, "forever"),
    ("reconnect-backoff", client(), OK, "reconnects soon"),
    ("reconnect-backoff", client(LIBRDKAFKA), WARN, "backoff is long"),
    ("reconnect-backoff", client(values={"reconnect.backoff.max.ms": "x"}), NOT_CHECKED, "whole"),
    ("connect-timeout", client(), OK, "timeout is short"),
    ("connect-timeout", client(LIBRDKAFKA), WARN, "timeout is long"),
    (
        "connect-timeout",
        client(values={"socket.connection.setup.timeout.ms": ""}),
        NOT_CHECKED,
        "whole",
    ),
    ("request-timeout", client(), OK, "timeout is short"),
    ("request-timeout", client(LIBRDKAFKA), WARN, "timeout is long"),
    ("request-timeout", client(values={"request.timeout.ms": "?"}), NOT_CHECKED, "whole"),
    ("delivery-timeout", client(), OK, "do not expire"),
    (
        "delivery-timeout",
        client(LIBRDKAFKA, values={"message.timeout.ms": "0"}),
        OK,
        "do not expire",
    ),
    (
        "delivery-timeout",
        client(LIBRDKAFKA, values={"delivery.timeout.ms": "20"}),
        WARN,
        "may expire",
    ),
    ("delivery-timeout", client(values={"delivery.timeout.ms": "${x}"}), NOT_CHECKED, "reference"),
    ("group-protocol", client(values=GROUP), OK, "need not exist"),
    ("group-protocol", client(values={**GROUP, "group.protocol": "CONSUMER"}), OK, "creates its"),
    (
        "group-protocol",
        client(values={**GROUP, "group.protocol": "consumer"}, prepared=False),
        WARN,
        "not in `groups` of the link",
    ),
    ("group-protocol", client(values={**GROUP, "group.protocol": "${x}"}), NOT_CHECKED, "refer"),
    ("interceptor", replicated(), WARN, "writes no timestamps"),
    ("interceptor", replicated(values={**GROUP, **INTERCEPTED}), OK, "writes timestamps"),
    ("interceptor", replicated(values=GROUP, prepared=False), OK, "does not belong"),
    ("interceptor", replicated(LIBRDKAFKA), NOT_CHECKED, "no such setting"),
    ("interceptor", replicated(values={**GROUP, "interceptor.classes": "${x}"}), NOT_CHECKED, "r"),
    ("offset-reset", client(values=GROUP), WARN, "skips to the end"),
    ("offset-reset", client(values={**GROUP, "auto.offset.reset": "none"}), WARN, "it stops"),
    (
        "offset-reset",
        client(values={**GROUP, "auto.offset.reset": "earliest"}),
        OK,
        "starts at the beginning",
    ),
    ("offset-reset", client(values={**GROUP, "auto.offset.reset": "${x}"}), NOT_CHECKED, "refer"),
    ("retries", client(), OK, "longer than a failover"),
    ("retries", client(values={"retries": "120"}), OK, "longer than a failover"),
    ("retries", client(values={"retries": "3"}), WARN, "may end during a failover"),
    (
        "retries",
        client(LIBRDKAFKA, values={"message.send.max.retries": "5", "retry.backoff.max.ms": "9"}),
        WARN,
        "may end during a failover",
    ),
    ("retries", client(values={"retries": "0"}), FAIL, "does not retry"),
    ("retries", client(values={"retries": "many"}), NOT_CHECKED, "whole number"),
    ("acks", client(), OK, "all in-sync replicas"),
    ("acks", client(values={"acks": "-1"}, version=None), OK, "all in-sync replicas"),
    ("acks", client(LIBRDKAFKA, version=None), OK, "all in-sync replicas"),
    ("acks", client(values={"acks": "1"}), WARN, "does not wait for all"),
    ("acks", client(version=(2, 8)), WARN, "does not wait for all"),
    ("acks", client(LIBRDKAFKA, values={"request.required.acks": "0"}), FAIL, "no record is ack"),
    ("acks", client(version=None), NOT_CHECKED, "by default only from 3.0"),
    ("idempotence", client(), OK, "neither duplicate nor reorder"),
    (
        "idempotence",
        client(LIBRDKAFKA, values={"enable.idempotence": "true"}),
        OK,
        "neither duplicate nor reorder",
    ),
    ("idempotence", client(LIBRDKAFKA, values={"max.in.flight": "1"}), OK, "order is kept"),
    ("idempotence", client(LIBRDKAFKA), WARN, "not idempotent"),
    ("idempotence", client(version=(3, 1)), WARN, "not idempotent"),
    ("idempotence", client(values={"acks": "1"}), WARN, "not idempotent"),
    (
        "idempotence",
        client(values={"enable.idempotence": "true", "acks": "1"}),
        FAIL,
        "cannot be idempotent",
    ),
    (
        "idempotence",
        client(values={"enable.idempotence": "true", "retries": "0", "max.in.flight": "9"}),
        FAIL,
        "cannot be idempotent",
    ),
    ("idempotence", client(version=None), NOT_CHECKED, "by default only from 3.2"),
    ("transactions", client(), OK, "no transactions"),
    ("transactions", client(values={"transactional.id": "pay"}), FAIL, "does not know"),
    ("transactions", client(values={"transactional.id": "${x}"}), NOT_CHECKED, "reference"),
]


@pytest.mark.parametrize(("name", "of", "status", "reason"), CASES)
def test_a_setting(name: str, of: ClientConfig, status: Status, reason: str) -> None:
    found = finding_of(f"client-{name}", of)
    assert found is not None
    assert (found.status, found.subject) == (status, "application")
    assert reason in found.reason
    assert bool(found.impact) or status not in (WARN, FAIL)
    assert bool(found.remedy) == (status is not OK)


def test_each_check_has_every_finding() -> None:
    seen = {
        check.name: {s for n, _, s, _ in CASES if f"client-{n}" == check.name}
        for check in CLIENT_CHECKS
    }
    assert seen == {check.name: check.statuses for check in CLIENT_CHECKS}


@pytest.mark.parametrize(
    ("of", "silent"),
    [
        (client(LIBRDKAFKA), {"client-dns-cache", "client-group-protocol", "client-offset-reset"}),
        (client(values=GROUP), {f"client-{name}" for name in OF_PRODUCERS}),
        (
            client(values={**GROUP, "acks": "all"}, endpoint="haproxy"),
            {"client-dns-cache", "client-dns-lookup"},
        ),
    ],
)
def test_irrelevant_settings_are_not_reported(of: ClientConfig, silent: set[str]) -> None:
    names = {check.name for check in CLIENT_CHECKS} - {"client-interceptor"}
    assert {finding.check for finding in client_findings(of)} == names - silent


def test_no_other_value_is_shown() -> None:
    values = {**GROUP, "sasl.password": "planted", "sasl.jaas.config": "planted"}
    of = client(values=values)
    assert "planted" not in repr((client_findings(of), of))


@pytest.mark.parametrize("library", list(Library))
def test_clients_that_were_measured_to_move(library: Library) -> None:
    for each in profiles.advised(library.value):
        values = {**each.given, **({} if each.produces else GROUP)}
        found = client_findings(client(library, values=values))
        bad = {finding.check for finding in found if finding.status is not OK}
        assert bad == (ORDER if each.produces and library is LIBRDKAFKA else set()), each.name


@pytest.mark.parametrize("library", list(Library))
def test_clients_that_were_measured_to_stay(library: Library) -> None:
    for each in profiles.stuck(library.value):
        found = client_findings(client(library, values=each.given))
        bad = [f.status for f in found if f.status is not OK and f.check not in ORDER]
        assert bad == [FAIL], each.name


@pytest.mark.parametrize(
    ("values", "library"),
    [
        ({"sasl.username": "app"}, LIBRDKAFKA),
        ({"key.deserializer": "x"}, JAVA),
        ({"bootstrap.servers": "x"}, None),
        ({"sasl.username": "app", "key.deserializer": "x"}, None),
    ],
)
def test_the_library_of_the_settings(values: Mapping[str, str], library: Library | None) -> None:
    assert library_of(values) is library


def test_a_properties_file() -> None:
    text = (
        "# a comment\n! another\n\n"
        "bootstrap.servers = a:9092,\\\n    b:9092\n"
        "group.id:billing\nlinger.ms 5\nempty=\nalone\n"
        "key\\ with\\:signs=\\u00e4\\tb\\\\\n  last=1\nlast=2\nopen=x\\"
    )
    assert read_properties(text) == {
        "bootstrap.servers": "a:9092,b:9092",
        "group.id": "billing",
        "linger.ms": "5",
        "empty": "",
        "alone": "",
        "key with:signs": "ä\tb\\",
        "last": "2",
        "open": "x",
    }


def defaults(library: Library) -> dict[str, str]:
    """Return the defaults that the checks use for missing settings."""
    both = [client(library), client(library, values=GROUP)]
    evidence = [finding.evidence for of in both for finding in client_findings(of)]
    found = (DEFAULT.search(text) for text in evidence)
    return {match[1]: match[2] for match in found if match}


def test_defaults_of_librdkafka() -> None:
    """Read from the library that the Python package has loaded."""
    assert confluent_kafka.cimpl.__file__
    maps = Path("/proc/self/maps").read_text().splitlines()
    library = ctypes.CDLL(next(line.split()[-1] for line in maps if "librdkafka" in line))

    def asked(kind: str, key: str) -> str:
        new, get = (getattr(library, f"rd_kafka_{kind}_{what}") for what in ("new", "get"))
        new.restype = ctypes.c_void_p
        text, size = ctypes.create_string_buffer(200), ctypes.c_size_t(200)
        missing = get(ctypes.c_void_p(new()), key.encode(), text, ctypes.byref(size))
        return "" if missing else text.value.decode()

    taken = defaults(LIBRDKAFKA)
    assert len(taken) > 7
    for key, value in taken.items():
        real = asked("conf", key) or asked("topic_conf", key)
        assert real.replace("largest", "latest") == value, key


@pytest.mark.parametrize(
    "values",
    [{"acks": "1"}, {"message.send.max.retries": "0"}, {"max.in.flight": "9"}, {"acks": "all"}],
)
def test_librdkafka_rejects_settings_without_idempotence(values: dict[str, str]) -> None:
    given = {"enable.idempotence": "true", **values}
    found = finding_of("client-idempotence", client(LIBRDKAFKA, values=given))
    assert found is not None
    if values == {"acks": "all"}:
        assert found.status is OK
        assert Producer(given) is not None
        return
    assert found.status is FAIL
    with pytest.raises(KafkaException, match="idempotence"):
        Producer(given)


@pytest.mark.jvm
def test_defaults_of_java() -> None:
    jars = resolve("kafka", progress=lambda _message: None)
    program = str(Path(__file__).with_name("ClientDefaults.java"))
    command = [str(find_java()), "-cp", f"{jars[0].parent}/*", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    real = dict(line.split("\t") for line in done.stdout.splitlines())
    taken = defaults(JAVA)
    assert len(taken) > 7
    for key, value in taken.items():
        assert real[key].lower() == value, key


def test_the_page_describes_every_check() -> None:
    documented = {
        row[0].strip("`"): row[1:]
        for row in rows(page("docs/howto/clients.md").section("## Checks"))
    }
    assert list(documented) == [check.name for check in CLIENT_CHECKS]
    for check in CLIENT_CHECKS:
        about, worse = documented[check.name]
        assert about == check.about
        assert worse == (", ".join(check.worse) or "-")


def test_the_page_recommends_measured_settings() -> None:
    shown = [read_properties(block) for block in page("docs/howto/clients.md").blocks("properties")]
    assert shown == [profiles.ADVISED["librdkafka"], profiles.ADVISED["java"]]
