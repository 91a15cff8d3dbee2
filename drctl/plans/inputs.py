"""What a plan is built from: the link's configuration and its observed state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from drctl.model.endpoints import ClientRedirect
from drctl.offsets.applying import OVERRIDABLE
from drctl.steps.commit_offsets import LEFT_OUT
from drctl.steps.first_records import FIELDS


class FenceMethod(StrEnum):
    """How producers are fenced on the source; the values of `fence.method` in drctl.yaml."""

    ACL = "acl"
    COMMAND = "command"
    NONE = "none"
    """The operator does it."""


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """A link as configured in drctl.yaml, and as observed when the plan is made.

    Attributes:
        principals: those that write to the source's topics; empty if no fence is configured.
        connectors: those that replicate the link; empty if drctl.yaml names none.
        endpoints: the kind of each endpoint, in configured order.
        redirects: for each endpoint, how clients leave the source; empty if not configured.
        probed_endpoints: numbers, from 0, of the endpoints through which drctl can connect.
        reverse: connectors of the reverse replication that a planned failover starts; the first one
            replicates records. Empty if they stay stopped.
        basis: what was observed: a short text per item, which changes when the item changes.
        overrides: overridden prechecks, each with its reason.
        stabilize_s: how long end offsets must be stable once writes are fenced.
        drain_window_s: how long consumers may finish before they are fenced.
        timeout_s: how long replication may take to catch up.
        fence_groups: which groups a fence of consumers denies: `fence.groups` of drctl.yaml.
        fence_command: with method command: the argv that sets the fence.
        fence_undo: the argv that lifts the fence; empty if the operator does it.
        fence_verify: the argv that exits with 0 if the fence is set; empty if there is none.
        command_timeout_s: the timeout of each user-supplied command.
        replicator: the kind of replicator, as in drctl.yaml.
        stop_command: the argv that stops replication without connectors; empty if the operator
            does it.
        start_command: the argv that resumes replication; empty if the operator does it.
        stopped_command: the argv that exits with 0 if replication is stopped; empty if there is
            none.
        source_answers: whether the source responded.
        target_answers: whether the target responded.
        fields: which of key, value and timestamp identify a record on the target.
        unproven_offsets: `commit` or `refuse`: `policy.unproven_offsets` of drctl.yaml.
        source_connectors: the name of each source connector on the source's workers, with its name
            on the target's workers; empty if none move with the applications.
        origin_header: header of copies, if applications write to the same topics on both clusters;
            else empty.
        failback: the inputs of a failback over the link, if they were collected.
    """

    link: str
    source: str
    target: str
    principals: tuple[str, ...] = ()
    connectors: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    redirects: tuple[ClientRedirect, ...] = field(default=(), kw_only=True)
    probed_endpoints: tuple[int, ...] = field(default=(), kw_only=True)
    reverse: tuple[str, ...] = field(default=(), kw_only=True)
    basis: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)
    stabilize_s: float = 2
    drain_window_s: float = 20
    timeout_s: float = 600
    fence_method: FenceMethod = FenceMethod.ACL
    fence_groups: str = "classic"
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
    source_connectors: Mapping[str, str] = field(default_factory=dict)
    origin_header: str = ""
    failback: "FailbackInputs | None" = None

    @property
    def offset_overrides(self) -> Mapping[str, str]:
        """The overrides that concern single offsets."""
        return {name: why for name, why in self.overrides.items() if name in OVERRIDABLE}

    @property
    def leaves_groups_out(self) -> bool:
        """Whether to continue although groups have no offset to resume from."""
        return LEFT_OUT in self.overrides


@dataclass(frozen=True, slots=True)
class FailbackInputs:
    """What a failback is planned from.

    Attributes:
        reverse: replication from the surviving cluster to the recovered one.
        forward: the link as it was before the loss, and will be again.
        reverse_connector: the connector that replicates records in reverse; empty if the operator
            starts the reverse replication.
        forward_connector: the connector that replicates records forward; empty if the operator
            starts the forward replication.
        policy: what to do with records that only the recovered cluster has; None if not chosen.
        topics: `TOPIC=POLICY` for topics with a policy of their own.
        conflicting: the policy for records that the surviving cluster has newer versions of.
        max_in_flight: how many records may be in flight when clients are moved.
    """

    reverse: PlanInputs
    forward: PlanInputs
    reverse_connector: str = ""
    forward_connector: str = ""
    policy: str | None = None
    topics: tuple[str, ...] = ()
    conflicting: str = "refuse"
    max_in_flight: int = 0
