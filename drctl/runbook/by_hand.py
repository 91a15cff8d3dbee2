"""What a person could type instead of a step, with tools that every site has.

`$SOURCE` and `$TARGET` are bootstrap addresses, `$CONNECT` is the address of a Connect worker,
`admin.properties` holds the credentials.
"""

from collections.abc import Callable, Mapping
from typing import Any

from drctl.engine.sequences.circumstances import Circumstances
from drctl.model.pasting import command, put, quote
from drctl.model.plan import Step

Settings = Mapping[str, Any]
Lines = tuple[str, ...]

_GROUPS = "kafka-consumer-groups.sh --bootstrap-server"
_ADMIN = "--command-config admin.properties"


_ONE_WAY = ("drctl gap ", "drctl offsets apply ")
"""Command lines that go from a link's source to its target, and never the other way."""


def by_hand(step: Step, seen: Circumstances, *, home: bool = False) -> Lines:
    """The command lines; none where there are none that would do.

    Args:
        home: whether the step leads home over the link: its source is the link's target.
    """
    lines = _BY_HAND.get(step.kind)
    found = lines(step.settings, seen) if lines else ()
    return (
        tuple(_other_way(each) for each in found if not each.startswith(_ONE_WAY))
        if home
        else found
    )


def _other_way(line: str) -> str:
    parts = line.split('"$SOURCE"')
    return '"$TARGET"'.join(part.replace('"$TARGET"', '"$SOURCE"') for part in parts)


def _link(seen: Circumstances) -> str:
    return f"--link {quote(seen.link)}"


def _fence(operation: str) -> Callable[[Settings, Circumstances], Lines]:
    def lines(settings: Settings, seen: Circumstances) -> Lines:
        head = f'kafka-acls.sh --bootstrap-server "$SOURCE" {_ADMIN} --add --force'
        return tuple(
            f"{head} --deny-principal {quote(who)} --operation {operation} --topic TOPIC"
            for who in settings["principals"]
        )

    return lines


def _stop(settings: Settings, seen: Circumstances) -> Lines:
    stops = (put("", name, "stop") for name in settings["connectors"])
    return (*stops, 'curl -s "$CONNECT/connectors?expand=status"')


def _stock(settings: Settings, seen: Circumstances) -> Lines:
    return tuple(f"drctl offsets snapshot --cluster {quote(c)}" for c in settings["clusters"])


def _offsets(settings: Settings, seen: Circumstances) -> Lines:
    return (
        f"drctl offsets apply {_link(seen)}",
        f"drctl offsets apply {_link(seen)} --execute",
    )


def _ran(settings: Settings, seen: Circumstances) -> Lines:
    keys = ("argv", "verify")
    return tuple(command(settings[key]) for key in keys if settings[key])


def _gap(scope: str) -> Callable[[Settings, Circumstances], Lines]:
    return lambda settings, seen: (
        f"drctl gap {_link(seen)} --scope {quote(str(settings.get('scope', scope)))}",
    )


_BY_HAND: Mapping[str, Callable[[Settings, Circumstances], Lines]] = {
    "take-stock": _stock,
    "fence-producers": _fence("Write"),
    "fence-consumers": _fence("Read"),
    "measure-loss": _gap("estimate"),
    "drain": _gap("tail"),
    "gap": _gap("auto"),
    "quiesce-consumers": lambda settings, seen: (
        f'{_GROUPS} "$SOURCE" {_ADMIN} --describe --all-groups --state',
    ),
    "request-stop": _stop,
    "stop-replication": _stop,
    "confirm-stop": _stop,
    "commit-offsets": _offsets,
    "verify-clients": lambda settings, seen: (
        f'{_GROUPS} "$TARGET" {_ADMIN} --describe --all-groups --members',
    ),
    "command": _ran,
    "command-fence": _ran,
    "command-stop-replication": _ran,
}
