"""Stops the connectors that replicate the link; the offsets that Connect keeps are the boundary.

Connect takes a stop at once, keeps it, and ends the tasks, which are what copies. The connectors
themselves may take a minute longer where their source is dead: their schedulers wait for it, and
copy nothing. So the stop can be requested early (`request-stop`), what rests on it waits for the
tasks (`stop-replication`), and that the connectors ended is seen at the end (`confirm-stop`).

A worker answers a request only after the tasks that the one before it stopped have ended, and a
task that waits for a dead source is given 5 s. So where the source is lost, what copies is stopped
first and by itself, and what no application waits for is stopped last.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from drctl.engine.kind import Description, Facts, Polling, Seen, State, Trait
from drctl.engine.ports import ConnectorsReader, LinkReader, LinkWriter
from drctl.model.errors import DrctlError, Unreachable
from drctl.model.health import AuthenticationFailed
from drctl.model.loss import loss_document
from drctl.model.plan import Json

STOPPED, RUNNING, PAUSED = "STOPPED", "RUNNING", "PAUSED"

SETTLE_S = 6.0
"""For so long no task may be seen where several workers run them: each cancels what has not ended
within `task.shutdown.graceful.timeout.ms` (5 s by default), and only one of them tells."""

WRITES_NO_RECORDS = frozenset(
    {
        "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
        "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
    }
)
"""Connectors of MirrorMaker 2 whose tasks write nothing that applications read."""

COMMITS_OFFSETS = "sync.group.offsets.enabled"
"""With it, the checkpoint task commits offsets on the target."""

_NOTED = ("before", "workers", "idle")
"""What later steps need of the connectors as they were when they were told to stop."""


def halted(facts: Facts) -> str | None:
    """What was wrong with connectors when a run told them to stop; None where it told none.

    A connector that its own run has stopped says nothing of when replication ended.
    """
    requested = facts.get("request-stop")
    if requested is None:
        return None
    stood = requested.get("before", {}).items()
    told = [f"connector {name} was {state}" for name, state in stood if state != RUNNING]
    told += [f"connector {name} had no task" for name in requested.get("idle", ())]
    return "; ".join(told)


class _Stopping:
    """Stops connectors; a rollback has those run that ran, which the intent names in `before`."""

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Resume those that ran, and pause those that were paused."""
        before, connectors = intent.get("before", {}), writer.connectors()

        def back(name: str) -> None:
            (connectors.pause if before[name] == PAUSED else connectors.resume)(name)

        return told_each([n for n in before if before[n] != STOPPED], back, at_once=True)

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether they are as before; one that had failed need only not be stopped."""
        connectors = reader.connectors()
        others = []
        for name, before in intent.get("before", {}).items():
            now = connectors.state(name).state
            if now != before and (before in (RUNNING, PAUSED, STOPPED) or now == STOPPED):
                others.append(f"{name} is {now}, was {before}")
        if others:
            return Seen(State.WAITING, "; ".join(others), {}, tuple(others))
        return Seen(State.DONE, "the connectors are as they were")


class StopReplication(_Stopping):
    """Their tasks end, their configuration and offsets stay."""

    name = "stop-replication"
    traits = Trait.CHANGES | Trait.STOPS_REPLICATION

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        names = ", ".join(settings["connectors"])
        if settings.get("tasks_only", False):
            proof = "Connect has no task left that writes records or offsets on the target"
        else:
            proof = "Connect says STOPPED of each and of all tasks"
        return Description(
            f"stop replication: connectors {names}", proof, "let those go on that ran before"
        )

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Their states now, or before they were asked to stop.

        Raises:
            UsageError: there is no such connector.
            Unreachable: no worker answered.
        """
        names, requested = settings["connectors"], facts.get("request-stop", {})
        tasks_only = settings.get("tasks_only", False)
        if tasks_only or settings.get("rest_later", False):
            connectors = reader.connectors()
            names = [name for name in names if _writes_for_clients(connectors.config(name))]
        earlier = requested.get("before", {})
        asked = {name: earlier[name] for name in names if name in earlier}
        found = _as_they_are([name for name in names if name not in asked], reader)
        states = {**asked, **found["before"]}
        return {
            "before": {name: states[name] for name in names},
            "workers": max(found["workers"], requested.get("workers", 0)),
            "requested": list(asked),
            **({"tasks_of": names} if tasks_only else {}),
        }

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Stop those that were not asked to; one that is stopped stays so."""
        names = [name for name in intent["before"] if name not in intent["requested"]]
        return told_each(names, writer.connectors().stop, at_once=True)

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Their states now, and how far they got."""
        connectors = reader.connectors()
        if "tasks_of" in intent:
            return _without_tasks(intent, connectors)
        states = {name: connectors.state(name).state for name in intent["before"]}
        others = tuple(f"{name} is {state}" for name, state in states.items() if state != STOPPED)
        if others:
            return Seen(State.WAITING, "; ".join(others), {}, others)
        facts = {"boundary": _boundary(states, connectors), "tasks_of": list(states)}
        return Seen(State.DONE, f"{len(states)} connectors are stopped", facts)


