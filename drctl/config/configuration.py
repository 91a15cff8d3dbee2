"""A loaded drctl.yaml: its sections, its links by name, and its secrets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from drctl.config.endpoints import Section
from drctl.config.link import INSIDE, Link
from drctl.config.problems import did_you_mean, one_of, to_add
from drctl.config.schema import (
    ClusterConfig,
    ConfigFile,
    LinkConfig,
    PolicyConfig,
    ReplicatorConfig,
    ReverseConfig,
    SourceWorkersConfig,
    SparkConfig,
)
from drctl.config.secret import hide_user_info, names_secret, remember, reveal, user_info
from drctl.config.setting import Setting, others_may_read
from drctl.model.errors import ConfigError, UsageError
from drctl.model.text import arguments

_NEAR = 0.75
"""How similar a cluster name must be to be suggested."""


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of one file.

    Attributes:
        path: path of the file; relative paths in the file start from its folder.
        file: its sections.
    """

    path: Path
    file: ConfigFile

    @property
    def clusters(self) -> Mapping[str, ClusterConfig]:
        """All clusters by name."""
        return self.file.clusters

    @property
    def links(self) -> tuple[str, ...]:
        """The names of all links, in the order of the file."""
        return tuple(self.file.links)

    @property
    def policy(self) -> PolicyConfig:
        """What the applications tolerate."""
        return self.file.policy

    @property
    def spark(self) -> SparkConfig:
        """Where Spark runs."""
        return self.file.spark

    @property
    def jars(self) -> tuple[str, ...]:
        """`spark.jars`, paths made absolute."""
        return tuple(self._absolute(jar) for jar in self.spark.jars)

    @property
    def runbooks(self) -> Path | None:
        """The folder of your own runbooks, if any."""
        if self.file.runbooks is None:
            return None
        return self.path.parent.absolute() / Path(self.file.runbooks).expanduser()

    @property
    def state_dir(self) -> Path:
        """The folder for runs and results."""
        return self.path.parent.absolute() / Path(self.file.state_dir).expanduser()

    def beside(self, link: Link) -> tuple[Link, ...]:
        """All other links, in the order of the file."""
        return tuple(self.link(name) for name in self.links if name != link.name)

    def link(self, name: str | None = None) -> Link:
        """A link by its name; without a name, the only link.

        Raises:
            UsageError: there is no such link, or there are several and no name is given.
        """
        known = self.links
        if not known:
            raise UsageError(f"{self.path} has no links", "add a link under `links:`")
        if name is None and len(known) > 1:
            raise UsageError(
                f"{self.path} has {len(known)} links: choose one", to_add("--link", known)
            )
        chosen = name or known[0]
        if chosen not in known:
            hint = did_you_mean(chosen, known) or f"known: {one_of(known)}"
            raise UsageError(f"{self.path} has no link {chosen!r}", hint)
        settings = self.file.links[chosen]
        source, target = settings.source, settings.target
        ends = self.clusters[source], self.clusters[target]
        key = self.file.journal.key
        return Link(chosen, source, ends[0], target, ends[1], settings, journal_key=key)

    def inside(self, name: str) -> Link:
        """A link from a cluster to itself, for runs inside one cluster.

        Raises:
            UsageError: there is no such cluster.
        """
        cluster = self.cluster(name)
        settings = LinkConfig.model_validate({"from": name, "to": name, "topics": (".*",)})
        given = name, cluster, name, cluster, settings
        return Link(f"{INSIDE}{name}", *given, journal_key=self.file.journal.key)

    def over(self, link: str | None, cluster: str | None) -> Link:
        """A link, or one cluster as a link.

        Raises:
            UsageError: there is no such link or cluster, or both are given.
        """
        if cluster is None:
            return self.link(link)
        if link is not None:
            raise UsageError("--cluster and --link cannot be combined", "leave out one of them")
        return self.inside(cluster)

    def chosen(self, cluster: str | None) -> str:
        """The given cluster, or the only one.

        Raises:
            UsageError: there are several and none is given, or it does not exist.
        """
        names = tuple(self.clusters)
        if cluster is None and len(names) > 1:
            raise UsageError(
                f"{self.path} has {len(names)} clusters: choose one", to_add("--cluster", names)
            )
        self.cluster(name := cluster or names[0])
        return name

    def cluster(self, name: str) -> ClusterConfig:
        """A cluster by its name.

        Raises:
            UsageError: there is no such cluster.
        """
        if name not in self.clusters:
            known = tuple(self.clusters)
            hint = did_you_mean(name, known, cutoff=_NEAR) or f"known: {one_of(known)}"
            raise UsageError(f"{self.path} has no cluster {name!r}", hint)
        return self.clusters[name]

    def redacted(self) -> dict[str, Any]:
        """All effective values, for JSON; secrets are masked."""
        shown: dict[str, Any] = _redacted(self.file)
        return shown

    def warnings(self, environ: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
        """Warnings about secrets that other users, or the network, can read."""
        found = [warning for s in settings_in(self.file) for warning in s.exposed_files()]
        literal = [s for s in settings_in(self.file) if not s.references]
        written = [s.place for s in literal if s.hidden or user_info(s.raw)]
        if written and others_may_read(self.path):
            exposed = f"{written[0]}: a secret in a file that other users can read"
            found.append(f"{exposed}: chmod 600 {arguments(str(self.path))}")
        for workers in (*self._replicators(), *self._source_workers()):
            access = workers.connect_access
            named = access.user or any(map(names_secret, access.headers))
            for url in workers.connect or ():
                text = _read(url, environ)
                if text.lower().startswith("http://") and (named or user_info(text)):
                    found.append(f"{url.place}: a password is sent over plain http: use https")
        return tuple(found)

    def keep_hidden(self) -> None:
        """Mask the secrets in the file in all output.

        Referenced secrets are masked once they are read; names of clusters, links and topics stay.
        """
        remember(names=self._names())
        for setting in settings_in(self.file):
            if not setting.references:
                setting.resolve({})

    def _names(self) -> Iterator[str]:
        yield from self.clusters
        for cluster in self.clusters.values():
            user = cluster.properties.get("sasl.username")
            yield from (user.raw,) if user else ()
        for name, link in self.file.links.items():
            yield from (name, *link.topics, *link.exclude, *link.groups)
            yield from (who.partition(":")[2] for who in link.fence.principals)
            for pair in link.source_connectors.pairs.items() if link.source_connectors else ():
                yield from pair
        for replicator in self._replicators():
            yield from replicator.connectors.named

    def _replicators(self) -> Iterator[ReplicatorConfig | ReverseConfig]:
        for link in self.file.links.values():
            yield link.replicator
            yield from (link.replicator.reverse,) if link.replicator.reverse else ()

    def _source_workers(self) -> Iterator[SourceWorkersConfig]:
        for link in self.file.links.values():
            if moving := link.source_connectors:
                yield from (moving.source, moving.target)

    def secrets(self, environ: Mapping[str, str]) -> frozenset[str]:
        """All secrets that can be read now."""
        found = (secret for s in settings_in(self.file) for secret in _secret_texts(s, environ))
        return frozenset(filter(None, found))

    def _absolute(self, jar: str) -> str:
        if "://" in jar:
            return jar
        return str(self.path.parent.absolute() / Path(jar).expanduser())


def settings_in(value: object) -> Iterator[Setting]:
    """All settings in a section."""
    if isinstance(value, Setting):
        yield value
    elif isinstance(value, Section):
        for _, inner in value:
            yield from settings_in(inner)
    elif isinstance(value, Mapping | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from settings_in(inner)


def _read(setting: Setting, environ: Mapping[str, str]) -> str:
    """The resolved value; as written if it cannot be resolved."""
    try:
        return reveal(setting.resolve(environ))
    except ConfigError:
        return setting.raw


def _secret_texts(setting: Setting, environ: Mapping[str, str]) -> Iterator[str]:
    for reference in setting.references:
        alone = Setting(str(reference), setting.place, setting.directory)
        try:
            yield reveal(alone.resolve(environ))
        except ConfigError:
            continue
    if setting.hidden and not setting.references:
        yield setting.raw
    password = user_info(_read(setting, environ))
    yield from (password, unquote(password))


def _redacted(value: object) -> Any:
    if isinstance(value, Setting):
        return value.shown
    if isinstance(value, Section):
        names = {name: field.alias or name for name, field in type(value).model_fields.items()}
        return {names.get(name, name): _redacted(inner) for name, inner in value}
    if isinstance(value, Mapping):
        return {name: _redacted(inner) for name, inner in value.items()}
    if isinstance(value, tuple):
        return [_redacted(inner) for inner in value]
    return hide_user_info(value) if isinstance(value, str) else value
