"""Rules about topics that the target lacks: what is allowed, and what is denied.

A rule is added by its full name, and never removed. It is as narrow as it can be: reading or
writing, one principal, one topic, or a beginning of names that only copies have.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from drctl.checks.access import RuleBook
from drctl.checks.check import seen
from drctl.checks.fixing import Fix, Fixes, Left, Seen
from drctl.checks.observed import Observed
from drctl.checks.parity_acls import FENCED, Refusal, judged_principals, of_a_fence, refusals
from drctl.config.fields import UNCHANGED
from drctl.model.acls import Acl, Acls
from drctl.model.topology import Unavailable

_CHECK = "parity-of-acls"
_ALLOW, _DENY, _LITERAL, _PREFIXED = "ALLOW", "DENY", "LITERAL", "PREFIXED"
_ANY, _USER = "*", "User:"
_REFUSED = "is refused as soon as it comes to the target"
_LET_IN = "may do on the target what it may not on the source"


def rules_to_add(observed: Observed, looked: Seen) -> Fixes:
    """The rules that would be added, and what stays as it is.

    Raises:
        NotObserved: rules or topics are not known.
    """
    books = _read(observed, looked)
    if books is None:
        return Fixes()
    wanted: dict[Acl, Fix[Acl]] = {}
    left: list[Left] = []
    for refusal in books.refusals:
        denied = books.denying(refusal)
        if denied:
            left.append(_denied(refusal, denied[0]))
        for rule in () if denied else books.allowing(refusal):
            wanted.setdefault(rule, _fix(observed, rule, _REFUSED))
    for rule, why_not in books.denials():
        if why_not:
            what = f"ACL not on {observed.link.target}: {in_words(rule)}"
            cure = "add it there, if it is meant for the target, too: kafka-acls --add"
            left.append(Left(_CHECK, what, why_not, f"{rule.principal} {_LET_IN}", cure))
        else:
            wanted.setdefault(rule, _fix(observed, rule, _LET_IN))
    return Fixes(rules=tuple(wanted.values()), left=tuple(left))


def in_words(rule: Acl) -> str:
    """A rule as `kafka-acls` would be told."""
    where = f"topics {rule.name}..." if rule.pattern == _PREFIXED else f"topic {rule.name}"
    host = "" if rule.host == _ANY else f" from {rule.host}"
    return f"{rule.permission} {rule.principal} {rule.operation} {where}{host}"


def _read(observed: Observed, looked: Seen) -> "_Books | None":
    """None where the target enforces nothing."""
    link = observed.link
    subject, cure = f"ACLs of cluster {link.target}", "kafka-acls --list"
    target = seen(observed.target_acls, subject, "they are", cure)
    if not target.enforced:
        return None
    source = seen(observed.source_acls, subject, f"those of {link.source} are", cure)
    topics = seen(observed.source_topics, subject, f"the topics of {link.source} are", cure)
    names = link.topics_of(name for name, state in topics.items() if state is not None)
    who = judged_principals(observed, source, subject)
    return _Books(observed, looked, source, target, who, names)


@dataclass(frozen=True)
class _Books:
    """The rules of both clusters.

    Attributes:
        topics: of the link, as the source calls them.
    """

    observed: Observed
    looked: Seen
    source: Acls
    target: Acls
    principals: tuple[str, ...]
    topics: tuple[str, ...]

    @cached_property
    def refusals(self) -> list[Refusal]:
        """What principals would be refused."""
        copies = {name: self.observed.link.target_topic(name) for name in self.topics}
        return refusals(self.source, self.target, self.principals, copies)

    @cached_property
    def _ours(self) -> RuleBook:
        return RuleBook(self.source.rules)

    @cached_property
    def _theirs(self) -> RuleBook:
        return RuleBook(self.target.rules)

    def denying(self, refusal: Refusal) -> list[Acl]:
        """Rules of the target that would win over whatever is allowed."""
        rules = self._theirs.concerning(refusal.principal, refusal.copy)
        return [
            rule
            for rule in rules
            if rule.permission == _DENY
            and rule.operation in (refusal.operation, "ALL")
            and rule.host == _ANY
            and not of_a_fence(rule, refusal.principal)
        ]

    def allowing(self, refusal: Refusal) -> Iterator[Acl]:
        """What the source has that allows it, for the copy, and for this principal alone."""
        topic = self.observed.link.source_topic(refusal.copy) or refusal.copy
        if not self.source.enforced:
            yield _rule(refusal, refusal.copy, _LITERAL, _ANY)
            return
        for rule in self._ours.concerning(refusal.principal, topic):
            if rule.permission == _ALLOW and rule.operation in (refusal.operation, "ALL"):
                name, pattern = self._named(rule, refusal.copy)
                yield _rule(refusal, name, pattern, rule.host)

    def denials(self) -> Iterator[tuple[Acl, str]]:
        """What the source denies and the target does not, and why that is left, if it is."""
        applications = self.observed.link.settings.fence.principals
        found: dict[Acl, str] = {}
        for topic in self.topics:
            copy = self.observed.link.target_topic(topic)
            for principal in (*self.principals, "User:*"):
                for rule in self._ours.concerning(principal, topic):
                    if rule.permission != _DENY or rule.principal != principal:
                        continue
                    name, pattern = self._named(rule, copy)
                    for operation in FENCED if rule.operation == "ALL" else (rule.operation,):
                        new = Acl(name, pattern, principal, rule.host, operation, _DENY)
                        if operation in FENCED and not self._denied_there(new, copy):
                            found.setdefault(new, _why_not(rule, principal in applications))
        yield from found.items()

    def _denied_there(self, wanted: Acl, copy: str) -> bool:
        return any(
            rule.permission == _DENY
            and rule.operation in (wanted.operation, "ALL")
            and rule.host in (wanted.host, _ANY)
            for rule in self._theirs.concerning(wanted.principal, copy)
        )

    def _named(self, rule: Acl, copy: str) -> tuple[str, str]:
        """A beginning of names stays one where it holds copies of the link, and nothing else."""
        rename = self.observed.link.settings.replicator.rename
        prefix = rename.replace(UNCHANGED, rule.name)
        plain = rename.count(UNCHANGED) == 1 and rename.endswith(UNCHANGED)
        if rule.pattern == _PREFIXED and plain and self._only_copies(prefix):
            return prefix, _PREFIXED
        return copy, _LITERAL

    def _only_copies(self, prefix: str) -> bool:
        link = self.observed.link
        names = (name for name in self.looked.names if name.startswith(prefix))
        origins = (link.source_topic(name) for name in names)
        return all(origin is not None and link.carries(origin) for origin in origins)


def _why_not(rule: Acl, application: bool) -> str:
    if rule.principal == "User:*":
        return "it is about everybody: it might keep the replicator from writing"
    if not application:
        return (
            "`fence.principals` does not name this principal as an application: it might be the"
            " replicator, which writes there"
        )
    if of_a_fence(rule, rule.principal) and rule.host == _ANY:
        return "it looks like a fence of the source, which must not be one of the target"
    return ""


def _rule(refusal: Refusal, name: str, pattern: str, host: str) -> Acl:
    return Acl(name, pattern, refusal.principal, host, refusal.operation, _ALLOW)


def _denied(refusal: Refusal, rule: Acl) -> Left:
    what = f"{refusal.principal} may not {refusal.operation} {refusal.copy}"
    why = f"a rule of the target denies it, and drctl deletes none: {in_words(rule)}"
    cure = "see why it is there; kafka-acls --remove"
    return Left(_CHECK, what, why, f"it {_REFUSED}", cure)


def _fix(observed: Observed, rule: Acl, why: str) -> Fix[Acl]:
    users = observed.survey.target.scram_users
    name = rule.principal.removeprefix(_USER)
    note = ""
    if not isinstance(users, Unavailable) and users and name not in users and name != _ANY:
        note = f"{observed.link.target} has no SCRAM user {name}: until somebody adds it, or it"
        note += " logs in otherwise, the rule does nothing"
    what = f"ACL {in_words(rule)}"
    return Fix(what, "not there", "there", f"{rule.principal} {why}", rule, note)
