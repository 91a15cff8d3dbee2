"""What drctl.yaml may hold. Values are checked one by one here, against each other in `checks`."""

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
ReplicatorKind = Literal["mirrormaker2", "confluent-replicator", "offset-preserving", "none"]
FenceMethod = Literal["acl", "command", "none"]
Order = Literal["per-key", "per-partition", "none"]
UnprovenOffsets = Literal["commit", "refuse"]
DeployMode = Literal["client", "cluster"]


class ClusterConfig(Section):
    """How to reach a cluster.

    Attributes:
        properties: of librdkafka, by name.
    """

    bootstrap: Bootstrap
    properties: Properties = Field(default_factory=empty)

    def client_properties(self, environ: Mapping[str, str]) -> dict[str, str | Secret]:
        """Everything a librdkafka client needs, `bootstrap.servers` included.

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
        """Those that are named, the one that copies first."""
        return tuple(filter(None, (self.source, self.checkpoint, self.heartbeat)))


def _checked_topic(name: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) or name in (".", ".."):
        raise ValueError("must be 1 to 249 letters, digits, '.', '_' or '-'")
    return name


TopicName = Annotated[Text, AfterValidator(_checked_topic)]


class AccessConfig(Section):
    """How drctl shows the Connect workers who it is, and whom it trusts.

    Attributes:
        user: for basic authentication, with `password`; where the URLs name nobody.
        headers: sent with every request.
        ca: PEM file with the certificates that are trusted, or its content; else the system's.
        certificate: PEM file of a client certificate with its chain, or its content.
        key: of the certificate, likewise; else it stands in the file of the certificate.
        key_password: of an encrypted key.
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
    """The replicator that failback uses, from the target to the source.

    Attributes:
        after_failover: whether a planned failover starts it, at what is new on the target.
    """

    connect: Urls | None = None
    connect_access: AccessConfig = Field(default_factory=AccessConfig)
    connectors: ConnectorsConfig = ConnectorsConfig()
    rename: Rename = UNCHANGED
    after_failover: bool = False


class ReplicatorConfig(Section):
    """What copies the records of a link.

    Attributes:
        connect: URLs of the Connect workers' REST interface.
        stop: stops what no named connector stands for; an argv list, started without a shell, as
            the next two.
        start: lets it go on; else a person does.
        stopped: ends with 0 where it is stopped.
        rename: what a topic is called on the target.
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


class FenceConfig(Section):
    """How applications are kept from writing to the source.

    Attributes:
        command: sets the fence; an argv list, started without a shell, as the next two.
        undo: lifts it; else a person does.
        verify: ends with 0 where the fence is set.
    """

    method: FenceMethod
    principals: tuple[Principal, ...] = ()
    command: Words = ()
    undo: Words = ()
    verify: Words = ()


class LinkConfig(Section):
    """Topics and groups that are replicated from one cluster to another.

    Attributes:
        source: name of the cluster it reads from (`from` in the file).
        target: name of the cluster it writes to (`to` in the file).
        identity: the fields by which a record is known again on the target.
        keeps_partitions: whether a record's partition is the same on both sides.
        translate: whether consumer offsets are to be translated.
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
    replicator: ReplicatorConfig = Field(default_factory=lambda: ReplicatorConfig(kind="none"))
    fence: FenceConfig = FenceConfig(method="none")
    endpoints: tuple[EndpointConfig, ...] = ()


class PolicyConfig(Section):
    """What the applications can bear.

    Attributes:
        unproven_offsets: with the source lost, whether a group is put where it last was known to
            be, though it may have been reset backwards since; else it is left without an offset.
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
        deploy_mode: where Spark's driver runs: on this machine, or on the cluster.
        home: the Spark distribution to submit with; else $SPARK_HOME, else PySpark's own.
        secrets_path: where the driver finds CLUSTER.properties of both clusters, put there by the
            site; else drctl brings them.
    """

    deploy_mode: DeployMode = "client"
    home: Text | None = None
    secrets_path: Text | None = None


class SparkConfig(Section):
    """Where Spark runs.

    Attributes:
        from_offsets: drctl reads fewer offsets than these, of both sides, itself.
        jars: the Kafka connector and what it needs, for sites that resolve nothing.
        shared: a folder that this machine, Spark's driver and all executors see at this path.
    """

    master: Text = "local[*]"
    from_offsets: int = Field(default=1_000_000, ge=0)
    conf: Settings = Field(default_factory=empty)
    jars: tuple[Text, ...] = ()
    shared: Text | None = None
    submit: SubmitConfig = SubmitConfig()


class LedgerConfig(Section):
    """Where `drctl gap --ledger` keeps what it read, if not in the state_dir.

    Attributes:
        cluster: name of the cluster that is to hold it: one that survives.
    """

    cluster: Text
    topic: TopicName = "__drctl_ledger"


class JournalConfig(Section):
    """How the journals of runs are kept.

    Attributes:
        key: what each line is signed with; the same on every machine that carries out runs.
    """

    key: Setting | None = None


class ConfigFile(Section):
    """The whole file.

    Attributes:
        runbooks: the folder of the site's own.
        commands: what runbooks may run, word by word; `*` stands for one word, `...` at the end for
            any more. None of the two stands for a word that begins with `-`.
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
    """The keys that the section at this place may hold; behind an endpoint's number: its kind."""
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
