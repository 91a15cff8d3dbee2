"""A site's own fence: `set|lift|shown FILE`; FILE says of which cluster, user and topic.

The rule stands in no other place than the brokers': drctl knows nothing of it.
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
    """0 where it is done, or is so."""
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
