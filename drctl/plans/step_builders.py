"""The steps that sequences and runbooks are made of, as a link needs them."""

import math
from collections.abc import Iterator
from typing import Any

from drctl.engine.recheck_source import ALIVE
from drctl.model.loss import Mode
from drctl.model.plan import Duty, Step
from drctl.plans.inputs import Circumstances, FenceMethod
from drctl.steps.commit_offsets import CommitOffsets, CommitSettings

LIFT = "let producers write to {source} again, the same way"
START = "let replication from {source} to {target} go on, as it ran before"


def preflight(seen: Circumstances, mode: Mode, identity: str = "preflight") -> Step:
    """Ask every precheck."""
    settings = {"mode": mode.value, "overrides": dict(seen.overrides)}
    return Step(identity, "preflight", settings, 30)


def stock(seen: Circumstances, identity: str = "take-stock") -> Step:
    """Snapshot the state of both clusters."""
    settings = {"clusters": [seen.source, seen.target], "connectors": list(seen.connectors)}
    return Step(identity, "take-stock", settings, 30)


def fence(
    seen: Circumstances,
    duty: Duty,
    identity: str = "fence-producers",
    settle_s: float = math.inf,
) -> Step:
    """Keep producers from the source, by the means that the link has.

    Args:
        settle_s: how long the ends need to stand still at most, where brokers prove by themselves
            that they deny writes.
    """
    patience_s = 120 if duty is Duty.REQUIRED else 15
    if seen.fence_method is FenceMethod.ACL:
        settings = {**fenced(seen), "settle_seconds": min(seen.settle_s, settle_s)}
        return Step(identity, "fence-producers", settings, patience_s, duty)
    if seen.fence_method is FenceMethod.COMMAND:
        argvs = (seen.fence_command, seen.fence_undo, seen.fence_verify)
        where = {"cluster": seen.source, "settle_seconds": seen.settle_s}
        settings = {**_command(seen, identity, *argvs), **where}
        return Step(identity, "command-fence", settings, patience_s, duty)
    text = f"keep all producers from writing to {seen.source}: at the network, or stop them"
    settings = {
        **asked(identity, text, LIFT.format(source=seen.source)),
        "cluster": seen.source,
        "settle_seconds": seen.settle_s,
    }
    return Step(identity, "manual-fence", settings, patience_s, duty)


def fenced(seen: Circumstances) -> dict[str, Any]:
    """What a fence of ACLs needs to know."""
    return {
        "link": seen.link,
        "cluster": seen.source,
        "principals": list(seen.principals),
        "settle_seconds": seen.settle_s,
    }


def quiet(seen: Circumstances, *, ahead: bool = False) -> Iterator[Step]:
    """Wait until no group is active on the source, by the means that the link has.

    Args:
        ahead: whether groups are translated, and what copies is stopped, once their reads are
            fenced: nobody waits for either then.
    """
    if seen.fence_method is FenceMethod.ACL:
        window = {"cluster": seen.source, "drain_window": True, **_ahead(ahead)}
        yield Step("grace", "quiesce-consumers", window, seen.grace_s, Duty.OPTIONAL)
        yield Step("fence-consumers", "fence-consumers", fenced(seen), 60)
        if ahead:
            yield from request_stop(seen)
        yield _quiet("quiesce", seen, 60, ahead=ahead)
        return
    if seen.fence_method is FenceMethod.NONE:
        text = f"stop the consumers that read the link's topics on {seen.source}"
        back = f"let the consumers that were stopped read on {seen.source} again"
        yield Step("stop-consumers", "manual-change", asked("stop-consumers", text, back), 60)
    yield _quiet("quiesce", seen, 60 + seen.grace_s, ahead=ahead)


_STOPPING_S = 180
"""A task that waits for a dead source lets go of it only after its own timeouts."""


def request_stop(
    seen: Circumstances, identity: str = "request-stop", *, lost: bool = False
) -> Iterator[Step]:
    """Stop what copies while other things are done; nothing where drctl knows no connector.

    The others would wait for its tasks.

    Args:
        lost: whether the source is lost, so that no group moves there any more.
    """
    if seen.connectors:
        settings: dict[str, Any] = {"connectors": [seen.connectors[0]]}
        if lost:
            settings["translate_ahead"] = True
        yield Step(identity, "request-stop", settings, 60)


def confirm_stop(
    seen: Circumstances, identity: str = "confirm-stop", *, lost: bool
) -> Iterator[Step]:
    """Stop what no application waits for, and see that all ended; clients are served meanwhile.

    Args:
        lost: whether the source is lost, and is to stay silent.
    """
    if seen.connectors[0 if lost else 1 :]:
        settings: dict[str, Any] = {"connectors": list(seen.connectors)}
        if lost:
            settings["source"] = seen.source
        yield Step(identity, "confirm-stop", settings, 120, Duty.BEST_EFFORT)


