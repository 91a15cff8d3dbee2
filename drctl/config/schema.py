"""The schema of drctl.yaml; `crosschecks` checks values against each other."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import AfterValidator, Field, StringConstraints

from drctl.config.endpoints import SECTIONS, EndpointConfig, Section
from drctl.config.fields import (
    RECORD_FIELDS,
    UNCHANGED,
    Bootstrap,
    Identity,
    Name,
    Principal,
    Properties,
    Regex,
    Rename,
    Settings,
    Text,
    Urls,
    Words,
    empty,
    frozen,
)
from drctl.config.secret import Secret
from drctl.config.setting import Setting

HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
Argv = Annotated[tuple[Text, ...], Field(min_length=1)]
FencedGroups = Literal["classic", "all", "none"]
ReplicatorKind = Literal["mirrormaker2", "confluent-replicator", "offset-preserving", "none"]
FenceMethod = Literal["acl", "command", "none"]
Order = Literal["per-key", "per-partition", "none"]
UnprovenOffsets = Literal["commit", "refuse"]
DeployMode = Literal["client", "cluster"]


class ClusterConfig(Section):
    """How to reach a cluster.

    Attributes:
        properties: librdkafka properties.
    """

    bootstrap: Bootstrap
    properties: Properties = Field(default_factory=empty)

    def client_properties(self, environ: Mapping[str, str]) -> dict[str, str | Secret]:
        """All librdkafka properties, including `bootstrap.servers`.

        Raises:
            ConfigError: a variable or file that a property refers to is missing.
        """
        settings = {"bootstrap.servers": self.bootstrap, **self.properties}
        return {name: setting.resolve(environ) for name, setting in settings.items()}


class ConnectorsConfig(Section):
    """The connectors' names on the Connect workers."""

    source: Text | None = None
    checkpoint: Text | None = None
    heartbeat: Text | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """The configured names, source connector first."""
        return tuple(filter(None, (self.source, self.checkpoint, self.heartbeat)))


def _checked_topic(name: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) or name in (".", ".."):
        raise ValueError("must be 1 to 249 letters, digits, '.', '_' or '-'")
    return name


TopicName = Annotated[Text, AfterValidator(_checked_topic)]


class AccessConfig(Section):
    """Authentication and TLS for the Connect workers.

    Attributes:
        user: for basic authentication with `password`, if the URLs contain no user.
        headers: added to every request.
        ca: PEM file of trusted certificates, or its content; default: those of the system.
        certificate: PEM file of a client certificate with its chain, or its content.
        key: private key, likewise; default: the file of the certificate contains it.
        key_password: password of an encrypted key.
    """

    user: Setting | None = None
    password: Setting | None = None
    headers: Annotated[Mapping[HeaderName, Setting], AfterValidator(frozen)] = Field(
        default_factory=empty
    )
    ca: Setting | None = None
    certificate: Setting | None = None
    key: Setting | None = None
    key_password: Setting | None = None


class ReverseConfig(Section):
    """The replicator from the target to the source, for failback.

    Attributes:
        after_failover: whether a planned failover starts it, for new records on the target.
    """

    connect: Urls | None = None
    connect_access: AccessConfig = Field(default_factory=AccessConfig)
    connectors: ConnectorsConfig = ConnectorsConfig()
    rename: Rename = UNCHANGED
    after_failover: bool = False


class ReplicatorConfig(Section):
    """The replicator of a link.

    Attributes:
        connect: URLs of the Connect workers' REST interface.
        stop: stops a replicator without connectors; an argv list, run without a shell, like
            `start` and `stopped`.
        start: starts the replicator again; if not set, that is a manual step.
        stopped: exits with 0 if the replicator is stopped.
        rename: topic name on the target.
        copied_offsets_topic: the target's copy of the source's `__consumer_offsets`.
    """

    kind: ReplicatorKind
    connect: Urls | None = None
    connect_access: AccessConfig = Field(default_factory=AccessConfig)
    connectors: ConnectorsConfig = ConnectorsConfig()
    stop: Words = ()
    start: Words = ()
    stopped: Words = ()
    reverse: ReverseConfig | None = None
    rename: Rename = UNCHANGED
    copied_offsets_topic: TopicName | None = None


class SourceWorkersConfig(Section):
    """Connect workers whose source connectors write to one cluster of a link.

    Attributes:
        connect: URLs of the workers' REST interface.
    """

    connect: Urls
    connect_access: AccessConfig = Field(default_factory=AccessConfig)


Hours = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SourceConnectorsConfig(Section):
    """Source connectors, such as Debezium, that move to the other cluster with the applications.

    Attributes:
        names: connectors that write to the source of the link; they exist on the workers of both
            clusters, and run on one of them.
        rename: their names on the workers of the target, where they differ.
        source: the workers that write to the source (`from` in the file).
        target: the workers that write to the target (`to` in the file).
        log_retention_hours: how long their databases keep their logs, as the databases' owners
            state it.
    """

    names: Annotated[tuple[Text, ...], Field(min_length=1)]
    rename: Annotated[Mapping[Text, Text], AfterValidator(frozen)] = Field(default_factory=empty)
    source: SourceWorkersConfig = Field(alias="from")
    target: SourceWorkersConfig = Field(alias="to")
    log_retention_hours: Annotated[Mapping[Text, Hours], AfterValidator(frozen)] = Field(
        default_factory=empty
    )

    @property
    def pairs(self) -> Mapping[str, str]:
        """The name of each connector on the source's workers, and that on the target's."""
        return {name: self.rename.get(name, name) for name in self.names}