class RequestStop(_Stopping):
    """Connect keeps that they are to be stopped; their tasks end while other things are done."""

    name = "request-stop"
    traits = Trait.CHANGES | Trait.REQUESTS_STOP

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        names = ", ".join(settings["connectors"])
        return Description(
            f"request the stop of connectors {names}",
            "Connect has stored it: no task of them is configured any more",
            "let those go on that ran before",
        )

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Their states now, and which workers run them.

        Raises:
            UsageError: there is no such connector.
            Unreachable: no worker answered.
        """
        if settings.get("translate_ahead", False):
            reader.translate_ahead()
        names, connectors = settings["connectors"], reader.connectors()
        idle = [name for name in names if not connectors.tasks(name).told]
        return {**_as_they_are(names, reader), "idle": idle}

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Request all at once: each request by itself would wait for the tasks of the one before.

        Connect answers once the stop is in its configuration topic, and read back from there.
        """
        return told_each(intent["before"], writer.connectors().stop, at_once=True)

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether Connect keeps it."""
        connectors = reader.connectors()
        others = tuple(
            f"{name} has {tasks.configured} tasks"
            for name in intent["before"]
            if (tasks := connectors.tasks(name)).configured
        )
        if others:
            return Seen(State.WAITING, f"not stored yet: {'; '.join(others)}", {}, others)
        words = f"Connect has stored that {len(intent['before'])} connectors are to be stopped"
        return Seen(State.DONE, words, {k: v for k, v in intent.items() if k in _NOTED})


class ConfirmStop(_Stopping):
    """The connectors end once their schedulers give up on the source; nothing copies meanwhile.

    Those that write neither records nor offsets are told to stop only here: no application waits
    for them.
    """

    name = "confirm-stop"
    traits = Trait.CHANGES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        names, source = ", ".join(settings["connectors"]), settings.get("source", "")
        silent = f", and {source} stays silent" if source else ""
        return Description(
            f"stop what still runs of connectors {names}, and watch all of them end",
            f"Connect says STOPPED of each and none has a task{silent}",
            "let those go on that ran before",
        )

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Whose tasks had ended before, and the states of the others.

        Raises:
            UsageError: there is no such connector.
            Unreachable: no worker answered.
        """
        ended = facts.get("stop-replication", {}).get("tasks_of", settings["connectors"])
        left = [name for name in settings["connectors"] if name not in ended]
        return {**settings, "ended": ended, "before": _as_they_are(left, reader)["before"]}

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Stop the others; one whose tasks end at once goes first, the next may take 5 s."""
        return told_each(list(intent.get("before", {}))[::-1], writer.connectors().stop)

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Which have not ended, which copy again, and whether the source is back."""
        connectors, source = reader.connectors(), intent.get("source", "")
        again = tuple(
            f"{name} has tasks again: {', '.join(tasks.told)}"
            for name in intent["ended"]
            if (tasks := connectors.tasks(name)).any
        )
        if again:
            words = (
                f"{'; '.join(again)}: what they copy is appended after newer records."
                f" Stop them now: curl -X PUT $CONNECT/connectors/NAME/stop"
            )
            return Seen(State.FAILED, words, {}, again)
        states = {name: connectors.state(name).state for name in intent["connectors"]}
        others = tuple(f"{name} is {state}" for name, state in states.items() if state != STOPPED)
        if others:
            words = "; ".join(others)
            back = _is_back(source, reader)
            return Seen(State.WAITING, "; ".join(filter(None, (back, words))), {}, others)
        words = f"{len(states)} connectors are stopped, and none has a task"
        facts = {"boundary": _boundary(states, connectors)}
        # Connectors may have ended because their source is back: it is asked after them.
        return Seen(State.DONE, words, facts, owes=_is_back(source, reader, newly=True))


