"""Access control lists as their cluster lists them."""

from dataclasses import dataclass
from typing import NamedTuple


class Acl(NamedTuple):
    """A rule about topics; the words are Kafka's, in upper case.

    Attributes:
        name: of the topic, or what its name begins with, or `*`.
        pattern: LITERAL or PREFIXED.
        principal: with its kind, as in `User:app`; `User:*` is everybody.
        operation: READ, WRITE, DESCRIBE, ALL, ...
        permission: ALLOW or DENY.
    """

    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str


@dataclass(frozen=True, slots=True)
class Acls:
    """The rules of a cluster.

    Attributes:
        enforced: whether the cluster has an authorizer; without one, everybody may do everything.
    """

    enforced: bool
    rules: tuple[Acl, ...] = ()