class FenceConfig(Section):
    """How applications are prevented from using the source.

    Attributes:
        groups: groups on which a planned failover or failback denies READ to principals, in
            addition to topics: classic groups that consume only the link's topics, all groups of
            the link, or none. Members of KIP-848 groups fail without READ, and have to be
            restarted.
        command: sets the fence; an argv list, run without a shell, like `undo` and `verify`.
        undo: removes the fence; if not set, that is a manual step.
        verify: exits with 0 if the fence is set.
    """

    method: FenceMethod
    principals: tuple[Principal, ...] = ()
    groups: FencedGroups = "classic"
    command: Words = ()
    undo: Words = ()
    verify: Words = ()


class LinkConfig(Section):
    """Topics and groups that are replicated from one cluster to another.

    Attributes:
        source: source cluster (`from` in the file).
        target: target cluster (`to` in the file).
        identity: fields that identify a record on the target.
        keeps_partitions: whether records keep their partition.
        translate: whether consumer offsets are translated.
        origin_header: header that replication adds to each copy; required, on the links of both
            directions, if applications write to the same topic names on both clusters.
        source_connectors: connectors that write to the source and move with the applications.
    """

    source: str = Field(alias="from")
    target: str = Field(alias="to")
    topics: tuple[Regex, ...] = Field(min_length=1)
    exclude: tuple[Regex, ...] = ()
    groups: tuple[Regex, ...] = (".*",)
    ignore_headers: tuple[Text, ...] = ()
    identity: Identity = RECORD_FIELDS
    keeps_partitions: bool = True
    translate: bool = True
    origin_header: Text | None = None
    replicator: ReplicatorConfig = Field(default_factory=lambda: ReplicatorConfig(kind="none"))
    source_connectors: SourceConnectorsConfig | None = None
    fence: FenceConfig = FenceConfig(method="none")
    endpoints: tuple[EndpointConfig, ...] = ()


class PolicyConfig(Section):
    """What the applications tolerate.

    Attributes:
        unproven_offsets: what a group gets if the source is lost: its last known offset, although
            the offset may have been reset since (commit), or no offset (refuse).
    """

    max_lag_records: int = Field(default=0, ge=0)
    max_rpo_seconds: float = Field(default=30, ge=0, allow_inf_nan=False)
    order: Order = "per-key"
    unproven_offsets: UnprovenOffsets = "commit"

    @property
    def commits_unproven(self) -> bool:
        """Whether `unproven_offsets` is `commit`."""
        return self.unproven_offsets == "commit"


class SubmitConfig(Section):
    """How `drctl gap --submit` runs `spark-submit`.

    Attributes:
        deploy_mode: where the Spark driver runs: on this host (client) or on the cluster.
        home: the Spark distribution; default: $SPARK_HOME, or that of PySpark.
        secrets_path: folder on the driver with your CLUSTER.properties of both clusters; default:
            drctl transfers them.
    """

    deploy_mode: DeployMode = "client"
    home: Text | None = None
    secrets_path: Text | None = None


class SparkConfig(Section):
    """How Spark runs.

    Attributes:
        from_offsets: below this number of offsets, drctl compares without Spark; if not set, the
            faster engine compares.
        jars: the Kafka connector and its dependencies, for hosts without a Maven repository.
        shared: a folder at the same path on this host, the Spark driver and all executors.
    """

    master: Text = "local[*]"
    from_offsets: int | None = Field(default=None, ge=0)
    conf: Settings = Field(default_factory=empty)
    jars: tuple[Text, ...] = ()
    shared: Text | None = None
    submit: SubmitConfig = SubmitConfig()


class LedgerConfig(Section):
    """The topic of `drctl gap --ledger`; default: files in state_dir.

    Attributes:
        cluster: name of the cluster that holds the topic; choose one that survives an outage.
    """

    cluster: Text
    topic: TopicName = "__drctl_ledger"


class JournalConfig(Section):
    """How journals of runs are signed.

    Attributes:
        key: signing key; the same on every host that executes runs.
    """

    key: Setting | None = None


class ConfigFile(Section):
    """The whole file.

    Attributes:
        runbooks: folder of your own runbooks.
        commands: commands that runbooks may run, word by word; `*` matches one word, a final `...`
            any number. Neither matches a word that begins with `-`.
    """

    clusters: Annotated[Mapping[Name, ClusterConfig], AfterValidator(frozen)] = Field(min_length=1)
    links: Annotated[Mapping[Name, LinkConfig], AfterValidator(frozen)] = Field(
        default_factory=empty
    )
    policy: PolicyConfig = PolicyConfig()
    spark: SparkConfig = Field(default_factory=SparkConfig)
    ledger: LedgerConfig | None = None
    journal: JournalConfig = JournalConfig()
    runbooks: Text | None = None
    commands: tuple[Argv, ...] = ()
    state_dir: Text = ".drctl"


def keys_at(path: tuple[str | int, ...]) -> tuple[str, ...]:
    """The allowed keys at a path; after an endpoint's number comes its kind."""
    here: Any = ConfigFile
    for part in path:
        section = _section(here)
        if here == EndpointConfig:
            here = SECTIONS.get(str(part))
        else:
            here = _fields(section).get(str(part)) if section else _element(here)
    section = _section(here)
    return tuple(_fields(section)) if section else ()


def _fields(section: type[Section]) -> dict[str, Any]:
    fields = section.model_fields.items()
    return {field.alias or name: field.annotation for name, field in fields}


def _section(annotation: Any) -> type[Section] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, Section):
            return None if get_origin(annotation) in (tuple, Mapping) else candidate
    return None


def _element(annotation: Any) -> Any:
    kinds = [kind for kind in get_args(annotation) if kind is not Ellipsis]
    return kinds[-1] if kinds else None
