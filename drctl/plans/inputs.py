"""What a plan is built from: the link, and what was observed of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from drctl.model.endpoints import ClientRedirect
from drctl.offsets.applying import OVERRIDABLE
from drctl.steps.commit_offsets import LEFT_OUT
from drctl.steps.first_records import FIELDS

if TYPE_CHECKING:
    from drctl.plans.failback import FailbackInputs


class FenceMethod(StrEnum):
    """How producers are kept from the source; the words of drctl.yaml."""

    ACL = "acl"
    COMMAND = "command"
    NONE = "none"
    """A person does it."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """A link on which somebody wants to fail over.

    Attributes:
        principals: that write to the source's topics; empty where nothing fences them.
        connectors: that replicate the link; empty where drctl does not know any.
        endpoints: the kinds of its endpoints, in their order.
        leaving: how clients leave the source by each of them; empty where it is not configured.
        entrances: numbers of those by which drctl can come as clients do, counted from 0.
        basis: what was observed, each part in words that change when it does.
        overrides: precheck to the reason why it is overridden.
        settle_s: for how long end offsets must be unchanged once writes are fenced.
        grace_s: for how long consumers may finish by themselves.
        timeout_s: for how long replication may take to catch up.
        fence_command: with method command: sets the fence; argv, as the next two.
        fence_undo: lifts it; empty where a person does.
        fence_verify: ends with 0 where it is set; empty where nothing tells.
        command_timeout_s: for each user-supplied command.
        replicator: its kind, in the words of drctl.yaml.
        stop_command: where drctl knows no connectors: stops replication; empty where a person does.
        start_command: resumes it; empty where a person does.
        stopped_command: ends with 0 where it is stopped; empty where nothing tells.
        source_answers: whether it did when it was looked at; likewise the target.
        reverse: connectors of the reverse replication, to start once the target is open, the one
            that copies first; empty where they are to stay stopped.
        fields: of key, value and timestamp those by which a record is known again on the target.
        unproven_offsets: `commit` or `refuse`, as drctl.yaml has it.
        way_back: the inputs of a failback over the link, where they were collected.
    """

    link: str
    source: str
    target: str
    principals: tuple[str, ...] = ()
    connectors: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    leaving: tuple[ClientRedirect, ...] = field(default=(), kw_only=True)
    entrances: tuple[int, ...] = field(default=(), kw_only=True)
    reverse: tuple[str, ...] = field(default=(), kw_only=True)
    basis: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)
    settle_s: float = 2
    grace_s: float = 20
    timeout_s: float = 600
    fence_method: FenceMethod = FenceMethod.ACL
    fence_command: tuple[str, ...] = ()
    fence_undo: tuple[str, ...] = ()
    fence_verify: tuple[str, ...] = ()
    command_timeout_s: float = 30
    replicator: str = "none"
    stop_command: tuple[str, ...] = ()
    start_command: tuple[str, ...] = ()
    stopped_command: tuple[str, ...] = ()
    source_answers: bool = True
    target_answers: bool = True
    fields: tuple[str, ...] = FIELDS
    unproven_offsets: str = "commit"
    failback: "FailbackInputs | None" = None

    @property
    def offset_overrides(self) -> Mapping[str, str]:
        """Those of the prechecks of single offsets."""
        return {name: why for name, why in self.overrides.items() if name in OVERRIDABLE}

    @property
    def leaves_groups_out(self) -> bool:
        """Whether the target is opened although groups have no offset to resume from."""
        return LEFT_OUT in self.overrides
