"""What ACLs allow, as Kafka's authorizer evaluates them."""

import pytest

from drctl.checks.acls import Access, RuleBook, access
from drctl.model.repairs import Acl

TOPIC = "__consumer_timestamps"


def rule(text: str) -> Acl:
    permission, principal, operation, resource, host = text.split()
    pattern, _, name = resource.partition(":")
    return Acl(name, pattern, principal, host, operation, permission)


@pytest.mark.parametrize(
    ("rules", "operation", "expected"),
    [
        ([], "WRITE", Access.NO),
        ([f"ALLOW User:app WRITE LITERAL:{TOPIC} *"], "WRITE", Access.YES),
        ([f"ALLOW User:app WRITE LITERAL:{TOPIC} *"], "DESCRIBE", Access.YES),
        ([f"ALLOW User:app DESCRIBE LITERAL:{TOPIC} *"], "WRITE", Access.NO),
        ([f"ALLOW User:app READ LITERAL:{TOPIC} *"], "WRITE", Access.NO),
        (["ALLOW User:app ALL LITERAL:* *"], "WRITE", Access.YES),
        (["ALLOW User:* WRITE PREFIXED:__consumer_ *"], "WRITE", Access.YES),
        (["ALLOW User:app WRITE PREFIXED:__consumer_x *"], "WRITE", Access.NO),
        (["ALLOW User:app WRITE LITERAL:__consumer_ *"], "WRITE", Access.NO),
        ([f"ALLOW User:other WRITE LITERAL:{TOPIC} *"], "WRITE", Access.NO),
        ([f"ALLOW User:app WRITE LITERAL:{TOPIC} 10.0.0.1"], "WRITE", Access.SOME_HOSTS),
        (
            [f"ALLOW User:app WRITE LITERAL:{TOPIC} *", "DENY User:* ALL LITERAL:* 10.0.0.1"],
            "WRITE",
            Access.SOME_HOSTS,
        ),
        (
            [f"ALLOW User:app WRITE LITERAL:{TOPIC} *", "DENY User:* DESCRIBE PREFIXED:__ *"],
            "DESCRIBE",
            Access.NO,
        ),
        (
            [f"ALLOW User:app WRITE LITERAL:{TOPIC} *", "DENY User:* READ PREFIXED:__ *"],
            "WRITE",
            Access.YES,
        ),
    ],
)
def test_access(rules: list[str], operation: str, expected: Access) -> None:
    given = [rule(each) for each in rules]
    assert access(given, "User:app", operation, TOPIC) is expected
    book = RuleBook(given).concerning("User:app", TOPIC)
    assert access(book, "User:app", operation, TOPIC) is expected
