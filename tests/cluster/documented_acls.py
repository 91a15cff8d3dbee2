"""The ACLs that docs/howto/permissions.md lists, read from the tables of the page."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple
from uuid import uuid4

import yaml
from confluent_kafka.admin import AclBinding, AclOperation, ResourcePatternType, ResourceType  # type: ignore[attr-defined, unused-ignore]

from tests.cluster.authorizer_log import allowed_to
from tests.cluster.command import Drctl
from tests.cluster.planted_secrets import Secrets
from tests.cluster.topic_acls import delete_acls, grant, rule
from tests.cluster.writer import known_to
from tests.docs.pages import page, rows
from tests.lab.cluster_under_test import ClusterUnderTest

PAGE = page("docs/howto/permissions.md")
CLUSTERS = {
    "Both": ("primary", "secondary"),
    "Source": ("primary",),
    "Target": ("secondary",),
    "That cluster": ("primary",),
    "Ledger": ("secondary",),
}
"""What the column Cluster says, for a link from primary to secondary."""

GRANTED: set[str] = set()
"""Each operation of a row and a cluster that `permitted` has granted in this process."""

NEEDED: set[str] = set()
"""Those of them without which a broker would have denied a request."""

_KINDS = {
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "Transactional id": ResourceType.TRANSACTIONAL_ID,
    "Cluster": ResourceType.BROKER,
}
_RESOURCE = re.compile(
    r"(?P<kind>Topic|Group|Transactional id|Cluster)s?(?P<of> of the link| with prefix)?"
    r"(?P<names>(?: `[^`]+`,?)*)(?: \(.*\))?"
)


class Permission(NamedTuple):
    """An operation in a row of the page; a name may contain placeholders such as LINK."""

    row: str
    clusters: Sequence[str]
    kind: ResourceType
    name: str
    pattern: ResourcePatternType
    operation: AclOperation


def section(heading: str, moves: Mapping[str, Sequence[str]] | None = None) -> list[Permission]:
    """Return the rows of the tables of a section.

    Args:
        moves: the clusters that clients leave and move to, as named in the column Cluster.
    """
    found = [*_permissions(heading, {**CLUSTERS, **(moves or {})})]
    assert found, f"{PAGE.name} has no table in {heading}"
    return found


def _permissions(heading: str, clusters: Mapping[str, Sequence[str]]) -> Iterator[Permission]:
    for where, resource, operations, *_ in rows(PAGE.section(heading)):
        found = _RESOURCE.fullmatch(resource)
        assert found, f"{PAGE.name}: {resource!r} is no resource"
        row = f"{heading.lstrip('# ')}: {where}: {resource}"
        kind, names = _KINDS[found["kind"]], re.findall("`([^`]+)`", found["names"])
        pattern = ResourcePatternType.LITERAL
        if found["of"] == " with prefix":
            pattern = ResourcePatternType.PREFIXED
        elif found["of"]:
            names = [f"{found['kind'].upper()}S"]
        elif not names:
            names = ["kafka-cluster" if found["kind"] == "Cluster" else "*"]
        yield from (
            Permission(row, clusters[where], kind, name, pattern, AclOperation[operation])
            for name in names
            for operation in operations.split(", ")
        )


@contextmanager
def permitted(
    clusters: Sequence[ClusterUnderTest],
    drctl: Drctl,
    names: Mapping[str, Collection[str]],
    *permissions: Permission,
) -> Iterator[str]:
    """Let drctl use a user with these permissions, and no other; return the user's name.

    Args:
        names: what replaces each placeholder of the page.
    """
    user = f"drctl-{uuid4().hex[:6]}"
    before = drctl.config.read_text(encoding="utf-8")
    secrets = Secrets(drctl.folder)
    password = secrets.new("sasl.password")
    with ExitStack() as opened:
        text = secrets.text("sasl.password")
        opened.enter_context(known_to(clusters, user, f"none-of-{user}", text))
        for cluster in clusters:
            given = defaultdict[AclBinding, set[str]](set)
            for permission in permissions:
                if cluster.name in permission.clusters:
                    for each in _bindings(user, permission, names):
                        given[each].add(_label(permission, cluster))
            if given:
                grant(cluster, *given)
                opened.callback(delete_acls, cluster, *given)
                opened.enter_context(_noting_needs(user, cluster, given))
        document = yaml.safe_load(before)
        for cluster in clusters:
            document["clusters"][cluster.name]["properties"] |= {
                "sasl.username": user,
                "sasl.password": password,
            }
        drctl.config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        opened.callback(drctl.config.write_text, before, encoding="utf-8")
        yield user


@contextmanager
def _noting_needs(
    user: str, cluster: ClusterUnderTest, given: Mapping[AclBinding, set[str]]
) -> Iterator[None]:
    """Note which of these ACLs allow a request in the block that the others do not allow."""
    GRANTED.update(*given.values())
    with allowed_to(user, cluster) as allowed:
        yield
    for acl, labels in given.items():
        own = [each for each in allowed if each.operation == acl.operation and each.by(acl)]
        others = [other for other in given if other != acl]
        if any(not any(map(each.by, others)) for each in own):
            NEEDED.update(labels)


def _label(permission: Permission, cluster: ClusterUnderTest) -> str:
    return f"{permission.row}: {permission.operation.name} on {cluster.name}"


def _bindings(
    user: str, permission: Permission, names: Mapping[str, Collection[str]]
) -> Iterator[AclBinding]:
    found = [permission.name]
    for placeholder, values in names.items():
        found = [
            each.replace(placeholder, value)
            for each in found
            for value in (values if placeholder in each else [""])
        ]
    for name in found:
        yield rule(
            user, name, permission.operation, kind=permission.kind, pattern=permission.pattern
        )
