"""A user-supplied fence: `set|lift|shown FILE`; FILE names cluster, user and topic.

The ACL is only on the brokers: drctl does not know it.
"""

import json
import sys
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)


def main(word: str, file: str) -> int:
    """Return 0 when it is done, or when it is fenced."""
    given = json.loads(Path(file).read_text(encoding="utf-8"))
    admin = AdminClient(given["properties"])
    rule = (
        *(ResourceType.TOPIC, given["topic"], ResourcePatternType.LITERAL),
        *(f"User:{given['user']}", "*", AclOperation.WRITE, AclPermissionType.DENY),
    )
    if word == "set":
        for set_ in admin.create_acls([AclBinding(*rule)], request_timeout=15).values():
            set_.result()
        return 0
    if word == "lift":
        for lifted in admin.delete_acls([AclBindingFilter(*rule)], request_timeout=15).values():
            lifted.result()
        return 0
    return 0 if admin.describe_acls(AclBindingFilter(*rule), request_timeout=15).result() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
