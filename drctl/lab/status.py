"""Status of the lab: the document `drctl/lab/1` and its text."""

from collections.abc import Mapping
from typing import Annotated, Literal

from drctl.lab.cluster import answering_brokers
from drctl.lab.environment import BootstrapDocument, bootstraps
from drctl.lab.lab import Lab
from drctl.lab.loads import LoadDocument, Loads
from drctl.lab.loads import in_words as load_in_words
from drctl.lab.parts import Parts
from drctl.lab.settings import CLUSTERS, HOST
from drctl.lab.waiting import Patience, together
from drctl.lab.worker import Worker
from drctl.model.document import Document, Name
from drctl.model.errors import Unknown

_ANSWER_S = 3.0


class ComponentDocument(Document):
    """A process of the lab.

    Attributes:
        pid: process id; null if it is not running.
    """

    name: Name
    state: Literal["answering", "silent", "frozen", "dead"]
    pid: Annotated[int | None, ("minimum", 1)]
    address: Name
    log: Name


class ConnectorDocument(Document):
    """A connector of the lab."""

    name: Name
    state: Name
    tasks: tuple[str, ...]
    stack_traces: tuple[str, ...]


class LoadState(LoadDocument):
    """A load of real records."""

    SCHEMA = ""


class LabDocument(Document):
    """Status of the lab.

    Attributes:
        answering: whether every component answers.
    """

    SCHEMA = "drctl/lab/1"
    dir: Name
    policy: Annotated[str, ("enum", ("identity", "default"))]
    active_active: bool
    answering: bool
    clusters: Mapping[Literal["primary", "secondary"], BootstrapDocument]
    connect: Name
    components: tuple[ComponentDocument, ...]
    connectors: tuple[ConnectorDocument, ...]
    loads: tuple[LoadState, ...]


def look(lab: Lab) -> LabDocument:
    """Ask every component of the lab.

    Raises:
        Refused: there is no lab in the folder.
    """
    parts = lab.parts
    answering: dict[str, bool] = {}

    def ask(name: str) -> None:
        answering[name] = _answers(parts, name)

    together(Patience.of(_ANSWER_S), *(lambda name=name: ask(name) for name in parts.names))
    connectors = next((_connectors(w) for w in parts.workers if answering[w.name]), ())
    loads = Loads(lab)
    settings = parts.settings
    states = [loads.state(name) for name in CLUSTERS if loads.folder(name).exists()]
    return LabDocument(
        dir=str(lab.root),
        policy=settings.policy,
        active_active=settings.active_active,
        answering=all(answering.values()),
        clusters=bootstraps(parts),
        connect=parts.worker.url,
        components=tuple(_part(parts, name, answering[name]) for name in parts.names),
        connectors=connectors,
        loads=tuple(LoadState(**vars(each)) for each in states),
    )


def in_words(document: LabDocument) -> str:
    """The status as text."""
    up = "all components answer" if document.answering else "NOT all components answer"
    lines = [f"Lab in {document.dir}: {up}"]
    for part in document.components:
        pid = f"pid {part.pid}" if part.pid else "no process"
        lines.append(f"  {part.name:<24}{part.state:<12}{part.address:<18}{pid}")
    for connector in document.connectors:
        tasks = ", ".join(connector.tasks) or "no tasks"
        lines.append(f"  {connector.name:<24}{connector.state:<12}{tasks}")
        lines.extend(f"    {stack_trace}" for stack_trace in connector.stack_traces)
    lines.extend(f"  {load_in_words(load)}" for load in document.loads)
    return "\n".join(lines)


def _answers(parts: Parts, name: str) -> bool:
    if parts.part(name).process() is None or parts.part(name).frozen():
        return False
    if worker := parts.worker_named(name):
        return worker.answering(_ANSWER_S)
    cluster = parts.cluster(name.rpartition("-")[0])
    admin = cluster.admin(f"{HOST}:{parts.ports(name)[0]}")
    return answering_brokers(admin, _ANSWER_S) > 0


def _part(parts: Parts, name: str, answering: bool) -> ComponentDocument:
    part = parts.part(name)
    process = part.process()
    state: Literal["answering", "silent", "frozen", "dead"]
    if process is None:
        state = "dead"
    elif part.frozen():
        state = "frozen"
    else:
        state = "answering" if answering else "silent"
    return ComponentDocument(
        name=name,
        state=state,
        pid=process.pid if process else None,
        address=f"{HOST}:{parts.ports(name)[0]}",
        log=str(part.log),
    )


def _connectors(worker: Worker) -> tuple[ConnectorDocument, ...]:
    client = worker.client(_ANSWER_S)
    try:
        statuses = client.statuses()
    except Unknown:
        return ()
    finally:
        client.close()
    return tuple(
        ConnectorDocument(
            name=status.name,
            state=status.state,
            tasks=tuple(task.state for task in status.tasks),
            stack_traces=status.stack_traces,
        )
        for status in statuses.values()
    )
