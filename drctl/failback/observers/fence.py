"""The fence of the source: its rules, on every broker, and whether anything grows behind it."""

from collections.abc import Callable, Collection

from drctl.checks.wording import listed, several
from drctl.config.schema import FenceConfig
from drctl.failback.facts import Fence
from drctl.model.acls import Acl, Acls
from drctl.model.fencing import DENY, LITERAL, PREFIXED, AclReader, Denied, FenceProver, denials
from drctl.model.fencing import Topics as Pattern
from drctl.model.topology import Unavailable

_ALL, _EVERYBODY, _ANY = "ALL", "User:*", "*"


def observe_fence(
    settings: FenceConfig,
    topics: Collection[str],
    acls: AclReader,
    prover: FenceProver,
    verified: Callable[[], tuple[bool, str] | None],
) -> Fence:
    """Whether applications are kept from writing.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    if not topics:
        return Fence(None, "the cluster has none of the link's topics: there is nothing to close")
    if settings.method == "acl" and settings.principals:
        return _by_rules(settings.principals, topics, acls, prover)
    found = verified() if settings.method == "command" else None
    if found is not None:
        held, said = found
        words = f"the site's command says that the fence is {'set' if held else 'not set'}"
        stillness = prover.prove((), topics).stillness if held else None
        return Fence(held, f"{words} ({said})" if said else words, stillness)
    return Fence(
        None,
        f"the link fences by {settings.method!r}: whether applications are kept away cannot be seen"
        " from here; `fence: {method: acl, principals: [...]}` of the link could be",
    )


def _by_rules(
    principals: Collection[str], topics: Collection[str], acls: AclReader, prover: FenceProver
) -> Fence:
    present = acls.acls()
    if isinstance(present, Unavailable):
        return Fence(None, f"whether applications are kept away is not known: {present.reason}")
    if not present.enforced:
        return Fence(False, "the cluster has no authorizer: its ACLs keep nobody away")
    wanted = denials(principals, [Pattern(topic) for topic in topics], [Denied.WRITE])
    pairs = [(rule, covering(rule, present)) for rule in wanted]
    open_ = [f"{rule.principal} on {rule.name}" for rule, by in pairs if by is None]
    if open_:
        return Fence(False, f"applications may write: nothing denies it to {listed(open_)}")
    rules = tuple(dict.fromkeys(by for _, by in pairs if by is not None))
    proof = prover.prove(rules, topics)
    if not proof.obedience.proven:
        doubts = several(proof.obedience.doubts) or "no broker is there"
        return Fence(False, f"the fence is set, and not every broker applies it: {doubts}")
    brokers = listed(sorted(proof.obedience.brokers))
    words = f"every broker ({brokers}) denies writes to {listed(sorted(principals))}"
    return Fence(True, words, proof.stillness)


def covering(wanted: Acl, present: Acls) -> Acl | None:
    """The rule that denies as much, or more; None where there is none."""
    return next((rule for rule in present.rules if _denies(rule, wanted)), None)


def _denies(rule: Acl, wanted: Acl) -> bool:
    name = (rule.pattern == LITERAL and rule.name in (wanted.name, _ANY)) or (
        rule.pattern == PREFIXED and wanted.name.startswith(rule.name)
    )
    return (
        name
        and rule.permission == DENY
        and rule.host == _ANY
        and rule.principal in (wanted.principal, _EVERYBODY)
        and rule.operation in (wanted.operation, _ALL)
    )
