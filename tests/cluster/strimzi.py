"""Plays Strimzi's operators: ACLs that it did not write vanish, and its connectors run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from drctl.connect.client import ConnectWriter
from tests.cluster.topic_acls import revoke
from tests.lab.cluster_under_test import ClusterUnderTest

INTERVAL_S = 1.0
_EVERY = AclBindingFilter(
    *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
    *(AclOperation.ANY, AclPermissionType.ANY),
)
_FIELDS = (
    *("restype", "name", "resource_pattern_type", "principal", "host", "operation"),
    "permission_type",
)


class Operators:
    """Reconciles one cluster and one connector; begin it before anybody else changes them.

    Attributes:
        deleted: how many rules it has deleted.
        resumed: how often it has resumed the connector.
    """

    def __init__(self, cluster: ClusterUnderTest, worker: ConnectWriter, connector: str) -> None:
        self._cluster, self._worker, self._connector = cluster, worker, connector
        self._own = self._rules()
        self.deleted = self.resumed = 0

    def _rules(self) -> set[tuple[object, ...]]:
        found = self._cluster.admin.describe_acls(_EVERY).result()
        return {tuple(getattr(rule, field) for field in _FIELDS) for rule in found}

    def reconcile(self) -> None:
        """Once: SimpleAclOperator, then AbstractConnectOperator.updateState."""
        foreign = [AclBindingFilter(*rule) for rule in self._rules() - self._own]
        self.deleted += revoke(self._cluster, *foreign) if foreign else 0
        if self._worker.status(self._connector).state == "STOPPED":
            self._worker.resume(self._connector)
            self.resumed += 1

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Meanwhile, every second."""
        over = threading.Event()

        def work() -> None:
            while not over.wait(INTERVAL_S):
                self.reconcile()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
