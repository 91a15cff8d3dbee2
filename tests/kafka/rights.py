"""What a user of the cluster under test may do."""

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)


class Rights:
    """Bob's permissions; none at first."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._given: list[AclBinding] = []

    def grant(
        self, kind: ResourceType, name: str, *operations: AclOperation, prefixed: bool = False
    ) -> None:
        pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
        allow = AclPermissionType.ALLOW
        new = [AclBinding(kind, name, pattern, "User:bob", "*", o, allow) for o in operations]
        for future in self._admin.create_acls(new).values():
            future.result()
        self._given += new

    def withdraw(self) -> None:
        filters = [
            AclBindingFilter(
                a.restype,
                a.name,
                a.resource_pattern_type,
                a.principal,
                a.host,
                a.operation,
                a.permission_type,
            )
            for a in self._given
        ]
        for future in (self._admin.delete_acls(filters) if filters else {}).values():
            future.result()