def stop(
    seen: Circumstances,
    identity: str = "stop-replication",
    *,
    tasks_only: bool = False,
    rest_later: bool = False,
) -> Step:
    """Stop what replicates the link: its connectors, by a user-supplied command, or a person.

    Args:
        tasks_only: whether it is enough that no task of a connector is left that writes records or
            offsets.
        rest_later: whether connectors that write neither are for `confirm_stop`.
    """
    if seen.connectors:
        settings: dict[str, Any] = {"connectors": list(seen.connectors)}
        if tasks_only:
            settings["tasks_only"] = True
        if rest_later:
            settings["rest_later"] = True
        return Step(identity, "stop-replication", settings, _STOPPING_S)
    if seen.stop_command:
        argvs = (seen.stop_command, seen.start_command, seen.stopped_command)
        command = _command(seen, identity, *argvs)
        return Step(identity, "command-stop-replication", command, 120)
    text = f"stop replication from {seen.source} to {seen.target}, so that no restart starts it"
    back = START.format(source=seen.source, target=seen.target)
    return Step(identity, "manual-stop-replication", asked(identity, text, back), 60)


def groups(seen: Circumstances, identity: str = "prepare-groups") -> Step:
    """Make groups of KIP-848's protocol ready; members that find none end, and say so."""
    return Step(identity, "prepare-groups", ends(seen), 30, Duty.BEST_EFFORT)


def offsets(
    seen: Circumstances,
    *,
    leave_out: bool,
    lost: bool = False,
    identity: str = "commit-offsets",
) -> Step:
    """Commit the offsets from which groups resume.

    Args:
        lost: the source is lost: the best that is known of a group is what there is.
    """
    settings = CommitSettings(
        seen.link,
        seen.target,
        dict(seen.offset_overrides),
        leave_out,
        seen.unproven_offsets if lost else None,
    )
    return CommitOffsets().step(identity, settings, 30)


def skipping(
    seen: Circumstances, patience_s: float = 30, identity: str = "skip-producer-ids"
) -> Step:
    """Advance the target's producer ids; where that takes too long, producers are restarted."""
    settings = {**ends(seen), "at_most_seconds": patience_s}
    return Step(identity, "skip-producer-ids", settings, patience_s, Duty.BEST_EFFORT)


def opening(seen: Circumstances, identity: str = "open-target", mode: Mode = Mode.PLANNED) -> Step:
    """Enable writes on the target, where the source is still as it was left."""
    settings: dict[str, Any] = {
        "link": seen.link,
        "cluster": seen.target,
        "principals": list(seen.principals),
        "source": seen.source,
    }
    if mode is Mode.UNPLANNED:
        given_up = ALIVE in seen.overrides
        settings |= {"given_up": True} if given_up else {"must_be_silent": True}
    return Step(identity, "open-target", settings, 60)


def switches(seen: Circumstances, prefix: str = "switch-endpoint") -> Iterator[Step]:
    """Send clients to the target: a step for each endpoint."""
    for number, kind in enumerate(seen.endpoints):
        to: dict[str, Any] = {"number": number, "kind": kind, "to": seen.target}
        if seen.leaving:
            to |= {"from": seen.source, "leaving": seen.leaving[number].value}
        if number in seen.entrances:
            to["asked"] = True
        yield Step(f"{prefix}-{number + 1}", "switch-endpoint", to, 120)


def clients(seen: Circumstances, identity: str = "verify-clients") -> Step:
    """Verify that clients are on the target, and consume."""
    known = {"entrances": list(seen.entrances)} if seen.entrances else {}
    return Step(identity, "verify-clients", {**ends(seen), **known}, 120)


def by_command(seen: Circumstances, identity: str, argv: tuple[str, ...]) -> Step:
    """Run a user-supplied command; its exit code is the proof."""
    return Step(identity, "command", _command(seen, identity, argv, (), ()), 120)


def begin_back(seen: Circumstances, identity: str = "begin-reverse") -> Step:
    """Let what copies back begin at what is new, while it is stopped and nothing is written."""
    settings = {**_turned(seen), "connector": seen.reverse[0]}
    return Step(identity, "seed-old-replication", settings, 30)


def replicate_back(seen: Circumstances, identity: str = "replicate-back") -> Step:
    """Let it copy; where it does not, clients are served all the same, and it is owed."""
    settings = {
        **_turned(seen),
        "connectors": list(seen.reverse),
        "seeded_by": "seed-old-replication",
    }
    return Step(identity, "start-old-replication", settings, 180, Duty.BEST_EFFORT)


def _turned(seen: Circumstances) -> dict[str, Any]:
    return {"source": seen.target, "target": seen.source}


def ends(seen: Circumstances) -> dict[str, Any]:
    """The names of both clusters."""
    return {"source": seen.source, "target": seen.target}


def asked(question: str, text: str, undo: str = "") -> dict[str, Any]:
    """What a manual step needs to know."""
    return {"question": question, "text": text, "undo": undo}


def _quiet(identity: str, seen: Circumstances, patience_s: float, *, ahead: bool) -> Step:
    settings = {"cluster": seen.source, **_ahead(ahead)}
    return Step(identity, "quiesce-consumers", settings, patience_s)


def _ahead(ahead: bool) -> dict[str, bool]:
    return {"translate_ahead": True} if ahead else {}


def _command(
    seen: Circumstances,
    identity: str,
    argv: tuple[str, ...],
    undo: tuple[str, ...],
    verify: tuple[str, ...],
) -> dict[str, Any]:
    return {
        "question": identity,
        "argv": list(argv),
        "undo": list(undo),
        "verify": list(verify),
        "env": {},
        "timeout_seconds": seen.command_timeout_s,
    }
