"""Acts as Strimzi's operators: unknown ACLs are deleted, and connectors are resumed."""

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
    """Reconciles one cluster and one connector; start it before anyone else changes them.

    Attributes:
        deleted: number of deleted ACLs.
        resumed: number of times that it resumed the connector.
    """

    def __init__(self, cluster: ClusterUnderTest, worker: ConnectWriter, connector: str) -> None:
        self._cluster, self._worker, self._connector = cluster, worker, connector
        self._own = self._rules()
        self.deleted = self.resumed = 0

    def _rules(self) -> set[tuple[object, ...]]:
        found = self._cluster.admin.describe_acls(_EVERY).result()
        return {tuple(getattr(rule, field) for field in _FIELDS) for rule in found}

    def reconcile(self) -> None:
        """Reconcile once, like SimpleAclOperator and then AbstractConnectOperator.updateState."""
        foreign = [AclBindingFilter(*rule) for rule in self._rules() - self._own]
        self.deleted += revoke(self._cluster, *foreign) if foreign else 0
        if self._worker.status(self._connector).state == "STOPPED":
            self._worker.resume(self._connector)
            self.resumed += 1

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Reconcile every second during the block."""
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