def _is_back(source: str, reader: LinkReader, *, newly: bool = False) -> str:
    """What is to be done about a source that answers again; empty where none is lost."""
    if not source:
        return ""
    try:
        reader.alive(source, newly=newly)
    except AuthenticationFailed:
        told = f"somebody answers at the addresses of {source}"
    except Unreachable:
        return ""
    else:
        told = f"{source} answers again"
    return f"{told}: keep applications from writing there; drctl failback brings it back"


def _as_they_are(names: list[str], reader: LinkReader) -> Json:
    connectors = reader.connectors()
    workers = {worker for name in names for worker in connectors.tasks(name).workers}
    return {
        "before": {name: connectors.state(name).state for name in names},
        "workers": len(workers),
    }


def _without_tasks(intent: Json, connectors: ConnectorsReader) -> Seen:
    names = tuple(intent["tasks_of"])
    left = connectors.tasks_left(names, SETTLE_S if intent["workers"] > 1 else 0.0)
    if left:
        return Seen(State.WAITING, "; ".join(left), {}, tuple(left))
    # How far they came, Connect says once the last task has ended: see `ConfirmStop`.
    facts = {"tasks_of": list(names)}
    return Seen(State.DONE, f"no task of {', '.join(names)} is left: nothing copies", facts)


def _writes_for_clients(config: Mapping[str, str]) -> bool:
    """Whether tasks of a connector write records of applications, or offsets of their groups."""
    commits = config.get(COMMITS_OFFSETS, "false").lower() == "true"
    return commits or config.get("connector.class") not in WRITES_NO_RECORDS


def _boundary(names: Iterable[str], connectors: ConnectorsReader) -> Json:
    """The offsets that Connect keeps of each connector."""
    return {name: list(connectors.offsets(name)) for name in names}


def told_each(
    names: Collection[str], act: Callable[[str], None], *, at_once: bool = False
) -> tuple[str, ...]:
    """Complaints of connectors; one that does not do as told does not keep the others."""

    def complaint(name: str) -> str:
        try:
            act(name)
        except DrctlError as error:
            return f"{name}: {error.message}"
        return ""

    if not at_once:
        return tuple(filter(None, map(complaint, names)))
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        return tuple(filter(None, pool.map(complaint, names)))


class MeasureLoss(Polling):
    """From what survived: how far it was copied, until when, and what was seen of the source."""

    name = "measure-loss"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = f"estimate what {settings['target']} lacks of {settings['source']}"
        return Description(title, "records and seconds, with what makes them uncertain")

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Of which topics, for whoever compares them once the source is back."""
        return {"topics": list(reader.topics()), "halted": halted(facts)}

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """What survived says."""
        loss = reader.loss(halted=intent.get("halted"))
        facts = loss_document(loss).to_json()
        del facts["words"]
        return Seen(State.DONE, loss.words, facts)
