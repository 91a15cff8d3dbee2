"""Acts as Strimzi's operators: unknown ACLs are deleted, and connectors are resumed."""

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from drctl.connect.client import ConnectWriter
from tests.cluster import kubectl_program
from tests.cluster.kubectl_program import resources
from tests.cluster.topic_acls import grant, revoke
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

    def _rules(self) -> set[tuple[Any, ...]]:
        found = self._cluster.admin.describe_acls(_EVERY).result()
        return {tuple(getattr(rule, field) for field in _FIELDS) for rule in found}

    def reconcile(self) -> None:
        """Reconcile once, like SimpleAclOperator and then AbstractConnectOperator.updateState."""
        self._apply(self._own)
        if self._worker.status(self._connector).state == "STOPPED":
            self._worker.resume(self._connector)
            self.resumed += 1

    def _apply(self, wanted: set[tuple[Any, ...]]) -> None:
        """Make the ACLs of the cluster equal to these."""
        found = self._rules()
        foreign = [AclBindingFilter(*rule) for rule in found - wanted]
        self.deleted += revoke(self._cluster, *foreign) if foreign else 0
        if missing := wanted - found:
            grant(self._cluster, *(AclBinding(*rule) for rule in missing))

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


USER, MIRROR = "kafkauser/orders-app", "kafkamirrormaker2/mm2"
API = "service/mm2-mirrormaker2-api"
_READY = [{"type": "Ready", "status": "True"}]


class ResourceOperators(Operators):
    """Applies a KafkaUser and a KafkaMirrorMaker2, which `kubectl` changes.

    Attributes:
        folder: contains `kubectl` and `kubeconfig`, the resources.
        file: the latter.
        rounds: number of reconciliations.
    """

    def __init__(
        self,
        folder: Path,
        cluster: ClusterUnderTest,
        worker: ConnectWriter,
        connector: str,
        url: str,
    ) -> None:
        super().__init__(cluster, worker, connector)
        self.folder, self.rounds = folder, 0
        self.file = folder / "kubeconfig"
        mirror = {"sourceConnector": {}, "checkpointConnector": {}}
        specs = {USER: {"authorization": {"acls": [ALLOWED]}}, MIRROR: {"mirrors": [mirror]}}
        made: dict[str, Any] = {
            name: {"metadata": {"generation": 1}, "spec": spec, "status": {}}
            for name, spec in specs.items()
        }
        made[API] = {"url": url}
        self.file.write_text(json.dumps(made), encoding="utf-8")
        kubectl = folder / "kubectl"
        # A script's environment has no PYTHONPATH.
        program = Path(kubectl_program.__file__).read_text(encoding="utf-8")
        kubectl.write_text(f"#!{sys.executable} -P\n{program}", encoding="utf-8")
        kubectl.chmod(0o755)

    def script(self, text: str, name: str) -> Path:
        """A script of the documentation that uses these resources."""
        path = self.folder / name
        path.write_text(
            text.replace("/usr/local/bin", str(self.folder)).replace(
                "/etc/drctl/kubeconfig", str(self.file)
            ),
            encoding="utf-8",
        )
        path.chmod(0o755)
        return path

    def reconcile(self) -> None:
        """Reconcile once; the status says which generation was applied."""
        with resources(self.file) as found:
            user, mirror = found[USER], found[MIRROR]
            self._apply(self._own | set(_rules_of(user["spec"]["authorization"]["acls"])))
            state = mirror["spec"]["mirrors"][0]["sourceConnector"].get("state", "running")
            now = self._worker.status(self._connector).state
            if state == "stopped" and now != "STOPPED":
                self._worker.stop(self._connector)
            if state == "running" and now == "STOPPED":
                self._worker.resume(self._connector)
            for each in (user, mirror):
                generation = each["metadata"]["generation"]
                each["status"] = {"observedGeneration": generation, "conditions": _READY}
        self.rounds += 1


ALLOWED = {"resource": {"type": "topic", "name": "*"}, "operations": ["Describe"]}
"""An ACL of the KafkaUser that the fence does not change; without a type it allows."""


def _rules_of(acls: list[Mapping[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """The ACLs of the KafkaUser, as SimpleAclRule converts them."""
    principal = f"User:{USER.partition('/')[2]}"
    for acl in acls:
        permission = AclPermissionType[acl.get("type", "allow").upper()]
        resource = ResourceType[acl["resource"]["type"].upper()]
        on = resource, acl["resource"]["name"], ResourcePatternType.LITERAL
        for operation in acl["operations"]:
            yield *on, principal, "*", AclOperation[operation.upper()], permission
