"""What is wrong with connectors, and which of them a restart may cure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from drctl.connectors.causes import Explained, explain
from drctl.connectors.connector import Connector, Part
from drctl.model.errors import UsageError


class Finding(NamedTuple):
    """A part of a connector that failed."""

    connector: Connector
    part: Part
    explained: Explained


@dataclass(frozen=True, slots=True)
class Ward:
    """The connectors of one Connect cluster.

    Attributes:
        workers: their addresses, without passwords.
        silent: why they could not be asked; empty where they were.
    """

    workers: str
    connectors: tuple[Connector, ...]
    silent: str = ""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that failed."""
        return tuple(
            Finding(connector, part, explain(part.trace))
            for connector in self.connectors
            for part in connector.failed
        )

    @property
    def unassigned(self) -> tuple[tuple[Connector, Part], ...]:
        """What no worker has: it waits for one, or for a rebalance to end."""
        return tuple((each, part) for each in self.connectors for part in each.unassigned)


def chosen(ward: Ward, names: Collection[str]) -> tuple[Connector, ...]:
    """The connectors that are meant: those named, or all that failed.

    Raises:
        UsageError: there is no such connector.
    """
    known = {each.name: each for each in ward.connectors}
    if missing := sorted(set(names) - known.keys()):
        there = f"there are: {', '.join(known)}" if known else "there is none"
        raise UsageError(f"{ward.workers} has no connector {missing[0]!r}", there)
    if names:
        return tuple(known[name] for name in dict.fromkeys(names))
    return tuple(each for each in ward.connectors if each.failed)


def worst(connector: Connector) -> Explained | None:
    """Of all that failed of it, what a restart cures least; None where nothing failed."""
    found = [explain(part.trace) for part in connector.failed]
    return min(found, key=lambda each: (each.cause.passes, not each.cause.lost), default=None)


def status_document(wards: Sequence[Ward]) -> dict[str, Any]:
    """As JSON; traces whole."""
    return {
        "schema": "drctl/connect-status/1",
        "failed": sum(len(ward.findings) for ward in wards),
        "clusters": [
            {
                "workers": ward.workers,
                "silent": ward.silent,
                "connectors": [_connector(each) for each in ward.connectors],
            }
            for ward in wards
        ],
    }


def explained_json(found: Explained | None) -> Mapping[str, Any] | None:
    """As JSON."""
    if found is None:
        return None
    return {
        "cause": found.cause.value,
        "words": found.advice.words,
        "remedy": found.advice.remedy,
        "evidence": found.evidence,
        "restart_may_help": found.cause.passes,
    }


def _connector(each: Connector) -> dict[str, Any]:
    return {
        "name": each.name,
        "kind": each.kind,
        "plugin": each.plugin,
        "group": each.group,
        "parts": [
            {
                "task": part.task,
                "state": part.state,
                "worker": part.worker,
                "explained": explained_json(explain(part.trace)) if part.trace else None,
                "trace": part.trace,
            }
            for part in each.parts
        ],
    }
