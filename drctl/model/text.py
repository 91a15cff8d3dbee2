"""Quoting for commands that users paste, and for names in URLs and on terminals; counts.

Names of groups, users, connectors and topics are untrusted: in a shell each must remain one word,
in a URL one path segment, and on a terminal part of one line.
"""

import re
from collections.abc import Collection, Iterable
from urllib.parse import quote as percent

from drctl.model.repairs import Acl
from drctl.model.topology import TopicPartition

_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
CONNECT = "$CONNECT"
"""Placeholder for the address of a Connect worker."""


def plural(count: int, one: str, many: str = "") -> str:
    """Format a count with its noun: `1 record`, `1,234 records`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def named(noun: str, names: Collection[str]) -> str:
    """Format a noun with the names that it stands for: `connector a`, `connectors a, b`."""
    return f"{noun if len(names) == 1 else noun + 's'} {', '.join(names)}"


def quote(word: str) -> str:
    r"""Quote a word for a shell; unprintable text becomes `$'\xNN'`, for bash, zsh and ksh."""
    if _PLAIN.fullmatch(word):
        return word
    if word.isprintable():
        return "'" + word.replace("'", "'\"'\"'") + "'"
    return "$'" + "".join(map(_escaped, word)) + "'"


def quote_lines(text: str) -> str:
    """Quote multi-line text of drctl's own, such as JSON, as one shell word."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def command(words: Iterable[str]) -> str:
    """Join words to a command line."""
    return " ".join(map(quote, words))


def option(name: str, value: str) -> str:
    """An option with its value, even if the value looks like an option."""
    return f"{name}={quote(value)}" if value.startswith("-") else f"{name} {quote(value)}"


def arguments(*words: str) -> str:
    """Positional arguments, even if they look like options."""
    line = command(words)
    return f"-- {line}" if any(word.startswith("-") for word in words) else line


def variable(name: str) -> str:
    """The shell variable for the bootstrap servers of a cluster."""
    return "$" + re.sub(r"[^A-Z0-9_]", "_", name.upper())


def find_hanging(cluster: str, topic: str) -> str:
    """The command that lists hanging transactions of a topic, with their start offsets."""
    return f"{_transactions(cluster)} find-hanging {option('--topic', topic)}"


def describe_producers(cluster: str, topic: str, partition: int) -> str:
    """The command that lists the producers of a partition."""
    place = f"{option('--topic', topic)} --partition {partition}"
    return f"{_transactions(cluster)} describe-producers {place}"


def abort_hanging(cluster: str, place: TopicPartition, start: int | str) -> str:
    """The command that aborts the transaction that starts at an offset of a partition."""
    return (
        f"{_transactions(cluster)} abort {option('--topic', place.topic)}"
        f" --partition {place.partition} --start-offset {start}"
    )


def _transactions(cluster: str) -> str:
    return kafka_tool("kafka-transactions.sh", cluster)


def kafka_tool(name: str, cluster: str) -> str:
    """The start of a command: the tool, the cluster's brokers and the administrator's settings."""
    return f'{name} --bootstrap-server "{variable(cluster)}" --command-config admin.properties'


def on_each(name: str, clusters: Iterable[str], words: str) -> str:
    """The same command for each of these clusters."""
    return "; ".join(f"{kafka_tool(name, cluster)} {words}" for cluster in clusters)


_RESOURCES = {
    "TOPIC": "--topic",
    "GROUP": "--group",
    "TRANSACTIONAL_ID": "--transactional-id",
    "CLUSTER": "--cluster",
}


def add_acl(cluster: str, rule: Acl) -> str:
    """The command that adds an ACL."""
    return _acl(cluster, "--add", rule)


def remove_acl(cluster: str, rule: Acl) -> str:
    """The command that removes an ACL; it asks for confirmation."""
    return _acl(cluster, "--remove", rule)


def _acl(cluster: str, change: str, rule: Acl) -> str:
    camel = "".join(word.capitalize() for word in rule.operation.split("_"))
    kind = rule.permission.lower()
    on = _RESOURCES[rule.resource]
    words = (
        kafka_tool("kafka-acls.sh", cluster),
        change,
        option(f"--{kind}-principal", rule.principal),
        "" if rule.host == "*" else option(f"--{kind}-host", rule.host),
        f"--operation {camel}",
        on if rule.resource == "CLUSTER" else option(on, rule.name),
        "--resource-pattern-type prefixed" if rule.pattern == "PREFIXED" else "",
    )
    return " ".join(filter(None, words))


def scram_user(cluster: str, name: str) -> str:
    """The command that gives a user a password; PASSWORD has to be replaced."""
    head = kafka_tool("kafka-configs.sh", cluster)
    change = "--alter --add-config 'SCRAM-SHA-512=[password=PASSWORD]' --entity-type users"
    return f"{head} {change} {option('--entity-name', name)}"


def segment(name: str) -> str:
    """Quote a URL path segment; the result needs no shell quoting."""
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return percent(name, safe="", errors="surrogatepass")


def connector_url(worker: str, connector: str, *rest: str) -> str:
    """The URL of a connector, as a shell word.

    Args:
        worker: URL of the worker; if empty, the command uses $CONNECT.
    """
    path = "/".join(("/connectors", segment(connector), *rest))
    return f"{CONNECT}{path}" if worker in ("", CONNECT) else quote(f"{worker}{path}")


def put(worker: str, connector: str, what: str) -> str:
    """The curl command that stops, pauses or resumes a connector."""
    return f"curl -s -X PUT {connector_url(worker, connector, what)}"


def stop_unassigned(worker: str, connector: str) -> str:
    """The curl commands that stop a connector that no worker seems to run.

    After a worker has restarted a stopped connector, Connect may report UNASSIGNED instead of
    STOPPED. Stopping it again does not change that; a restart does, and leaves it stopped.
    """
    restart = f"curl -s -X POST {connector_url(worker, connector, 'restart')}"
    return f"{put(worker, connector, 'stop')} && {restart}"


def _escaped(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in _utf8(char))


def _utf8(char: str) -> bytes:
    try:
        return char.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return char.encode("utf-8", "surrogatepass")


class Lines(str):
    """Text whose newlines are printed as newlines; in any other text they are escaped."""

    __slots__ = ()


def lines(each: Iterable[str]) -> Lines:
    """Join texts, one per line; newlines inside a text are escaped."""
    return Lines("\n".join(r"\x0a".join(line.split("\n")) for line in each))
